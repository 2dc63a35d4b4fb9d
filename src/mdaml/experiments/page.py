"""The page of the report, and its tables as text; the templates have all sentences."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader

from mdaml.experiments import config, figures, findings, pictures, tables
from mdaml.experiments.records import Record
from mdaml.experiments.results import Results

_TEX = {
    **{char: "\\" + char for char in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "−": "$-$", "×": r"$\times$", "<": "$<$", ">": "$>$"},
    **{"K^η": r"$K^\eta$", "λ₁": r"$\lambda_1$", "λ₂": r"$\lambda_2$", "η": r"$\eta$"},
    **{"–": "--", "“": "``", "”": "''"},
}
_TEX_PATTERN = re.compile("|".join(map(re.escape, sorted(_TEX, key=len, reverse=True))))


def make_tables(found: Record) -> dict[str, Record]:
    """Return the tables that have rows, with title and caption, as Markdown and as LaTeX."""
    text = vars(_environment().get_template("tables.j2").make_module(found))
    made = tables.make_tables(found["results"], found["ranking"], found["comparisons"])
    for name, table in made.items():
        caption = " ".join(text[name](table).split())
        table |= {"name": name, "title": text["titles"][name], "caption": caption}
        table |= {"md": text["markdown"](table), "tex": text["latex"](table)}
    return made


def render_page(
    found: Record,
    made: Mapping[str, Record | None],
    drawn: Mapping[str, Record | None],
    names: Sequence[str] = (),
) -> str:
    """Return the page with tables, figures and links to files; it names the missing parts."""
    template = _environment().get_template("template.html.j2")
    shown = {"tables": made, "figures": drawn, "files": names, "OURS": config.OURS}
    return template.render(found, config=config, **shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mdaml.experiments", ""),
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


def write_figure(folder: Path, name: str, results: Results) -> Record | None:
    """Write a figure as PNG and as SVG; return the values of its caption and the inline SVG."""
    with pictures.report_style():
        drawing: figures.Drawing | None = getattr(figures, f"draw_{name}")(results)
        if drawing is None:
            return None
        figure, values = drawing
        pictures.fix_layout(figure)
        svg = pictures.to_svg(figure)
        figure.savefig(folder / f"{name}.png", dpi=160)
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return values | {"svg": pictures.to_inline_svg(svg, name)}
