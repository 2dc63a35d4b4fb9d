"""Which estimator to use: one table for the guide, the README, docstrings and ``mdaml --help``."""

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
    title = "    Notes\n    -----\n"
    before, found, after = (cls.__doc__ or "").partition(title)
    if found:  # docstrings are stripped by `python -OO`
        text = "".join(f"    {line}\n" for line in ("**Which estimator to use**", "", *table, ""))
        cls.__doc__ = before + title + text + after
    return cls
