"""Tables without a typesetter, and how Markdown and LaTeX print them; the page prints its own."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Cell:
    """One entry of a table.

    Attributes
    ----------
    text : str
        What is printed.
    order : float or str or None
        What the page sorts by; None comes last.
    mark : {"", "best", "second"}
        Printed in bold, or underlined.
    published : str
        What the paper has in the same place.
    published_bold : bool
        Whether the paper prints that in bold.
    """

    text: str
    order: float | str | None = None
    mark: Literal["", "best", "second"] = ""
    published: str = ""
    published_bold: bool = False


@dataclass(frozen=True)
class Column:
    """Heading of a column, and how the page sorts it at the first click."""

    label: str
    numeric: bool = True
    descending: bool = True


@dataclass(frozen=True)
class Table:
    """A table that knows neither Markdown nor LaTeX nor HTML.

    Attributes
    ----------
    name : str
        Stem of its files.
    title, caption : str
        One line, and what a reader must know to read the cells.
    columns : tuple of Column
        The first one names the rows.
    rows, footer : tuple of tuple of Cell
        Rows that the page sorts, and rows that stay below them.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footer: tuple[tuple[Cell, ...], ...] = ()

    @property
    def has_published(self) -> bool:
        """Whether a figure of the paper stands beside one of ours."""
        return any(cell.published for row in self.rows for cell in row)


def to_markdown(table: Table) -> str:
    """Print a table as Markdown; the paper's figures follow a slash."""
    lines = [
        _markdown_line(_markdown_text(column.label) for column in table.columns),
        _markdown_line("---:" if column.numeric else "---" for column in table.columns),
        *(_markdown_line(map(_markdown_cell, row)) for row in (*table.rows, *table.footer)),
    ]
    caption = table.caption.replace("underlined", "in italics")
    if table.has_published:
        caption += " Before the slash: ours; after it: the paper's."
    return f"**{table.title}.** {caption}\n\n" + "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """Print a table as LaTeX without packages; the paper's figures are a line of their own."""
    lines = [_latex_line(_tex(column.label) for column in table.columns), r"\hline"]
    for row in table.rows:
        lines.append(_latex_line(map(_latex_cell, row)))
        if any(cell.published for cell in row):
            lines.append(_latex_line(["\\quad paper", *map(_latex_published, row[1:])]))
    if table.footer:
        lines += [r"\hline", *(_latex_line(map(_latex_cell, row)) for row in table.footer)]
    layout = "".join("r" if column.numeric else "l" for column in table.columns)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(table.title)}. {_tex(table.caption)}}}",
            rf"\label{{{table.name}}}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\hline",
            *lines,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([|_*])", r"\\\1", text)


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_text(cell.text)
    text = {"best": f"**{text}**", "second": f"_{text}_"}.get(cell.mark, text)
    published = f"**{cell.published}**" if cell.published_bold else cell.published
    return f"{text} / {published}" if published else text


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _tex(cell.text)
    if cell.mark == "best":
        return rf"\textbf{{{text}}}"
    return rf"\underline{{{text}}}" if cell.mark == "second" else text


def _latex_published(cell: Cell) -> str:
    text = _tex(cell.published)
    return rf"\textbf{{{text}}}" if cell.published_bold else text


_TEX = {
    **{char: "\\" + char for char in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "−": "$-$", "×": r"$\times$", "–": "--", "<": "$<$", ">": "$>$"},
    **{"K^η": r"$K^\eta$", "λ₁": r"$\lambda_1$", "λ₂": r"$\lambda_2$", "η": r"$\eta$"},
}
_TEX_PATTERN = re.compile("|".join(map(re.escape, sorted(_TEX, key=len, reverse=True))))


def _tex(text: str) -> str:
    return _TEX_PATTERN.sub(lambda match: _TEX[match[0]], text)
