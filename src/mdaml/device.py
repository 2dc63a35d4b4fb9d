"""Where to compute: NumPy arrays by default, or torch tensors on a device."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray

# Tensors stand wherever the solver's annotations speak of arrays: torch need not be installed.
Tensor = Any


def find_device(caller: str, device: str | None) -> str | None:
    """Return the device that a parameter stands for, None for NumPy; refuse one that is not there.

    Parameters
    ----------
    caller : str
        Named in messages.
    device : {None, "cpu", "cuda", "auto"}
        "auto" is "cuda" where there is a GPU that torch can use, otherwise None.

    Examples
    --------
    >>> from mdaml.device import find_device
    >>> find_device("MDaML", None) is None
    True
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


def to_device(X: FloatArray, device: str | None) -> Any:
    """Return samples on a device; None: as they are."""
    if device is None:
        return X
    return kernels.to_device(X, device)


@dataclass(frozen=True)
class DeviceComparisons:
    """Comparisons of two pairs on a device; built once, never changed.

    Implements :class:`mdaml.constraints.Comparisons`. Pairs of triplets are directed, anchor first,
    others are not. Repeated comparisons are kept, so that nothing but the near pair of each far
    pair and the far pair of each near pair is listed.
    """

    pairs: Tensor  # (P, 2) distinct, sorted
    by_first: Tensor  # (N + 1,) pairs by_first[i]:by_first[i + 1] have first row i
    by_second: tuple[Tensor, Tensor]  # the same for second rows, and the pairs in that order
    by_near: tuple[Tensor, Tensor, Tensor]  # (P + 1,) starts, (C,) far pairs, (C,) weights or None
    by_far: tuple[Tensor, Tensor, Tensor]  # the same with the near pairs of each far pair

    @classmethod
    def from_triplets(cls, X: Tensor, triplets: IntArray) -> "DeviceComparisons":
        """Group an (n, 3) array of rows of X ``(anchor, similar, dissimilar)``."""
        return cls(**kernels.group_comparisons(X, triplets, None, directed=True))

    @classmethod
    def from_comparisons(
        cls, X: Tensor, comparisons: IntArray, weights: FloatArray | None
    ) -> "DeviceComparisons":
        """Group an (n, 4) array of rows of X, near pair and far pair; no weights: all alike."""
        if weights is not None:
            weights = weights * (len(weights) / float(weights.sum()))
        return cls(**kernels.group_comparisons(X, comparisons, weights, directed=False))

    @cached_property
    def total(self) -> float:
        """The weight of all comparisons: as many as were given."""
        _, far, weights = self.by_near
        return float(len(far) if weights is None else weights.sum())

    @cached_property
    def is_near(self) -> Tensor:
        """Whether each pair is the near one of any comparison."""
        return self.by_near[0].diff() > 0

    @property
    def near_totals(self) -> Tensor:
        """The weight of the comparisons of each near pair."""
        return kernels.list_totals(*self.by_near)

    def near_graph(self) -> tuple[Tensor, Tensor, Tensor]:
        """See :class:`mdaml.constraints.Comparisons`."""
        starts = self.by_near[0]
        return kernels.near_graph(self.pairs, starts[:-1], starts[1:], len(self.by_first) - 1)

    def importances(self, powers: Tensor) -> Tensor:
        """See :class:`mdaml.constraints.Comparisons`."""
        return kernels.pair_products(powers, self)

    def losses(self, Y: Tensor) -> Tensor:
        """See :class:`mdaml.constraints.Comparisons`."""
        return kernels.comparison_losses(Y, self)

    def gradient(self, Y: Tensor, scales: FloatArray, importance: Tensor) -> tuple[float, Tensor]:
        """See :class:`mdaml.constraints.Comparisons`."""
        return kernels.comparison_gradient(Y, scales, self, importance)

    def half_scatter(
        self, Y: Tensor, scales: FloatArray, importance: Tensor
    ) -> tuple[float, FloatArray]:
        """See :class:`mdaml.constraints.Comparisons`; memory is not spared."""
        loss, product = self.gradient(Y, scales, importance)
        return loss, kernels.transposed_times(Y, product)

    def slopes(self, Y: Tensor, importance: Tensor) -> tuple[float, Tensor]:
        """See :class:`mdaml.constraints.Comparisons`."""
        return kernels.comparison_slopes(Y, np.ones(Y.shape[1]), self, importance)

    def laplacian_times(self, Y: Tensor, weights: Tensor) -> Tensor:
        """Return ``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``; see :mod:`mdaml.low_rank`."""
        return kernels.laplacian_times(Y, self, weights)

    def losses_along(
        self, Y: Tensor, scales: FloatArray, importance: Tensor
    ) -> npt.NDArray[np.float64]:
        """See :class:`mdaml.constraints.Comparisons`."""
        return kernels.comparison_losses_along(Y, scales, self, importance)
