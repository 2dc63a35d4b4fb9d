"""MDaML that chooses its own parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from mdaml._typing import ArrayLike, BoolArray, FloatArray
from mdaml._validation import check_choice, check_magnitude
from mdaml.constraints.arguments import Said
from mdaml.constraints.labels import Classes
from mdaml.estimators.learners import WeakLearner
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.mdaml_folds import (
    Fold,
    Run,
    folds_of_classes,
    folds_of_constraints,
    with_ridge,
)
from mdaml.estimators.mdaml_spec import check_low_rank
from mdaml.kernels.products import one_blas_thread
from mdaml.solver.spec import Spec
from mdaml.stores.choice import find_device

_ETA = 3.0
_TOL = 1e-4
_ROUNDS = 2  # at a time; after the first of them most candidates are left out
# Parts on which all candidates are tried. One part of the comparisons has many of them.
_N_FIRST_OF_LABELS, _N_FIRST_OF_COMPARISONS = 2, 1
_N_KEPT = 2
STRONG_RIDGE = 0.1


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
                parts = folds_of_classes(samples, said, device, rank, rng)
                scores = search(parts, FROM_LABELS, _N_FIRST_OF_LABELS)
            else:
                parts = folds_of_constraints(samples, said, device, rank, rng)
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
    runs = {c: [part.begin(c.spec(part.rank)) for part in first] for c in candidates}
    scores = {c: _scores(first, runs[c]) for c in candidates}
    kept = list(dict.fromkeys([candidates[0], *_ranked(scores, candidates)[:_N_KEPT]]))
    for c in kept:
        runs[c] += [part.begin(c.spec(part.rank)) for part in rest]
        runs[c] = [part.go_on(run) for part, run in zip(parts, runs[c], strict=True)]
        scores[c] = _scores(parts, runs[c])
    best = _ranked(scores, kept)[0]
    strong = replace(best, ridge=STRONG_RIDGE)
    scores[strong] = _scores(parts, [with_ridge(*run, STRONG_RIDGE) for run in runs[best]])
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


def _scores(parts: Sequence[Fold], runs: Sequence[Run]) -> list[BoolArray]:
    return [part.score(state.F) for part, (_, state) in zip(parts, runs, strict=True)]
