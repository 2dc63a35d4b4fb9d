"""Colours and style of the figures, and how they become files and parts of a page."""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One colour a method, everywhere. All have a contrast of 3 or more with the light and with the
# dark page; no figure tells methods apart by colour alone, since no fourteen are safe for all eyes.
COLORS = {
    "MDaML": "#0072b2",
    "MDaML, defaults": "#3f8fd0",
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

# The page replaces these four by its own colours, so that figures follow light and dark.
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


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

    Attributes
    ----------
    name : str
        Stem of its files.
    title, caption : str
        One line, and what it shows.
    alt : str
        What it shows, for those who do not see it.
    figure : matplotlib.figure.Figure
        Ready to be saved.
    """

    name: str
    title: str
    caption: str
    alt: str
    figure: "Figure"


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib in the colours of the report, whatever the user's own settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches; pyplot does not know it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def fix_layout(figure: "Figure") -> None:
    """Place everything once; each saving would do it again, and not end quite the same."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def to_svg(figure: "Figure") -> str:
    """Print a figure as SVG, the same bytes for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def to_png(figure: "Figure") -> bytes:
    """Print a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()


def to_inline_svg(svg: str, name: str, alt: str) -> str:
    """Turn a file into an element of a page: own ids, the page's colours, words for `alt`."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\1{name}-", svg)
    svg = svg.replace(PAPER, "none", 1)  # the background
    svg = re.sub("|".join(_PAGE_COLORS), lambda match: f"var({_PAGE_COLORS[match[0]]})", svg)
    width = re.search(r'width="([\d.]+pt)"', svg)
    natural = f' style="--natural: {width[1]}"' if width else ""
    words = f'<svg role="img" aria-label="{html.escape(alt)}"{natural}'
    return svg.replace("<svg", words, 1).strip()
