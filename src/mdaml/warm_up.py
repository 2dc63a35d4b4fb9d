"""Compile the loops of the library before they are needed: ``python -m mdaml.warm_up``.

Numba keeps compiled code in files, beside the library or in ``NUMBA_CACHE_DIR``. Run this once
after an installation, or while an image is built, and no later process waits for the compiler.
"""

import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np

from mdaml.constraints import sample_triplets
from mdaml.datasets import make_multimodal
from mdaml.estimators import LMNN, DMLdc, MDaML, MDaMLCV
from mdaml.kernels.compiling import IntegerLoop


def _make_fits() -> Iterator[tuple[str, object, dict[str, object]]]:
    """Yield small fits that need all loops of usual ones: what, an estimator, its arguments."""
    points, y = make_multimodal(120, random_state=0)
    triplets = sample_triplets(y, 3, 3, random_state=0)
    pairs = np.concatenate([triplets[:, :2], triplets[:, ::2]])
    labelled = {"pairs": pairs, "pair_labels": np.repeat([1, -1], len(triplets))}
    for dtype in (np.float64, np.float32):
        X = points.astype(dtype)
        name = np.dtype(dtype).name
        yield f"MDaML from labels, {name}", MDaML(random_state=0), {"X": X, "y": y}
        yield f"MDaML from triplets, {name}", MDaML(), {"X": X, "triplets": triplets}
        modes = MDaML.paper(3, random_state=0)
        yield f"MDaML from pairs, {name}", modes, {"X": X, **labelled}
        yield f"MDaMLCV, {name}", MDaMLCV(random_state=0), {"X": X, "y": y}
    yield "LMNN", LMNN(), {"X": points, "y": y}
    yield "DMLdc", DMLdc(), {"X": points, "y": y}


def main() -> None:
    """Make the fits, and say how long each took."""
    IntegerLoop.patience = 0  # these fits are small, later ones are not
    for what, estimator, given in _make_fits():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what is learned does not matter
            estimator.fit(**given)  # type: ignore[attr-defined]
        sys.stderr.write(f"{what}: {time.perf_counter() - start:.1f} s\n")


if __name__ == "__main__":
    main()
