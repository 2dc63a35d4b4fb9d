"""Run the examples of a page, where numbers may differ a little; read messages of the code."""

import ast
import doctest
import re
from pathlib import Path

from suite.needs import missing_package, skip_without

DECIMAL = re.compile(r"(?<![\w.])-?\d+\.(\d+)(?![\w.])")


class TolerantChecker(doctest.OutputChecker):
    """Accept a decimal that differs from the page by at most two in the last digit shown.

    Pages show accuracies. Another processor or BLAS may classify a sample or two differently.
    """

    def check_output(self, want, got, optionflags):
        if super().check_output(want, got, optionflags):
            return True
        wanted, came = (list(DECIMAL.finditer(text)) for text in (want, got))
        if len(wanted) != len(came) or DECIMAL.sub("#", want) != DECIMAL.sub("#", got):
            return False
        return all(
            abs(float(w[0]) - float(c[0])) <= 2.01 * 10.0 ** -len(w[1])
            for w, c in zip(wanted, came, strict=True)
        )


class Runner(doctest.DocTestRunner):
    """Skip the test if an example needs a package that is absent, as examples of docstrings do."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if package := missing_package(exc_info[1]):
            skip_without([package])
        super().report_unexpected_exception(out, test, example, exc_info)


def text_of(node: ast.expr) -> str:
    """Return the text of a string in the code, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr), "a message is written where it is raised"
    return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)


def run_page(page: Path) -> doctest.TestResults:
    """Run the examples of a page in one namespace, and print those that fail."""
    text = page.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(
        text, {"__name__": "__main__"}, page.name, str(page), 0
    )
    return Runner(TolerantChecker(), optionflags=doctest.ELLIPSIS).run(test)
