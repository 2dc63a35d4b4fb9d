"""MDaML that chooses its own parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import check_choice, check_magnitude
from mdaml.constraints.arguments import Said
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.value import Constraints
from mdaml.estimators.learners import WeakLearner
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.mdaml_spec import check_low_rank
from mdaml.estimators.rank import folds
from mdaml.kernels.neighbors import nearest_rows
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.kernels.products import one_blas_thread, rows_times
from mdaml.solver.alternation import Alternation, State
from mdaml.solver.fit import draw_comparisons
from mdaml.solver.modes import Modes
from mdaml.solver.objective import Space
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_metric, start_modes
from mdaml.stores.choice import find_device, make_store

Run = tuple[Alternation, State]  # where a candidate has got to on one split

_ETA = 3.0
_TOL = 1e-4
_ROUNDS = 2  # at a time; after the first of them most candidates are left out
_N_PARTS = 3
# Parts on which all candidates are tried. One part of the comparisons has many of them.
_N_FIRST_OF_LABELS, _N_FIRST_OF_COMPARISONS = 2, 1
_N_KEPT = 2
_STRONG_RIDGE = 0.1
_MAX_ROWS = 20_000  # that the search uses; the metric is then learned from all
_MAX_COMPARISONS = 1_000_000
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

    def spec(self, rank: int | None) -> Spec:
        """Return the parameters of the fits that the search makes, from the plain start."""
        return Spec(
            n_modes=self.n_modes,
            eta=_ETA,
            triplet_weight=self.triplet_weight,
            ridge=self.ridge,
            rank=rank,
            neighbors=self.sampling == "neighbors",
            n_similar=self.n_similar,
            n_dissimilar=self.n_dissimilar,
            max_iter=_ROUNDS,
            tol=_TOL,
        )


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
FROM_COMPARISONS = (
    Candidate(3, 300),
    *(
        Candidate(n_modes, weight)
        for weight in (10, 30, 100, 300, 1000)
        for n_modes in (1, 3, 10)
        if (n_modes, weight) != (3, 300)
    ),
)
_LEAD = 0.5  # in standard errors, that it takes to replace the defaults


class MDaMLCV(WeakLearner):
    """MDaML with all parameters chosen by what is held out: modes, weight, sampling, ridge.

    **Objective**: that of :class:`MDaML`.

    **Supervision**: all that :class:`MDaML` takes. With labels the parameters are scored by the
    accuracy of three nearest neighbours on held-out samples, otherwise by the share of held-out
    comparisons that hold; held-out similar pairs are compared with held-out dissimilar ones.

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
        Rank of the learned metric, see :class:`MDaML`; all else is chosen for this rank.
    device : {None, "cpu", "cuda", "auto"}, default=None
        Where to compute, see :class:`MDaML`.
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
        device: Literal["cpu", "cuda", "auto"] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.device = device
        self.random_state = random_state

    def _fit(self, X: ArrayLike, samples: FloatArray, said: Said) -> None:
        rank = check_low_rank(self, samples.shape[1])
        check_choice(self, "device", self.device, [None, "cpu", "cuda", "auto"])
        device = find_device("MDaMLCV(device=...)", self.device)
        check_magnitude(samples - samples.mean(axis=0))
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            if isinstance(said, Classes):
                parts = _folds_of_classes(samples, said, device, rank, rng)
                scores = search(parts, FROM_LABELS, _N_FIRST_OF_LABELS)
            else:
                parts = _folds_of_constraints(samples, said, device, rank, rng)
                scores = search(parts, FROM_COMPARISONS, _N_FIRST_OF_COMPARISONS)
        best = next(iter(scores))
        model = MDaML(
            **best.params(),
            n_components=self.n_components,
            device=self.device,
            random_state=int(rng.randint(2**31 - 1)),
        )
        model._learn(X, samples, said)
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


class Fold:
    """One split: samples and what was said of them to learn from, and how to score a metric.

    What candidates share is made once: comparisons of the first pass, and first weights.
    """

    def __init__(
        self,
        store: Any,
        said: Said,
        score: Callable[[FloatArray], BoolArray],
        rank: int | None,
        rng: np.random.RandomState,
    ) -> None:
        self.store, self.said, self.score, self.rank = store, said, score, rank
        self._draw_seed = int(rng.randint(2**31 - 1)) if isinstance(said, Classes) else 0
        self._seed = int(rng.randint(2**31 - 1))
        self._compared: dict[tuple[bool, int, int], Any] = {}
        self._modes: dict[int, Modes] = {}

    @cached_property
    def _start(self) -> tuple[Space, FloatArray]:
        """The space of the metrics, and where they start."""
        return start_metric(Spec(1, _ETA, 1.0, 0.0, self.rank), self.store, self._rng())

    def begin(self, candidate: Candidate) -> Run:
        """Make the first rounds of a candidate."""
        spec, (space, F) = candidate.spec(self.rank), self._start
        key = (spec.neighbors, spec.n_similar, spec.n_dissimilar)
        if key not in self._compared:
            self._compared[key] = self._compare(spec, F)
        if spec.n_modes not in self._modes:
            self._modes[spec.n_modes] = start_modes(spec, self.store, self._rng())
        alternation = Alternation(self._compared[key], space, spec)
        return _advance(alternation, alternation.start(F, self._modes[spec.n_modes]))

    def go_on(self, run: Run) -> Run:
        """Make further rounds; neighbours are searched again."""
        alternation, state = run
        if alternation.spec.neighbors and isinstance(self.said, Classes):
            store = self._compare(alternation.spec, state.F)
            alternation = replace(alternation, store=store)
            state = alternation.start(state.F, state.modes)
        return _advance(alternation, state)

    def _compare(self, spec: Spec, F: FloatArray) -> Any:
        """Return the store with the comparisons that a candidate learns from."""
        if isinstance(self.said, Classes) and not spec.neighbors:
            draws = np.random.default_rng(self._draw_seed)
            triplets = self.said.random_triplets(
                spec.n_similar, spec.n_dissimilar, spec.pairing, draws
            )
            return self.store.compare(Constraints.of_triplets(triplets, self.store.shape[0]))
        return self.store.compare(draw_comparisons(spec, self.store, self.said, F, self._rng()))

    def _rng(self) -> np.random.RandomState:
        return np.random.RandomState(self._seed)


def _advance(alternation: Alternation, state: State) -> Run:
    spec = alternation.spec
    return alternation, alternation.run(state, max_iter=spec.max_iter, tol=spec.tol).state


def search(
    parts: Sequence[Fold], candidates: Sequence[Candidate], n_first: int
) -> dict[Candidate, list[BoolArray]]:
    """Return what each candidate got right on the splits it was tried on, the chosen one first.

    All are tried on the first ``n_first`` parts. The worst are left out early, and every step goes
    on from where the one before ended. The first candidate is kept unless another is clearly
    better.
    """
    if not parts:
        return {Candidate(1, 300): []}  # too little to hold anything out
    n_samples = min(part.store.shape[0] for part in parts)
    candidates = [c for c in candidates if c.n_modes <= n_samples]
    first, rest = parts[:n_first], parts[n_first:]
    runs = {c: [part.begin(c) for part in first] for c in candidates}
    scores = {c: _scores(first, runs[c]) for c in candidates}
    kept = list(dict.fromkeys([candidates[0], *_ranked(scores, candidates)[:_N_KEPT]]))
    for c in kept:
        runs[c] += [part.begin(c) for part in rest]
        runs[c] = [part.go_on(run) for part, run in zip(parts, runs[c], strict=True)]
        scores[c] = _scores(parts, runs[c])
    best = _ranked(scores, kept)[0]
    strong = replace(best, ridge=_STRONG_RIDGE)
    scores[strong] = _scores(parts, [_ridged(*run) for run in runs[best]])
    finalists = _ranked(scores, [*kept, strong])
    chosen = finalists[0]
    if not _clearly_better(scores[chosen], scores[candidates[0]]):
        chosen = candidates[0]
    others = _ranked(scores, [c for c in scores if c not in finalists])
    return {c: scores[c] for c in dict.fromkeys([chosen, *finalists, *others])}


def _ridged(alternation: Alternation, state: State) -> Run:
    """Make further rounds with a stronger ridge."""
    strong = replace(alternation, spec=replace(alternation.spec, ridge=_STRONG_RIDGE))
    return _advance(strong, strong.start(state.F, state.modes))


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


def _scores(parts: Sequence[Fold], runs: Sequence[Run]) -> list[BoolArray]:
    return [part.score(state.F) for part, (_, state) in zip(parts, runs, strict=True)]


def _folds_of_classes(
    X: FloatArray,
    classes: Classes,
    device: str | None,
    rank: int | None,
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a fifth of each class, three times; samples without a label are not used."""
    rows, of = classes.rows, classes.of
    if len(rows) > _MAX_ROWS:
        some = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        rows, of = rows[some], of[some]
    labels = Classes.from_labels("MDaMLCV", of)
    parts = []
    for held_out in folds(labels, rng)[:_N_PARTS]:
        train, valid = rows[labels.rows[~held_out]], rows[labels.rows[held_out]]
        y, y_valid = of[labels.rows[~held_out]], of[labels.rows[held_out]]
        if len(valid):
            score = _vote_score(X[train], y, X[valid], y_valid)
            said = Classes.from_labels("MDaMLCV", y)
            parts.append(Fold(make_store(X[train], device), said, score, rank, rng))
    return parts


def _vote_score(
    X: FloatArray, y: IntArray, X_valid: FloatArray, y_valid: IntArray
) -> Callable[[FloatArray], BoolArray]:
    """Return whether the nearest samples under a metric vote for the class of held-out ones."""
    mean = X.mean(axis=0)
    samples, held_out = X - mean, X_valid - mean

    def score(F: FloatArray) -> BoolArray:
        # Not scikit-learn's classifier: its threads wait for each other when other work is going
        # on, and that took longer than all fits together.
        nearest, _ = nearest_rows(held_out @ F, samples @ F, _N_NEIGHBORS)
        votes = np.zeros((len(nearest), int(y.max()) + 1))
        for voter in nearest.T:
            votes[np.arange(len(votes)), y[voter]] += 1
        return votes.argmax(axis=1) == y_valid  # the lowest class of equals

    return score


def _folds_of_constraints(
    X: FloatArray,
    said: Constraints,
    device: str | None,
    rank: int | None,
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a third of the comparisons of each kind, three times."""
    kinds = np.repeat([0, 1, 2], [len(said.triplets), len(said.pairs), len(said.quadruplets)])
    kinds[kinds == 1] += np.where(said.pair_labels > 0, 2, 3)
    if np.bincount(kinds)[np.unique(kinds)].min() < _N_PARTS:
        return []
    order = rng.permutation(said.n_constraints)[:_MAX_COMPARISONS]
    order = order[np.argsort(kinds[order], kind="stable")]
    store, parts = make_store(X, device), []
    for number in range(_N_PARTS):
        held_out = np.arange(len(order)) % _N_PARTS == number
        score = _comparison_score(X - X.mean(axis=0), said.select(order[held_out]), rng)
        parts.append(Fold(store, said.select(order[~held_out]), score, rank, rng))
    return parts


def _comparison_score(
    X: FloatArray, held_out: Constraints, rng: np.random.RandomState
) -> Callable[[FloatArray], BoolArray]:
    """Return whether held-out comparisons hold under a metric."""
    compared = to_comparisons("MDaMLCV", held_out, rng)
    near, far = compared.triplets[:, [0, 1]], compared.triplets[:, [0, 2]]
    if len(compared.quadruplets):
        near, far = compared.quadruplets[:, :2], compared.quadruplets[:, 2:]

    def score(F: FloatArray) -> BoolArray:
        Y = rows_times(X, F.astype(X.dtype))
        return pair_sq_dists(Y, near) < pair_sq_dists(Y, far)

    return score
