"""Transformed samples in the form that vector indexes take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray

_BLOCK = 65_536  # values of a block of samples, about: half a megabyte in double precision


def embed_blocks(
    transform: Callable[[Any], FloatArray],
    X: Any,
    n_components: int,
    out: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """Transform block by block into single precision, C order.

    Parameters
    ----------
    transform : callable
        Maps and checks some rows.
    X : array-like of shape (n_samples, n_features)
        Sliced by rows, so that a memory map is never read as a whole.
    n_components : int
        Columns of what ``transform`` returns.
    out : float32 array of shape (n_samples, n_components), C order, or None
        Where to write, for instance a memory map.

    Returns
    -------
    out : float32 array of shape (n_samples, n_components)

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.export import embed_blocks
    >>> embed_blocks(lambda rows: rows @ np.ones((2, 1)), np.eye(2), 1)
    array([[1.],
           [1.]], dtype=float32)
    """
    rows = X.iloc if hasattr(X, "iloc") else X if hasattr(X, "shape") else np.asarray(X)
    shape = np.shape(X) if not hasattr(X, "shape") else X.shape
    n_samples = shape[0] if len(shape) == 2 else 0
    if n_samples == 0:
        transform(X)  # says what is wrong
        raise ValueError(f"X must have rows and columns, got shape {shape}.")
    if out is None:
        out = np.empty((n_samples, n_components), np.float32)
    _check_out(out, (n_samples, n_components))
    step = max(1, _BLOCK // max(1, shape[1]))
    for start in range(0, n_samples, step):
        with np.errstate(over="ignore"):  # the check below says it in words
            block = transform(rows[start : start + step]).astype(np.float32)
        if not np.all(np.isfinite(block)):
            raise ValueError(
                f"Rows {start} to {start + len(block) - 1} of X, transformed, exceed single "
                "precision. Scale the features, for instance by StandardScaler, and fit again."
            )
        out[start : start + len(block)] = block
    return out


def _check_out(out: Any, shape: tuple[int, int]) -> None:
    fits = isinstance(out, np.ndarray) and out.dtype == np.float32 and out.shape == shape
    if not fits or not out.flags.c_contiguous or not out.flags.writeable:
        got = type(out).__name__
        if isinstance(out, np.ndarray):
            got = f"{out.dtype} of shape {out.shape}"
            got += "" if out.flags.c_contiguous else ", not in C order"
            got += "" if out.flags.writeable else ", read-only"
        raise ValueError(
            f"out must be a writable float32 array of shape {shape} in C order, got {got}."
        )
