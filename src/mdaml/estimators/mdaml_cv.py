"""MDaML that chooses its own parameters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mdaml._choosing import show_choices
from mdaml._progress import mute, report
from mdaml._typing import ArrayLike, FloatArray
from mdaml._validation import check_choice, check_magnitude, check_random_state, has_unit_rows
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.labels import Classes
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.learners import WeakLearner
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.mdaml_folds import (
    THE_START,
    Fold,
    change_all,
    folds_of_classes,
    folds_of_constraints,
    other_start,
)
from mdaml.estimators.posing import amount_anchors, check_low_rank, groups_of
from mdaml.estimators.presets import PRESETS, Partners
from mdaml.holdout.rule import (
    LEVEL,
    LEVEL_OF_LABELS,
    Gain,
    explain_more_than_swapping,
    find_leaders,
    measure_gain,
    prefer_first,
    warn_of_kept_start,
)
from mdaml.kernels.products import one_blas_thread
from mdaml.kernels.threads import side_by_side
from mdaml.stores.choice import find_device

Params = dict[str, Any]  # of MDaML; "start" names another method whose metric is the start

# Parts on which candidates are tried before the best go on: all of them on the first part, the best
# four on the second. One part of the comparisons has many of them.
_N_FIRST_OF_LABELS, _N_FIRST_OF_COMPARISONS = 2, 1
_N_SECOND = 4  # of those that go on to the second part
_N_KEPT = 2
_STRONG_RIDGE = 0.1
_SHRINKAGES = (0.25, 0.5, 0.75)

# The defaults of MDaML first. Few and unlike each other: the more there are, the more chance
# decides. Random partners with a low weight leave most to the clustering term: right where classes
# are round and overlap. Many similar and few dissimilar neighbours lie between the two. The metrics
# of other methods are far better starts on some sets and far worse on others.
FROM_LABELS: list[Params] = [
    {},
    {"n_modes": 1},
    {"partners": Partners(n_similar=3, n_dissimilar=10)},
    {"partners": Partners(n_similar=10, n_dissimilar=3), "triplet_weight": 8100.0},
    {"n_modes": 10, "triplet_weight": 1e4, "partners": "random", "max_iter": 10},
    {"start": "GMML"},
    {"start": "LFDA"},
    {"start": "DMLMJ"},
    THE_START,
]
FROM_COMPARISONS: dict[str, list[Params]] = {
    "comparisons": [
        {},
        *({"anchor": anchor} for anchor in (0.003, 0.1, 0.5, 2.0, 10.0)),
        {"anchor": 0.03, "triplet_weight": 60.0},
        THE_START,
    ],
    "neighbors": [
        {},
        *({"anchor": anchor} for anchor in (0.3, 1.0, 3.0, 10.0)),
        {"goal": "comparisons", "anchor": 0.1},
        THE_START,
    ],
}


@show_choices
class MDaMLCV(WeakLearner):
    """MDaML with all parameters chosen on held-out data: modes, weight, sampling, ridge.

    **Objective**: that of :class:`MDaML`.

    **Supervision**: the same as :class:`MDaML`. With labels the parameters are scored by
    the share of the three nearest neighbours of held-out samples that are of their class. Otherwise
    points are held out, with the comparisons in which they are the reference. The score depends on
    the goal: the share of these comparisons that hold, or the share of points whose nearest item,
    among all they were compared with, was called near.

    **Prefer it** to :class:`MDaML` from labels if you can afford about five times the fitting time.

    The start itself is a candidate. Unless something leads it by more than chance, it is returned,
    bit for bit, with a warning. Among those that lead it, the defaults are kept unless another
    candidate is better by half a standard error of the difference: with few samples the best score
    is mostly luck. A candidate that cannot be fitted is left out.

    Parameters
    ----------
    goal : {"auto", "comparisons", "neighbors"}, default="auto"
        What the metric is for, see :class:`MDaML`.
    n_components : int or None, default=None
        Rank of the learned metric, see :class:`MDaML`; everything else is chosen for this rank.
    device : {None, "cpu", "cuda", "auto"}, default=None
        Where to compute, see :class:`MDaML`.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    random_state : int, Generator, RandomState or None, default=None
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
        Their mean score on held-out data; it is optimistic, because the highest was chosen.
    gain_ : dict or None
        What was gained over the start on held-out data, see :class:`MDaML`.
    start_kept_ : bool
        Whether the metric is the start, because nothing led it by more than chance.
    cv_results_ : dict
        ``params``, ``mean_test_score`` and ``n_splits`` of every candidate, the chosen one first,
        then the best. Candidates with fewer splits were left out early; their scores are not
        comparable with the others'. Of many samples there is one split, see Notes.
    history_, n_iter_
        Those of the best estimator.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    MDaML : One fit with given parameters.
    mdaml.model_selection.MetricSearchCV : Searches any parameters of any method.

    Notes
    -----
    **Cost**: about five fits of :class:`MDaML`, in the memory of one fit. All candidates run two
    rounds on one split; with labels the best four and the defaults of :class:`MDaML` do so on a
    second one. The best two and the defaults then continue on all splits, three or, with labels,
    five, with neighbours searched again. With labels, the best of all is also tried with a stronger
    ridge, and moved part of the way back to its start. Every step continues from where the previous
    one ended. The search uses at most 20 000 samples; of more labelled samples it holds out a
    single part, 4000. Candidates share samples, neighbours, first modes and equal runs.

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
    >>> model.best_estimator_.n_modes_
    3
    """

    def __init__(
        self,
        *,
        goal: Literal["auto", "comparisons", "neighbors"] = "auto",
        n_components: int | None = None,
        device: Literal["cpu", "cuda", "auto"] | None = None,
        verbose: int = 0,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.goal = goal
        self.n_components = n_components
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def summary(self) -> str:
        """Return what was chosen, the values in force, and what was gained on held-out data.

        Returns
        -------
        text : str
            To be printed.

        Examples
        --------
        >>> from mdaml import MDaMLCV
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> print(MDaMLCV(random_state=0).fit(X, y).summary().splitlines()[0])
        MDaMLCV: 300 samples of 2 features, 300 labels of 2 classes
        """
        check_is_fitted(self, "components_")
        from mdaml.estimators.summary import describe_fit

        return describe_fit(self)

    def _fit(
        self, X: ArrayLike, samples: FloatArray, supervision: Supervision, persons: Persons | None
    ) -> None:
        rank = check_low_rank(self, samples.shape[1])
        check_choice(self, "goal", self.goal, ["auto", "comparisons", "neighbors"])
        check_choice(self, "device", self.device, [None, "cpu", "cuda", "auto"])
        device = find_device("MDaMLCV(device=...)", self.device)
        check_magnitude(samples - samples.mean(axis=0))
        rng = check_random_state(self.random_state)
        own: Params = {"goal": self.goal, "n_components": rank}
        groups = None
        if self.goal == "neighbors" and persons is None and isinstance(supervision, Constraints):
            groups = groups_of(supervision)
        if groups is not None:
            supervision, own["shrinkage"] = groups, 0.0 if rank else PRESETS["groups"].shrinkage
        with one_blas_thread():
            if isinstance(supervision, Classes):
                own.setdefault("shrinkage", 0.0)
                parts = folds_of_classes(samples, supervision, device, own, rng, FROM_LABELS)
                if not parts and groups is None:
                    del own["shrinkage"]  # MDaML keeps the start, and says so
                candidates, n_first = FROM_LABELS, _N_FIRST_OF_LABELS
            else:
                goal = "comparisons" if self.goal == "auto" else self.goal
                parts = folds_of_constraints(samples, supervision, device, own, goal, rng)
                candidates = _list_candidates(goal, supervision, samples)
                n_first = _N_FIRST_OF_COMPARISONS
            tried, scores, gain = search(parts, candidates, n_first)
        best = dict(tried[0])
        if best == THE_START:
            warn_of_kept_start(gain)
        if "start" in best:
            best["init_metric"] = other_start(best.pop("start"), samples, supervision, device)
        model = MDaML(
            **{**own, **best},
            device=self.device,
            random_state=int(rng.randint(2**31 - 1)),
        )
        model._fit(X, samples, supervision, persons, measured=gain)
        self._store(
            X,
            model.components_,
            model.components_.dtype,
            best_estimator_=model,
            best_params_=best,
            best_score_=_mean(scores[0]),
            gain_=None if gain is None else gain.as_dict(),
            start_kept_=model.start_kept_,
            cv_results_={
                "params": tried,
                "mean_test_score": np.array([_mean(right) for right in scores]),
                "n_splits": np.array([len(right) for right in scores]),
            },
            history_=model.history_,
            n_iter_=model.n_iter_,
        )


def _list_candidates(goal: str, supervision: Constraints, samples: FloatArray) -> list[Params]:
    """Return the candidates for comparisons, without anchors below those that MDaML would try.

    Comparisons of few points cannot tell weak anchors apart.
    """
    cell: Any = PRESETS[goal].anchor
    least = min(amount_anchors(cell, supervision, samples.shape[1], has_unit_rows(samples)))
    return [p for p in FROM_COMPARISONS[goal] if p.get("anchor", np.inf) >= least]


def search(
    parts: Sequence[Fold], candidates: Sequence[Params], n_first: int
) -> tuple[list[Params], list[list[FloatArray]], Gain | None]:
    """Return the candidates, the chosen one first, their scores by splits, and the gain of it.

    All are tried on the first part, the best four on the others of the first ``n_first``, and the
    best two on all; every step goes on from where the one before ended. The last candidate is the
    start, which is kept unless another leads it by more than chance.
    """
    if not parts:
        return [{}], [[]], None  # too little to hold anything out
    n_samples = min(part.store.shape[0] for part in parts)
    tried = [params for params in candidates if params.get("n_modes", 1) <= n_samples]
    tried += [] if THE_START in tried else [THE_START]
    first, rest = parts[:n_first], parts[n_first:]
    begun = _begin_all(first[:1], tried)
    tried = [params for params, run in zip(tried, begun, strict=True) if run is not None]
    runs = [run for run in begun if run is not None]
    scores = [_scores(first[:1], run) for run in runs]
    start = tried.index(THE_START)
    learned = [c for c in range(len(tried)) if c != start]
    left = list(dict.fromkeys([0, start, *_ranked(scores, learned)[:_N_SECOND]]))
    for c, more in zip(left, _begin_all(first[1:], [tried[c] for c in left]), strict=True):
        if more is not None:
            runs[c], scores[c] = runs[c] + more, scores[c] + _scores(first[1:], more)
    best_first = _ranked(scores, [c for c in left if c != start and len(runs[c]) == len(first)])
    kept = list(dict.fromkeys([0, *best_first[:_N_KEPT], start]))

    def go_on(c: int) -> list[Any] | None:
        others = _begin(rest, tried[c])
        if others is None:
            return None
        with mute():
            return [part.go_on(run) for part, run in zip(parts, runs[c] + others, strict=True)]

    ended = side_by_side(go_on, [(c,) for c in kept], parts[0].n_at_once)
    learned = []
    for n, c in enumerate(kept):
        report("best candidates", n, len(kept))
        run = next(ended)
        if run is not None:
            runs[c], scores[c] = run, _scores(parts, run)
            learned += [c] if c != start else []
    if isinstance(parts[0].supervision, Classes):
        best = _ranked(scores, learned)[0]
        for change in ({"ridge": _STRONG_RIDGE}, *({"shrinkage": back} for back in _SHRINKAGES)):
            tried.append({**tried[best], **change})
            scores.append(change_all(parts, runs[best], scores[best], change))
            learned += [len(tried) - 1] if len(scores[-1]) == len(parts) else []
    chosen, gain = _choose(parts, scores, start, learned)
    finalists = _ranked(scores, [*learned, start])
    others = _ranked(scores, [c for c in range(len(tried)) if c not in finalists])
    order = dict.fromkeys([chosen, *finalists, *others])
    return [tried[c] for c in order], [scores[c] for c in order], gain


def _choose(
    parts: Sequence[Fold], scores: Sequence[list[FloatArray]], start: int, learned: Sequence[int]
) -> tuple[int, Gain]:
    """Return the candidate to take, by the rule for every choice, and what it gains."""
    of_labels = isinstance(parts[0].supervision, Classes)
    units = np.unique(np.concatenate([part.units for part in parts]), return_inverse=True)[1]
    before, others = np.concatenate(scores[start]), [np.concatenate(scores[c]) for c in learned]
    # Those that were left out early count as candidates too, level with the start where they were
    # not tried: otherwise the best of many would be tested as if there had been few.
    out = [scores[c] for c in range(len(scores)) if c not in learned and c != start]
    early = [np.concatenate([*own, *scores[start][len(own) :]]) for own in out]
    level = LEVEL_OF_LABELS if of_labels else LEVEL
    leads = find_leaders(before, np.array([*others, *early]), units, level=level)[: len(others)]
    if not of_labels and parts[0].compares:
        leads &= explain_more_than_swapping(before, np.array(others))
    place = prefer_first(np.array(others), leads if leads.any() else None)
    name = "votes" if of_labels else "comparisons"
    gain = measure_gain(name, before, others[place], units)
    gain = replace(gain, is_beyond_chance=bool(leads[place]))
    return (learned[place] if leads.any() else start), gain


def _begin_all(parts: Sequence[Fold], tried: Sequence[Params]) -> list[list[Any] | None]:
    """Return the first rounds of all candidates on some parts, None where one cannot be fitted."""
    if not parts:
        return [[] for _ in tried]
    # The start second: it wants the same neighbours as the first, which are not kept for long.
    order = sorted(range(len(tried)), key=lambda c: (c > 0, tried[c] != THE_START))
    calls, runs = [(parts, tried[c]) for c in order], dict[int, list[Any] | None]()
    report("candidates", 0, len(tried))
    for c, run in zip(order, side_by_side(_begin, calls, parts[0].n_at_once), strict=True):
        runs[c] = run
        report("candidates", len(runs), len(tried))
    return [runs[c] for c in range(len(tried))]


def _begin(parts: Sequence[Fold], params: Params) -> list[Any] | None:
    """Return the first rounds of a candidate; None if another method cannot make its start."""
    with mute():
        try:
            return [part.begin(params) for part in parts]
        except (ValueError, ArithmeticError):
            if "start" not in params:
                raise
            return None


def _ranked(scores: Sequence[list[FloatArray]], candidates: Sequence[int]) -> list[int]:
    """Return candidates by their mean score, the best first; among equals those listed first."""
    return sorted(candidates, key=lambda c: -_mean(scores[c]))


def _mean(right: Sequence[FloatArray]) -> float:
    return float(np.mean(np.concatenate(right))) if right else float("nan")


def _scores(parts: Sequence[Fold], runs: Sequence[Any]) -> list[FloatArray]:
    return [part.right(run) for part, run in zip(parts, runs, strict=True)]
