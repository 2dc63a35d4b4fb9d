"""Write the report from records: tables, figures and one page."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdaml.experiments import figures, findings, pictures, tables
from mdaml.experiments.records import Record
from mdaml.experiments.results import OURS, read_results

if TYPE_CHECKING:
    from jinja2 import Environment

_PAGE = "report.html"
_TABLES = ("accuracy", "tests", "variants", "times", "parameters", "sizes")
_FIGURES: dict[str, Callable[[dict[str, Any]], figures.Drawing | None]] = {
    "critical_difference": lambda found: figures.draw_critical_difference(found["ranking"]),
    "fixed_weights": lambda found: figures.draw_fixed_weights(found["results"]),
    "images": lambda found: figures.draw_images(found["results"]),
    "convergence": lambda found: figures.draw_convergence(found["results"]),
    "sensitivity": lambda found: figures.draw_sensitivity(found["results"]),
    "toy": lambda _: figures.draw_fitted_toy(),
}
_FILES = {
    _PAGE,
    *(f"tables/{name}.{suffix}" for name in _TABLES for suffix in ("md", "tex")),
    *(f"figures/{name}.{suffix}" for name in _FIGURES for suffix in ("png", "svg")),
}
_FILES_OF_FILE_MANAGERS = {".DS_Store", "Thumbs.db", "desktop.ini"}

_TEX = {
    **{char: "\\" + char for char in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "−": "$-$", "×": r"$\times$", "–": "--", "<": "$<$", ">": "$>$"},
    **{"K^η": r"$K^\eta$", "λ₁": r"$\lambda_1$", "λ₂": r"$\lambda_2$", "η": r"$\eta$"},
}
_TEX_PATTERN = re.compile("|".join(map(re.escape, sorted(_TEX, key=len, reverse=True))))


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
    found = findings.find_all(read_results(records))
    out = Path(out).resolve()
    with _replacing(out) as folder:
        drawn = {}
        for done, name in enumerate([*_FIGURES, "page"]):
            if progress is not None:
                progress(name.replace("_", " "), done, len(_FIGURES) + 1)
            if name != "page":
                drawn[name] = _write_figure(folder, name, found)
        made = make_tables(found)
        for name, table in made.items():
            for suffix in ("md", "tex"):
                path = folder / "tables" / f"{name}.{suffix}"
                path.write_text(table[suffix], encoding="utf-8")
        names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
        page = render_page(found, made, drawn, names)
        (folder / _PAGE).write_text(page, encoding="utf-8")
    return out / _PAGE


def make_tables(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables that have rows, with title and caption, as Markdown and as LaTeX."""
    text: Any = _environment().get_template("tables.j2").make_module(found)
    made = tables.make_tables(found["results"], found["ranking"], found["comparisons"])
    for name, table in made.items():
        caption = " ".join(getattr(text, name)(table).split())
        table |= {"name": name, "title": text.titles[name], "caption": caption}
        table |= {"md": text.markdown(table), "tex": text.latex(table)}
    return made


def render_page(
    found: dict[str, Any],
    made: Mapping[str, Any],
    drawn: Mapping[str, Any],
    names: Sequence[str] = (),
) -> str:
    """Return the page with tables, figures and links to files; it names the missing parts."""
    template = _environment().get_template("template.html.j2")
    return template.render(found, tables=made, figures=drawn, files=names, OURS=OURS)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader

    folder = files("mdaml.experiments")
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "join_words": findings.join_words,
        "signed": tables.signed,
        "p_value": tables.p_value,
        "markdown": lambda text: re.sub(r"([|_*])", r"\\\1", text),
        "tex": lambda text: _TEX_PATTERN.sub(lambda match: _TEX[match[0]], text),
    }
    return environment


def _write_figure(folder: Path, name: str, found: dict[str, Any]) -> dict[str, Any] | None:
    """Write a figure as PNG and as SVG; return the values of its caption and the inline SVG."""
    with pictures.report_style():
        drawing = _FIGURES[name](found)
        if drawing is None:
            return None
        figure, values = drawing
        pictures.fix_layout(figure)
        svg = pictures.to_svg(figure)
        png = pictures.to_png(figure)
    (folder / "figures" / f"{name}.svg").write_text(svg, encoding="utf-8")
    (folder / "figures" / f"{name}.png").write_bytes(png)
    return values | {"svg": pictures.to_inline_svg(svg, name)}


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
