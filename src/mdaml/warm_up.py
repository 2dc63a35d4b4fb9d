"""Compile the loops of the library before they are needed: ``python -m mdaml.warm_up``.

Numba keeps compiled code in files, beside the library or in ``NUMBA_CACHE_DIR``. Run this once
after an installation, or while an image is built, and no later process waits for the compiler.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from mdaml.constraints import sample_triplets
from mdaml.datasets import make_multimodal
from mdaml.estimators import LMNN, DMLdc, MDaML, MDaMLCV
from mdaml.kernels.threads import n_threads

_PRECISIONS = ("float64", "float32")


def _make_fits(dtype: str) -> Iterator[tuple[str, object, dict[str, object]]]:
    """Yield small fits that need all loops of usual ones: what, an estimator, its arguments."""
    points, y = make_multimodal(120, random_state=0)
    triplets = sample_triplets(y, 3, 3, random_state=0)
    pairs = np.concatenate([triplets[:, :2], triplets[:, ::2]])
    labelled = {"pairs": pairs, "pair_labels": np.repeat([1, -1], len(triplets))}
    X = points.astype(dtype)
    yield "MDaML from labels", MDaML(random_state=0), {"X": X, "y": y}
    yield "MDaML from triplets", MDaML(), {"X": X, "triplets": triplets}
    yield "MDaML from pairs", MDaML(3, anchor=0.0, random_state=0), {"X": X, **labelled}
    yield "MDaMLCV", MDaMLCV(random_state=0), {"X": X, "y": y}
    if dtype == "float64":
        yield "LMNN", LMNN(), {"X": X, "y": y}
        yield "DMLdc", DMLdc(), {"X": X, "y": y}


def _fit_all(dtype: str) -> None:
    """Make the fits, and say how long each took."""
    for what, estimator, given in _make_fits(dtype):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what is learned does not matter
            estimator.fit(**given)  # type: ignore[attr-defined]
        sys.stderr.write(f"{what}, {dtype}: {time.perf_counter() - start:.1f} s\n")


def main() -> None:
    """Make the fits of both precisions side by side, then again: nothing is left to compile.

    Unless the two processes saved code at the same moment, and that of one of them was lost.
    """
    if n_threads() > 1:
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            list(pool.map(_fit_all, _PRECISIONS))
        sys.stderr.write("Compiled. Again:\n")
    for dtype in _PRECISIONS:
        _fit_all(dtype)


if __name__ == "__main__":
    main()
