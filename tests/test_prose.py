"""Pages that a stranger reads to the end: short guides, short sentences, one word for one thing."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from pages import text_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LANDING = [ROOT / "README.md", DOCS / "index.md"]
GUIDES = [
    *sorted((DOCS / "guide").glob("*.md")),
    *sorted(DOCS.glob("ask*.md")),
    *(DOCS / f"{name}.md" for name in ("deployment", "distributed", "input", "inspection")),
    *(DOCS / f"{name}.md" for name in ("installation", "model_selection", "paper", "quickstart")),
    DOCS / "scaling.md",
]
PAGES = [*LANDING[:1], *(p for p in sorted(DOCS.rglob("*.md")) if "_build" not in p.parts)]
# Words that must not appear, and what to write instead.
REPLACEMENTS = {
    r"\(anchor, |\banchors? of (others|a triplet|triplets)\b": "reference",
    r"\b(as|by|whose|their|each|like the|blocks? of) anchors?\b(?!=)": "reference",
    r"\bno anchor is used\b|\bcommon anchor\b": "reference",
    r"\b([Gg]roups? of (people|persons)|[Kk]inds? of persons?)\b": "kinds of people",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bhear(s|d|ing)?\b": "read, get",
    r"\bsaid of\b|\bis what is said\b|\bby whom\b": "the normal order of words",
    r"(?<!\w)--by\b|\bby=": "who",
}


WRITTEN_HERE = (ast.Constant, ast.JoinedStr)  # a name is a message that is handed on


def named(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


def sentences(text):
    """Words of each sentence, heading, item and cell of a page; a piece of code is one word."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^(`{3,}).*?^\1`*$", "\n", text, flags=re.S | re.M)
    text = re.sub(r"\$\$.*?\$\$|^:.*?$", "\n", text, flags=re.S | re.M)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`|\$[^$]*\$", "code", text)
    text = re.sub(r"^(\s*([-*>]|\d+\.) |#+ )", "\n\n", text, flags=re.M)
    for block in re.split(r"\n\s*\n|\|", text):
        for sentence in re.split(r"(?<=[.!?])\**\s+", block):
            if words := [word for word in sentence.split() if re.search(r"\w", word)]:
                yield words


def too_long(page):
    found = sentences(page.read_text(encoding="utf-8"))
    return [" ".join(words) for words in found if len(words) > 30]


@named(GUIDES)
def test_a_guide_has_at_most_900_words(page):
    assert len(words_of(page)) <= 900


@named(LANDING + GUIDES)
def test_sentences_of_landing_pages_and_guides_have_at_most_30_words(page):
    assert too_long(page) == []


def messages():
    """Texts of the errors and warnings of the code, with … for what is filled in."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else node
            warns = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")
            supervision = (
                call.args[:1] if isinstance(call, ast.Call) and (call is not node or warns) else []
            )
            yield from (text_of(text) for text in supervision if isinstance(text, WRITTEN_HERE))


def test_sentences_of_errors_and_warnings_have_at_most_30_words():
    texts = list(messages())
    assert len(texts) > 400
    assert [t for t in texts if any(len(words) > 30 for words in sentences(t))] == []


def words_of(page):
    return page.read_text(encoding="utf-8").split()


def other_words(page):
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return {
        match[0]: instead
        for wrong, instead in REPLACEMENTS.items()
        for match in re.finditer(wrong, prose)
    }


@named(PAGES)
def test_one_word_for_one_thing(page):
    assert other_words(page) == {}


# The same for docstrings, comments and messages of the code.
REPLACED_IN_CODE = {
    r"\b(like|likeness to|nearer to) (the|an) anchor\b|\bover anchors\b": "reference",
    r"\bof which a (warning|test) tells\b|\bis said to\b": "the normal order of words",
    r"\b[Kk]inds? of persons?\b": "kinds of people",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bhear(s|d|ing)?\b": "read, get",
    r"\bsaid of\b|\bis what is said\b|\bby whom\b": "the normal order of words",
    r"\bto blame\b|\bblames?\b": "wrong",
    r"\bby heart\b": "overfitted",
    r"\bits likes\b": "similar ones",
    r"\b(is|are|was|were) (not )?called so\b": "a different address, and the like",
}


@pytest.mark.parametrize("folder", sorted({p.parent for p in (ROOT / "src").rglob("*.py")}))
def test_one_word_for_one_thing_in_the_code(folder):
    found = []
    for path in folder.glob("*.py"):
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        for token in tokens:
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                text = " ".join(token.string.split())
                found += [
                    (path.name, token.start[0], match[0], instead)
                    for wrong, instead in REPLACED_IN_CODE.items()
                    for match in re.finditer(wrong, text)
                ]
    assert found == []


def test_the_glossary_explains_each_word_that_has_one_meaning():
    page = (DOCS / "guide" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\*\*(.*?)\*\*", page, re.M)
    assert words == sorted(words, key=str.lower)
    wanted = {"Anchor", "Group", "Kind", "Mode", "Place", "Reference", "Strength", "Who"}
    assert wanted <= set(words)


def test_sentences_are_counted_as_a_reader_would():
    page = "# A title\n\nOne two. Three `a b c` [four](x.md)!\n\n- five\n- six\n\n| a | b c |\n"
    counts = [len(words) for words in sentences(page)]
    assert counts == [2, 2, 3, 1, 1, 1, 2]
