"""Lines of a file that are wrong, and what to do about them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_SHOWN = 20
# What to do, by what a reason says; the first that fits.
_REMEDIES = (
    ("is no answer", "remove the line, or write neither if both are as near"),
    ("missing", "fill in the cell, or remove the line"),
    ("not one of the ids", "correct the name, or add the point to X"),
    ("not an integer", "pass ids=, the names of the rows of X"),
    ("rows", "name rows from 0 on, below the number of rows of X"),
    ("same p", "compare different points, or remove the line"),
    ("there twice", "name different points, or remove the line"),
    ("cells where", "put cells that hold a comma into quotation marks"),
    ("label is", "use 1 and -1, 1 and 0, or similar and dissimilar"),
    ("weight", "use a positive number, or leave the cell empty"),
    ("kind is", "use triplet, pair or quadruplet"),
    ("does not have", "empty the cell, or correct the kind"),
    ("answer", "write one of the options, or neither"),
    ("", "correct or remove the line"),
)


@dataclass(frozen=True)
class InvalidLine:
    """A line of a file that is not a constraint.

    Attributes
    ----------
    line : int
        Its number, from 1: the line of a CSV file, the row of a Parquet file, the place in an NPZ
        file in the order triplets, pairs, quadruplets.
    text : str
        Its cells, separated by commas.
    reason : str
        What is wrong with it, and what was probably meant.

    Examples
    --------
    >>> from mdaml.constraints import InvalidLine
    >>> problem = InvalidLine(7, "3,3,5", "a and b are the same point, '3'")
    >>> print(problem)
    line 7: a and b are the same point, '3' (3,3,5)
    >>> problem.remedy
    'compare different points, or remove the line'
    """

    line: int
    text: str
    reason: str

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return next(remedy for mark, remedy in _REMEDIES if mark in self.reason)

    def __str__(self) -> str:
        """Return line number, reason and text."""
        return f"line {self.line}: {self.reason} ({self.text})"


def list_problems(problems: Sequence[InvalidLine]) -> str:
    """Return the first problems, one a line, and how many there are of each kind if more."""
    shown = [f"{problem}: {problem.remedy}" for problem in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        kinds = Counter(re.sub(r"'[^']*'|[0-9]+", "...", problem.reason) for problem in problems)
        shown.append(f"and {len(problems) - _MOST_SHOWN} more; in all:")
        shown += [f"  {n} times: {kind}" for kind, n in kinds.most_common(_MOST_SHOWN)]
    return "\n".join(shown)
