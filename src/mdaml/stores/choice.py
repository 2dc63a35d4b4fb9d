"""Which store a fit uses: decided before it starts, by device, size and limit of memory."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mdaml._typing import Matrix
from mdaml._validation import check_memory_limit
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import N_MATCHES, has_triplets_only
from mdaml.constraints.value import Constraints
from mdaml.kernels.grouping import count_pairs
from mdaml.kernels.products import Product
from mdaml.neighbors.search import has_gpu
from mdaml.stores.arrays import ArrayStore
from mdaml.stores.memory import MemoryStore
from mdaml.stores.mixture import MAX_ROWS_FOR_START

# Samples up to this size are copied as convenient; larger ones are worked on in blocks.
SMALL_BYTES = 2**25
_FIXED_BYTES = 2**26  # blocks and buffers of every thread
_MOST_FITS = 4  # at a time, on a GPU
_MODES_OF_A_FIT, _PAIRS_OF_A_SAMPLE, _COMPARISONS_OF_A_SAMPLE = 10, 20, 100  # at most, mostly
_VARIABLE = "MDAML_MEMORY_LIMIT"
_limit: ContextVar[int | None] = ContextVar("memory_limit")  # none was set: the variable decides


@contextmanager
def limit_memory(limit: int | str | None) -> Iterator[None]:
    """Limit the memory of fits of :class:`MDaML` within a ``with`` block.

    X is copied only if the copies fit; a fit that needs more without them is refused before it
    starts. Without a limit memory is saved if X is larger than 32 MiB. On a device it limits the
    memory there, on a cluster that of each worker. The environment variable ``MDAML_MEMORY_LIMIT``
    sets a limit for a whole process, also for threads and processes that others start within the
    block; :class:`~mdaml.model_selection.MetricSearchCV` hands the limit on to its own. The guide
    "scaling" says how much a fit needs.

    Parameters
    ----------
    limit : int, str or None
        Maximum number of bytes, or text such as "2 GB", that a fit may use beyond X and the
        comparisons passed. None sets no limit, whatever the environment variable says.

    Yields
    ------
    None
        Fits in the block keep the limit.

    See Also
    --------
    MDaML : The fits that keep the limit.

    Examples
    --------
    >>> import mdaml
    >>> from mdaml.datasets import make_multimodal
    >>> X, y = make_multimodal(random_state=0)
    >>> with mdaml.limit_memory("500 MB"):
    ...     model = mdaml.MDaML(random_state=0).fit(X, y)
    """
    token = _limit.set(check_memory_limit("limit_memory(limit)", limit))
    try:
        yield
    finally:
        _limit.reset(token)


def current_limit() -> int | None:
    """Return the limit in force, in bytes; None is none."""
    try:
        return _limit.get()
    except LookupError:
        given = os.environ.get(_VARIABLE)
        return check_memory_limit(f"The environment variable {_VARIABLE}", given or None)


def make_store(
    X: Matrix,
    device: str | None = None,
    limit: int | None = None,
    size: Callable[[], "FitSize"] | None = None,
) -> ArrayStore:
    """Return the samples in a store for a device or this machine; refuse what exceeds a limit.

    ``device`` as found by :func:`find_device`; ``limit`` in bytes, beyond X and the comparisons.
    """
    if device is not None:
        from mdaml.stores.torch import TorchStore

        if limit is not None and size is not None:
            check_limit(limit, size(), size().needed_on_device())
        return TorchStore.on(X, device)
    in_blocks = isinstance(X, Product) or X.nbytes > SMALL_BYTES
    if limit is not None and size is not None:
        in_blocks = must_spare(limit, size()) or isinstance(X, Product)
    if not in_blocks:
        return MemoryStore.of(X)
    from mdaml.stores.blocks import BlockStore

    return BlockStore.of(X)


def must_spare(limit: int, size: "FitSize", more: int = 0) -> bool:
    """Return whether a fit fits into a limit in blocks only; refuse it if it does not at all.

    ``more`` are bytes that are needed in any case.
    """
    if size.needed(in_blocks=False) + more <= limit:
        return False
    check_limit(limit, size, size.needed(in_blocks=True) + more)
    return True


def check_limit(limit: int, size: "FitSize", needed: int) -> None:
    """Refuse a fit that needs more bytes than a limit, with what to do."""
    if needed <= limit:
        return
    columns = size.n_features if size.rank is None else size.rank
    samples = size.n_samples * columns * size.itemsize / 1e6
    advice = "raise the limit of memory, or pass fewer comparisons or fewer samples"
    if size.itemsize > 4:
        advice = "pass X as float32, " + advice
    raise ValueError(
        f"limit_memory allows {limit / 1e6:.0f} MB beyond X and the comparisons, but this fit may "
        f"need {needed / 1e6:.0f} MB. {samples:.0f} MB are for the projected samples, most of the "
        f"rest for {size.n_pairs} pairs in {size.n_comparisons} comparisons. To go on, {advice}; "
        "partial_fit takes them in chunks."
    )


@dataclass(frozen=True)
class FitSize:
    """The numbers and options that decide how much memory a fit needs."""

    n_samples: int
    n_features: int
    n_modes: int
    itemsize: int  # bytes of each entry of X
    n_pairs: int  # distinct
    n_comparisons: int
    n_drawn: int = 0  # comparisons that the fit makes or copies itself
    are_triplets: bool = True  # comparisons: triplets of equal weight, or weighted quadruplets
    rank: int | None = None  # of the metric; None: full rank
    mapped_start: bool = False  # low rank, and the start is a matrix that maps all samples
    searched: bool = False  # whether neighbours are searched, for labels
    two_starts: bool = True  # whether two starts are tried and the better one is taken

    def needed(self, *, in_blocks: bool) -> int:
        """Return the most bytes a fit needs beyond X and the comparisons; see docs/scaling.md."""
        b = self.itemsize if in_blocks else 8
        samples = self.n_samples * self.n_features * self.itemsize
        modes = self.n_samples * self.n_modes * self.itemsize
        structure = 12 * self.n_pairs + 4 * self.n_comparisons
        # A single mode keeps neither importance nor losses of the pairs, and its weights are fixed.
        kept = 2 * b * self.n_pairs if self.n_modes > 1 else 0
        graph = 16 * min(self.n_comparisons, self.n_pairs) if self.n_modes > 1 else 0
        # Two starts and their common modes are kept while a round changes one of them.
        second_start = 3 * kept // 2 + 4 * modes if self.two_starts else 0
        metric = kept + b * self.n_pairs + 5 * modes + self._projections(in_blocks)
        most = max(self.n_pairs, min(self.n_comparisons, 2 * self.n_pairs))
        mean_loss = kept + 8 * self.n_pairs + 8 * most + 5 * modes
        if not self.are_triplets:  # weights, the comparisons by far pair, and what is kept of each
            structure += 4 * self.n_pairs + 12 * self.n_comparisons
            metric += 3 * b * self.n_pairs + b * self.n_comparisons
            mean_loss += 8 * self.n_comparisons
        if not in_blocks:
            metric += graph
            mean_loss += graph + samples
        weights = (0 if in_blocks else samples) + graph + 2 * kept + 7 * modes
        grouping = (16 if self.are_triplets else 64) * self.n_comparisons
        start = 5 * self.itemsize * min(self.n_samples, MAX_ROWS_FOR_START) * self.n_features
        start += 5 * modes
        start += (samples if self.mapped_start else 0) if in_blocks else 2 * samples
        search = (0 if in_blocks else samples) + 3 * b * self.n_pairs + 5 * modes
        if self.searched:
            grouping += structure + search  # the last pass is kept beside the new triplets
            # Lists of neighbours, and the samples mapped, scaled and in another order.
            search += 20 * self.n_pairs + 200 * self.n_samples
            search += 0 if self.rank is not None else 3 * samples
        rounds = max(metric, weights, mean_loss) + second_start
        largest = max(rounds, grouping, start, search)
        small = 480 * self.n_features * (self.n_features if self.rank is None else self.rank + 42)
        return structure + largest + 40 * self.n_samples + _FIXED_BYTES + small + 24 * self.n_drawn

    def _projections(self, in_blocks: bool) -> int:
        """Return the bytes of the samples times factors of the metric, and of their copy."""
        samples = self.n_samples * self.n_features * self.itemsize
        if self.rank is None:
            return (1 if in_blocks else 4) * samples
        # Samples, derivatives and temporary arrays of (N, r); pairs in both directions.
        mapped = 12 * self.n_samples * self.rank * self.itemsize + 64 * self.n_pairs
        return mapped if in_blocks else mapped + samples

    def needed_on_device(self) -> int:
        """Return the most bytes a fit needs on a device; see docs/scaling.md."""
        n, d, n_pairs, n_all = self.n_samples, self.n_features, self.n_pairs, self.n_comparisons
        samples = n * d * (2 * self.itemsize + 4)
        mapped = 4 * n * (4 * d if self.rank is None else 12 * self.rank)
        structure = 32 * n_pairs + 24 * n_all
        passes = 64 * n_pairs + 24 * min(n_pairs * d + n_all, 2**25)  # blocks of a pass
        modes = 60 * n * self.n_modes
        small = 480 * d * (d if self.rank is None else self.rank + 42)
        largest = max(mapped + passes, 120 * n_all)  # the metric, or grouping
        return samples + structure + largest + modes + small + _FIXED_BYTES


def fit_size(
    shape: tuple[int, int],
    itemsize: int,
    spec: Any,  # a Spec, which only the solver knows
    supervision: Classes | Constraints,
    *,
    copied: bool,
) -> FitSize:
    """Return what the memory of a fit depends on; pairs are counted, or bounded from above.

    ``copied`` says that the comparisons are not the user's own, so that they count too.
    """
    n, d = shape
    mapped = spec.rank is not None and isinstance(spec.metric, np.ndarray)
    options = {"rank": spec.rank, "mapped_start": mapped, "two_starts": spec.scale_metric}
    size = partial(FitSize, n, d, spec.n_modes, itemsize, **options)
    if isinstance(supervision, Classes):
        n_similar, n_dissimilar = spec.n_similar, spec.n_dissimilar
        is_grid = spec.pairing == "grid"
        n_all = n * (n_similar * n_dissimilar if is_grid else max(n_similar, n_dissimilar))
        n_pairs = n * (n_similar + n_dissimilar)
        return size(n_pairs=n_pairs, n_comparisons=n_all, n_drawn=n_all, searched=spec.neighbors)
    if has_triplets_only(supervision):
        n_all = len(supervision.triplets)
        n_pairs = count_pairs(supervision.triplets, n)
        return size(n_pairs=n_pairs, n_comparisons=n_all, n_drawn=2 * n_all if copied else 0)
    n_similar = int((supervision.pair_labels > 0).sum())
    matched = N_MATCHES * n_similar + len(supervision.pairs) - n_similar
    n_direct = len(supervision.triplets) + len(supervision.quadruplets)
    n_pairs, n_all = 2 * n_direct + len(supervision.pairs), n_direct + matched
    return size(n_pairs=n_pairs, n_comparisons=n_all, n_drawn=2 * n_all, are_triplets=False)


def find_device(caller: str, device: str | None) -> str | None:
    """Return the device that a parameter stands for, None for NumPy; refuse one that is not there.

    "auto" is "cuda" where there is a GPU that torch can use, otherwise None.
    """
    if device is None:
        return None
    try:
        import torch
    except ImportError as error:
        if device == "auto":
            return None
        raise ImportError(
            f'{caller} needs torch: pip install "mdaml[torch]". Or leave device at None: the same '
            "fit with NumPy."
        ) from error
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        build = "is built without CUDA" if torch.version.cuda is None else "finds no CUDA device"
        raise ValueError(
            f"{caller} needs a GPU, but torch {torch.__version__} {build}. Use 'auto', which takes "
            "a GPU where there is one, or None."
        )
    if device == "auto":
        return "cuda" if has_gpu else None
    return device


def n_fits_at_once(device: str | None, shape: tuple[int, int]) -> int:
    """Return how many fits to samples of a shape, with few neighbours each, to make at a time.

    On a GPU several: between its kernels each waits for small matrices to be decomposed here.
    """
    if device not in ("cuda", "auto") or not has_gpu():
        return 1
    import torch

    n, d = shape
    size = FitSize(n, d, _MODES_OF_A_FIT, 4, _PAIRS_OF_A_SAMPLE * n, _COMPARISONS_OF_A_SAMPLE * n)
    spare = 0.5 * torch.cuda.mem_get_info()[0]
    return max(min(_MOST_FITS, int(spare / size.needed_on_device())), 1)
