"""The gallery: every example runs, is short, and ends in a figure; a warning is a failure."""

import runpy
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").rglob("plot_*.py"))
SLOW = {  # more than two seconds of processor time
    "plot_adapt_embeddings",
    "plot_ask",
    "plot_convergence",
    "plot_image_retrieval",
    "plot_nine_methods",
    "plot_photographs",
    "plot_reduced_rank",
}


def named(path):
    marks = [pytest.mark.slow] if path.stem in SLOW else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.fixture
def screen():
    """Draw to memory, and leave neither figures nor a style behind."""
    before = plt.get_backend()
    plt.switch_backend("agg")
    with plt.rc_context():
        yield
    plt.close("all")
    plt.switch_backend(before)


def test_there_are_at_least_ten_examples_and_none_outside_a_folder_with_a_header():
    assert len(EXAMPLES) >= 10
    for path in EXAMPLES:
        assert (path.parent / "GALLERY_HEADER.rst").is_file()


def test_slow_examples_exist():
    assert {path.stem for path in EXAMPLES} >= SLOW


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_at_most_sixty_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_figure_is_complete_at_the_end_of_its_block(path):
    # sphinx-gallery saves and closes figures after each block of code.
    blocks = path.read_text(encoding="utf-8").split("\n# %%\n")
    first = next(n for n, block in enumerate(blocks) if "plt.subplots(" in block)
    for block in blocks[first + 1 :]:
        assert all(line.startswith("#") for line in block.splitlines())


@pytest.mark.slow
@pytest.mark.usefixtures("screen")
@pytest.mark.parametrize("path", [named(path) for path in EXAMPLES])
def test_example_runs_without_a_warning_and_draws(path):
    runpy.run_path(str(path), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    for figure in figures:
        figure.canvas.draw()  # layout and fonts warn here
        assert all(ax.get_title() for ax in figure.axes)
