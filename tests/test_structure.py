"""What the layout of the code promises to its readers; none of it needs the code to run."""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
TEXTS = {
    path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def code_lines(text):
    """Numbers of the lines that hold code: no comment, nothing empty."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }


def statements(function):
    """Statements of a function without its docstring; the signature may list many options."""
    return function.body[ast.get_docstring(function) is not None :]


def imported_modules(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_foreign(module, package):
    """Say whether a module is private, by a part of its name, and of another package."""
    top, own, *rest = [*module.split("."), "", ""]
    return top == "mdaml" and own not in package and any(re.match(r"_(?!_)", p) for p in rest)


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_has_at_most_400_lines_and_a_function_60(name):
    text = TEXTS[name]
    assert len(text.splitlines()) <= 400
    lines = code_lines(text)
    long = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (body := statements(node)):
            size = len(lines & set(range(body[0].lineno, body[-1].end_lineno + 1)))
            if size > 60:
                long[node.name] = size
    assert long == {}


@pytest.mark.parametrize("name", TEXTS)
def test_no_private_module_of_another_package_is_imported(name):
    package = name.split("/")[:-1]
    assert [m for m in imported_modules(ast.parse(TEXTS[name])) if is_foreign(m, package)] == []


def test_a_private_module_of_another_package_is_noticed():
    package = ["mdaml", "plot"]
    assert is_foreign("mdaml.people._choice", package)
    assert is_foreign("mdaml.people._choice.choose_size", package)
    assert not is_foreign("mdaml.plot._axes", package)
    assert not is_foreign("mdaml._typing.Array", package)
    assert not is_foreign("mdaml.kernels.__init__", package)


def test_no_two_classes_have_one_name():
    classes = Counter(
        node.name.lstrip("_")
        for text in TEXTS.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, n in classes.items() if n > 1] == []


def test_most_types_are_known():
    lines = [line for text in TEXTS.values() for line in text.splitlines()]
    assert sum(bool(re.search(r"\bAny\b", line)) for line in lines) <= 250


@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith("mdaml/io/")])
def test_files_are_read_and_written_without_knowing_the_options_of_commands(name):
    texts = [
        node.value
        for node in ast.walk(ast.parse(TEXTS[name]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert [text for text in texts if re.search(r"(?<![\w-])--[a-z]", text)] == []
