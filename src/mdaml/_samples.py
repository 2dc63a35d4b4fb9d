"""Samples as people pass them: frames, masked and sparse arrays, dates, text, gaps.

Numbers are accepted in every container; all else is refused in a sentence that says what to do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from scipy import sparse

from mdaml._typing import Matrix

_RECIPE = (
    'The guide "Preparing data" has a ColumnTransformer for numbers, categories and gaps to put '
    "before {}."
)

_DATES = (
    "Turn them into numbers that mean something for a distance, such as days since the first date, "
    "or leave them out."
)


@contextmanager
def explain_samples(
    owner: object, X: object, name: str = "X", *, sparse: bool = False
) -> Iterator[None]:
    """Refuse samples that are no plain numbers, in our words; checks of scikit-learn go inside.

    Parameters
    ----------
    owner : object
        The estimator, for messages.
    X : object
        What was passed as samples.
    name : str
        The argument.
    sparse : bool
        Whether a sparse array will do.
    """
    who = owner if isinstance(owner, str) else type(owner).__name__
    _refuse_masked(X, name)
    _refuse_dates(X, name)
    if not sparse:
        _refuse_sparse(X, name, who)
    try:
        yield
    except ValueError as error:
        text = str(error)
        if "could not convert string to float" in text:
            message = _describe_text(X, name, text, who)
        elif "contains NaN" in text and "Input y" not in text:
            message = _describe_gaps(X, name, who)
        else:
            raise
        raise ValueError(message) from error


def _refuse_masked(X: object, name: str) -> None:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a masked array with {int(np.sum(X.mask))} masked values, whose mask would "
            f"be lost. Fill them in, for instance by SimpleImputer from {name}.filled(np.nan), or "
            "leave these rows out."
        )


def _refuse_dates(X: object, name: str) -> None:
    """Refuse dates and spans of time, which would be counted in nanoseconds."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"{name} holds dates ({X.dtype}), not numbers. {_DATES}")
    for column, kind in _list_columns(X):
        text = str(kind).lower()
        if text.startswith(
            ("datetime", "timedelta", "date", "timestamp", "duration", "time", "period")
        ):
            raise ValueError(f"The column {column!r} of {name} holds dates ({kind}). {_DATES}")


def _list_columns(X: object) -> list[tuple[object, object]]:
    """Return names and types of the columns of a data frame of any library."""
    if hasattr(X, "schema") and hasattr(X, "column_names"):  # PyArrow
        return list(zip(X.column_names, X.schema.types, strict=True))
    if hasattr(X, "dtypes") and hasattr(X, "columns"):  # pandas, Polars
        return list(zip(X.columns, X.dtypes, strict=True))
    return []


def _refuse_sparse(X: Matrix, name: str, who: str) -> None:
    if sparse.issparse(X):
        gigabytes = X.shape[0] * X.shape[1] * 8 / 1e9
        raise TypeError(
            f"{name} is sparse, but {who} needs it dense; sparse arrays are accepted by Euclidean, "
            "GMML and KISSME, and by transform, pair_distance and the scores of every fitted "
            "metric. Reduce the features first, for instance by TruncatedSVD(100); or pass "
            f"{name}.toarray() if {gigabytes:.2g} GB fit into memory. "
            "OneHotEncoder(sparse_output=False) and ColumnTransformer(sparse_threshold=0) return "
            "dense arrays."
        )


def _describe_text(X: object, name: str, text: str, who: str) -> str:
    columns = [c for c, kind in _list_columns(X) if _is_text(kind)]
    where = f" (the columns {', '.join(map(repr, columns[:5]))})" if columns else ""
    return (
        f"{name} must hold numbers only{where}: {text}. Encode categories as numbers, for instance "
        "by OneHotEncoder(sparse_output=False); leave out text that names or describes the rows. "
        f"{_RECIPE.format(who)}"
    )


def _is_text(kind: object) -> bool:
    text = str(kind).lower()
    return text in ("object", "category", "str", "string") or text.startswith(
        ("string", "large_string", "categorical", "dictionary", "enum")
    )


def _describe_gaps(X: Matrix, name: str, who: str) -> str:
    """Return how many gaps there are, the place of the first, and what to do."""
    values = X.data if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    n_gaps = int(np.isnan(values).sum())
    where = ""
    if values.ndim == 2:
        row, place = np.argwhere(np.isnan(values))[0].tolist()
        columns = _list_columns(X)
        column = repr(columns[place][0]) if columns else place
        where = f", the first in row {row}, column {column}"
    return (
        f"Input {name} contains NaN: {n_gaps} missing values{where}. {who} needs complete "
        "numbers: fill them in, for instance by SimpleImputer(strategy='median'), or leave these "
        f"rows out. {_RECIPE.format(who)}"
    )
