"""One more chunk for a model that is fitted already: ``MDaML.partial_fit``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_magnitude, check_memory_limit
from mdaml.estimators._base import principal_components
from mdaml.estimators._mdaml_checks import check_parameters, warn_if_needed
from mdaml.estimators._memory import center, choose_blocks
from mdaml.estimators._supervision import EVERY_FORM, InForce, Supervision, check_supervision
from mdaml.kernels import FitSize
from mdaml.streaming import Past, Reservoir, between, weights_at


def past_of(model: Any) -> Past:
    """Return what a fitted model knows; of one that was loaded, what its file held."""
    d = model.n_features_in_
    kept = getattr(model, "_stream", None)
    if kept is None:
        F = model.components_.T.astype(np.float64)
        if len(model.components_) < d:  # directions that were cut off can come back
            M = F @ F.T
            F = np.linalg.cholesky(M + 1e-6 * np.trace(M) / d * np.eye(d))
        kept = F, Reservoir.empty(d, model.components_.dtype)
    return Past(kept[0], model.centers_, model.n_comparisons_seen_, kept[1])


def of_pairs(obeyed: InForce) -> tuple[IntArray, FloatArray]:
    """Return comparisons as near pair and far pair, and their weights, one on average."""
    if obeyed.comparisons is None:
        return obeyed.triplets[:, [0, 1, 0, 2]], np.ones(len(obeyed.triplets))
    weights = np.ones(len(obeyed.comparisons)) if obeyed.weights is None else obeyed.weights
    return obeyed.comparisons, weights / weights.mean()


@dataclass(frozen=True)
class Chunk:
    """A chunk, with the sample of the past behind it."""

    rows: FloatArray  # (n + m, d) those of the chunk first
    in_force: InForce
    n_rows: int  # n
    n_comparisons: int  # of the chunk

    @classmethod
    def join(cls, samples: FloatArray, obeyed: InForce, past: Past) -> "Chunk":
        """Put a chunk and the sample side by side."""
        comparisons, weights = of_pairs(obeyed)
        rows, every = past.reservoir.joined(samples, comparisons)
        weights = np.concatenate([weights, past.reservoir.weights])
        in_force = InForce(obeyed.triplets, every, weights)
        if np.array_equal(every[:, 0], every[:, 2]) and np.all(weights == weights[0]):
            in_force = InForce(every[:, [0, 1, 3]])  # triplets of equal weight are faster
        return cls(rows, in_force, len(samples), len(comparisons))

    def size(self, n_modes: int) -> FitSize:
        """Return what the memory of the call depends on."""
        n, d = self.rows.shape
        n_all, general = len(self.in_force), self.in_force.comparisons is not None
        return FitSize(
            n,
            d,
            n_modes,
            self.rows.itemsize,
            2 * n_all,
            n_all,
            n_drawn=2 * n_all,
            with_anchor=not general,
        )


def _takes_chunks(model: Any) -> bool:
    """Return True, or say why a model has no ``partial_fit``: to scikit-learn it is not there."""
    if model.device is not None or model.n_components is not None:
        raise AttributeError(
            "MDaML.partial_fit learns metrics of full rank with NumPy: leave n_components and "
            f"device out; got {model.n_components} and {model.device!r}. Or use fit."
        )
    return True


class ChunkLearner:
    """Adds ``partial_fit`` to MDaML, whose parts it uses."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @available_if(_takes_chunks)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        triplets: npt.ArrayLike | None = None,
        pairs: npt.ArrayLike | None = None,
        pair_labels: npt.ArrayLike | None = None,
        quadruplets: npt.ArrayLike | None = None,
        constraints: Any = None,
        constraint_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Refine modes and metric by a chunk of new samples and comparisons, without the old ones.

        The first call is :meth:`fit`. A later one starts from the model so far and learns from the
        chunk and from a sample of at most 20 000 comparisons of earlier chunks, kept with their
        rows (64 MiB at most), which stands for all of them. A model that was fitted at once, or
        loaded, has no such sample at first; its metric then moves by the share of the chunk in all
        comparisons. The guide "scaling" says how far the result is from a fit on everything.

        Afterwards ``weights_``, ``triplets_``, ``comparisons_``, ``comparison_weights_`` refer to
        this chunk, ``history_`` and ``n_iter_`` to this call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples of the chunk.
        y : array-like of shape (n_samples,), optional
            Their labels; triplets are drawn within the chunk.
        triplets, pairs, pair_labels, quadruplets : array-like, optional
            As for :meth:`fit`; row numbers are those of the chunk.
        constraints : Constraints, optional
            The same in one value.
        constraint_weight : array-like, optional
            As for :meth:`fit`.

        Returns
        -------
        self : MDaML
            The estimator, refined.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> model = MDaML(n_modes=4, random_state=0)
        >>> for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 2):
        ...     model = model.partial_fit(X[rows], y[rows])
        >>> model.n_samples_seen_ == len(X)
        True
        """
        supervision = {
            "triplets": triplets,
            "pairs": pairs,
            "pair_labels": pair_labels,
            "quadruplets": quadruplets,
            "constraints": constraints,
            "constraint_weight": constraint_weight,
        }
        if not hasattr(self, "components_"):
            self.fit(X, y, **supervision)
            samples, _ = check_supervision(self, EVERY_FORM, X, y, **supervision)
            obeyed = InForce(self.triplets_, self.comparisons_, self.comparison_weights_)
            past = past_of(self)
            self._remember(past.F, past.reservoir, samples, obeyed)
            return self
        validate_data(self, X, skip_check_array=True, reset=False)
        samples, given = check_supervision(self, EVERY_FORM, X, y, **supervision)
        return self._refine(samples, given)

    def _refine(self, samples: FloatArray, given: Supervision) -> Self:
        """Learn from a chunk and from what is known of earlier ones."""
        near = given.labels is not None and self.sampling == "neighbors"
        triplet_weight = check_parameters(self, len(samples), samples.shape[1], near)
        past, rng = past_of(self), check_random_state(self.random_state)
        if len(past.centers) != self.n_modes:
            raise ValueError(
                f"MDaML(n_modes={self.n_modes}) goes on with a model of {len(past.centers)} modes. "
                "Keep n_modes, or start anew with fit."
            )
        with kernels.one_blas_thread():
            obeyed = self._compare(samples - samples.mean(axis=0), past.F, given, rng)
            chunk = Chunk.join(samples, obeyed, past)
            limit = check_memory_limit(self, self.memory_limit)
            in_blocks = choose_blocks(limit, chunk.rows, lambda: chunk.size(self.n_modes))
            mean, centred = center(chunk.rows, in_blocks=in_blocks)
            check_magnitude(centred)
            problem = self._problem(centred, chunk.in_force, triplet_weight, None)
            modes = weights_at(centred, past.F, past.centers - mean, problem.eta)
            outcome = self._alternate(problem, past.F, modes, 0, self._n_rounds(near))
            critical = problem.critical_triplet_weight(outcome.state)
        F = between(past.F, outcome.state.F, past.share(chunk.n_comparisons))
        self._store(
            None,
            principal_components(F),
            centred.dtype,
            triplets_=obeyed.triplets,
            comparisons_=obeyed.comparisons,
            comparison_weights_=obeyed.weights,
            triplet_weight_=triplet_weight,
            lambda1_critical_=critical,
            centers_=outcome.state.modes.centers + mean,
            weights_=outcome.state.modes.weights[: chunk.n_rows],
            history_=np.array(outcome.history),
            pass_starts_=np.array([0]),
            n_iter_=outcome.n_iter,
            n_samples_seen_=self.n_samples_seen_ + len(samples),
            n_comparisons_seen_=past.n_comparisons + chunk.n_comparisons,
        )
        self._remember(F, past.reservoir, samples, obeyed)
        few_by_design = near and isinstance(self.max_iter, str)
        mean_loss = problem.mean_loss(outcome.state)
        warn_if_needed(self, outcome, mean_loss, few_by_design=few_by_design)
        return self

    def _remember(
        self, F: FloatArray, before: Reservoir, samples: FloatArray, obeyed: InForce
    ) -> None:
        """Keep the metric and a sample of all comparisons seen for the next chunk."""
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rng = np.random.default_rng([seed, self.n_comparisons_seen_])  # not the same every time
        self._stream = F, before.updated(samples, *of_pairs(obeyed), rng)
