"""Which estimator to use: one table for the guide, the README, docstrings and ``mdaml --help``."""

import re
from typing import TypeVar

# What somebody has, wants, and should use.
CHOICES = (
    ("a class for each row", "neighbours of the same class", "MDaML()"),
    ("a class for each row, time for five fits", "the same, tuned", "MDaMLCV()"),
    ("comparisons, pairs, rankings, votes", "to predict further answers", "MDaML()"),
    ("1500 comparisons of things of several kinds", "the same", "LocalMDaML()"),
    ("comparisons", "search, k-NN or clusters", 'MDaML(goal="neighbors")'),
    ("answers of several people", "who answers alike, and why", "PersonalMetrics()"),
    ("queries with clicks or judged documents", "better search, same index", "QueryAdapter()"),
    ("pairs: same or different", "a decision with a probability", "GMML(), then PairVerifier()"),
    ("items and people, no answers", "answers", "mdaml ask"),
    ("the paper", "its method, tables and figures", "MDaML.paper(), mdaml paper run"),
)

Class = TypeVar("Class", bound=type)


def show_choices(cls: Class) -> Class:
    """Add the table to the notes in the docstring of a class."""
    rows = [("I have", "I want", "use"), *((a, b, f"``{c}``") for a, b, c in CHOICES)]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    border = " ".join("=" * width for width in widths)
    lines = [" ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    table = [border, lines[0].rstrip(), border, *(line.rstrip() for line in lines[1:]), border]
    title = re.search(r"^( *)Notes\n\1-----\n", cls.__doc__ or "", re.MULTILINE)
    if title:  # docstrings are stripped by `python -OO`, and their indentation since Python 3.13
        added = "".join(
            f"{title[1]}{line}".rstrip() + "\n"
            for line in ("**Which estimator to use**", "", *table, "")
        )
        cls.__doc__ = title.string[: title.end()] + added + title.string[title.end() :]
    return cls
