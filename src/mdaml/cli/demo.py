"""``mdaml demo``: what a learned metric does for 3-NN on bundled data, in a table and a picture."""

import time
import warnings
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from mdaml._typing import FloatArray, IntArray
from mdaml.cli._screen import Screen, StartBar, replace_output, run_command, show_progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sklearn.base import BaseEstimator

_BUNDLED = ("balance", "vehicle", "segment", "german", "sonar", "letter")
_MAX_ROWS = {"letter": 2000}  # all 20000 take longer than everything else
_TOY = "toy, 2-D"


@dataclass
class DemoScores:
    """What the splits of one data set gave; accuracies in percent."""

    name: str
    X: FloatArray
    y: IntArray
    euclidean: list[float] = field(default_factory=list)
    mdaml: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    n_warned: int = 0


def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture, a PNG.")] = Path(
        "mdaml-demo.png"
    ),
    splits: Annotated[int, typer.Option(min=1, help="Random 70/30 splits per data set.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and of the fits.")] = 0,
) -> None:
    """Learn metrics on bundled data: a table of 3-NN accuracies, and a picture."""
    out = out.resolve()
    with run_command(interrupted="Interrupted: no picture was written.") as screen:
        with replace_output(out, (".png",), inputs=()) as part:
            import_module("matplotlib")  # fail now, not after the work, if it is missing
            with show_progress(screen.console) as start_bar:
                scores, figure = _learn(start_bar, splits, seed)
            _print_scores(screen, scores, splits, seed)
            figure.savefig(part, format="png")
        screen.print(f"Picture: {out}")


def _learn(start_bar: StartBar, n_splits: int, seed: int) -> "tuple[list[DemoScores], Figure]":
    """Return the scores of all data sets, and the figure of the toy."""
    done = start_bar("loading and compiling, which takes some seconds the first time", None)
    from mdaml.datasets import make_multimodal
    from mdaml.estimators import MDaML
    from mdaml.experiments.toy_figure import learn_toy

    _fit(MDaML(2, max_iter=1), *make_multimodal(40, random_state=seed))
    done(1)
    scores = _load(seed)
    for row in scores:
        done = start_bar(row.name, n_splits)
        for i in range(n_splits):
            _score(row, seed + i)
            done(i + 1)
    start_bar("picture", None)
    toy = scores[-1]
    return scores, learn_toy(seed, (mean(toy.euclidean), mean(toy.mdaml)))


def _load(seed: int) -> list[DemoScores]:
    """Return all data sets, the toy last; of the large ones a random part."""
    from mdaml.datasets import load_dataset, make_multimodal

    rows = []
    for name in _BUNDLED:
        X, y = load_dataset(name, return_X_y=True)
        kept = np.random.default_rng(seed).permutation(len(X))[: _MAX_ROWS.get(name)]
        rows.append(DemoScores(name, X[kept], y[kept]))
    return [*rows, DemoScores(_TOY, *make_multimodal(random_state=seed))]


def _score(row: DemoScores, seed: int) -> None:
    """Add the accuracies and the time of one split; the training part gives the scale."""
    from sklearn.model_selection import train_test_split
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler

    from mdaml.estimators import MDaML
    from mdaml.experiments.toy_figure import make_toy_model

    X_train, X_test, y_train, y_test = train_test_split(
        row.X, row.y, test_size=0.3, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    model = make_toy_model(seed) if row.name == _TOY else MDaML(random_state=seed)
    start = time.perf_counter()
    row.n_warned += _fit(model, X_train, y_train)
    row.seconds.append(time.perf_counter() - start)
    for accuracies, train, test in (
        (row.euclidean, X_train, X_test),
        (row.mdaml, model.transform(X_train), model.transform(X_test)),
    ):
        knn = KNeighborsClassifier(3).fit(train, y_train)
        accuracies.append(100.0 * float(knn.score(test, y_test)))


def _fit(model: "BaseEstimator", X: FloatArray, y: IntArray) -> bool:
    """Fit, and return whether it warned; warnings are counted below the table."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return bool(caught)


def _print_scores(screen: Screen, scores: list[DemoScores], n_splits: int, seed: int) -> None:
    """Print the scores, one data set a row, and what was compared."""
    rows = [
        [
            row.name,
            *(*row.X.shape, len(np.unique(row.y))),
            _format_mean(row.euclidean),
            _format_mean(row.mdaml),
            f"{mean(row.mdaml) - mean(row.euclidean):+.1f}",
            f"{mean(row.seconds):.2f}",
        ]
        for row in scores
    ]
    columns = ("data", "rows", "dim", "classes", "Euclidean", "MDaML", "gain", "seconds")
    screen.print_table("3-NN accuracy, percent", columns, rows)
    what = f"Mean ± standard deviation of {n_splits} random 70/30 splits"
    what = "One random 70/30 split" if n_splits == 1 else what
    screen.print(
        f"{what} (seed {seed}), the same for both; features standardised on the training part.\n"
        "MDaML with its default settings, nothing tuned. The toy, drawn in the picture, is built\n"
        "for the method, which is told that it has four modes."
    )
    cut = [f"{name}: {n} random rows." for name, n in _MAX_ROWS.items()]
    screen.print(" ".join([*cut, "Seconds: one fit, without compilation."]))
    n_warned = sum(row.n_warned for row in scores)
    if n_warned:
        screen.print(f"{n_warned} of {n_splits * len(scores)} fits gave a warning.")


def _format_mean(values: list[float]) -> str:
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):.1f}{deviation}"
