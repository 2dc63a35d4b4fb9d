"""The report: tables, figures and one page, written from records all at once or not at all."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from mdaml.experiments import figures, findings, markup, pictures, tables
from mdaml.experiments.ranking import Ranking, compare_with_ours, rank_methods
from mdaml.experiments.results import Record, Results, read_results

_PAGE = "report.html"
_TABLES = ("accuracy", "tests", "variants", "times", "parameters", "sizes")
_FIGURES = ("critical_difference", "fixed_weights", "images", "convergence", "sensitivity", "toy")
_FILES = {
    _PAGE,
    *(f"tables/{name}.{suffix}" for name in _TABLES for suffix in ("md", "tex")),
    *(f"figures/{name}.{suffix}" for name in _FIGURES for suffix in ("png", "svg")),
}

# What file managers leave behind wherever they look.
_LITTER = {".DS_Store", "Thumbs.db", "desktop.ini"}


def write_report(
    records: Sequence[Record],
    out: Path,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Write the tables, the figures and a page about them into a folder.

    Parameters
    ----------
    records : sequence of dict
        Records of the experiments; any part may be missing, the page says which.
    out : Path
        Folder to write, together with those above it. An older report there is replaced as a
        whole at the end; a folder that holds anything else is refused.
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
        If no record can be used, or `out` holds something that is not a report.
    """
    results = read_results(records)
    out = Path(out).resolve()
    with _replacing(out) as folder:
        ranking = rank_methods(results)
        steps = [*_FIGURES, "page"]
        drawn: dict[str, dict[str, Any] | None] = {}
        for done, name in enumerate(steps):
            if progress is not None:
                progress(name.replace("_", " "), done, len(steps))
            if name == "page":
                _write_page(folder, results, ranking, drawn)
            else:
                drawn[name] = _write_picture(folder, name, results, ranking)
    return out / _PAGE


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """Temporary folder beside `out` that takes its place at the end, or vanishes on any error.

    It is created at once, so that an unwritable place is refused before the work, not after.
    """
    _refuse_foreign(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.with_name(f".{out.name}.{os.getpid()}.part")
    older = out.with_name(f".{out.name}.{os.getpid()}.old")
    # A process of the same number may have been killed here before.
    shutil.rmtree(folder, ignore_errors=True)
    if out.exists():
        shutil.rmtree(older, ignore_errors=True)
    folder.mkdir()
    try:
        (folder / "tables").mkdir()
        (folder / "figures").mkdir()
        yield folder
        if out.exists():
            # No system renames onto a full folder: for a moment there is neither.
            out.rename(older)
        folder.rename(out)
    finally:
        if older.exists() and not out.exists():
            older.rename(out)
        for remains in (folder, older):
            shutil.rmtree(remains, ignore_errors=True)


def _refuse_foreign(out: Path) -> None:
    """Refuse to replace what no report has written."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ValueError(f"the report is a folder, but {out} is a file. Choose another place.")
    found = (
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.name not in _LITTER and (path.is_symlink() or not path.is_dir())
    )
    foreign = sorted(set(found) - _FILES)
    if foreign:
        raise ValueError(
            f"{out} holds {foreign[0]}, which is not of a report, and a report replaces its whole "
            "folder. Choose another folder, or an empty one."
        )


def _draw(name: str, results: Results, ranking: Ranking) -> pictures.Picture | None:
    match name:
        case "critical_difference":
            return figures.draw_critical_difference(ranking)
        case "fixed_weights":
            return figures.draw_fixed_weights(results)
        case "images":
            return figures.draw_images(results)
        case "convergence":
            return figures.draw_convergence(results)
        case "sensitivity":
            return figures.draw_sensitivity(results)
        case "toy":
            return figures.draw_toy_picture()
    raise AssertionError(name)


def _write_picture(
    folder: Path, name: str, results: Results, ranking: Ranking
) -> dict[str, Any] | None:
    """Write a figure as PNG and as SVG; return what the page needs of it."""
    with pictures.house_style():
        picture = _draw(name, results, ranking)
        if picture is None:
            return None
        pictures.fix_layout(picture.figure)
        svg = pictures.to_svg(picture.figure)
        png = pictures.to_png(picture.figure)
    (folder / "figures" / f"{name}.svg").write_text(svg, encoding="utf-8")
    (folder / "figures" / f"{name}.png").write_bytes(png)
    return {
        "name": name,
        "title": picture.title,
        "caption": picture.caption,
        "svg": pictures.to_inline_svg(svg, name, picture.alt),
    }


def _write_page(
    folder: Path,
    results: Results,
    ranking: Ranking,
    drawn: dict[str, dict[str, Any] | None],
) -> None:
    """Write the tables and the page that holds everything."""
    from jinja2 import Environment

    comparisons = compare_with_ours(results)
    made = {
        "accuracy": tables.accuracy_table(results, ranking),
        "tests": tables.comparison_table(comparisons),
        "variants": tables.variant_table(results, ranking),
        "times": tables.time_table(results),
        "parameters": tables.parameter_table(results),
        "sizes": tables.size_table(results),
    }
    for name, table in made.items():
        if table is not None:
            text, tex = markup.to_markdown(table), markup.to_latex(table)
            (folder / "tables" / f"{name}.md").write_text(text, encoding="utf-8")
            (folder / "tables" / f"{name}.tex").write_text(tex, encoding="utf-8")
    source = files("mdaml.experiments").joinpath("template.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(source).render(
        headline=findings.headline(results, ranking),
        sentences=[
            findings.ranks_by_kind(results, ranking),
            findings.standing(results),
            findings.significance(comparisons),
            findings.against_paper(results),
        ],
        is_quick=results.is_quick,
        facts=findings.facts(results),
        versions=findings.versions(results),
        deviations=findings.deviations(results),
        absences=findings.absences(results),
        tables=made,
        pictures=drawn,
        files=sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*")),
    )
    (folder / _PAGE).write_text(page, encoding="utf-8")
