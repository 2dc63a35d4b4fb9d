"""Write the report from records: tables, figures and one page."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mdaml.experiments.records import Record

_PAGE = "report.html"
_TABLES = ("accuracy", "tests", "variants", "times", "parameters", "sizes")
_FIGURES = ("critical_difference", "fixed_weights", "images", "convergence", "sensitivity", "toy")
_FILES = {
    _PAGE,
    *(f"tables/{name}.{suffix}" for name in _TABLES for suffix in ("md", "tex")),
    *(f"figures/{name}.{suffix}" for name in _FIGURES for suffix in ("png", "svg")),
}
_FILES_OF_FILE_MANAGERS = {".DS_Store", "Thumbs.db", "desktop.ini"}


def write_report(
    records: Sequence[Record], out: Path, *, progress: Callable[[str, int, int], None] | None = None
) -> Path:
    """Write the tables, the figures and a page about them into a folder.

    Parameters
    ----------
    records : sequence of dict
        Records of the experiments. Any part may be missing; the page lists the missing parts.
    out : Path
        Folder to write; it is created if necessary. An older report there is replaced as a whole
        at the end; a folder that contains anything else is refused.
    progress : callable or None
        Called as ``progress(name, done, total)`` before each part is made.

    Returns
    -------
    Path
        The page, ``out / "report.html"``. Beside it are ``tables/*.md``, ``tables/*.tex``,
        ``figures/*.png`` and ``figures/*.svg``.

    Raises
    ------
    ValueError
        If no record can be used, or `out` contains something that is not a report.
    """
    from mdaml.experiments import findings, page, results  # they need the extra

    found = findings.find_all(results.read_results(records))
    out = Path(out).resolve()
    with _replacing(out) as folder:
        drawn = {}
        for done, name in enumerate([*_FIGURES, "page"]):
            if progress is not None:
                progress(name.replace("_", " "), done, len(_FIGURES) + 1)
            if name != "page":
                drawn[name] = page.write_figure(folder / "figures", name, found["results"])
        made = page.make_tables(found)
        for name, table in made.items():
            for suffix in ("md", "tex"):
                path = folder / "tables" / f"{name}.{suffix}"
                path.write_text(table[suffix], encoding="utf-8")
        names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
        text = page.render_page(found, made, drawn, names)
        (folder / _PAGE).write_text(text, encoding="utf-8")
    return out / _PAGE


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `out` at the end, or is removed on any error.

    It is created at once, so that an unwritable place is refused before the work.
    """
    _check_replaceable(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.with_name(f".{out.name}.{os.getpid()}.part")
    older = out.with_name(f".{out.name}.{os.getpid()}.old")
    # An earlier process with the same number may have been killed here.
    shutil.rmtree(folder, ignore_errors=True)
    if out.exists():
        shutil.rmtree(older, ignore_errors=True)
    folder.mkdir()
    try:
        (folder / "tables").mkdir()
        (folder / "figures").mkdir()
        yield folder
        if out.exists():
            out.rename(older)  # a folder cannot be renamed onto one that is not empty
        folder.rename(out)
    finally:
        if older.exists() and not out.exists():
            older.rename(out)
        for remains in (folder, older):
            shutil.rmtree(remains, ignore_errors=True)


def _check_replaceable(out: Path) -> None:
    """Refuse to replace a folder with files that are not part of a report."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ValueError(f"the report is a folder, but {out} is a file. Choose another place.")
    found = (
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.name not in _FILES_OF_FILE_MANAGERS and (path.is_symlink() or not path.is_dir())
    )
    foreign = sorted(set(found) - _FILES)
    if foreign:
        raise ValueError(
            f"{out} contains {foreign[0]}, which is not part of a report, and a report replaces "
            "the whole folder. Choose another folder, or an empty one."
        )
