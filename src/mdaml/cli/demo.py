"""``mdaml demo``: what a learned metric does for 3-NN on bundled data, in a table and a picture."""

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from mdaml import MDaML
from mdaml._typing import FloatArray, IntArray
from mdaml.cli._output import replacing
from mdaml.datasets import load_dataset, make_multimodal
from mdaml.experiments.toy_figure import learn_toy

_BUNDLED = ("balance", "vehicle", "segment", "german", "sonar", "letter")
_MAX_ROWS = {"letter": 2000}  # all 20000 take longer than everything else
_TOY = "toy, 2-D"


@dataclass(frozen=True)
class _Split:
    """Training and test part, both scaled by the mean and deviation of the training part."""

    X_train: FloatArray
    X_test: FloatArray
    y_train: IntArray
    y_test: IntArray


@dataclass
class _Scores:
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
    console = Console(highlight=False)
    out = out.resolve()
    try:
        with replacing(out, (".png",)) as temporary:
            scores, figure = _learn(console, splits, seed)
            console.print(_table(scores, splits, seed))
            figure.savefig(temporary, format="png")
    except KeyboardInterrupt:
        typer.echo("Interrupted: no picture was written.", err=True)
        raise typer.Exit(130) from None
    console.print(f"Picture: {out}", soft_wrap=True)


def _learn(console: Console, n_splits: int, seed: int) -> tuple[list[_Scores], Figure]:
    """Scores of all data sets and the toy's figure, with a progress bar on a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<11}"),
        BarColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        compiling = bar.add_task("compiling …", total=None)
        _fit(MDaML(2, max_iter=1), *make_multimodal(40, random_state=seed))
        bar.remove_task(compiling)
        scores = _load(seed)
        learning = bar.add_task("", total=n_splits * sum(map(_cost, scores)))
        for row in scores:
            bar.update(learning, description=row.name, refresh=True)
            for i in range(n_splits):
                _score(row, seed + i)
                bar.advance(learning, _cost(row))
        bar.update(learning, description="picture")
        return scores, learn_toy(seed)


def _load(seed: int) -> list[_Scores]:
    """All data sets, the toy last; of the large ones a random part."""
    rows = []
    for name in _BUNDLED:
        X, y = load_dataset(name, return_X_y=True)
        kept = np.random.default_rng(seed).permutation(len(X))[: _MAX_ROWS.get(name)]
        rows.append(_Scores(name, X[kept], y[kept]))
    return [*rows, _Scores(_TOY, *make_multimodal(random_state=seed))]


def _cost(row: _Scores) -> float:
    """Rough time of one split, in arbitrary units, for the time left."""
    n_samples, n_features = row.X.shape
    return float(n_samples * (5 + n_features))


def _score(row: _Scores, seed: int) -> None:
    """Add one split's accuracies and fit time to `row`."""
    split = _split(row.X, row.y, seed)
    model = MDaML(random_state=seed)
    start = time.perf_counter()
    row.n_warned += _fit(model, split.X_train, split.y_train)
    row.seconds.append(time.perf_counter() - start)
    row.euclidean.append(_accuracy(split))
    row.mdaml.append(_accuracy(split, model))


def _split(X: FloatArray, y: IntArray, seed: int) -> _Split:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    return _Split(scaler.transform(X_train), scaler.transform(X_test), y_train, y_test)


def _fit(model: MDaML, X: FloatArray, y: IntArray) -> bool:
    """Fit, and return whether it warned; the table counts warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return bool(caught)


def _accuracy(split: _Split, model: MDaML | None = None) -> float:
    """3-NN accuracy on the test part in percent, under the learned metric if there is one."""
    train, test = split.X_train, split.X_test
    if model is not None:
        train, test = model.transform(train), model.transform(test)
    return 100.0 * float(
        KNeighborsClassifier(3).fit(train, split.y_train).score(test, split.y_test)
    )


def _table(scores: list[_Scores], n_splits: int, seed: int) -> Table:
    """Lay out the scores, one data set a row; a loss is shown as plainly as a gain."""
    table = Table(
        title="3-NN accuracy, percent",
        caption=_caption(scores, n_splits, seed),
        caption_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("data", no_wrap=True)
    for header in ("rows", "dim", "classes", "Euclidean", "MDaML", "gain", "seconds"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in scores:
        gain = mean(row.mdaml) - mean(row.euclidean)
        table.add_row(
            row.name,
            *(str(n) for n in (*row.X.shape, len(np.unique(row.y)))),
            _mean_and_deviation(row.euclidean),
            _mean_and_deviation(row.mdaml),
            f"[{'green' if gain > 0 else 'red'}]{gain:+.1f}[/]",
            f"{mean(row.seconds):.2f}",
        )
    return table


def _mean_and_deviation(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


def _caption(scores: list[_Scores], n_splits: int, seed: int) -> str:
    """Say what was compared, and what a reader might otherwise not expect."""
    what = f"Mean ± standard deviation of {n_splits} random 70/30 splits"
    if n_splits == 1:
        what = "One random 70/30 split"
    sentences = [
        f"{what} (seed {seed}), the same for both; features standardised on the training part.",
        "MDaML with its default settings, nothing tuned. The toy is built to show the method.",
        *(f"{name}: {n} random rows." for name, n in _MAX_ROWS.items()),
        "Seconds: one fit, without compilation.",
    ]
    n_warned = sum(row.n_warned for row in scores)
    if n_warned:
        sentences.append(f"{n_warned} of {n_splits * len(scores)} fits gave a warning.")
    return " ".join(sentences)
