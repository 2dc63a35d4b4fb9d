"""How much do the answers of a session of ``mdaml ask`` teach?

``python benchmarks/ask_teach.py real``: a simulated person who errs in 10 % of the answers. The
person follows a metric that was learned from all answers of real people (material, food: a folder
in ``MDAML_DATA``). Scores are of items that were never shown: how often the model says what the
person would say but for errors, and what real people said.

``python benchmarks/ask_teach.py simulated``: studies whose items and persons are drawn, 30 with 5
features and 30 with 15; each person weighs the features in their own way and errs in 10 % of the
answers. Active and random questions are compared study by study.

``python benchmarks/ask_teach.py browser``: the first one, with the person at the page in Chromium
(Playwright) and the learner in its own process.

``--save`` keeps the figures in ``results/ask.json``.
"""

import argparse
import json
import os
import secrets
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest, ttest_rel

from mdaml import Euclidean, MDaML
from mdaml.ask.fitting import from_bytes
from mdaml.ask.items import Column, Items
from mdaml.ask.learner import Learner
from mdaml.ask.questions import Plan
from mdaml.ask.running import Running
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage

RESULTS = Path(__file__).parent / "results" / "ask.json"
ERROR = 0.1
STEPS = (30, 60, 100, 150)
N_STUDIES, N_ITEMS = 30, 300  # simulated
SIZES = (5, 15)  # numbers of features, with so many studies each

# Persons and lessons


def read_people(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features, and what real people said."""
    folder = Path(os.environ["MDAML_DATA"], "human")
    if name == "food":
        found = np.load(folder / "food_taste.npz")
        return found["X"].astype(float), found["triplets"]
    found = np.load(folder / "material.npz")
    votes = np.concatenate([found["train"], found["test"]])
    votes = votes[votes[:, 3] != votes[:, 4]]
    turned = votes[:, [0, 2, 1]]
    triplets = np.where((votes[:, 3] > votes[:, 4])[:, None], votes[:, :3], turned)
    return found["X"].astype(float), triplets


class Person:
    """Somebody who follows the Euclidean distance between places, but for errors."""

    def __init__(self, Y: np.ndarray) -> None:
        self.Y = Y

    @classmethod
    def of_people(cls, X: np.ndarray, triplets: np.ndarray) -> "Person":
        """Return one who follows a metric learned from all answers of real people."""
        centered = X - X.mean(axis=0)
        axes = np.linalg.svd(centered, full_matrices=False)[2][: len(X) - 1]
        some = np.random.default_rng(0).permutation(len(triplets))[:6000]
        model = MDaML(random_state=0).fit(centered @ axes.T, triplets=triplets[some])
        return cls(model.transform(centered @ axes.T))

    def order(self, triplets: np.ndarray) -> np.ndarray:
        """Return triplets with the item first that the person finds more like the anchor."""
        near, far = (
            np.sum((self.Y[triplets[:, 0]] - self.Y[triplets[:, k]]) ** 2, axis=1) for k in (1, 2)
        )
        return np.where((near <= far)[:, None], triplets, triplets[:, [0, 2, 1]])

    def answer(self, items: list[str], rng: np.random.Generator) -> int:
        """Return 1 for left or 2 for right."""
        asked = np.array([list(map(int, items))])
        is_left = bool((self.order(asked) == asked).all())
        return 1 if is_left != (rng.random() < ERROR) else 2


class Lesson:
    """A split of a set into items to ask about and items that are never shown."""

    def __init__(
        self, X: np.ndarray, person: Person, seed: int, triplets: np.ndarray | None = None
    ) -> None:
        self.X, self.person, self.rng = X, person, np.random.default_rng(seed)
        is_new = np.zeros(len(self.X), bool)
        is_new[self.rng.permutation(len(self.X))[: int(0.3 * len(self.X))]] = True
        self.old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        drawn = new[self.rng.integers(len(new), size=(6000, 3))]
        distinct = np.array([len(set(row)) == 3 for row in drawn.tolist()])
        self.exam = {"the person": self.person.order(drawn[distinct])}
        if triplets is not None:
            self.exam["real people"] = triplets[is_new[triplets].all(axis=1)]

    def site(self, folder: str, how: str) -> Site:
        """Return a site that asks about the old items, all questions active or all random."""
        names = [str(row) for row in self.old]
        items = Items(names, (Column("text", names),), self.X[self.old])
        plan = Plan(held_out=0, repeats=0, catch=0)
        site = Site(items, plan, Storage(Path(folder, "answers.db")))
        if how == "random":
            site.composer.take_queries = lambda _: None
        return site

    def score(self, model: Any) -> dict[str, float]:
        return {
            who: model.score_triplets(self.X, supervision) for who, supervision in self.exam.items()
        }

    def score_site(self, site: Site) -> dict[str, float]:
        return self.score(from_bytes(site.storage.latest("model")["model"]))


def teach(lesson: Lesson, how: str) -> dict:
    """Return scores on unseen items after so many answers, given without a browser."""
    scores = {0: lesson.score(Euclidean().fit(lesson.X))}
    with tempfile.TemporaryDirectory() as folder:
        site = lesson.site(folder, how)
        learner, events = Learner(site.storage, site.items, patience=0), []
        learner.step()
        for n in range(1, max(STEPS) + 1):
            question = site.collector.submit("me", events).result()["questions"][0]
            choice = lesson.person.answer(question["items"], lesson.rng)
            event = {"id": secrets.token_hex(12), "question": question["id"], "outcome": "answer"}
            events = [event | {"choice": [choice]}]
            if n % 10 == 0:
                site.collector.submit("me", events).result()
                learner.step()
            if n in STEPS:
                scores[n] = lesson.score_site(site)
        site.close()
    return scores


def teach_in_browser(lesson: Lesson, how: str) -> dict:
    """Return the same where the answers are keys, pressed in Chromium."""
    from playwright.sync_api import sync_playwright

    scores = {0: lesson.score(Euclidean().fit(lesson.X))}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        running = Running(lesson.site(folder, how), port=0)
        running.start()
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(running.url)
        page.click("button[type=submit]")
        _wait_for_model(running.site, 0)
        for n in range(1, max(STEPS) + 1):
            page.wait_for_function(
                "n => document.getElementById('count').textContent === n",
                arg=f"{n - 1} {'answer' if n == 2 else 'answers'}",
            )
            page.wait_for_selector(".question")
            page.wait_for_timeout(160)  # clicks sooner than that may be double clicks
            items = page.locator(".card p").all_inner_texts()
            choice = lesson.person.answer(items, lesson.rng)
            page.keyboard.press("ArrowLeft" if choice == 1 else "ArrowRight")
            if n % 10 == 0:  # people take longer, and the learner keeps up with them
                _wait_for_model(running.site, n)
            if n in STEPS:
                scores[n] = lesson.score_site(running.site)
        browser.close()
        running.close()
    return scores


def _wait_for_model(site: Site, n_answers: int) -> None:
    while True:
        latest = site.storage.latest("report")
        if latest is not None and latest["report"]["n_answers"] >= n_answers:
            return
        time.sleep(0.1)


def measure_simulated(n_studies: int) -> dict:
    """Return how far active questions are above random ones, over studies that are drawn."""
    runs: dict[int, list[tuple[dict, dict]]] = {size: [] for size in SIZES}
    for seed, size in ((seed, size) for seed in range(n_studies) for size in SIZES):
        rng = np.random.default_rng([seed, size])
        X = rng.normal(size=(N_ITEMS, size))
        person = Person(X * np.exp(rng.normal(size=size)))
        pair = [teach(Lesson(X, person, seed), how) for how in ("active", "random")]
        runs[size].append((pair[0], pair[1]))
        print(f"{size} features, study {seed}: {pair}", flush=True)
    groups = {f"{size} features": some for size, some in runs.items()}
    return {
        name: {
            "Euclid": round(float(np.mean([a[0]["the person"] for a, _ in some])), 3),
            **{n: compare(some, n) for n in STEPS},
        }
        for name, some in (
            groups | {"all": [pair for some in runs.values() for pair in some]}
        ).items()
    }


def compare(pairs: list[tuple[dict, dict]], n: int) -> dict:
    """Return the agreement of both kinds after some answers, and whether they differ by chance."""
    scores = np.array([[run[n]["the person"] for run in pair] for pair in pairs])
    lead = 100 * (scores[:, 0] - scores[:, 1])
    return {
        "active": round(float(scores[:, 0].mean()), 3),
        "random": round(float(scores[:, 1].mean()), 3),
        "lead": f"{lead.mean():+.1f} ± {lead.std(ddof=1) / np.sqrt(len(lead)):.1f}",
        "studies ahead": f"{np.sum(lead > 0)} of {len(lead)}",
        "p, signs": float(f"{binomtest(int(np.sum(lead > 0)), int(np.sum(lead != 0))).pvalue:.2g}"),
        "p, t-test": float(f"{ttest_rel(*scores.T).pvalue:.2g}"),
    }


def measure_teaching(names: list[str], repetitions: int, how_to: Callable[..., dict]) -> dict:
    people = {}
    for name in names:
        X, triplets = read_people(name)
        people[name] = X, Person.of_people(X, triplets), triplets
    runs: dict[tuple[str, str], list[dict]] = {}
    for seed in range(repetitions):
        for name in names:
            for how in ("active", "random"):
                X, person, triplets = people[name]
                lesson = Lesson(X, person, seed, triplets)
                runs.setdefault((name, how), []).append(how_to(lesson, how))
                print(f"{name}, {how}, split {seed}: {runs[name, how][-1]}", flush=True)
    return {
        f"{name}, {how} questions, as {who}": summarize(
            [{n: scores[who] for n, scores in run.items()} for run in some]
        )
        for (name, how), some in runs.items()
        for who in some[0][0]
    }


def summarize(runs: list[dict]) -> dict:
    """Return the mean score of Euclid, and how much the model is above it, with standard errors."""
    gains = {n: np.array([run[n] - run[0] for run in runs]) * 100 for n in runs[0] if n}
    euclid = round(float(np.mean([run[0] for run in runs])), 3)
    errors = {
        n: gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        for n, gain in gains.items()
    }
    return {"Euclid": euclid} | {
        n: f"{gain.mean():+.1f} ± {errors[n]:.1f}" for n, gain in gains.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["real", "simulated", "browser"])
    parser.add_argument("--sets", nargs="+", default=["material", "food"])
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "simulated":
        found = measure_simulated(given.studies)
    else:
        how_to = teach if given.what == "real" else teach_in_browser
        found = measure_teaching(given.sets, given.repetitions, how_to)
    print(json.dumps(found, indent=1))
    if given.save:
        save({"teach" if given.what == "real" else given.what: found})


def save(found: dict) -> None:
    """Put figures beside those that are kept."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(kept | found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
