"""The site, as far as it can be checked without building it: names, links, and conf.py."""

import importlib
import importlib.util
import json
import re
from collections import defaultdict
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mdaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MODULES = [
    "mdaml.ask",
    *("mdaml", "mdaml.constraints", "mdaml.datasets", "mdaml.distributed", "mdaml.features"),
    *("mdaml.inspection", "mdaml.model_selection", "mdaml.people", "mdaml.plot", "mdaml.retrieval"),
]
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")
MADE_BY_THE_BUILD = ("auto_examples", "api/generated")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(p for p in sorted(DOCS.rglob("*.md")) if "_build" not in p.parts),
]


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("conf_of_the_site", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed_names():
    """Dotted names in the tables of the API pages, and data that a page describes itself."""
    for page in sorted((DOCS / "api").glob("*.rst")):
        module, in_table = None, False
        for line in page.read_text().splitlines():
            if match := re.match(r"\.\. (currentmodule|py:data|autosummary)::\s*(\S*)", line):
                directive, argument = match.groups()
                in_table = directive == "autosummary"
                module = argument if directive == "currentmodule" else module
                if directive == "py:data":
                    yield f"{module}.{argument}"
            elif line and not line.startswith(" "):
                in_table = False
            elif in_table and (match := re.fullmatch(r"   (\w+)", line)):
                yield f"{module}.{match[1]}"


def find(dotted):
    """Object of a dotted name; an attribute of `mdaml` may be a module loaded on first use."""
    return attrgetter(dotted.removeprefix("mdaml."))(mdaml)


@pytest.mark.needs("jinja2", "sqlalchemy", "starlette")  # of mdaml.ask
def test_every_public_name_is_listed_once_in_the_reference():
    names = list(listed_names())
    assert len(names) == len(set(names))
    listed = [find(name) for name in names if name != "mdaml.io.export.MahalanobisMetric"]
    for module in map(importlib.import_module, MODULES):
        for name in set(module.__all__) - {"__version__"}:
            places = [thing for thing in listed if thing is getattr(module, name)]
            assert len(places) == 1, f"{module.__name__}.{name}: {len(places)} places in docs/api"


def test_every_public_name_has_a_guide_and_every_guide_exists(conf):
    for name in listed_names():
        assert name in conf.GUIDES or name.rpartition(".")[0] in conf.GUIDES, name
    pages = {*conf.SEARCH_WORDS, *(page for pages in conf.GUIDES.values() for page in pages)}
    assert [page for page in pages if not (DOCS / f"{page}.md").is_file()] == []


@pytest.mark.needs("jinja2", "sqlalchemy", "starlette")  # of mdaml.ask
def test_the_html_representation_links_to_the_page_of_the_class():
    classes = [find(name) for name in listed_names()]
    classes = {cls for cls in classes if isinstance(cls, type) and issubclass(cls, BaseEstimator)}
    assert len(classes) > 13
    for cls in classes:
        model = cls.__new__(cls)  # some need arguments; the address needs none
        page = model._get_doc_link().rpartition("/")[2].removesuffix(".html")
        assert find(page) is cls
        assert page in listed_names()


def test_every_command_is_listed_in_the_reference():
    import typer

    cli = importlib.import_module("mdaml.cli")
    page = (DOCS / "api" / "command_line.rst").read_text()
    commands = set(typer.main.get_command(cli.build_app()).commands)
    assert set(re.findall(r"``mdaml ([a-z ]+)``", page)) == commands


def exists(target):
    made = any(str(target).startswith(str(DOCS / folder)) for folder in MADE_BY_THE_BUILD)
    return made or target.exists()


def test_links_of_all_pages_work_in_the_repository():
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text())]
    assert len(links) > 100
    missing = [
        f"{page.relative_to(ROOT)}: {link}"
        for page, link in links
        if not exists((page.parent / link).resolve())
    ]
    assert missing == []


def test_links_of_llms_txt_lead_to_pages():
    text = (DOCS / "llms.txt").read_text()
    assert text.startswith("# mdaml\n\n> ")
    links = LINK.findall(text)
    assert len(links) > 10
    for link in links:
        page = DOCS / link.removeprefix("_sources/").removesuffix(".html")
        files = (page, page.with_name(f"{page.name}.md"), page.with_name(f"{page.name}.rst"))
        assert any(exists(file) for file in files), link
    guides = {f"_sources/guide/{page.name}" for page in (DOCS / "guide").glob("*.md")}
    assert guides <= set(links)


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[a](methods.md#which)", "[a](../methods.md#which)"),
        ("[a](../CHANGELOG.md)", "[a](../changelog.md)"),
        ("[a](../results/)", "[a]({}/tree/main/results)"),
        ("[a](../Makefile#L3)", "[a]({}/blob/main/Makefile#L3)"),
        ("![a](../results/a.png)", "![a](../../results/a.png)"),
        ("[a](https://example.org) [b](#b)", "[a](https://example.org) [b](#b)"),
    ],
)
def test_links_that_leave_the_docs_lead_to_the_repository(conf, link, shown):
    resolved = conf.resolve_links(link, DOCS, DOCS / "guide")
    assert resolved == shown.format(conf.REPOSITORY)


def facts():
    """The cards of the landing page: title and text, in one line each."""
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    cards = re.findall(r":::\{grid-item-card\} (.*?)\n:::\n", page, re.S)
    return [" ".join(re.sub(r"^:link.*$", "", card, flags=re.M).split()) for card in cards]


def test_accuracies_of_the_landing_page_are_those_of_the_records():
    lines = (ROOT / "results" / "study.jsonl").read_text(encoding="utf-8").splitlines()
    scores = defaultdict(list)
    for record in map(json.loads, lines):
        scores[record["method"]].append(100 * np.mean(record["accuracies"]))
    untuned = {
        name: np.mean(values)
        for name, values in scores.items()
        if name.endswith("()") or name in ("NCA", "Euclidean")
    }
    assert all(len(scores[name]) == 24 for name in untuned)
    ours = untuned.pop("MDaML()"), untuned.pop("MDaMLCV()")
    euclid, nca = untuned.pop("Euclidean"), untuned.pop("NCA")
    shown = [f"{value:.1f} %" for value in (ours[0], max(untuned.values()), nca, euclid)]
    assert re.findall(r"[\d.]+ %", facts()[0]) == shown


def test_speeds_of_the_landing_page_are_those_of_the_records():
    results = ROOT / "benchmarks" / "results"
    speed = json.loads((results / "core.json").read_text(encoding="utf-8"))["speed"]
    ratios = [case["literal"]["seconds"] / case["until_as_low"]["seconds"] for case in speed]
    assert facts()[1].startswith(f"{min(ratios):.0f} to {max(ratios):.0f} times faster")
    large = json.loads((results / "gpu.json").read_text(encoding="utf-8"))["large"]
    assert (large["N"], large["d"], large["T"]) == (10**6, 128, 10**7)
    assert facts()[2].startswith(f"{large['fit_seconds']:.1f} seconds on a GPU")


def test_figures_of_the_readme_are_those_of_the_landing_page():
    """Which are those of the records: see above; and agreement with places is that of its study."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    accuracy, speed, seconds = (facts()[k] for k in range(3))
    shown = re.search(r"on 24 data sets: ([\d.]+ %).*?([\d.]+ %).*?NCA ([\d.]+ %)", page)
    assert list(shown.groups()) == re.findall(r"[\d.]+ %", accuracy)[:3]
    assert f"{speed.split(' times')[0]} times sooner" in page
    assert f"10^7 triplets in {seconds.split(' seconds')[0]} s on an H200" in page
    agreement = defaultdict(list)
    lines = (ROOT / "results" / "local.jsonl").read_text(encoding="utf-8").splitlines()
    for record in map(json.loads, lines):
        if record["study"] == "kinds" and record["case"][:2] == [10_000, 0.0]:
            agreement[record["method"]].append(record["share"])
    means = [100 * np.mean(agreement[name]) for name in ("LocalMDaML()", "MDaML()", "network")]
    found = re.search(r"(\d+) % of new ones hold, with one map (\d+) %, .*? (\d+) %", page)
    assert [f"{mean:.0f}" for mean in means] == list(found.groups())


def test_bundled_data_are_those_that_the_readme_and_the_paper_count():
    numbers = {9: "nine"}
    bundled = [r for r in mdaml.datasets.list_datasets() if r.availability == "bundled"]
    wanted = f"The {numbers[len(bundled)]} bundled data sets come from the UCI"
    for page in ("README.md", "paper/paper.md"):
        assert wanted in " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert {(record.licence, "uci.edu" in record.source) for record in bundled} == {
        ("CC BY 4.0", True)
    }
