"""Run the examples of a page; a number shown with decimals may differ a little."""

import doctest
import re
from pathlib import Path

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


def run_page(page: Path) -> doctest.TestResults:
    """Run the examples of a page in one namespace, and print those that fail."""
    text = page.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(
        text, {"__name__": "__main__"}, page.name, str(page), 0
    )
    return doctest.DocTestRunner(TolerantChecker(), optionflags=doctest.ELLIPSIS).run(test)
