"""``mdaml features``: a folder of images to a table of features, one image a row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from mdaml._typing import FloatArray
from mdaml.cli._output import replacing
from mdaml.features import gist, lab_histogram, list_images
from mdaml.features._images import unreadable

# Make a callback that shows the number of images done of a total, under a title.
_Steps: TypeAlias = Callable[[str, int], Callable[[int], None]]


class Kind(StrEnum):
    """Features to compute; both: GIST, then Lab, as in PubFig."""

    GIST = "gist"
    LAB = "lab"
    BOTH = "both"


_FUNCTIONS: dict[Kind, tuple[Callable[..., FloatArray], ...]] = {
    Kind.GIST: (gist,),
    Kind.LAB: (lab_histogram,),
    Kind.BOTH: (gist, lab_histogram),
}


def features(
    folder: Annotated[Path, typer.Argument(help="The folder of the images.", show_default=False)],
    out: Annotated[
        Path, typer.Option(help="Where to write the table, .parquet or .csv.", show_default=False)
    ],
    kind: Annotated[
        Kind, typer.Option(help="512 GIST features, 30 of Lab colour, or both in this order.")
    ] = Kind.GIST,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="Look into the folders below as well.")
    ] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out files that cannot be read.")
    ] = False,
) -> None:
    """Compute features of all images in a folder: a table with a row for each file."""
    console = Console(highlight=False)
    out = out.resolve()
    try:
        with replacing(out, (".parquet", ".csv")) as temporary:
            _import_extras(out, kind)
            with _progress(console) as steps:
                paths = _readable(_listed(folder, recursive), skip_unreadable, steps)
                table = np.hstack([_compute(f, paths, steps) for f in _FUNCTIONS[kind]])
            names = [path.relative_to(folder).as_posix() for path in paths]
            _write(temporary, out.suffix.lower(), names, table)
    except KeyboardInterrupt:
        typer.echo("Interrupted: no table was written.", err=True)
        raise typer.Exit(130) from None
    console.print(f"{len(names)} images, {table.shape[1]} features each: {out}", soft_wrap=True)


def _import_extras(out: Path, kind: Kind) -> None:
    """Fail now, not after the work, where a package is missing; `main` says how to get it."""
    for name, wanted in (
        ("pandas", True),
        ("pyarrow", out.suffix.lower() == ".parquet"),
        ("PIL", True),
        ("skimage", kind is not Kind.GIST),
    ):
        if wanted:
            import_module(name)


@contextmanager
def _progress(console: Console) -> Iterator[_Steps]:
    """Progress bars on a terminal, one for each step."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:

        def start(title: str, total: int) -> Callable[[int], None]:
            task = bar.add_task(title, total=total)
            return lambda n_done: bar.update(task, completed=n_done)

        yield start


def _listed(folder: Path, recursive: bool) -> list[Path]:
    try:
        return list_images(folder, recursive=recursive)
    except ValueError as error:
        message = str(error).replace("recursive=True", "--recursive")
        typer.echo(message, err=True)
        raise typer.Exit(2) from None


def _readable(paths: list[Path], skip: bool, steps: _Steps) -> list[Path]:
    """Return the files that can be read, once all have been tried; the others are named."""
    refused = unreadable(paths, n_jobs=-1, callback=steps("reading", len(paths)))
    for reason in refused.values():
        typer.echo(reason, err=True)
    kept = [path for path in paths if path not in refused]
    if not refused:
        return kept
    count = f"{len(refused)} of {len(paths)} images"
    if skip and kept:
        typer.echo(f"{count} left out.", err=True)
        return kept
    hint = "" if skip else " --skip-unreadable leaves them out."
    typer.echo(f"{count} cannot be read: no table was written.{hint}", err=True)
    raise typer.Exit(1)


def _compute(function: Callable[..., FloatArray], paths: list[Path], steps: _Steps) -> FloatArray:
    title = "GIST" if function is gist else "Lab"
    return function(paths, n_jobs=-1, callback=steps(title, len(paths)))


def _write(path: Path, suffix: str, names: list[str], table: FloatArray) -> None:
    from pandas import DataFrame

    frame = DataFrame(table, columns=[f"f{i + 1}" for i in range(table.shape[1])])
    frame.insert(0, "file", names)
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, engine="pyarrow")
