"""Draw the pictures of guide pages from their code and our records: ``guide-*.png``."""

import doctest
import json
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from mdaml.plot import plot_audit

ROOT = Path(__file__).parents[1]
BASE, OURS = "#D55E00", "#0072B2"  # of Okabe and Ito


def save(figure: Figure, name: str) -> None:
    figure.savefig(ROOT / "docs" / "_static" / f"guide-{name}.png", dpi=160)


def draw_audit() -> None:
    """Draw the frame that the first block of docs/inspection.md makes."""
    page = (ROOT / "docs" / "inspection.md").read_text(encoding="utf-8")
    block = page.partition("```python\n")[2].partition("```")[0]
    names: dict = {}
    for example in doctest.DocTestParser().get_examples(block):
        exec(example.source, names)
    figure = Figure(figsize=(7, 3), layout="constrained")
    plot_audit(names["frame"], ax=figure.subplots())
    save(figure, "audit")


def draw_gpu() -> None:
    """Draw seconds of the same fits on processor and GPU."""
    records = json.loads((ROOT / "benchmarks/results/gpu.json").read_text(encoding="utf-8"))
    figure = Figure(figsize=(7, 2), layout="constrained")
    axes = figure.subplots()
    cases = [records["compare_low"], records["compare"]]
    for shift, key, name, color in (
        (0.2, "numpy_seconds", "16 cores", BASE),
        (-0.2, "device_seconds", "one H200", OURS),
    ):
        seconds = [case[key] for case in cases]
        rows = [row + shift for row in range(len(cases))]
        bars = axes.barh(rows, seconds, 0.38, color=color, label=name)
        axes.bar_label(bars, fmt=" %.2f s", fontsize=9)
    names = [
        f"{case['N']:,} rows × {case['d']}".replace(",", " ")
        + (f", rank {case['rank']}" if case["rank"] else "")
        for case in cases
    ]
    axes.set_yticks(range(len(cases)), names)
    axes.set(xlabel="seconds of a fit, ten triplets for each row", xlim=(0, 6.8))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, "gpu")


if __name__ == "__main__":
    matplotlib.rcParams |= {"font.size": 10}
    draw_audit()
    draw_gpu()
