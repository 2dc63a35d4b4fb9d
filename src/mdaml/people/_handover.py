"""What fitted metrics of persons are handed over as: metrics, mapped samples, a file."""

import os
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import Array, ArrayLike, FloatArray, IntArray
from mdaml.estimators.summary import describe_chance
from mdaml.holdout.rule import Gain
from mdaml.io.model_file import write_model
from mdaml.people._choice import describe_persons
from mdaml.people._coordinates import Coordinates


class PersonalHandover:
    """Of a model with coefficients of persons and kinds."""

    metric: BaseEstimator
    metric_: BaseEstimator
    persons_: Array
    n_kinds_: int
    kind_probabilities_: FloatArray
    kind_shares_: FloatArray
    kind_coefficients_: FloatArray
    coefficients_: FloatArray
    axes_: FloatArray
    unit_: float
    start_kept_: bool
    pull_: float | None
    tried_: list[dict[str, Any]]
    gain_: dict[str, Any] | None

    def metric_for(self, who: ArrayLike | None = None, *, kind: int | None = None) -> BaseEstimator:
        """Return the metric of a person or a kind as an estimator of its own.

        Parameters
        ----------
        who : str or int, optional
            A person. None, or a person without answers, has the mean of the kinds.
        kind : int, optional
            A kind instead.

        Returns
        -------
        metric : estimator
            A copy of ``metric_`` with other ``components_``. It is scaled so that the probability
            of an answer, apart from errors, is ``sigmoid(d2(far) - d2(near))``.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.metric_for("ann").get_mahalanobis_matrix().shape
        (2, 2)
        """
        check_is_fitted(self, "coefficients_")
        if who is not None and kind is not None:
            raise ValueError("Pass either who or kind, not both.")
        if kind is not None and not 0 <= kind < self.n_kinds_:
            raise ValueError(
                f"kind must be below {self.n_kinds_}, the number of kinds; got {kind}."
            )
        place = -1 if who is None else self._find_places(np.asarray([who]))[0]
        if self.start_kept_:
            return copy(self.metric_)  # bit for bit
        if kind is not None:
            return self._make(self.kind_coefficients_[kind])
        return self._make(
            self.coefficients_[place] if place >= 0 else self.kind_shares_ @ self.kind_coefficients_
        )

    def transform(
        self, X: ArrayLike, who: ArrayLike | None = None, *, kind: int | None = None
    ) -> FloatArray:
        """Map samples so that Euclidean distance is the distance of a person or a kind.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        who : str or int, optional
            A person. None is the metric of all answers, ``metric_``; a person without answers has
            the mean of the kinds.
        kind : int, optional
            A kind instead.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            The mapped samples.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.transform(X, who="bob").shape
        (3, 2)
        """
        check_is_fitted(self, "coefficients_")
        shared = who is None and kind is None
        metric = self.metric_ if shared else self.metric_for(who, kind=kind)
        mapped: FloatArray = metric.transform(X)
        return mapped

    def save(self, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Write the fitted model to a file, which :func:`mdaml.load` reads.

        The file holds the names of the persons, and ``metric_``; the parameter ``metric``, an
        estimator that is not fitted, is None in the loaded model.

        Parameters
        ----------
        path : str or path
            The file; ``.mdaml`` is usual, no suffix is added.
        compact : bool, default=False
            Leave out what describes the training data.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import mdaml
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(mdaml.Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(Path(folder, "people.mdaml"))
        ...     mdaml.load(Path(folder, "people.mdaml")).persons_.tolist()
        ['ann', 'bob']
        """
        check_is_fitted(self, "coefficients_")
        written = copy(self)
        written.metric = None
        write_model(path, written, compact=compact)

    def summary(self) -> str:
        """Return how many kinds there are, what was tried, and the gain.

        Returns
        -------
        text : str
            To be printed. The gain is over the shared metric; ``metric_.summary()`` has the gain
            of that over the distance before learning.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> print(model.summary().splitlines()[0])
        PersonalMetrics: 2 persons, 1 kind (2 persons), pull 1
        """
        check_is_fitted(self, "coefficients_")
        sizes = np.bincount(self.kind_of_person_, minlength=self.n_kinds_)
        kinds = f"{len(sizes)} kind{'s' * (len(sizes) != 1)} ({', '.join(map(str, sizes))} persons)"
        pull = "none" if self.pull_ is None else f"{self.pull_:g}"
        tried = [
            f"  kinds {each['n_kinds']}, pull {each['pull'] or 'none'}: {each['score']:.1%}"
            f"{'  (chosen)' if each['is_chosen'] else ''}"
            for each in self.tried_  # 0: the shared metric, as it is
        ]
        if self.gain_ is None:
            gained = "The gain was not measured: there were too few answers to hold some out."
        else:
            gain = Gain(**self.gain_)
            gained = describe_persons(gain)
            gained = f"{gained[:1].upper()}{gained[1:]} {describe_chance(gain)}"
        if self.start_kept_:
            gained += " Everybody has the shared metric."
        if any(each["is_chosen"] and each["n_kinds"] > self.n_kinds_ for each in self.tried_):
            gained += " Kinds without persons were left out."
        first = f"PersonalMetrics: {len(self.persons_)} persons, {kinds}, pull {pull}"
        return "\n".join([first, *tried, "", gained])

    @property
    def kinds_(self) -> list[BaseEstimator]:
        """The metric of each kind, an estimator of its own."""
        if not hasattr(self, "coefficients_"):
            raise AttributeError("This PersonalMetrics has no kinds_: it is not fitted yet.")
        return [self.metric_for(kind=kind) for kind in range(self.n_kinds_)]

    @property
    def kind_of_person_(self) -> IntArray:
        """The most probable kind of each person, (n_persons,)."""
        if not hasattr(self, "kind_probabilities_"):
            raise AttributeError("This PersonalMetrics has no kind_of_person_: not fitted yet.")
        return self.kind_probabilities_.argmax(axis=1)

    @property
    def _coordinates(self) -> Coordinates:
        return Coordinates(self.axes_, self.unit_)

    def _make(self, coefficients: FloatArray) -> BaseEstimator:
        """Return a copy of the shared metric with the map of other coefficients."""
        L = self.metric_.components_
        metric = copy(self.metric_)
        found = self._coordinates.components(coefficients, L.astype(np.float64))
        metric.components_ = found.astype(L.dtype, copy=False)
        for name, unknown in (("gain_", None), ("start_kept_", False)):
            if hasattr(metric, name):  # of the shared metric
                setattr(metric, name, unknown)
        return metric

    def _find_places(self, names: Array) -> IntArray:
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

    def _map(self, X: ArrayLike) -> FloatArray:
        mapped: FloatArray = self.metric_._map(X)
        return mapped

    def _require_linear(self, name: str) -> None:
        check_is_fitted(self, "coefficients_")
        self.metric_._require_linear(name)
