"""Colours and style of the figures, and their conversion to files and to parts of a page."""

import io
import re
from contextlib import AbstractContextManager

from matplotlib import style
from matplotlib.figure import Figure

from mdaml.experiments.config import CONFIG

COLORS = {method: entry["color"] for method, entry in CONFIG["methods"].items()}
OTHER = "#767676"

# The page replaces these four by its own colours, so that figures match its light and dark mode.
INK, MUTED, GRID, PAPER = "#1b1f24", "#59636e", "#d8dde3", "#ffffff"
_PAGE_COLORS = {INK: "--ink", "#000000": "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--card"}


def report_style() -> AbstractContextManager[None]:
    """Use Matplotlib with the style of the report instead of the user's settings."""
    return style.context("mdaml.experiments.report", after_reset=True)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, without pyplot."""
    return Figure(figsize=(width, height), layout="constrained")


def fix_layout(figure: Figure) -> None:
    """Compute the layout once, because computing it at every saving gives slight differences."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def to_svg(figure: Figure) -> str:
    """Return a figure as SVG, the same bytes for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def to_inline_svg(svg: str, name: str) -> str:
    """Return an SVG file as an element of a page, from the attributes of its ``<svg`` on.

    The ids begin with `name`, and colours are those of the page. The page adds the opening ``<svg``
    and the attributes that describe the figure in words.
    """
    svg = svg[svg.index("<svg") + len("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\1{name}-", svg)
    svg = svg.replace(PAPER, "none", 1)  # the background
    svg = re.sub("|".join(_PAGE_COLORS), lambda match: f"var({_PAGE_COLORS[match[0]]})", svg)
    width = re.search(r'width="([\d.]+pt)"', svg)
    natural = f' style="--natural: {width[1]}"' if width else ""
    return natural + svg.strip("\n")
