"""Colours and style of the figures, and their conversion to files and to parts of a page."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One colour per method in all figures, with a contrast of 3 or more to the light and to the dark
# page. Sixteen colours cannot be safe for colour-blind readers, so figures also label the methods.
COLORS = {
    "MDaML": "#0072b2",
    "MDaML, Eq. (7)": "#4f7cac",
    "MDaML, defaults": "#3f8fd0",
    "MDaML, automatic": "#6670c9",
    "MDaML, published grid": "#c26a00",
    "MDaML, neighbours": "#0f8b8d",
    "MDaML, fixed weights": "#7d8ca3",
    "EUCLID": "#767676",
    "DMLMJ": "#c46a9b",
    "GMML": "#009e73",
    "KISSME": "#9a8300",
    "LMNN": "#d1495b",
    "DML-eig": "#8c6bb1",
    "LFDA": "#6b8e23",
    "DML-dc": "#a8572f",
    "NCA": "#5d7fd6",
}
OTHER = "#767676"

# The page replaces these four by its own colours, so that figures match its light and dark mode.
INK, MUTED, GRID, PAPER = "#1b1f24", "#59636e", "#d8dde3", "#ffffff"
_PAGE_COLORS = {INK: "--ink", "#000000": "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--card"}

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "errorbar.capsize": 0,
    "figure.facecolor": PAPER,
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "path",
    "svg.hashsalt": "mdaml",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.major.size": 3,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
}
_DPI = 160


@contextmanager
def report_style() -> Iterator[None]:
    """Use Matplotlib with the style of the report instead of the user's settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches, without pyplot."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def fix_layout(figure: "Figure") -> None:
    """Compute the layout once, because computing it at every saving gives slight differences."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def to_svg(figure: "Figure") -> str:
    """Return a figure as SVG, the same bytes for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def to_png(figure: "Figure") -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
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
