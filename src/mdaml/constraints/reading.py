"""Reading files of constraints: the method ``read`` of the class, and the same with wrong lines.

What reads the files is loaded with the first of them: a fit needs none of it.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from mdaml._typing import ArrayLike

if TYPE_CHECKING:  # the class takes its method from here
    from mdaml.constraints.problems import InvalidLine
    from mdaml.constraints.value import Constraints


def read(
    cls: type["Constraints"],
    path: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    n_points: int | None = None,
    columns: Sequence[str] | None = None,
    form: str | None = None,
    invalid: Literal["raise", "skip"] = "raise",
    encoding: str | None = None,
) -> "Constraints":
    r"""Read a file, in the format of its suffix.

    Text (.csv, .tsv, also with .gz) may have commas, semicolons or tabs, and be UTF-8 or
    UTF-16; Excel (.xlsx, its first sheet), .parquet, .feather and the .npz of :meth:`write` are
    read too.

    The columns say what a table holds: ``a,b,c`` triplets, ``a,b,label`` pairs, ``a,b,c,d``
    quadruplets, ``kind,a,b,c,d,label`` a mixture with ``triplet``, ``pair`` or ``quadruplet``
    as kind; ``weight`` may be added. Labels are 1 and -1, 1 and 0, similar and dissimilar or
    same and different. A text without a header holds triplets or quadruplets. All other
    columns, such as who answered and when, are kept as texts in ``columns``.

    Parameters
    ----------
    path : str or path
        Lines that begin with # at the top of a text are left out.
    ids : sequence of str or int, default=None
        Ids of the rows of X, in their order; the file must name points by them, letter for
        letter. If None, it must hold row numbers, from 0.
    n_points : int, default=None
        Rows of X, if there are no ids. If None, the highest row that is named, plus one, or
        the number in an NPZ file.
    columns : sequence of str, default=None
        Names of the columns that hold the points, if they are not a, b, c: such as ``["anchor",
        "closer", "farther"]``. With `form`, its columns, in the order of the table below.
    form : str, default=None
        What the lines hold, if it is none of the above, or the program that wrote the file:

        ==================== ===============================================================
        form                 columns
        ==================== ===============================================================
        triplets             a, b, c
        pairs                a, b, label
        quadruplets          a, b, c, d
        choices              a, b, c, answer (a name, b, c, left, right, 1, 2 or neither)
        odd-one-out          item1, item2, item3, ..., odd (a name, or none)
        picks                anchor, shown, picked (lists in one cell, with | or as JSON)
        rankings             anchor, rank1, rank2, ..., or anchor and one list
        votes                a, b, c, votes_b, votes_c and perhaps neither
        grades               a, b, grade (and who, whose grades alone are compared)
        positives            a, b
        salmon               head, winner, loser
        things               image1, image2, image3, choice (1, 2 or 3: the odd one)
        jspsych              anchor, left, right, response (0 left, 1 right, 2 neither)
        splink               unique_id_l, unique_id_r, clerical_match_score (1 or 0)
        ==================== ===============================================================

        They are turned into constraints as :meth:`Constraints.from_odd_one_out` and others do.
    invalid : {"raise", "skip"}, default="raise"
        Whether to refuse a file with lines that are no constraints, or to leave these lines
        out. :func:`read_constraints` returns them as well.
    encoding : str, default=None
        Of a text that is neither UTF-8 nor UTF-16, such as "cp1252".

    Returns
    -------
    Constraints
        In the order of the file, for each kind.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mdaml.constraints import Constraints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "answers.csv"
    ...     _ = path.write_text("a,b,c\n0,1,2\n0,0,1\n")
    ...     Constraints.read(path, invalid="skip", n_points=10)
    Constraints(1 triplet, n_points=10)
    """
    from mdaml.constraints.files import choose_layout, list_problems, read_lines

    if invalid not in ("raise", "skip"):
        raise ValueError(f"invalid must be 'raise' or 'skip', got {invalid!r}.")
    layout = choose_layout(form, columns)
    value, problems, n_lines = read_lines(cls, path, ids, n_points, layout, encoding)
    if problems and invalid == "raise":
        raise ValueError(
            f"{os.fspath(path)}: {len(problems)} of {n_lines} lines are wrong. Correct them, or "
            f"pass invalid='skip' to leave them out.\n{list_problems(problems)}"
        )
    return value


def read_constraints(
    path: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    n_points: int | None = None,
    columns: Sequence[str] | None = None,
    form: str | None = None,
    encoding: str | None = None,
) -> tuple["Constraints", list["InvalidLine"]]:
    r"""Read the constraints of a file as :meth:`Constraints.read` does, and its wrong lines.

    Parameters
    ----------
    path : str or path
        As for :meth:`Constraints.read`.
    ids : sequence of str or int, default=None
        Ids of the rows of X, in their order. If None, the file must hold row numbers.
    n_points : int, default=None
        Rows of X, if there are no ids. If None, the highest row that is named, plus one.
    columns : sequence of str, default=None
        As for :meth:`Constraints.read`.
    form : str, default=None
        As for :meth:`Constraints.read`.
    encoding : str, default=None
        As for :meth:`Constraints.read`.

    Returns
    -------
    constraints : Constraints
        The lines that are right, at least one.
    problems : list of InvalidLine
        The others.

    See Also
    --------
    mdaml.Constraints : What it returns, with ways to make it from arrays.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mdaml.constraints import read_constraints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "answers.csv"
    ...     _ = path.write_text("a,b,c\n0,1,2\n0,x,1\n")
    ...     value, problems = read_constraints(path)
    >>> value
    Constraints(1 triplet, n_points=3)
    >>> print(problems[0])
    line 3: b is 'x', not an integer; if points have names, pass ids= (0,x,1)
    """
    from mdaml.constraints.files import choose_layout, read_lines
    from mdaml.constraints.value import Constraints

    layout = choose_layout(form, columns)
    value, problems, _ = read_lines(Constraints, path, ids, n_points, layout, encoding)
    return value, problems
