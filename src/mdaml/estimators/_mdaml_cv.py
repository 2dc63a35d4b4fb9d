"""MDaML that chooses its own parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_integer, check_magnitude
from mdaml.alternation import LocalProblem, State, alternate
from mdaml.constraints import Classes, TripletSet, neighbor_triplets, sample_triplets
from mdaml.estimators._base import MahalanobisTransformer
from mdaml.estimators._mdaml import MDaML
from mdaml.estimators._rank import folds
from mdaml.estimators._supervision import Supervision, check_supervision
from mdaml.modes import Modes, Neighbors, mixture_weights, modes_from_weights

BoolArray = npt.NDArray[np.bool_]

_ETA = 3.0
_TOL = 1e-4
_ROUNDS = 2  # at a time; after the first of them most candidates are left out
_N_PARTS = 3
# Parts on which all candidates are tried. One part of the comparisons has many of them.
_N_FIRST_OF_LABELS, _N_FIRST_OF_TRIPLETS = 2, 1
_N_KEPT = 2
_STRONG_RIDGE = 0.1
_MAX_ROWS = 20_000  # that the search uses; the metric is then learned from all
_MAX_TRIPLETS = 1_000_000
_N_NEIGHBORS = 3  # of the classifier


@dataclass(frozen=True)
class Candidate:
    """Parameters of MDaML among which the search chooses."""

    n_modes: int
    relative_weight: float  # λ₁ / K^η
    sampling: str = "random"
    n_similar: int = 10
    n_dissimilar: int = 10
    ridge: float = 1e-4

    @property
    def triplet_weight(self) -> float:
        """The paper's λ₁."""
        return self.relative_weight * self.n_modes**_ETA

    def params(self) -> dict[str, Any]:
        """Return the parameters of MDaML."""
        return {
            "n_modes": self.n_modes,
            "eta": _ETA,
            "triplet_weight": self.triplet_weight,
            "ridge": self.ridge,
            "sampling": self.sampling,
            "n_similar": self.n_similar,
            "n_dissimilar": self.n_dissimilar,
            "n_refresh": 1 if self.sampling == "neighbors" else 0,
            # Neighbours are fitted closely soon; further rounds help the training samples only.
            "max_iter": _ROUNDS if self.sampling == "neighbors" else 10,
            "tol": _TOL,
        }


# The defaults of MDaML first. Few and unlike each other: the more there are, the more chance
# decides. Random partners with a low weight leave most to the clustering term: right where classes
# are round and overlap. Many similar and few dissimilar neighbours lie between the two.
FROM_LABELS = (
    Candidate(3, 1000, "neighbors", 5, 5),
    Candidate(1, 1000, "neighbors", 5, 5),
    Candidate(3, 1000, "neighbors", 3, 10),
    Candidate(3, 300, "neighbors", 10, 3),
    Candidate(10, 10, "random"),
)
FROM_TRIPLETS = (
    Candidate(3, 300),
    *(
        Candidate(n_modes, weight)
        for weight in (10, 30, 100, 300, 1000)
        for n_modes in (1, 3, 10)
        if (n_modes, weight) != (3, 300)
    ),
)
_LEAD = 0.5  # in standard errors, that it takes to replace the defaults


class MDaMLCV(MahalanobisTransformer):
    """MDaML with all parameters chosen by what is held out: modes, weight, sampling, ridge.

    **Objective**: that of :class:`MDaML`.

    **Supervision**: labels, or triplets. With labels the parameters are scored by the accuracy of
    three nearest neighbours on held-out samples, with triplets by the share of held-out
    comparisons that hold.

    **Prefer it** to :class:`MDaML` whenever ten times its time is no matter.

    **Cost**: about ten fits of :class:`MDaML`. All candidates make two rounds on two splits (on
    one, of comparisons); the best two and the defaults of :class:`MDaML` go on, neighbours being
    searched again, there and on the rest of three; the best of all tries a stronger ridge. Every
    step starts from where the one before ended. More than 20 000 samples are not used for the
    search.

    The defaults stay unless another candidate is better by half a standard error of the difference:
    on few samples the best score is mostly luck.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank of the learned metric, see :class:`MDaML`; all else is chosen at full rank.
    random_state : int, RandomState or None, default=None
        For the splits, the triplets and the first weights.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The linear map ``L``; the metric is ``L.T @ L``.
    best_estimator_ : MDaML
        Fitted to all samples with the parameters chosen; has modes, weights and history.
    best_params_ : dict
        The parameters chosen, those of :class:`MDaML`.
    best_score_ : float
        Their mean score on what was held out; chosen for being high, so it flatters.
    cv_results_ : dict
        ``params``, ``mean_test_score`` and ``n_splits`` of every candidate, the chosen one first,
        then the best. Candidates with fewer splits were left out early; their scores are not
        comparable with the others'.
    history_, n_iter_
        Those of the best estimator.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    .. [1] H. Deng, X. Meng, L. Feng, "Multimodal-Aware Weakly Supervised Metric Learning with
       Self-weighting Triplet Loss", arXiv:2102.02670, 2021.

    Examples
    --------
    >>> from mdaml import MDaMLCV
    >>> from mdaml.datasets import make_multimodal
    >>> X, y = make_multimodal(random_state=0)
    >>> model = MDaMLCV(random_state=0).fit(X, y)
    >>> model.best_score_ > 0.9
    True
    >>> sorted(model.best_params_)[:3]
    ['eta', 'max_iter', 'n_dissimilar']
    """

    def __init__(
        self,
        *,
        n_components: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        triplets: npt.ArrayLike | None = None,
        **unsupported: Any,
    ) -> Self:
        """Choose parameters and learn the metric, from labels or from triplets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense; single precision stays single.
        y : array-like of shape (n_samples,), optional
            Class labels; ``-1`` marks unlabelled rows.
        triplets : array-like of shape (n_triplets, 3), optional
            Rows of X: ``X[t[0]]`` is closer to ``X[t[1]]`` than to ``X[t[2]]``. Instead of y.
        **unsupported : Any
            Other supervision, such as pairs, is refused with advice.

        Returns
        -------
        self : MDaMLCV
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import MDaMLCV
        >>> from mdaml.datasets import make_triplets
        >>> X = np.random.default_rng(0).normal(size=(60, 3))
        >>> said, _ = make_triplets(X, n_triplets=300, components=np.eye(3)[:1], random_state=0)
        >>> model = MDaMLCV(random_state=0).fit(X, triplets=said)
        >>> model.best_score_ > 0.9  # of comparisons held out
        True
        """
        samples, given = check_supervision(
            self, ("y", "triplets"), X, y, triplets=triplets, **unsupported
        )
        if self.n_components is not None:
            columns = ", the number of features of X"
            check_integer(
                self, "n_components", self.n_components, 1, samples.shape[1], what=columns
            )
        check_magnitude(samples - samples.mean(axis=0))
        rng = check_random_state(self.random_state)
        with kernels.one_blas_thread():
            if given.triplets is None:
                parts = _parts_of_classes(samples, given, rng)
                scores = search(parts, FROM_LABELS, _N_FIRST_OF_LABELS)
            else:
                parts = _parts_of_triplets(samples, given.triplets, rng)
                scores = search(parts, FROM_TRIPLETS, _N_FIRST_OF_TRIPLETS)
        best = next(iter(scores))
        model = MDaML(
            **best.params(),
            n_components=self.n_components,
            random_state=int(rng.randint(2**31 - 1)),
        )
        supervision = {"y": y} if given.triplets is None else {"triplets": given.triplets}
        model.fit(X, **supervision)
        self._store(
            X,
            model.components_,
            model.components_.dtype,
            best_estimator_=model,
            best_params_=best.params(),
            best_score_=_mean(scores[best]),
            cv_results_={
                "params": [candidate.params() for candidate in scores],
                "mean_test_score": np.array([_mean(right) for right in scores.values()]),
                "n_splits": np.array([len(s) for s in scores.values()]),
            },
            history_=model.history_,
            n_iter_=model.n_iter_,
        )
        return self


class Part:
    """One split: samples to learn from, how to draw triplets from them, and how to score a metric.

    What candidates share is made once: triplets of the first pass, and first weights of the modes.
    """

    def __init__(
        self,
        X: FloatArray,
        draw: Callable[[Candidate, FloatArray], IntArray],
        score: Callable[[FloatArray], BoolArray],
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.draw, self.score = X, draw, score
        self._seed = int(rng.randint(2**31 - 1))
        self._grouped: dict[tuple[str, int, int], tuple[TripletSet, Neighbors]] = {}
        self._modes: dict[int, Modes] = {}

    def start(self, candidate: Candidate) -> tuple[LocalProblem, State]:
        """Return the problem of the first pass and the state at the identity."""
        key = (candidate.sampling, candidate.n_similar, candidate.n_dissimilar)
        if key not in self._grouped:
            self._grouped[key] = self._group(self.draw(candidate, np.eye(self.X.shape[1])))
        if candidate.n_modes not in self._modes:
            rng = np.random.RandomState(self._seed)
            weights: FloatArray = np.ones((len(self.X), 1))
            if candidate.n_modes > 1:
                weights = mixture_weights(self.X, candidate.n_modes, rng)
            self._modes[candidate.n_modes] = modes_from_weights(self.X, weights, _ETA)
        problem = self._problem(candidate, *self._grouped[key])
        return problem, problem.start(np.eye(self.X.shape[1]), self._modes[candidate.n_modes])

    def refresh(self, candidate: Candidate, state: State) -> tuple[LocalProblem, State]:
        """Return the problem with triplets drawn under the metric of a state, and that state."""
        problem = self._problem(candidate, *self._group(self.draw(candidate, state.F)))
        return problem, problem.start(state.F, state.modes)

    def _group(self, triplets: IntArray) -> tuple[TripletSet, Neighbors]:
        grouped = TripletSet.from_triplets(triplets, len(self.X))
        return grouped, Neighbors.from_graph(grouped.near_graph())

    def _problem(
        self, candidate: Candidate, triplets: TripletSet, neighbors: Neighbors
    ) -> LocalProblem:
        return LocalProblem(
            X=self.X,
            triplets=triplets,
            neighbors=neighbors,
            eta=_ETA,
            triplet_weight=candidate.triplet_weight,
            ridge=candidate.ridge,
            max_inner_iter=5,
        )


def search(
    parts: Sequence[Part], candidates: Sequence[Candidate], n_first: int
) -> dict[Candidate, list[BoolArray]]:
    """Return what each candidate got right on the splits it was tried on, the chosen one first.

    All are tried on the first ``n_first`` parts. The worst are left out early, and every step goes
    on from where the one before ended. The first candidate is kept unless another is clearly
    better.
    """
    if not parts:
        return {Candidate(1, 300): []}  # too little to hold anything out
    candidates = [c for c in candidates if all(c.n_modes <= len(part.X) for part in parts)]
    first, rest = parts[:n_first], parts[n_first:]
    states = {c: [_begin(part, c) for part in first] for c in candidates}
    scores = {c: _scores(first, states[c]) for c in candidates}
    kept = list(dict.fromkeys([candidates[0], *_ranked(scores, candidates)[:_N_KEPT]]))
    for c in kept:
        runs = [*states[c], *(_begin(part, c) for part in rest)]
        states[c] = [_go_on(part, c, *run) for part, run in zip(parts, runs, strict=True)]
        scores[c] = _scores(parts, states[c])
    best = _ranked(scores, kept)[0]
    strong = replace(best, ridge=_STRONG_RIDGE)
    ridged = [(replace(problem, ridge=_STRONG_RIDGE), state) for problem, state in states[best]]
    ends = [_advance(p, p.start(state.F, state.modes), _ROUNDS) for p, state in ridged]
    scores[strong] = _scores(parts, ends)
    finalists = _ranked(scores, [*kept, strong])
    chosen = finalists[0]
    if not _clearly_better(scores[chosen], scores[candidates[0]]):
        chosen = candidates[0]
    others = _ranked(scores, [c for c in scores if c not in finalists])
    return {c: scores[c] for c in dict.fromkeys([chosen, *finalists, *others])}


def _clearly_better(right: Sequence[BoolArray], other: Sequence[BoolArray]) -> bool:
    """Return whether the lead exceeds what chance gives: n cases that differ, sqrt(n) apart."""
    difference = np.concatenate(right).astype(int) - np.concatenate(other)
    return bool(difference.sum() > _LEAD * np.sqrt(np.count_nonzero(difference)))


def _ranked(
    scores: dict[Candidate, list[BoolArray]], candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Return candidates by their mean score, the best first; among equals those listed first."""
    return sorted(candidates, key=lambda c: -_mean(scores[c]))


def _mean(right: Sequence[BoolArray]) -> float:
    return float(np.mean(np.concatenate(right))) if right else float("nan")


def _begin(part: Part, candidate: Candidate) -> tuple[LocalProblem, State]:
    return _advance(*part.start(candidate), _ROUNDS)


def _go_on(
    part: Part, candidate: Candidate, problem: LocalProblem, state: State
) -> tuple[LocalProblem, State]:
    if candidate.sampling == "neighbors":
        problem, state = part.refresh(candidate, state)
    return _advance(problem, state, _ROUNDS)


def _advance(problem: LocalProblem, state: State, n_rounds: int) -> tuple[LocalProblem, State]:
    return problem, alternate(problem, state, max_iter=n_rounds, tol=_TOL).state


def _scores(parts: Sequence[Part], states: Sequence[tuple[LocalProblem, State]]) -> list[BoolArray]:
    return [part.score(state.F) for part, (_, state) in zip(parts, states, strict=True)]


def _parts_of_classes(X: FloatArray, given: Supervision, rng: np.random.RandomState) -> list[Part]:
    """Hold out a fifth of each class, three times; samples without a label are not used."""
    assert given.classes is not None
    rows, of = given.classes.rows, given.classes.of
    if len(rows) > _MAX_ROWS:
        some = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        rows, of = rows[some], of[some]
    labels = Classes.from_labels("MDaMLCV", of)
    parts = []
    for held_out in folds(labels, rng)[:_N_PARTS]:
        train, valid = rows[labels.rows[~held_out]], rows[labels.rows[held_out]]
        y, y_valid = of[labels.rows[~held_out]], of[labels.rows[held_out]]
        if len(valid):
            parts.append(_class_part(X[train], y, X[valid], y_valid, rng))
    return parts


def _class_part(
    X: FloatArray, y: IntArray, X_valid: FloatArray, y_valid: IntArray, rng: np.random.RandomState
) -> Part:
    mean = X.mean(axis=0)
    samples, held_out = X - mean, X_valid - mean
    seed = int(rng.randint(2**31 - 1))

    def draw(candidate: Candidate, F: FloatArray) -> IntArray:
        n_partners = candidate.n_similar, candidate.n_dissimilar
        if candidate.sampling == "neighbors":
            mapped = kernels.rows_times(samples, F.astype(samples.dtype))
            return neighbor_triplets(mapped, y, *n_partners)
        return sample_triplets(y, *n_partners, random_state=seed)

    def score(F: FloatArray) -> BoolArray:
        # Not scikit-learn's classifier: its threads wait for each other when other work is going
        # on, and that took longer than all fits together.
        return _vote(held_out @ F, samples @ F, y) == y_valid

    return Part(samples, draw, score, rng)


def _vote(queries: FloatArray, samples: FloatArray, y: IntArray) -> IntArray:
    """Return the class of most of the nearest samples of each query, the lowest of equals."""
    n_voters = min(_N_NEIGHBORS, len(samples))
    sq_norms = np.einsum("ij,ij->i", samples, samples)
    elected = np.empty(len(queries), np.int64)
    for begin in range(0, len(queries), 512):  # bounds the memory
        block = slice(begin, begin + 512)
        dists = sq_norms - 2.0 * (queries[block] @ samples.T)
        nearest = np.argpartition(dists, n_voters - 1, axis=1)[:, :n_voters]
        votes = np.zeros((len(nearest), int(y.max()) + 1))
        for voter in nearest.T:
            votes[np.arange(len(votes)), y[voter]] += 1
        elected[block] = votes.argmax(axis=1)
    return elected


def _parts_of_triplets(X: FloatArray, triplets: IntArray, rng: np.random.RandomState) -> list[Part]:
    """Hold out a third of the comparisons, three times."""
    if len(triplets) < _N_PARTS:
        return []
    order = rng.permutation(len(triplets))[:_MAX_TRIPLETS]
    samples = X - X.mean(axis=0)
    parts = []
    for number in range(_N_PARTS):
        held_out = np.arange(len(order)) % _N_PARTS == number
        parts.append(
            _triplet_part(samples, triplets[order[~held_out]], triplets[order[held_out]], rng)
        )
    return parts


def _triplet_part(
    X: FloatArray, triplets: IntArray, held_out: IntArray, rng: np.random.RandomState
) -> Part:
    def score(F: FloatArray) -> BoolArray:
        Y = kernels.rows_times(X, F.astype(X.dtype))
        near, far = (kernels.pair_sq_dists(Y, held_out[:, [0, other]]) for other in (1, 2))
        return near < far

    return Part(X, lambda _candidate, _F: triplets, score, rng)
