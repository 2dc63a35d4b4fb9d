"""Pictures of the site show today's code and records, and their descriptions say the same."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "docs" / "_static"
LANDING = ("places", "kinds", "clicks")


def program(path):
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(picture):
    """Texts of a picture, which Matplotlib keeps in comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8"))


def percentages(lines):
    return [int(number) for line in lines for number in re.findall(r"(\d+)\s?(?:%|percent)", line)]


def description(name):
    """Text of a picture of the landing page for those who do not see it."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    light, dark = re.findall(rf"_static/{name}-(?:light|dark)\.svg\n:class: .*\n:alt: (.*)", page)
    assert light == dark
    return re.sub(r"from (\d+) to", r"from \1 percent to", light)


@pytest.mark.parametrize("name", LANDING)
def test_descriptions_of_the_landing_page_have_the_figures_of_the_pictures(name):
    light, dark = (texts(STATIC / f"landing-{name}-{scheme}.svg") for scheme in ("light", "dark"))
    assert light == dark
    shown = percentages(light)
    assert shown
    assert percentages([description(f"landing-{name}")]) == shown


@pytest.mark.slow
@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize("name", LANDING)
def test_pictures_of_the_landing_page_are_those_of_the_code(name, tmp_path):
    """Another machine may classify a sample or two differently."""
    draw = getattr(program(ROOT / "tools" / "landing_figures.py"), f"draw_{name}")
    draw(tmp_path / "drawn.svg", "light")
    drawn, kept = (
        texts(path) for path in (tmp_path / "drawn.svg", STATIC / f"landing-{name}-light.svg")
    )
    assert [re.sub(r"\d", "", t) for t in drawn] == [re.sub(r"\d", "", t) for t in kept]
    assert percentages(drawn) == pytest.approx(percentages(kept), abs=1)


@pytest.mark.slow
def test_the_search_of_the_landing_page_is_as_described():
    (_, before, start), (_, after, end) = program(ROOT / "docs" / "landing_picture.py").search()
    words = description("before-after")
    assert percentages([words]) == pytest.approx([100 * start, 100 * end], abs=0.6)
    assert sum(is_right for _, is_right in before) == 1
    assert "one of the five is about cash machines" in words
    assert all(is_right for _, is_right in after)


@pytest.mark.needs("matplotlib")
def test_pictures_of_results_are_those_of_the_records(tmp_path, monkeypatch):
    figures = program(ROOT / "tools" / "result_figures.py")
    monkeypatch.setattr(figures, "STATIC", tmp_path)
    figures.draw_all()
    drawn = {path.name: texts(path) for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name: texts(path) for path in STATIC.glob("results-*.svg")}
