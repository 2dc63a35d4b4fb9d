"""Draw the pictures of the landing page: ``python tools/landing_figures.py``, about two minutes.

Real data that may be bundled: handwritten digits of scikit-learn, cars, questions to a bank. People
and clicks are simulated. Writes ``docs/_static/landing-{places,kinds,clicks}-{light,dark}.svg``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from mdaml import LocalMDaML
from mdaml.constraints import sample_triplets
from mdaml.datasets import load_banking77, load_dataset, make_triplets
from mdaml.inspection import describe_kinds
from mdaml.people import PersonalMetrics
from mdaml.retrieval import QueryAdapter, retrieval_scores

STATIC = Path(__file__).parents[1] / "docs" / "_static"
# Of Okabe and Ito, as on the rest of the site.
BLUE = {"light": "#0072B2", "dark": "#56B4E9"}
ORANGE = {"light": "#B34700", "dark": "#E69F00"}
INK = {"light": "#222832", "dark": "#ced6dd"}
FAINT = {"light": "#6b7280", "dark": "#9aa3ab"}
N_PLACES = 30
CARS = ("mpg", "cylinders", "displacement", "horsepower", "weight", "acceleration", "year")
TASTES = {"costs": ("mpg", "weight"), "driving": ("horsepower", "acceleration"), "age": ("year",)}
N_PERSONS = (14, 10, 6)  # of each taste


def draw_places(path: Path, scheme: str) -> None:
    """Draw modes of handwritten digits before and after people compare odd with even ones."""
    before, after, digits, holds = places()
    with panel(path, scheme, title="New comparisons that hold: {} → {}".format(*holds)) as axes:
        for side, (title, points) in enumerate((("before", before), ("after", after))):
            side_axes = axes.inset_axes((0.52 * side, 0, 0.46, 0.92))
            side_axes.axis("off")
            side_axes.set_title(title, fontsize=13, color=FAINT[scheme])
            low, high = points.min(axis=0), points.max(axis=0)
            side_axes.set_xlim(-0.1, 1.1)
            side_axes.set_ylim(-0.2, 1.1)
            shown = set_apart((points - low) / (high - low), (0.1, 0.09))
            for (x, y), digit in zip(shown, digits, strict=True):
                color = (ORANGE if digit % 2 else BLUE)[scheme]
                side_axes.text(x, y, str(digit), color=color, fontsize=15, ha="center", va="center")
        for x, word, color in ((0.15, "even", BLUE), (0.85, "odd", ORANGE)):
            side_axes.text(x, -0.13, word, color=color[scheme], fontsize=13, ha="center")


def set_apart(points: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Move labels apart that overlap, until each can be read; all stay between 0 and 1."""
    shown = points.copy()
    rng = np.random.default_rng(0)
    for _ in range(500):
        gap = (shown[:, None] - shown) / size
        near = np.max(np.abs(gap), axis=2) < 1.0
        np.fill_diagonal(near, False)
        if not near.any():
            break
        push = np.where(near[..., None], np.sign(gap) * (1.0 - np.abs(gap)), 0.0)
        shown += 0.2 * push.sum(axis=1) * size + 1e-4 * rng.normal(size=shown.shape)
        shown = shown.clip(0.0, 1.0)
    return shown


@cache
def places() -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Two leading directions of modes before and after learning, their digits, and agreement."""
    X, digit = load_digits(return_X_y=True)
    X, group, half = X / 16.0, digit % 2, np.arange(len(X)) % 2 == 0
    answers = sample_triplets(group[half], 3, 3, random_state=0)
    unseen = sample_triplets(group[~half], 10, 10, random_state=1)
    start = (X[~half] - X[half].mean(axis=0))[unseen]
    near, far = (np.sum((start[:, 0] - start[:, k]) ** 2, axis=1) for k in (1, 2))
    local = LocalMDaML(n_places=N_PLACES, n_maps=0, random_state=0).fit(X[half], triplets=answers)
    holds = [f"{np.mean(near < far):.0%}", f"{local.score_triplets(X[~half], unseen):.0%}"]
    modes = local.centers_
    nearest = NearestNeighbors(n_neighbors=5).fit(X[half]).kneighbors(modes, return_distance=False)
    digits = np.array([np.bincount(row).argmax() for row in digit[half][nearest]])
    return leading(modes), leading(local.transform(modes)), digits, holds


def leading(points: np.ndarray) -> np.ndarray:
    """Two principal directions of some points."""
    centred = points - points.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T


def draw_kinds(path: Path, scheme: str) -> None:
    """Draw what each kind of people looks at when they compare cars."""
    relevance, sizes, holds = kinds()
    with panel(path, scheme, title="Answers that hold: {} → {}".format(*holds)) as axes:
        axes.set_xlim(-1.75, len(sizes) - 0.5)
        axes.set_ylim(len(CARS) - 0.4, -1.3)
        for column, size in enumerate(sizes):
            axes.text(column, -0.9, f"{size} people", fontsize=13, ha="center")
        for row, name in enumerate(CARS):
            axes.text(-0.5, row, name, fontsize=13, ha="right", va="center")
            for column in range(len(sizes)):
                share = max(relevance[column, row], 0.0)
                color = BLUE[scheme] if share > 0.15 else FAINT[scheme]
                axes.scatter(column, row, s=20 + 900 * share, color=color)


@cache
def kinds() -> tuple[np.ndarray, list[int], list[str]]:
    """Relevance of each feature to each kind of people, their numbers, and agreement."""
    X = StandardScaler().fit_transform(load_dataset("autompg").data)
    tastes = np.repeat(np.arange(len(TASTES)), N_PERSONS)
    answers, tests = [], []
    for person, taste in enumerate(tastes):
        looks_at = np.eye(len(CARS))[[CARS.index(name) for name in list(TASTES.values())[taste]]]
        drawn = {"components": looks_at, "random_state": person}
        answers.append(make_triplets(X, n_triplets=100, wrong=0.1, **drawn)[0])
        tests.append(make_triplets(X, n_triplets=400, **drawn)[0][100:])
    who = np.repeat(np.arange(len(tastes)), 100)
    model = PersonalMetrics().fit(X, triplets=np.concatenate(answers), who=who)
    shared = np.mean([model.score_triplets(X, T) for T in tests])
    own = np.mean([model.score_triplets(X, T, who=n) for n, T in enumerate(tests)])
    table = describe_kinds(model, X).pivot(index="kind", columns="feature", values="relevance")
    columns = [f"x{n}" for n in range(len(CARS))]
    sizes = np.bincount(model.kind_of_person_).tolist()
    return table[columns].to_numpy(), sizes, [f"{shared:.0%}", f"{own:.0%}"]


def draw_clicks(path: Path, scheme: str) -> None:
    """Draw what a search finds before and after it learns from clicks."""
    names = {"ndcg@10": "nDCG@10", "precision@5": "right of the\nfirst five"}
    base, learned = clicks()
    with panel(path, scheme, title="385 questions that nobody had asked") as axes:
        axes.set_xlim(0.4, 0.85)
        axes.set_ylim(1.4, -0.65)
        for row, (name, label) in enumerate(names.items()):
            before, after = base[name], learned[name]
            axes.text(0.4, row, label, fontsize=13, va="center")
            arrow = {"arrowstyle": "-|>", "lw": 4, "color": BLUE[scheme], "mutation_scale": 25}
            axes.annotate("", (after, row), (before, row), arrowprops=arrow)
            axes.plot(before, row, "o", color=FAINT[scheme], markersize=13)
            shown = ((before, "before", FAINT[scheme]), (after, "after", BLUE[scheme]))
            for value, word, color in shown:
                text = f"{word}\n{value:.0%}"
                axes.text(value, row - 0.13, text, fontsize=13, ha="center", color=color)


@cache
def clicks() -> tuple[dict[str, float], dict[str, float]]:
    """Scores of a search before and after it learns from a log of simulated clicks."""
    bank, rng = load_banking77(), np.random.default_rng(0)
    train, test = np.flatnonzero(~bank.is_test), np.flatnonzero(bank.is_test)
    index, asked = train[::3], np.setdiff1d(train, train[::3])
    nearest = np.argsort(-(bank.data[asked] @ bank.data[index].T), axis=1)[:, :10]
    log = []
    for visit in range(4 * len(asked)):
        q = visit % len(asked)
        shown = nearest[q].copy()
        if rng.random() < 0.25:
            k = rng.integers(9)
            shown[[k, k + 1]] = shown[[k + 1, k]]
        is_right = bank.target[index[shown]] == bank.target[asked[q]]
        clicked = rng.random(10) < np.where(is_right, 0.8, 0.05) / np.arange(1, 11)
        log += [(q, d, k, c) for k, (d, c) in enumerate(zip(shown, clicked, strict=True), 1)]
    adapter = QueryAdapter(random_state=0)
    adapter.fit(bank.data[asked], bank.data[index], clicks=np.array(log, int))
    relevant = np.argwhere(bank.target[test][:, None] == bank.target[index])
    found = retrieval_scores(adapter, bank.data[test], bank.data[index], relevant)
    return dict(found.base), dict(found.scores)


@contextmanager
def panel(path: Path, scheme: str, *, title: str) -> Iterator[Axes]:
    """Axes without a frame under a title, which are saved as a transparent picture."""
    with mpl.rc_context({"svg.hashsalt": "mdaml", "text.color": INK[scheme]}):
        figure = Figure(figsize=(5.2, 3.9))
        axes = figure.add_axes((0.02, 0.02, 0.96, 0.86))
        axes.axis("off")
        figure.text(0.5, 0.93, title, fontsize=14, ha="center", weight="bold")
        yield axes
        figure.savefig(path, transparent=True, metadata={"Date": None})
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name, draw in {"places": draw_places, "kinds": draw_kinds, "clicks": draw_clicks}.items():
        for scheme in ("light", "dark"):
            draw(STATIC / f"landing-{name}-{scheme}.svg", scheme)
