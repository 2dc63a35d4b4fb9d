"""Axes and colours of the plots; the colours are safe for colour-blind readers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito without yellow, which is too faint on white.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#333333")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, BLACK = COLORS
MUTED, GRID = "#6b7480", "#e3e6ea"


def prepare(ax: "Axes | None", width: float = 6.0, height: float = 4.0) -> "Axes":
    """Return the axes given, as they are, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        message = 'mdaml.plot needs Matplotlib: pip install "mdaml[cli]"'
        raise ModuleNotFoundError(message, name="matplotlib") from None
    _, new = plt.subplots(figsize=(width, height), layout="constrained")
    new.spines[["top", "right"]].set_visible(False)
    new.spines[["left", "bottom"]].set_color(MUTED)
    new.tick_params(color=MUTED, labelsize=9)
    new.grid(True, color=GRID, linewidth=0.8)
    new.set_axisbelow(True)
    return new
