"""One metric for all persons, and one for each."""

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mdaml._progress import show
from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml._validation import check_integer, check_number
from mdaml.constraints.arguments import check_supervision, constraints_of
from mdaml.constraints.forms.triplets import check_triplets
from mdaml.constraints.names import get_index
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators import MDaML
from mdaml.estimators.base import MahalanobisTransformer, page_of
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.people._choice import SharedSpace, learn_people, warn_of_persons
from mdaml.people._features import Answers, Coordinates, check_persons
from mdaml.people._variational import Fitted, Prior, place_persons, shared_by_all, shrinkage_of

_FORMS = ("triplets", "quadruplets")


class PersonalMetrics(BaseEstimator):
    r"""Learn one metric for all persons and one for each, from answers with known authors.

    A metric learned from all answers gives the space. In it a person p has the metric
    :math:`L^\top \operatorname{diag}(S_p, c_p I) L` with a symmetric :math:`S_p` on the leading
    axes: q numbers :math:`b_p`, the *coefficients*. An answer of p is right with the probability
    :math:`\sigma(d_p^2(\text{far}) - d_p^2(\text{near}))` under that metric. Coefficients are
    pulled towards those of a group, :math:`b_p \sim \mathcal N(u_g, V)`; all of this is learned.
    A person with few answers gets nearly the metric of the group, one with many gets their own.

    **Objective**: minus a lower bound of the log evidence of all answers (variational Bayes with a
    Gaussian for each person and the bound of [1]_ for the sigmoid), which never rises.

    Parameters
    ----------
    metric : estimator of mdaml, default=None
        Learned from all answers first; a copy is fitted. None is ``MDaML()``.
    n_directions : int, default=4
        Axes of that metric, the longest, on which persons may differ in any way: q is
        ``n_directions (n_directions + 1) / 2``, and one more if there are other axes, which each
        person stretches by their own factor.
    n_groups : int or "auto", default="auto"
        Number of groups of persons. "auto" chooses by answers that are held out, with the rule
        for every choice: everybody keeps the shared metric, with a warning, unless metrics of their
        own lead it by more than chance. Of several groups there are at most 8, as long as BIC falls
        (``log(n)/2`` for each of ``G q + G - 1`` numbers of G > 1 groups, for one of one group). A
        number is used in any case.
    max_iter : int, default=200
        Maximum number of rounds of persons and groups.
    tol : float, default=1e-5
        Stop when a round lowers the objective by less than this fraction.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.

    Attributes
    ----------
    metric_ : estimator
        The metric of all answers; L is its ``components_``.
    persons_ : array of shape (n_persons,)
        Their names, sorted.
    coefficients_ : array of shape (n_persons, q)
        Of each person.
    shrinkage_ : array of shape (n_persons,)
        Share of a person's coefficients that comes from the group, near 1 after few answers.
    group_of_person_ : array of shape (n_persons,)
        The most probable group.
    group_coefficients_, group_shares_ : arrays of shape (n_groups, q) and (n_groups,)
        The groups, the largest first.
    covariance_ : array of shape (q, q)
        How persons of a group differ in their coefficients.
    start_kept_ : bool
        Whether everybody has the shared metric, since nothing led it.
    gain_ : dict or None
        Held-out answers that hold under the shared metric and under their own, as for
        :class:`mdaml.MDaML`.
    history_, n_iter_, n_features_in_
        The objective after every round, the number of rounds, and of columns of X.

    See Also
    --------
    mdaml.MDaML : With ``who=``, one metric for all that weighs persons by how often they are wrong.

    Notes
    -----
    **Cost**: a round takes :math:`O(n q^2 + P q^3)` for n answers of P persons, memory beyond X and
    the answers :math:`O(P q)`.

    References
    ----------
    .. [1] T. S. Jaakkola, M. I. Jordan, "Bayesian parameter estimation via variational methods",
       Statistics and Computing 10, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.people import PersonalMetrics
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> first, _ = make_triplets(X, n_triplets=300, components=[[1.0, 0.0]], random_state=0)
    >>> second, _ = make_triplets(X, n_triplets=300, components=[[0.0, 1.0]], random_state=1)
    >>> T, who = np.concatenate([first, second]), np.repeat(["ann", "bob"], 300)
    >>> model = PersonalMetrics().fit(X, triplets=T, who=who)
    >>> model.score_triplets(X, T, who=who) > 0.9 > model.score_triplets(X, T)
    True
    """

    _doc_link_module = "mdaml"
    _doc_link_template = page_of("people.PersonalMetrics")

    metric_: Any
    persons_: npt.NDArray[Any]
    coefficients_: FloatArray
    shrinkage_: FloatArray
    group_of_person_: IntArray
    group_shares_: FloatArray
    _coordinates: Coordinates
    _prior: Prior

    def __init__(
        self,
        metric: Any = None,
        *,
        n_directions: int = 4,
        n_groups: Any = "auto",
        max_iter: int = 200,
        tol: float = 1e-5,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.n_directions = n_directions
        self.n_groups = n_groups
        self.max_iter = max_iter
        self.tol = tol
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
        who : array-like of shape (n_comparisons,)
            A string or integer for each comparison, triplets first: who said so.

        Returns
        -------
        self : PersonalMetrics
            The fitted estimator.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_groups=1)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.persons_
        array(['ann', 'bob'], dtype='<U3')
        """
        check_integer(self, "max_iter", self.max_iter, 1)
        check_number(self, "tol", self.tol, 0.0)
        check_integer(self, "n_directions", self.n_directions, 1)
        if self.n_groups != "auto":
            check_integer(self, "n_groups", self.n_groups, 1)
        metric = MDaML() if self.metric is None else self.metric
        if not isinstance(metric, MahalanobisTransformer):
            raise TypeError(
                "PersonalMetrics(metric=...) must be a metric of mdaml, such as MDaML(); got "
                f"{type(metric).__name__}."
            )
        given = {"triplets": triplets, "quadruplets": quadruplets, "constraints": constraints}
        given["constraint_weight"] = constraint_weight
        samples, said = check_supervision(self, _FORMS, X, y, **given)
        assert isinstance(said, Constraints)
        persons = check_persons(said, who, self.n_groups)
        with show(self):
            space, learned, gain = learn_people(self, metric, (X, samples), said, persons)
        self._keep(space, persons.names, learned)
        self.gain_ = None if gain is None else gain.as_dict()
        warn_of_persons(gain, space.metric, is_kept=self.start_kept_)
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
        """Learn the metrics of new persons; those of others, and the groups, stay as they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        triplets, quadruplets, constraints, constraint_weight, who : optional
            As for :meth:`fit`. A known person gets the metric of these answers alone.

        Returns
        -------
        self : PersonalMetrics
            The estimator, with more persons.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_groups=1)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.add_persons(X, triplets=T[:1], who=["cem"]).persons_
        array(['ann', 'bob', 'cem'], dtype='<U3')
        """
        check_is_fitted(self, "coefficients_")
        samples = self.metric_._check(X)
        given: dict[str, Any] = {"triplets": triplets, "quadruplets": quadruplets}
        said = constraints_of(len(samples), constraints, constraint_weight, get_index(X), **given)
        persons = check_persons(said, who)
        self._places(persons.names)  # names of another kind are refused, not turned into texts
        if self.start_kept_:  # new persons are no exception
            new = shared_by_all(self._coordinates, len(persons)).posterior
        else:
            answers = Answers.of(self._coordinates, self.metric_._map(samples), said, persons)
            new = place_persons(answers, self._prior)
        kept = ~np.isin(self.persons_, persons.names)
        names = np.concatenate([self.persons_[kept], persons.names])
        order = np.argsort(names)
        parts = {
            "coefficients_": new.means,
            "shrinkage_": shrinkage_of(self._prior, new),
            "group_of_person_": new.groups.argmax(axis=1),
        }
        for name, values in parts.items():
            setattr(self, name, np.concatenate([getattr(self, name)[kept], values])[order])
        self.persons_ = names[order]
        return self

    def metric_for(self, who: Any = None) -> Any:
        """Return the metric of a person as an estimator of its own, which can be saved and so on.

        Parameters
        ----------
        who : str or int, optional
            A person. None, or one who gave no answer, has the metric that all share.

        Returns
        -------
        metric : estimator
            A copy of ``metric_`` with other ``components_``. Its unit is such that an answer is
            right with the probability ``sigmoid(d2(far) - d2(near))``.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_groups=1)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.metric_for("ann").get_mahalanobis_matrix().shape
        (2, 2)
        """
        check_is_fitted(self, "coefficients_")
        place = -1 if who is None else self._places(np.asarray([who]))[0]
        if self.start_kept_:
            return copy(self.metric_)  # bit for bit
        coefficients = self._prior.shared if place < 0 else self.coefficients_[place]
        metric = copy(self.metric_)
        L = self.metric_.components_
        found = self._coordinates.components(coefficients, L.astype(np.float64))
        metric.components_ = found.astype(L.dtype)
        return metric

    def transform(self, X: ArrayLike, who: Any = None) -> FloatArray:
        """Map samples so that Euclidean distance between them is the distance of a person.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        who : str or int, optional
            A person. None, or one who gave no answer, has the metric that all share.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            The mapped samples.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_groups=1)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.transform(X, who="bob").shape
        (3, 2)
        """
        mapped: FloatArray = self.metric_for(who).transform(X)
        return mapped

    def score_triplets(self, X: ArrayLike, triplets: ArrayLike, who: Any = None) -> float:
        """Return the fraction of comparisons that hold, each under the distance of who made it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the triplets index.
        triplets : array-like of shape (n_triplets, 3)
            Row numbers.
        who : str, int or array-like of shape (n_triplets,), optional
            One person, or one for each triplet. None is the metric that all share.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_groups=1)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_triplets(X, T, who=["bob", "ann"])
        1.0
        """
        check_is_fitted(self, "coefficients_")
        samples = self.metric_._check(X)
        given = check_triplets(triplets, len(samples), get_index(X))
        if who is None or np.ndim(who) == 0:
            return float(self.metric_for(who).score_triplets(samples, given))
        persons = Persons.from_who(who, len(given))
        holds = 0
        for code, name in enumerate(persons.names):
            Y, own = self.metric_for(name)._map(samples), given[persons.codes == code]
            near, far = (pair_sq_dists(Y, own[:, [0, other]]) for other in (1, 2))
            holds += int(np.count_nonzero(near < far))
        return holds / len(given)

    def _places(self, names: Any) -> IntArray:
        """Return the place of each name among the persons, -1 of those who are new."""
        if names.dtype.kind != self.persons_.dtype.kind and "U" in (
            names.dtype.kind + self.persons_.dtype.kind
        ):
            raise TypeError(
                f"who must be a name like those of fit, such as {self.persons_[0]!r}; got "
                f"{names[0]!r}."
            )
        places = np.searchsorted(self.persons_, names).clip(max=len(self.persons_) - 1)
        return np.where(self.persons_[places] == names, places, -1)

    def _keep(self, space: SharedSpace, names: Any, found: Fitted | None) -> None:
        """Set all that was learned; None is the shared metric for everybody."""
        self.start_kept_ = found is None
        if found is None:
            found = shared_by_all(space.coordinates, len(names))
        prior, posterior, history = found
        order = np.argsort(-prior.shares, kind="stable")
        self.metric_, self.persons_ = space.metric, names
        self._coordinates = space.coordinates
        self._prior = replace(prior, means=prior.means[order], shares=prior.shares[order])
        self.coefficients_ = posterior.means
        self.shrinkage_ = shrinkage_of(prior, posterior)
        self.group_of_person_ = posterior.groups[:, order].argmax(axis=1)
        self.group_coefficients_, self.group_shares_ = self._prior.means, self._prior.shares
        self.covariance_ = prior.covariance
        self.history_, self.n_iter_ = np.array(history), max(len(history) - 1, 0)
        self.n_features_in_ = space.metric.n_features_in_
