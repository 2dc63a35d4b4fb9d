"""A metric with a place for every mode."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from mdaml._choosing import show_choices
from mdaml._typing import ArrayLike, FloatArray
from mdaml.constraints.arguments import EVERY_FORM, Supervision, check_supervision
from mdaml.constraints.persons import Persons
from mdaml.estimators.base import distances_after
from mdaml.estimators.local_handover import LocalHandover, basis_of
from mdaml.estimators.posing import describe_supervision

if TYPE_CHECKING:
    from mdaml.estimators.local_rounds import Learned


@show_choices
class LocalMDaML(LocalHandover):
    r"""Learn a distance from comparisons or labels, with a place for every mode.

    One linear map cannot bring the kinds of a class together and leave the rest alone. Here samples
    are mapped by

    .. math:: z(x) = A x + \sum_k g_k(x)\, b_k + \sum_m h_m(x)\, A_m (x - \bar x)

    with memberships :math:`g_k` in modes: a *place* :math:`b_k` moves a whole mode, a *map*
    :math:`A_m` turns and stretches a wide one. The map is learned in two rounds. The first learns a
    space :math:`u(x)` from the closeness of x to *landmarks*: the samples or, if there are more
    than 512, centres of k-means. The centres :math:`c_k` of the modes are samples spread over this
    space, and :math:`g_k(x) = \exp(-|u(x) - u(c_k)|^2 / w)`. The second round learns the places.
    Each round fits :class:`MDaML` of rank eight to such columns. The features are kept beside them
    (A), with a share of 0.15 of the learned squared distances, or of 0.3 if the anchor is 8 or
    more, so that neighbours stay near. Euclidean distance between :math:`z(x)` is the learned
    distance. Without places and maps it is that of MDaML.

    **Prefer it** where classes are made of several kinds, with 1500 comparisons or more.

    Parameters
    ----------
    n_places : int or "auto", default="auto"
        Number of modes with a place. "auto" tries none and 128 (at most one for every two samples)
        on comparisons of held-out points or, with labels, on the three nearest neighbours of
        held-out samples. Places are used only if they lead one linear map by more than chance, also
        lose no more where both members of the far pair were held out, and never for fewer than 100
        different samples or for ``goal="neighbors"``.
    n_maps : int or "auto", default="auto"
        Number of wide modes with a map. "auto" is 0.
    goal : {"auto", "comparisons", "neighbors"}, default="auto"
        As for :class:`MDaML`. Places are learned from the comparisons as they are given or, with
        labels, from ten random triplets for each sample.
    triplet_weight, ridge : float or "auto", default="auto"
        As for :class:`MDaML`.
    anchor : float or "auto", default="auto"
        Without places as for :class:`MDaML`. With places, how strongly a rough map is penalised: at
        768 the squared length of the map counts as much as the mean loss. "auto" chooses 0.25, 2.5
        or 8 together with the number of places, up to 4000 comparisons 2.5 or 8; it is 0.25 for
        labels, and 0.8 if ``n_places`` is a number.
    n_components : int or None, default=None
        Rank of the learned map, below the number of columns. None is rank eight, with the features
        beside it. A number leaves the features out: as many comparisons hold, but fewer neighbours
        are of the same kind.
    max_iter : int or "auto", default="auto"
        As for :class:`MDaML`, in each round.
    tol : float, default=1e-4
        As for :class:`MDaML`.
    verbose : int, default=0
        As for :class:`MDaML`.
    callback : callable or None, default=None
        As for :class:`MDaML`.
    device : {None, "cpu", "cuda", "auto"}, default=None
        As for :class:`MDaML`; the columns of the basis are made on the processor.
    random_state : int, Generator, RandomState or None, default=None
        As for :class:`MDaML`. Landmarks and modes do not depend on it.

    Attributes
    ----------
    n_places_, n_maps_ : int
        The numbers used.
    centers_, places_ : arrays of shape (n_places, n_features) and (n_places, n_components)
        Centres of the modes that have a place, and where these are in the learned space.
    components_ : array of shape (n_components, n_columns)
        The linear map on the columns of the basis: features, memberships, features in each map.
    tried_ : list of dict
        What was tried: ``n_places``, ``n_maps``, ``anchor``, ``score`` on held-out points,
        ``is_chosen``. Empty if the number of places was given.
    map_centers_ : array of shape (n_maps, n_features)
        Centres of the modes that have a map.
    landmark_centers_, landmark_map_ : arrays
        Landmarks, (n_landmarks, n_features), and the map of the closeness to them,
        (8, n_landmarks), to the space in which modes are found.
    scale_, width_, map_width_, landmark_width_, mean_ : float or array
        The highest membership, which is 1; widths of the memberships; mean of X.
    front_matrix_, front_offset_ : array or None
        The affine map of the steps that :func:`fold_pipeline` put before the basis.
    mode_centers_ : array of shape (n_modes, n_columns)
        Centres of the modes that weigh comparisons, as in :class:`MDaML`; on the basis.
    history_, n_iter_, anchor_, gain_, start_kept_, triplets_, persons_, ...
        As for :class:`MDaML`, for the metric on the basis.

    See Also
    --------
    MDaML : One linear map.

    Notes
    -----
    **Cost**: that of :class:`MDaML` with a feature for each column of the basis.

    Examples
    --------
    Four clusters in the corners of a square; opposite corners are one class.

    >>> import numpy as np
    >>> from mdaml import Euclidean, LocalMDaML
    >>> from mdaml.constraints import sample_triplets
    >>> rng = np.random.default_rng(0)
    >>> corner = rng.integers(4, size=400)
    >>> X = np.array([[0, 0], [0, 4], [4, 4], [4, 0]])[corner] + rng.normal(size=(400, 2))
    >>> triplets = sample_triplets(corner % 2, 2, 5, random_state=0)
    >>> local = LocalMDaML(n_places=16, n_maps=0).fit(X, triplets=triplets)
    >>> local.score_triplets(X, triplets) - Euclidean().fit(X).score_triplets(X, triplets) > 0.2
    True
    """

    default_grid: ClassVar = [{"n_places": [0, 128], "n_maps": [0]}]
    centers_: FloatArray
    map_centers_: FloatArray
    width_: float
    map_width_: float
    landmark_centers_: FloatArray
    landmark_width_: float
    scale_: float
    tried_: list[dict[str, Any]]
    _stream: Any  # LocalStream: what partial_fit keeps of earlier chunks

    def __init__(
        self,
        n_places: int | Literal["auto"] = "auto",
        n_maps: int | Literal["auto"] = "auto",
        *,
        goal: Literal["auto", "comparisons", "neighbors"] = "auto",
        triplet_weight: float | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = "auto",
        anchor: float | Literal["auto"] = "auto",
        n_components: int | None = None,
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-4,
        verbose: int = 0,
        callback: Callable[[int, float], bool | None] | None = None,
        device: Literal["cpu", "cuda", "auto"] | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.n_places = n_places
        self.n_maps = n_maps
        self.goal = goal
        self.triplet_weight = triplet_weight
        self.ridge = ridge
        self.anchor = anchor
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.callback = callback
        self.device = device
        self.random_state = random_state

    def _fit(
        self, X: ArrayLike, samples: FloatArray, supervision: Supervision, persons: Persons | None
    ) -> None:
        from mdaml.estimators.local_learning import learn

        self._keep(X, learn(self, samples, supervision, persons), supervision)
        self.__dict__.pop("_stream", None)  # what partial_fit kept of other samples

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None, **given: Any) -> Self:
        """Update the model with a chunk of new samples and comparisons, without the old ones.

        The first call is :meth:`fit`. The modes of the first chunk that has some stay as they are,
        and the metric on them is refined as by :meth:`MDaML.partial_fit`. As long as there are no
        modes, "auto" tries places again whenever the anchor is chosen anew.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples of the chunk.
        y : array-like of shape (n_samples,), optional
            Their labels.
        **given : Any
            Triplets, pairs, quadruplets, constraints and weights, as for :meth:`fit`; row numbers
            are those of the chunk.

        Returns
        -------
        self : LocalMDaML
            The estimator, refined.

        Examples
        --------
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> model = LocalMDaML(n_places=8, n_maps=0)
        >>> model.partial_fit(X[::2], y[::2]).partial_fit(X[1::2], y[1::2]).n_samples_seen_
        300
        """
        from mdaml.estimators.local_chunks import begin_stream, learn_more
        from mdaml.estimators.local_learning import learn

        is_first = not hasattr(self, "components_")
        if not is_first:
            validate_data(self, X, skip_check_array=True, reset=False)
        samples, supervision = check_supervision(self, EVERY_FORM, X, y, **given)
        if is_first:
            learned = learn(self, samples, supervision, None)
            stream = begin_stream(samples, learned, supervision, y)
        else:
            learned, stream = learn_more(self, self._before(samples), supervision, y)
        self._keep(X if is_first else None, learned, supervision)
        self._stream = stream
        return self

    def memberships(self, X: ArrayLike) -> csr_array:
        """Return the memberships of samples in the modes that have a place.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        memberships : sparse array of shape (n_samples, n_places)
            Between 0 and 1, which it is at the centre of a mode. Below one millionth it is 0.

        Examples
        --------
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> LocalMDaML(n_places=8, n_maps=0).fit(X, y).memberships(X[:5]).shape
        (5, 8)
        """
        check_is_fitted(self, "components_")
        rows, basis = self._check(X, sparse=True), basis_of(self)
        rows = rows.toarray() if issparse(rows) else rows
        if basis.places is None:
            return csr_array((len(rows), 0), dtype=rows.dtype)
        found = basis.modes().closeness(basis.see(self._before(rows)))
        return csr_array(np.where(found < 1e-6, 0.0, found).astype(rows.dtype))

    def pair_distance(self, A: ArrayLike, B: ArrayLike) -> FloatArray:
        """Return the learned distance of each row of A to the same row of B.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The two members of each pair.

        Returns
        -------
        distances : array of shape (n_pairs,)
            Not squared.

        Examples
        --------
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> LocalMDaML(n_places=8, n_maps=0).fit(X, y).pair_distance(X[:2], X[:2])
        array([0., 0.])
        """
        check_is_fitted(self, "components_")
        if self.is_linear:
            return super().pair_distance(A, B)
        return distances_after(self.transform, A, B)

    def summary(self) -> str:
        """Return what was tried and chosen, the values used, and the gain.

        Returns
        -------
        text : str
            To be printed.

        Examples
        --------
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> print(LocalMDaML(n_places=8, n_maps=0).fit(X, y).summary().splitlines()[0])
        LocalMDaML: 300 samples of 2 features, 300 labels of 2 classes
        """
        check_is_fitted(self, "components_")
        from mdaml.estimators.summary import describe_fit

        return describe_fit(self)

    @property
    def places_(self) -> FloatArray:
        """Where the centres of the modes are in the learned space, (n_places, n_components)."""
        if not hasattr(self, "components_"):  # as scikit-learn wants it of what is learned
            raise AttributeError("This LocalMDaML has no places_: it is not fitted yet.")
        if not self.n_places_:
            return np.empty((0, len(self.components_)), self.components_.dtype)
        return self._map(self.centers_)

    def _keep(self, X: Any, learned: "Learned", supervision: Supervision) -> None:
        """Set all that was learned: the basis, and the metric on it."""
        from mdaml.estimators.local_learning import learned_attributes

        components, others = learned_attributes(learned)
        if learned.conditioner is not None:  # not what the metric on the basis was told
            row = "comparisons" if isinstance(self.goal, str) else "given"
            others |= {"preset_": row, "supervision_": describe_supervision(supervision)}
        if X is not None:  # steps that were folded into an earlier fit are gone
            others |= {"front_matrix_": None, "front_offset_": None}
        self._store(X, components, components.dtype, **others)
