"""Whether a fit fits into memory, decided before it starts."""

from collections.abc import Callable

from mdaml import kernels
from mdaml._typing import FloatArray
from mdaml.constraints._matching import N_MATCHES
from mdaml.estimators._supervision import Supervision
from mdaml.kernels import SMALL_BYTES, CentredRows, FitSize, Samples


def center(samples: FloatArray, *, in_blocks: bool) -> tuple[FloatArray, Samples]:
    """Return the mean and samples without it: metrics see no translations, rounding does."""
    if in_blocks:
        centred = CentredRows.of(samples)
        return centred.mean, centred
    mean, without = kernels.center(samples)
    return mean, without


def choose_blocks(limit: int | None, X: FloatArray, size: Callable[[], FitSize]) -> bool:
    """Return whether to work in blocks; without a limit, where X is large."""
    return X.nbytes > SMALL_BYTES if limit is None else plan_blocks(limit, size())


def plan_blocks(limit: int, size: FitSize) -> bool:
    """Return whether a fit must spare copies of X to take no more than a limit of bytes.

    Raises ValueError, with what is needed and what to do, where that does not help.
    """
    if size.needed(in_blocks=False) <= limit:
        return False
    needed = size.needed(in_blocks=True)
    if needed <= limit:
        return True
    samples = size.n_samples * size.n_features * size.itemsize / 1e6
    advice = "raise memory_limit, or pass fewer comparisons or fewer samples"
    if size.itemsize > 4:
        advice = "pass X as float32, " + advice
    raise ValueError(
        f"memory_limit allows {limit / 1e6:.0f} MB beyond X and the comparisons, but this fit may "
        f"need {needed / 1e6:.0f} MB: {samples:.0f} MB for the projected samples, most of the rest "
        f"for {size.n_pairs} pairs in {size.n_comparisons} comparisons. To go on, {advice}; "
        "partial_fit takes them in chunks."
    )


def fit_size(
    X: FloatArray, n_modes: int, given: Supervision, drawn: tuple[int, int, str]
) -> FitSize:
    """Return what the memory of a fit depends on; pairs are counted, or bounded from above.

    ``drawn`` says how triplets are drawn from labels: similar and dissimilar partners, pairing.
    """
    n, d = X.shape
    if given.weak is None:
        n_similar, n_dissimilar, pairing = drawn
        each = n_similar * n_dissimilar if pairing == "grid" else max(n_similar, n_dissimilar)
        n_pairs = n * (n_similar + n_dissimilar)
        return FitSize(n, d, n_modes, X.itemsize, n_pairs, n * each, n_drawn=n * each)
    weak = given.weak
    if weak.has_triplets_only:
        n_pairs = kernels.count_pairs(weak.triplets, n)
        return FitSize(n, d, n_modes, X.itemsize, n_pairs, len(weak.triplets))
    n_similar = int(weak.similar.sum())
    matched = N_MATCHES * n_similar + len(weak.pairs) - n_similar
    n_all = len(weak.triplets) + len(weak.quadruplets) + matched
    n_pairs = 2 * (len(weak.triplets) + len(weak.quadruplets)) + len(weak.pairs)
    return FitSize(n, d, n_modes, X.itemsize, n_pairs, n_all, n_drawn=2 * n_all, with_anchor=False)
