"""How fast does ``mdaml ask`` answer under load, and how fast does it teach?

``python benchmarks/ask.py load``: 100 persons, each with an answer every two seconds, on a server
with 10 000 items of 384 features whose learner runs beside it; times of the answers, and memory.

``python benchmarks/ask.py teach``: a simulated person who errs in 10 % of the answers, active
against random questions, scored on items that were never asked about. The person follows a metric
that was learned from all answers of real people (material, food: a folder in ``MDAML_DATA``).

``--save`` keeps the figures in ``results/ask.json``.
"""

import argparse
import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import httpx
import numpy as np

from mdaml import Euclidean, MDaML
from mdaml.ask.items import Column, Items
from mdaml.ask.learner import Learner, Space, _from_bytes
from mdaml.ask.questions import Plan
from mdaml.ask.running import Running
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage

RESULTS = Path(__file__).parent / "results" / "ask.json"
PAUSE = 2.0  # seconds between answers of one person
ERROR = 0.1
STEPS = (30, 60, 100, 150)


# Load


def serve(place: str) -> None:
    X = np.random.default_rng(0).normal(size=(10_000, 384))
    names = [f"item {row}" for row in range(len(X))]
    site = Site(Items(names, (Column("text", names),), X), Plan(), Storage(place))
    running = Running(site, port=0)
    running.run(lambda: print(running.url, flush=True))


async def answer(url: str, name: str, end: float, times: list[tuple[float, float]]) -> None:
    rng = np.random.default_rng(sum(name.encode()))
    await asyncio.sleep(PAUSE * rng.random())
    async with httpx.AsyncClient(base_url=url, follow_redirects=True, timeout=30) as client:

        async def page(path: str) -> str:
            return re.search('name="token" content="([^"]*)"', (await client.get(path)).text)[1]

        form = {"name": name, "token": await page("/")}
        (await client.post("/start", data=form)).raise_for_status()
        headers, events = {"x-page-token": await page("/ask")}, []
        while time.monotonic() < end:
            began = time.monotonic()
            reply = await client.post("/api/answers", json={"events": events}, headers=headers)
            times.append((began, time.monotonic() - began))
            reply.raise_for_status()
            question = reply.json()["questions"][0]["id"]
            event = {"id": secrets.token_hex(12), "question": question, "seconds": 1.0}
            events = [event | {"outcome": "answer", "choice": [int(rng.integers(1, 3))]}]
            await asyncio.sleep(max(0.0, PAUSE * rng.uniform(0.5, 1.5) - times[-1][1]))


def memory_of(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


async def load_server(url: str, pid: int, persons: int, minutes: float) -> dict:
    begin, times, memory = time.monotonic(), [], []
    end = begin + 60 * minutes
    crowd = [asyncio.create_task(answer(url, f"p{k}", end, times)) for k in range(persons)]
    while time.monotonic() < end:
        await asyncio.sleep(5)
        memory.append(round(memory_of(pid)))
    await asyncio.gather(*crowd)
    taken = np.array([t for moment, t in times if moment > begin + 10]) * 1000
    p50, p95, p99 = np.percentile(taken, [50, 95, 99]).round(1).tolist()
    return {
        "persons": persons,
        "minutes": minutes,
        "answers": len(times) - persons,
        **{"p50 ms": p50, "p95 ms": p95, "p99 ms": p99, "max ms": round(float(taken.max()), 1)},
        "server MB after 30 s": memory[5] if len(memory) > 5 else memory[-1],
        "server MB at the end": memory[-1],
        "load of the machine": round(os.getloadavg()[0], 1),
    }


def measure_load(persons: int, minutes: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder, "answers.db"))
        command = [sys.executable, __file__, "serve", "--place", place]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().strip()
            found = asyncio.run(load_server(url, server.pid, persons, minutes))
        finally:
            server.terminate()
            server.wait()
        storage = Storage(place)
        found["answers stored"] = len(storage.answers())
        latest = storage.latest("n_answers", "model")
        found["answers in the last model"] = latest["n_answers"] if latest else 0
        found["model MB"] = round(len(latest["model"]) / 2**20, 2) if latest else 0
        storage.close()
    return found


# Teaching


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


class Teacher:
    """A person who follows a metric, but for errors."""

    def __init__(self, X: np.ndarray, triplets: np.ndarray) -> None:
        space = Space.of(X, scaled=False)
        some = np.random.default_rng(0).permutation(len(triplets))[:6000]
        self.Y = MDaML(random_state=0).fit(space.X, triplets=triplets[some]).transform(space.X)

    def prefers_second(self, a: int, b: int, c: int) -> bool:
        near, far = (np.sum((self.Y[a] - self.Y[other]) ** 2) for other in (b, c))
        return bool(near > far)


def teach(X: np.ndarray, triplets: np.ndarray, teacher: Teacher, how: str, seed: int) -> dict:
    """Return scores on unseen items after so many answers."""
    rng = np.random.default_rng(seed)
    is_new = np.zeros(len(X), bool)
    is_new[rng.permutation(len(X))[: int(0.3 * len(X))]] = True
    old, unseen = np.flatnonzero(~is_new), triplets[is_new[triplets].all(axis=1)]
    names = [str(row) for row in old]
    scores = {0: Euclidean().fit(X).score_triplets(X, unseen)}
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(held_out=0, repeats=0, catch=0)
        items = Items(names, X=X[old])
        site = Site(items, plan, Storage(Path(folder, "answers.db")))
        if how == "random":
            site.composer.take_queries = lambda _: None
        learner, events = Learner(site.storage, items), []
        for n in range(1, max(STEPS) + 1):
            question = site.collector.submit("me", events).result()["questions"][0]
            wrong = teacher.prefers_second(*map(int, question["items"])) != (rng.random() < ERROR)
            event = {"id": secrets.token_hex(12), "question": question["id"], "outcome": "answer"}
            events = [event | {"choice": [2] if wrong else [1]}]
            if n % 10 == 0:
                site.collector.submit("me", events).result()
                learner.step()
            if n in STEPS:
                model = _from_bytes(site.storage.latest("model")["model"])
                scores[n] = model.score_triplets(X, unseen)
        site.close()
    return scores


def measure_teaching(names: list[str], repetitions: int) -> dict:
    found = {}
    for name in names:
        X, triplets = read_people(name)
        teacher = Teacher(X, triplets)
        for how in ("random", "active"):
            runs = [teach(X, triplets, teacher, how, seed) for seed in range(repetitions)]
            mean = {n: round(float(np.mean([run[n] for run in runs])), 3) for n in runs[0]}
            found[f"{name}, {how}"] = {("Euclid" if n == 0 else n): mean[n] for n in mean}
            print(f"{name}, {how}:", found[f"{name}, {how}"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["load", "teach", "serve"])
    parser.add_argument("--persons", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sets", nargs="+", default=["material", "food"])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "serve":
        serve(given.place)
        return
    if given.what == "load":
        found = measure_load(given.persons, given.minutes)
    else:
        found = measure_teaching(given.sets, given.repetitions)
    print(json.dumps(found, indent=1))
    if given.save:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(kept | {given.what: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
