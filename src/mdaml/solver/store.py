"""What the solver needs of a store, which keeps samples and comparisons."""

from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from mdaml._typing import Dtype, FloatArray, IntArray, Rng
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints

# What has an entry for each sample or pair is kept by the store, in whatever form suits it; the
# solver only hands it back. X F, and derivatives in it:
Projected = Any
# weights of the samples in the modes, with their powers:
Weights = Any
# squared distances to the centres, and the losses of each near pair:
Measured = Any
# the self-weight of each near pair:
Importance = Any


class Store(Protocol):
    """Centred samples X (N, d) and comparisons of them, somewhere.

    K modes. *F* is a factor of the metric, (d, r). A *near pair* is the near one of at least one
    comparison; its *importance* multiplies the losses of these. Sums are in double precision.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of samples and of features."""

    @property
    def mean(self) -> FloatArray:
        """The mean of the samples before they were centred, (d,), in the precision of X."""

    @property
    def dtype(self) -> Dtype:
        """The precision of the samples."""

    @property
    def total(self) -> float:
        """The weight of all comparisons."""

    def threads(self) -> AbstractContextManager[object]:
        """Limit the threads of other libraries for the time of a fit."""

    def small(self, A: FloatArray) -> FloatArray:
        """Return a matrix of the size of the metric where its algebra is done."""

    def host(self, A: FloatArray) -> FloatArray:
        """Return such a matrix as a NumPy array."""

    def compare(self, supervision: Constraints) -> Self:
        """Return the same samples with comparisons: triplets, or weighted quadruplets."""

    def part(self, rows: IntArray) -> "Store":
        """Return some of the samples, in increasing order, without comparisons."""

    def mapped(self, basis: FloatArray) -> Self:
        """Return the samples mapped by a basis, (d, r), with the same comparisons."""

    # The metric.

    def project(self, F: FloatArray) -> Projected:
        """Return Y = X F."""

    def turn(self, Y: Projected, A: FloatArray) -> Projected:
        """Return Y A for a square A; Y may be overwritten."""

    def shift(self, Y: Projected, step: float, Z: Projected) -> Projected:
        """Return Y + step Z."""

    def map_centers(self, centers: FloatArray, F: FloatArray) -> FloatArray:
        """Return centres (K, d) times F in the precision of the samples, (K, r)."""

    def spread(self, Y: Projected) -> float:
        """Return the sum of squares of Y."""

    def loss_and_half(
        self, Y: Projected, scales: FloatArray, importance: Importance
    ) -> tuple[float, FloatArray]:
        """Return the loss for distances in Y, columns scaled, and half its gradient, (r, r).

        The gradient in the frame that Y is projected by is this matrix plus its transpose.
        """

    def losses_along(self, Y: Projected, scales: FloatArray, importance: Importance) -> FloatArray:
        """Return the loss for each of four scalings of the columns of Y, (4,)."""

    def pull(
        self,
        Y: Projected,
        centers: FloatArray,
        weights: Weights,
        importance: Importance,
        loss_factor: float,
    ) -> tuple[float, float, Projected, FloatArray]:
        """Return the terms of the objective for samples in Y and centres (K, r), and derivatives.

        The clustering term and the loss, neither averaged; the derivative of the objective without
        its ridge in Y, and in the centres.
        """

    def cross(self, by_samples: Projected) -> FloatArray:
        """Return X transposed times a derivative in X F, (d, r)."""

    def inner(self, by_samples: Projected, Z: Projected) -> float:
        """Return the inner product of a derivative in X F and a change of it."""

    # The modes.

    def measure(self, F: FloatArray, centers: FloatArray) -> Measured:
        """Return distances to centres (K, d), and losses, under a metric."""

    def recenter(self, measured: Measured, F: FloatArray, centers: FloatArray) -> Measured:
        """Return the same with distances to other centres."""

    def terms(
        self, weights: Weights, measured: Measured, importance: Importance
    ) -> tuple[float, float]:
        """Return the sums of Eq. (7): weighted distances to the centres, weighted losses."""

    def weight(self, importance: Importance) -> float:
        """Return the weight that all comparisons have."""

    def push(self, importance: Importance) -> FloatArray:
        """Return half of the gradient of the loss at the zero metric, where every slope is -1."""

    def importances(self, weights: Weights, floor: float = 0.0) -> Importance:
        """Return the inner product of the powers of the two samples of each near pair.

        With a floor: ``floor + (1 - floor)`` times that.
        """

    def center_sums(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        """Return the sums of samples (K, d) and of powers (K,) that centres are made of."""

    def moments(self, weights: Weights) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sums that the scatter around any centres is made of.

        ``sum_ik w_ik**eta x_i x_i^T`` (d, d), and those of :meth:`center_sums`.
        """

    def update_weights(
        self, weights: Weights, measured: Measured, loss_factor: float, eta: float
    ) -> Weights:
        """Return better weights: see :func:`mdaml.solver.modes.update_weights`."""

    # The start.

    def covariance(self) -> FloatArray:
        """Return ``X^T X / N``."""

    def count_modes(self, most: int, rng: Rng) -> int:
        """Return how many modes the samples seem to have, at most so many."""

    def leading_axes(self, n_axes: int, rng: Rng) -> tuple[FloatArray, FloatArray, float]:
        """Return principal axes (d, m), their variances (m,), and the mean of all d variances."""

    def given_weights(self, weights: FloatArray, eta: float) -> Weights:
        """Return weights (N, K) made to sum to one, off zero."""

    def mixture_weights(self, n_modes: int, eta: float, rng: Rng) -> Weights:
        """Return the posteriors of a Gaussian mixture."""

    def kmeans_weights(self, n_modes: int, eta: float, rng: Rng) -> Weights:
        """Return weight one for the nearest k-means centre."""

    def weighted_means(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        """Return the sums of samples (K, d) by their weights, and of the weights (K,)."""

    def adopt(self, weights: Weights) -> Weights:
        """Return weights that were made before the comparisons, ready for these comparisons."""

    def weights_at(self, F: FloatArray, centers: FloatArray, eta: float) -> Weights:
        """Return the weights that are best under a metric without any comparison."""

    def fetch_weights(self, weights: Weights) -> FloatArray:
        """Return the weights of all samples, (N, K), as a NumPy array."""

    def fetch_mapped(self, F: FloatArray) -> FloatArray:
        """Return X F of all samples, (N, r), as a NumPy array."""

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        """Return the nearest places of each place in its class, and outside, under a metric."""
