"""The picture of the landing page, drawn at every build: a search before and after learning."""

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.neighbors import NearestNeighbors

from mdaml import MDaML
from mdaml.datasets import load_banking77

QUESTION = "Can I get cash with this card anywhere?"
# Of Okabe and Ito, whose colours everybody can tell apart.
RIGHT = {"light": "#0072B2", "dark": "#56B4E9"}
WRONG = {"light": "#B34700", "dark": "#E69F00"}
INK = {"light": "#222832", "dark": "#ced6dd"}
N_NEIGHBORS = 5


def draw(path: Path, scheme: Literal["light", "dark"]) -> None:
    """Draw the questions nearest to one question, before and after learning.

    Parameters
    ----------
    path : Path
        The SVG file to write.
    scheme : {"light", "dark"}
        Color scheme of the page that shows the picture.
    """
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "mdaml", "text.color": INK[scheme]}):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.6, 3.85))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 1), ylim=(12.7, -0.3))
        axes.axis("off")
        axes.text(0.0, 0.4, f"“{QUESTION}”", fontsize=15, weight="bold")
        for top, (title, rows, precision) in zip((1.7, 7.7), search(), strict=True):
            axes.text(0.0, top, title, fontsize=13, weight="bold")
            share = f"{100 * precision:.0f} % right for 385 questions"
            axes.text(1.0, top, share, fontsize=12, ha="right")
            for number, (text, is_right) in enumerate(rows):
                color = (RIGHT if is_right else WRONG)[scheme]
                place = top + 0.95 * (number + 1)
                axes.text(0.01, place, "✓" if is_right else "✗", fontsize=13, color=color)
                axes.text(0.06, place, text, fontsize=13, color=color)
        figure.savefig(path, transparent=True, metadata={"Date": None})


@cache
def search() -> list[tuple[str, list[tuple[str, bool]], float]]:
    """Title, nearest questions with whether their intent is right, and precision, of two spaces."""
    bank = load_banking77()
    new, texts = bank.is_test, np.array(bank.texts)
    model = MDaML(n_components=64, random_state=0).fit(bank.data[~new], bank.target[~new])
    asked = np.flatnonzero(texts[new] == QUESTION)[0]
    found = []
    for title, Z in (
        ("Before: embeddings", bank.data),
        ("After: learned metric", model.transform(bank.data)),
    ):
        index = NearestNeighbors(n_neighbors=N_NEIGHBORS).fit(Z[~new])
        nearest = index.kneighbors(Z[new], return_distance=False)
        is_right = bank.target[~new][nearest] == bank.target[new][:, None]
        rows = list(zip(texts[~new][nearest[asked]], is_right[asked], strict=True))
        found.append((title, rows, float(is_right.mean())))
    return found
