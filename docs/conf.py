"""Configuration of the site: ``make docs`` builds it, offline and with warnings as errors."""

import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))  # for landing_picture

# The one place that knows where the repository lives.
REPOSITORY = "https://github.com/mdaml/mdaml"

# Files outside docs/ that are pages of the site.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "README.md": "index.md",
}

project = "mdaml"
author = "The mdaml developers"
copyright = author
version = release = installed_version("mdaml")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax from our own pages: a CDN would fail without a network
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**/README.md", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
default_role = "code"  # `X` in a docstring is a parameter
highlight_language = "none"  # unless a block says so
nitpicky = True
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Words that people search for, and the page that a search lists first.
SEARCH_WORDS = {
    "ask": ("asking people", "questions"),
    "deployment": ("export", "faiss", "ONNX"),
    "guide/adapting_embeddings": ("clicks", "cosine", "embeddings"),
    "answers": ("rankings", "votes", "file formats"),
    "guide/collecting": ("pairs", "triplets", "quadruplets"),
    "guide/preparing": ("missing values", "categories"),
    "input": ("sparse",),
    "guide/troubleshooting": ("troubleshooting",),
    "memory": ("memory",),
    "scaling": ("GPU", "CUDA"),
    "warnings": ("error messages",),
}

# Pages of the guide about a public name, or about all names of a module.
GUIDES = {
    **dict.fromkeys(
        ("mdaml.MDaML", "mdaml.MDaMLCV"), ("guide/choosing", "model_selection", "scaling")
    ),
    "mdaml.Constraints": ("guide/collecting", "answers"),
    "mdaml.FoldedMetric": ("deployment",),
    "mdaml.PairVerifier": ("inspection",),
    "mdaml.audit": ("inspection", "audits"),
    "mdaml.fold_pipeline": ("deployment", "guide/preparing"),
    "mdaml.load": ("deployment",),
    "mdaml.suggest_queries": ("inspection", "ask"),
    "mdaml": ("guide/choosing", "methods"),
    "mdaml.ask": ("ask",),
    "mdaml.constraints": ("guide/collecting", "answers"),
    "mdaml.datasets": ("accuracy",),
    "mdaml.distributed": ("distributed", "scaling"),
    "mdaml.features": ("ask", "command_line"),
    "mdaml.inspection": ("inspection", "audits"),
    "mdaml.io.export": ("deployment",),
    "mdaml.model_selection": ("model_selection",),
    "mdaml.people": ("guide/several_people",),
    "mdaml.plot": ("inspection",),
    "mdaml.retrieval": ("guide/adapting_embeddings", "guide/vector_stores"),
    "mdaml.verification": ("inspection",),
}

autosummary_generate = True
autosummary_context = {"guides": GUIDES}
autodoc_typehints = "none"  # docstrings say it in words
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False  # the template of classes has a table of its own
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def scrape_figures(block: Any, names: dict[str, Any], conf: dict[str, Any]) -> str:
    """Save the figures of a block of code, and before the first one panel of it: the thumbnail.

    A whole figure cannot be read at the size of a thumbnail. The panel is that of ``plt.sca``, or
    the last one. sphinx-gallery takes the first picture of an example; only the others are shown.
    """
    import matplotlib.pyplot as plt
    from sphinx_gallery.scrapers import matplotlib_scraper

    if plt.get_fignums() and not names["image_path_iterator"].paths:
        figure = plt.gcf()
        figure.canvas.draw()
        panel = figure.gca().get_tightbbox().transformed(figure.dpi_scale_trans.inverted())
        engine = figure.get_layout_engine()
        figure.set_layout_engine("none")  # keep every panel where it is
        figure.savefig(next(names["image_path_iterator"]), dpi=200, bbox_inches=panel.padded(0.04))
        figure.set_layout_engine(engine)
    return str(matplotlib_scraper(block, names, conf))


sphinx_gallery_conf = {
    "image_scrapers": ("conf.scrape_figures",),
    "thumbnail_size": (640, 448),
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": [
        f"../examples/{part}" for part in ("basics", "supervision", "inside", "use")
    ],
    "within_subsection_order": "ExampleTitleSortKey",
    "doc_module": ("mdaml",),
    "reference_url": {"mdaml": None},
    "backreferences_dir": "api/backreferences",
    "capture_repr": (),  # what an example prints, not what its last line happens to return
    "image_srcset": ["2x"],
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10**6,  # seconds are those of the building machine
    "write_computation_times": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "mdaml"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sortable.js"]
html_extra_path = ["llms.txt"]
html_sourcelink_suffix = ""  # _sources/guide/index.md, to which llms.txt points
html_show_sourcelink = False
html_sidebars = {"index": [], "search": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "mdaml", "alt_text": "mdaml: start page"},
    "icon_links": [{"name": "Repository", "url": REPOSITORY, "icon": "fa-brands fa-github"}],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_CODE_END = re.compile(r"(```python\n>>>.*?\n)\n(?=```)", re.DOTALL)
_INCLUDE = re.compile(r"```\{include\} (\S+)\n```")


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return the address of the source of a documented object."""
    import inspect
    from operator import attrgetter

    if domain != "py" or not info["module"]:
        return None
    thing = attrgetter(info["fullname"])(__import__(info["module"], fromlist=["_"]))
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) else thing)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return None
    path = Path(inspect.getsourcefile(thing) or "")
    if not path.is_relative_to(ROOT):
        return None  # inherited from another library
    lines, start = inspect.getsourcelines(thing)
    place = path.relative_to(ROOT).as_posix()
    return f"{REPOSITORY}/blob/main/{place}#L{start}-L{start + len(lines) - 1}"


def resolve_links(text: str, folder: Path, page_folder: Path) -> str:
    """Turn links that leave docs/ into links to a page of the site, or to the repository.

    Pages are also read on GitHub, where a relative link to any file of the repository works.

    Parameters
    ----------
    text : str
        Markdown.
    folder : Path
        Where the text lies, to which its links are relative.
    page_folder : Path
        Folder of the page in which it is shown.
    """

    def resolve(match: re.Match[str]) -> str:
        target = (folder / match[1]).resolve()
        if not target.is_relative_to(ROOT):
            return match[0]
        place = target.relative_to(ROOT).as_posix()
        if place in PAGES:
            target = DOCS / PAGES[place]
        if target.is_relative_to(DOCS) or target.suffix in (".png", ".svg"):
            shown = Path(os.path.relpath(target, page_folder)).as_posix()
        else:
            shown = f"{REPOSITORY}/{'tree' if target.is_dir() else 'blob'}/main/{place}"
        return shown + (match[2] or "")

    return _LINK.sub(resolve, text)


def _read(app: Any, docname: str, source: list[str]) -> None:
    """Include files of the repository, and resolve the links of Markdown pages."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    included = _INCLUDE.fullmatch(source[0].strip())
    origin = (page.parent / included[1]).resolve() if included else page
    text = origin.read_text(encoding="utf-8") if included else source[0]
    # doctest wants an empty line at the end of an example; readers do not.
    text = _CODE_END.sub(r"\1", text)
    source[0] = resolve_links(text, origin.parent, page.parent)
    if included:
        app.env.note_dependency(str(origin))


def _add_search_words(app: Any, doctree: Any) -> None:
    """Add the words that people search for to the index, with the start of the page as target."""
    from docutils import nodes
    from sphinx import addnodes

    words = SEARCH_WORDS.get(app.env.docname)
    if words:
        page = next(doctree.findall(nodes.section))
        entries = [("single", word, page["ids"][0], "main", None) for word in words]
        page.append(addnodes.index(entries=entries))


def _escape(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Keep some of a docstring from being read as markup.

    In types ``(n_iter_,)`` is no link and ``"auto"`` no quotation; ``P. Zadeh`` as an author is not
    item P of a list.
    """
    for number, line in enumerate(lines):
        if re.match(r"\s*\*\*.+\*\* : ", line):
            line = re.sub(r"(?<=\w)_(?![\w*])|\"", r"\\\g<0>", line)
        lines[number] = re.sub(r"^(\s*\.\. \[[^]]+\] )(?=[A-Z]\. )", r"\1\\", line)


def _find_reference(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Link names of scikit-learn to its site, and ours to the module that documents them."""
    from docutils import nodes

    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    if target.startswith("sklearn."):
        address = f"https://scikit-learn.org/stable/modules/generated/{target}.html"
        return nodes.reference("", "", content, refuri=address)
    name = re.sub(r"^mdaml\.\w+\.", "", target)
    python = env.domains.python_domain
    places = [place for place in python.objects if place.endswith(f".{name}")]
    if len(places) != 1:
        return None  # a warning, and so an error
    return python.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], places[0], node, content
    )


def _draw(_app: Any) -> None:
    from landing_picture import draw

    for scheme in ("light", "dark"):
        draw(DOCS / "_static" / f"before-after-{scheme}.svg", scheme)


def setup(app: Any) -> None:
    """Connect what is ours."""
    app.connect("source-read", _read)
    app.connect("builder-inited", _draw)
    app.connect("doctree-read", _add_search_words)
    app.connect("missing-reference", _find_reference)
    app.connect("autodoc-process-docstring", _escape, priority=900)  # after numpydoc
