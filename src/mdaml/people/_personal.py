"""One metric for all persons, metrics of kinds of people, and one for each person."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from mdaml._choosing import show_choices
from mdaml._progress import show
from mdaml._typing import ArrayLike, FloatArray, Params
from mdaml._validation import check_integer, check_magnitude, check_number, ignore_warnings
from mdaml.constraints.arguments import check_supervision, constraints_of, persons_of
from mdaml.constraints.names import get_index
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators import MDaML
from mdaml.estimators.base import MahalanobisTransformer, page_of
from mdaml.estimators.mdaml_warnings import warn_of_swapped
from mdaml.holdout.units import COPY, same_rows
from mdaml.people._choice import Chosen, choose_size, fit_all, warn_of_lone, warn_of_persons
from mdaml.people._handover import PersonalHandover
from mdaml.people._mixture import Heard, Kinds, fit_persons, place_persons
from mdaml.people._scores import PersonalScores

_FORMS = ("triplets", "quadruplets")


@show_choices
class PersonalMetrics(PersonalHandover, PersonalScores, MahalanobisTransformer):
    r"""Learn metrics of kinds of people, and of each person, from answers with known authors.

    Kinds of people look at different things. First, one metric is learned from all answers. A kind
    k has a metric near this one, which may differ in any direction:
    :math:`L^\top (b_{k0} I + V B_k V^\top) L` with the *coefficients* :math:`b_k`. A person p is of
    kind k with the probability :math:`r_{pk}`, and gives a share :math:`e_p` of the answers the
    wrong way round: an answer is given with the probability
    :math:`(1 - e_p)\, \sigma(m) + e_p\, \sigma(-m)`, where
    :math:`m = d^2(\text{far}) - d^2(\text{near})` under the metric of the kind. Persons have the
    mean of the kinds with these probabilities, or metrics of their own that are pulled to it.

    **Objective**: minus the log probability of all answers, with weak priors of coefficients and
    errors. EM never raises it; of several starts the best is kept.

    **Special cases**: one metric for all (``n_kinds=1, pull=None``), kinds alone (``pull=None``),
    and a separate metric for each person (``n_kinds=1`` and a small ``pull``).

    Parameters
    ----------
    metric : estimator of mdaml, default=None
        Learned from all answers first; a copy is fitted. None is ``MDaML()``. Kinds and persons
        have metrics of the same form; with :class:`mdaml.LocalMDaML` they share its places.
    n_kinds : int or "auto", default="auto"
        Number of kinds. "auto" chooses by answers that are held out: several kinds must lead the
        shared metric, and one kind, by more than chance. At most 6, and one for two persons.
    pull : float, None or "auto", default="auto"
        How strongly metrics of persons are pulled to those of their kinds. None: persons have the
        metric of their kind. "auto" tries None, 30, 3 and 0.3; metrics of their own must lead.
    n_starts : int, default=48
        Number of starts of EM. After five rounds the best sixth of them goes on.
    max_iter : int, default=50
        Maximum number of rounds of EM.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.

    Attributes
    ----------
    metric_ : estimator
        The metric of all answers; ``components_`` is its map L.
    persons_ : array of shape (n_persons,)
        Their names, sorted.
    n_kinds_, pull_ : int, and float or None
        The values used.
    kind_of_person_, kind_probabilities_ : arrays of shape (n_persons,) and (n_persons, n_kinds)
        The most probable kind of each person, and how probable each is. Kind 0 has most persons.
    kinds_, kind_shares_ : list of estimators, and array of shape (n_kinds,)
        The metric of each kind, a copy of ``metric_`` with other ``components_``; and its share.
    errors_ : array of shape (n_persons,)
        Estimated share of wrong answers of each person, given their kind. Somebody who answers at
        random may be a kind of their own with few errors: :func:`mdaml.audit` judges persons.
    kind_coefficients_, coefficients_ : arrays of shape (n_kinds, q) and (n_persons, q)
        Coefficients of the kinds and of the persons.
    kind_covariances_ : array of shape (n_kinds, 2, q, q)
        Two covariances of the coefficients of each kind, for intervals: one is due to the number of
        answers, one to how much persons of a kind differ. Empty if everybody has the shared metric.
    axes_, unit_ : array and float
        V and the unit of the first coefficient.
    start_kept_ : bool
        Whether everybody has the shared metric, because nothing led it by more than chance.
    gain_ : dict or None
        Held-out answers that hold under the shared metric and under what was chosen, as for
        :class:`mdaml.MDaML`.
    tried_ : list of dict
        What was tried: ``n_kinds`` (0: the shared metric as it is), ``pull``, ``score``,
        ``is_chosen``.
    history_, n_iter_, n_features_in_
        The objective after every round, the number of rounds, and the number of columns of X.

    See Also
    --------
    mdaml.MDaML : With ``who=``, one metric for all that weighs persons by how often they are wrong.
    mdaml.inspection.describe_kinds : What each kind looks at, with intervals.
    mdaml.plot.plot_kinds : Draws it.

    Notes
    -----
    **Cost**: a round takes :math:`O(K n q^2)` for n answers. With up to 12 features, metrics
    may differ in all directions; with more, in the 12 directions to which the answers give most
    weight. The number of kinds is chosen with at most 10 000 answers, and EM gets at most
    20 000, of persons drawn at random; the other persons are then placed.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.people import PersonalMetrics
    >>> X, eye = np.random.default_rng(0).normal(size=(60, 3)), np.eye(3)
    >>> triplets = [
    ...     make_triplets(X, n_triplets=60, components=eye[p % 2 : p % 2 + 1], random_state=p)[0]
    ...     for p in range(8)
    ... ]
    >>> T, who = np.concatenate(triplets), np.repeat(np.arange(8), 60)
    >>> model = PersonalMetrics().fit(X, triplets=T, who=who)
    >>> model.n_kinds_, bool(len(set(model.kind_of_person_[::2])) == 1)
    (2, True)
    >>> model.score_triplets(X, T, who=who) > 0.9 > model.score_triplets(X, T)
    True
    """

    _doc_link_template = page_of("people.PersonalMetrics")

    pull_: float | None
    kind_covariances_: FloatArray
    errors_: FloatArray

    def __init__(
        self,
        metric: BaseEstimator | None = None,
        *,
        n_kinds: Any = "auto",
        pull: Any = "auto",
        n_starts: int = 48,
        max_iter: int = 50,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.n_kinds = n_kinds
        self.pull = pull
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: None = None,
        *,
        triplets: ArrayLike | None = None,
        quadruplets: ArrayLike | None = None,
        constraints: Constraints | None = None,
        constraint_weight: ArrayLike | None = None,
        who: ArrayLike | None = None,
    ) -> Self:
        """Learn the metrics of all persons.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            There are no labels.
        triplets, quadruplets : array-like, optional
            Row numbers, as for :meth:`mdaml.MDaML.fit`.
        constraints : Constraints, optional
            The same in one value; without pairs.
        constraint_weight : array-like, optional
            Positive weights: 2 counts like an answer given twice.
        who : array-like of shape (n_comparisons,) or str
            Who gave each answer: a string or integer for each comparison, triplets first; or the
            name of a column of ``constraints``.

        Returns
        -------
        self : PersonalMetrics
            The fitted estimator.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.persons_
        array(['ann', 'bob'], dtype='<U3')
        """
        metric = self._check_parameters()
        given = {"triplets": triplets, "quadruplets": quadruplets, "constraints": constraints}
        given["constraint_weight"] = constraint_weight
        samples, answers = check_supervision(self, _FORMS, X, y, **given)
        assert isinstance(answers, Constraints)
        persons = _check_persons(answers, who)
        check_magnitude(samples - samples.mean(axis=0))
        if self.n_kinds != "auto" and self.n_kinds > len(persons):
            raise ValueError(
                f"PersonalMetrics(n_kinds=...) must be at most the number of persons, which is "
                f"{len(persons)}; got {self.n_kinds}."
            )
        with show(self):
            # Where persons contradict each other, what all share may be hardly more than the start.
            with ignore_warnings(UserWarning):
                shared = _learn(metric, X, answers)
                learn = partial(_learn, _with_choices_of(shared, metric), X)
                points, asked = same_rows(samples, COPY), (self.n_kinds, self.pull)
                chosen = choose_size(answers, persons, points, learn, samples, asked)
            options = {"n_starts": self.n_starts, "max_iter": self.max_iter}
            found = fit_all(shared, samples, answers, persons, chosen.size, **options)
        self._keep(found, chosen)
        warn_of_swapped(samples, answers, None)  # the fits above are silent
        warn_of_persons(chosen.gain, shared, is_kept=self.start_kept_)
        warn_of_lone(self.persons_, self.kind_of_person_)
        return self

    def add_persons(
        self,
        X: ArrayLike,
        *,
        triplets: ArrayLike | None = None,
        quadruplets: ArrayLike | None = None,
        constraints: Constraints | None = None,
        constraint_weight: ArrayLike | None = None,
        who: ArrayLike | None = None,
    ) -> Self:
        """Learn the metrics of new persons; those of others, and the kinds, stay as they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        triplets, quadruplets, constraints, constraint_weight, who : optional
            As for :meth:`fit`. A known person gets a metric from these answers alone.

        Returns
        -------
        self : PersonalMetrics
            The estimator, with more persons.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.add_persons(X, triplets=T[:1], who=["cem"]).persons_
        array(['ann', 'bob', 'cem'], dtype='<U3')
        """
        given: Params = {"triplets": triplets, "quadruplets": quadruplets}
        heard = self._hear(X, constraints, constraint_weight, given, who)
        new = heard.persons.names
        self._find_places(new)  # names of another kind are refused, not turned into texts
        placed = place_persons(heard, self._get_kinds())
        own = placed.own if self.pull_ is None else fit_persons(heard, placed, self.pull_)
        kept = ~np.isin(self.persons_, new)
        names = np.concatenate([self.persons_[kept], new])
        order = np.argsort(names)
        parts = {
            "coefficients_": self._coordinates.cut(own),
            "kind_probabilities_": placed.of_person,
            "errors_": placed.errors,
        }
        for name, values in parts.items():
            setattr(self, name, np.concatenate([getattr(self, name)[kept], values])[order])
        self.persons_ = names[order]
        return self

    def place(
        self,
        X: ArrayLike,
        *,
        triplets: ArrayLike | None = None,
        quadruplets: ArrayLike | None = None,
        constraints: Constraints | None = None,
    ) -> FloatArray:
        """Return how probable each kind is for a new person, from a few answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        triplets, quadruplets, constraints : optional
            Answers of one person, as for :meth:`fit`.

        Returns
        -------
        probabilities : array of shape (n_kinds,)
            They sum to one. The model stays as it is; see :meth:`add_persons`.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1).fit(X, triplets=T, who=["ann", "bob"])
        >>> model.place(X, triplets=T)
        array([1.])
        """
        given: Params = {"triplets": triplets, "quadruplets": quadruplets}
        heard = self._hear(X, constraints, None, given, None)
        probabilities: FloatArray = place_persons(heard, self._get_kinds()).of_person[0]
        return probabilities

    def _check_parameters(self) -> MahalanobisTransformer:
        """Refuse bad parameters; return the metric to learn first."""
        check_integer(self, "max_iter", self.max_iter, 1)
        check_integer(self, "n_starts", self.n_starts, 1)
        if self.n_kinds != "auto":
            check_integer(self, "n_kinds", self.n_kinds, 1)
        if self.pull is not None and self.pull != "auto":
            check_number(self, "pull", self.pull, 0.0, strict=True)
        metric = MDaML() if self.metric is None else self.metric
        if not isinstance(metric, MahalanobisTransformer):
            raise TypeError(
                "PersonalMetrics(metric=...) must be a metric of mdaml, such as MDaML(); got "
                f"{type(metric).__name__}."
            )
        return metric

    def _get_kinds(self) -> Kinds:
        return Kinds(
            self.kind_coefficients_, self.kind_shares_, self.errors_, self.kind_probabilities_
        )

    def _hear(
        self,
        X: ArrayLike,
        constraints: Constraints | None,
        weights: ArrayLike | None,
        given: Params,
        who: ArrayLike | None,
    ) -> Heard:
        """Return features of new answers; without ``who`` they are those of one person."""
        check_is_fitted(self, "coefficients_")
        samples = self.metric_._check(X)
        answers = constraints_of(len(samples), constraints, weights, get_index(X), **given)
        if who is None:
            who = np.zeros(answers.n_constraints, np.int64)
        persons = _check_persons(answers, who)
        check_magnitude(samples - samples.mean(axis=0))
        Y = self.metric_._map(samples).astype(np.float64, copy=False)
        features = self._coordinates.features(Y, answers.comparisons())
        return Heard.of(features, answers.weights, persons)

    def _keep(self, found: Any, chosen: Chosen) -> None:
        """Set all that was learned."""
        space, kinds, own, spread = found
        self.metric_, self.persons_ = space.metric, space.heard.persons.names
        self.start_kept_, self.tried_ = chosen.size == (0, None), chosen.tried
        self.n_kinds_, self.pull_ = len(kinds.shares), chosen.size.pull
        self.axes_, self.unit_ = space.coordinates.axes, space.coordinates.unit
        self.kind_coefficients_, self.kind_shares_ = kinds.coefficients, kinds.shares
        self.kind_probabilities_, self.errors_ = kinds.of_person, kinds.errors
        self.coefficients_, self.kind_covariances_ = own, spread
        self.gain_ = None if chosen.gain is None else chosen.gain.as_dict()
        self.history_, self.n_iter_ = np.array(kinds.history), len(kinds.history)
        for name in ("components_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(space.metric, name):
                setattr(self, name, getattr(space.metric, name))


def _learn(metric: BaseEstimator, X: ArrayLike, answers: Constraints) -> BaseEstimator:
    return clone(metric).fit(X, constraints=answers)


def _with_choices_of(fitted: BaseEstimator, metric: BaseEstimator) -> BaseEstimator:
    """Return the metric with what its fit to all answers chose, for fits to some of them.

    The start, if that was kept, is not a choice that these can repeat.
    """
    if getattr(fitted, "start_kept_", False):
        return metric
    params = metric.get_params(deep=False)
    chosen = {
        name: getattr(fitted, f"{name}_")
        for name in ("anchor", "n_places", "n_maps")
        if isinstance(params.get(name), str) and hasattr(fitted, f"{name}_")
    }
    return clone(metric).set_params(**chosen)


def _check_persons(answers: Constraints, who: ArrayLike | None) -> Persons:
    """Return who gave each comparison; there must be persons."""
    if who is None:
        raise ValueError(
            "PersonalMetrics needs who=, a name for each comparison. Without persons there is one "
            "metric: MDaML learns it."
        )
    return persons_of(answers, who)
