"""``mdaml features``: a folder of images to a table of features, one image a row."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
import typer

from mdaml._typing import FloatArray
from mdaml.cli import _options as options
from mdaml.cli import _screen
from mdaml.cli._help import make_argument
from mdaml.io.writers import write_frame

# Features to compute; both: GIST, then Lab, as in PubFig.
Kind: TypeAlias = Literal["gist", "lab", "both"]


def features(
    folder: Annotated[Path, make_argument("FOLDER", "The folder of the images.")],
    out: Annotated[
        Path, typer.Option(help="Where to write the table, .parquet or .csv.", show_default=False)
    ],
    kind: Annotated[
        Kind, typer.Option(help="512 GIST features, 30 of Lab colour, or both in this order.")
    ] = "gist",
    recursive: Annotated[
        bool, typer.Option("--recursive", help="Look into the folders below as well.")
    ] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out files that cannot be read.")
    ] = False,
    raw: options.Raw = False,
) -> None:
    """Compute features of all images in a folder: a table with a row for each file."""
    out = out.resolve()
    with _screen.run_command(interrupted="Interrupted: no table was written.") as screen:
        with _screen.replace_output(out, (".parquet", ".csv"), inputs=()) as part:
            _import_extras(out, kind)
            with _screen.show_progress(screen.console) as start_bar:
                paths = _keep_readable(_listed(folder, recursive), skip_unreadable, start_bar)
                table = _compute(kind, paths, start_bar)
            names = [path.relative_to(folder).as_posix() for path in paths]
            _write(part, out.suffix.lower(), names, table, raw=raw)
        screen.print(f"{len(names)} images, {table.shape[1]} features each: {out}")


def _import_extras(out: Path, kind: Kind) -> None:
    """Fail now, not after the work, if a package is missing; `main` prints how to get it."""
    for_parquet = ["pyarrow"] if out.suffix.lower() == ".parquet" else []
    for_lab = [] if kind == "gist" else ["skimage"]
    for name in ("pandas", "PIL", *for_parquet, *for_lab):
        import_module(name)


def _listed(folder: Path, recursive: bool) -> list[Path]:
    from mdaml.features import list_images

    try:
        return list_images(folder, recursive=recursive)
    except ValueError as error:
        if folder.is_dir() and not recursive:
            text = f"No image in {str(folder)!r} itself; --recursive looks into its folders too."
            raise _screen.CommandError(text) from None
        raise _screen.CommandError(str(error)) from None


def _keep_readable(paths: list[Path], skip: bool, start_bar: _screen.StartBar) -> list[Path]:
    """Return the files that can be read, once all have been tried; the others are named."""
    from mdaml.features import unreadable

    refused = unreadable(paths, n_jobs=-1, callback=start_bar("reading", len(paths)))
    kept = [path for path in paths if path not in refused]
    if not refused:
        return kept
    reasons, count = list(refused.values()), f"{len(refused)} of {len(paths)} images"
    if skip and kept:
        for line in (*reasons, f"{count} left out."):
            typer.echo(line, err=True)
        return kept
    hint = "" if skip else " --skip-unreadable leaves them out."
    message = f"{count} cannot be read: no table was written.{hint}"
    raise _screen.CommandError(message, code=_screen.WORK_FAILED, details=reasons)


def _compute(kind: Kind, paths: list[Path], start_bar: _screen.StartBar) -> FloatArray:
    from mdaml.features import gist, lab_histogram

    tables = []
    if kind != "lab":
        tables.append(gist(paths, n_jobs=-1, callback=start_bar("GIST", len(paths))))
    if kind != "gist":
        tables.append(lab_histogram(paths, n_jobs=-1, callback=start_bar("Lab", len(paths))))
    return np.hstack(tables)


def _write(path: Path, suffix: str, names: list[str], table: FloatArray, *, raw: bool) -> None:
    from pandas import DataFrame

    frame = DataFrame(table, columns=[f"f{i + 1}" for i in range(table.shape[1])])
    frame.insert(0, "file", names)
    write_frame(path, suffix, frame, raw=raw)
