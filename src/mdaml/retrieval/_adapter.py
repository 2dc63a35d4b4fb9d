"""A linear map of queries that makes relevant documents come first."""

from dataclasses import asdict
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state

from mdaml._choosing import show_choices
from mdaml._progress import show
from mdaml._typing import ArrayLike, FloatArray
from mdaml._validation import check_choice, check_integer, check_number
from mdaml.estimators.base import page_of
from mdaml.retrieval._candidates import collect, find_repeats
from mdaml.retrieval._choice import AdapterFit, AdapterPlan, choose_strength
from mdaml.retrieval._clicks import ClickLog, Clicks, read_clicks
from mdaml.retrieval._gain import warn_unimproved
from mdaml.retrieval._handover import AdapterHandover
from mdaml.retrieval._judges import score_shown
from mdaml.retrieval._propensity import find_propensities
from mdaml.retrieval._relevance import Ids, Relevance, read_relevance
from mdaml.retrieval._scores import SIMILARITIES, scale_rows
from mdaml.retrieval._search import load_arrays
from mdaml.stores.choice import find_device

_ROUGHER = 3.0  # times tol: enough to compare strengths


@show_choices
class QueryAdapter(AdapterHandover, BaseEstimator):
    r"""Learn a linear map of query vectors from pairs of queries and relevant documents.

    The document vectors do not change, so an existing index of them can be used as it is. The map W
    minimises, over relevant pairs of a query q and a document x,

    .. math::
        \operatorname{mean}_{(q, x)} \log\Bigl(1 + \sum_z
        e^{s\,(\operatorname{score}(Wq, z) - \operatorname{score}(Wq, x))}\Bigr)
        + \frac{\alpha}{2} \|W - I\|^2

    Here α is the strength, and z runs over documents that are relevant for other queries but, as
    far as known, not for q; the score is the similarity. This is convex in W at full rank if only
    queries are mapped. The scale s is fitted to the vectors as they are. Documents that are
    relevant for the same query also serve as queries, with each other as relevant documents. At
    full rank, and if only queries are mapped, W differs from I only along axes that carry nearly
    all the variance. With a log of clicks, pairs that were clicked more often than the mean are
    relevant. Their grade is the number of clicks over the sum of the propensities at which they
    were shown. Documents that were shown compete too.

    Parameters
    ----------
    rank : int or None, default=None
        None learns any matrix; a number r learns ``W = I + U V^T`` with U and V of r columns.
    similarity : {"cosine", "dot", "euclidean"}, default="cosine"
        How the index ranks documents.
    symmetric : bool, default=False
        Map documents too, by the same matrix: one metric for both sides. Stored vectors change;
        with :meth:`to_inner_product` they only get one more number each.
    n_negatives : int or "auto", default="auto"
        How many documents compete for a query. "auto": all that are relevant for some query, if
        these make at most 2^26 pairs; otherwise 512 to 2048 of them: relevant for other queries of
        a batch, hard under the current map, or random.
    anchor : float or "auto", default="auto"
        How strongly W is kept near the identity. "auto" tries 0.1, 0.03, ... 0.001 in this order on
        held-out queries, as long as each leads the identity by more than chance. This is a test at
        5 % over different queries. It takes the weakest among the best. If the first does not lead,
        W is the identity, with a warning. The measure is nDCG at 10. With a log it is how well
        scores tell the clicked documents from the others shown, given the propensities of
        positions. The test, at 2.5 %, then asks whether clicks confirm the direction of a map, and
        the strongest among the best is taken.
    max_iter : int, default=100
        Maximum number of iterations of the solver.
    tol : float, default=1e-3
        Stop when an iteration lowers the objective by less than this fraction of its first value.
    warm_start : bool, default=False
        Start the next ``fit`` from the map of the last one; the result is the same up to ``tol``,
        and takes fewer steps if ``anchor`` is a number.
    device : {None, "cpu", "cuda", "auto"}, default=None
        None computes with NumPy, the others with torch.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    random_state : int, RandomState or None, default=None
        Seed of the held-out queries and of the sampled documents.

    Attributes
    ----------
    components_ : array of shape (n_features, n_features)
        The map W, in single precision.
    improved_ : bool
        False if the map is the one it started from, because none led it by more than chance.
    strength_ : float
        The strength used; infinite if the map is the one it started from.
    held_out_ : dict
        ``strengths`` tried, their ``scores``, that of the ``base``, ``p_value`` of the best.
        ``n_queries`` held out, ``gain`` over the base and its 95 % ``interval``, the ``measure``,
        and how the position ``bias`` of a log was found. Empty if ``anchor`` is a number.
    propensities_ : array of shape (n_positions,)
        How often each position is looked at, relative to the first; empty without a log of clicks.
    history_ : array of shape (n_iter_ + 1,)
        The objective after every iteration, with the documents sampled last; it never rises.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Length of a vector.

    See Also
    --------
    retrieval_scores : Compares it with the vectors as they are.

    Notes
    -----
    **Cost**: an iteration takes :math:`O(Q N d + (Q + N) d^2)` for Q queries and N documents that
    compete, d numbers each. "auto" makes up to about thirty short fits, and samples documents if
    there are many. Beyond the vectors it takes memory of :math:`O(d^2)` and one block of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.retrieval import QueryAdapter
    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(300, 8))
    >>> queries = documents[:200].copy()
    >>> queries[:, 5:] = rng.normal(size=(200, 3))  # questions that add what no document is about
    >>> clicks = np.column_stack([np.arange(200), np.arange(200)])
    >>> adapter = QueryAdapter(random_state=0).fit(queries, documents, clicks)
    >>> adapter.improved_
    True
    >>> adapter.transform_queries(queries[:1]).shape
    (1, 8)
    """

    _doc_link_module = "mdaml"
    _doc_link_template = page_of("retrieval.QueryAdapter")

    def __init__(
        self,
        rank: int | None = None,
        similarity: str = "cosine",
        *,
        symmetric: bool = False,
        n_negatives: int | Literal["auto"] = "auto",
        anchor: float | Literal["auto"] = "auto",
        max_iter: int = 100,
        tol: float = 1e-3,
        warm_start: bool = False,
        device: Literal["cpu", "cuda", "auto"] | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.similarity = similarity
        self.symmetric = symmetric
        self.n_negatives = n_negatives
        self.anchor = anchor
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        queries: ArrayLike,
        documents: ArrayLike,
        relevant: ArrayLike | None = None,
        *,
        clicks: Clicks | None = None,
        ids: Ids | None = None,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features)
            Vectors of the queries.
        documents : array-like of shape (n_documents, n_features)
            Vectors of the documents.
        relevant : array-like of shape (n_pairs, 2) or (n_pairs, 3)
            Query row, document row and optionally a grade, which is the weight of the pair among
            those of its query; pairs with a grade of 0 or less are left out. Rows of ``queries``
            with the same vector up to rounding are one query, also if their lengths differ, unless
            documents are ranked by distance; grades of its pairs add up.
        clicks : array-like of shape (n_rows, 4) or (n_rows, 5), data frame, path or list of these
            A log instead of ``relevant``: query row, document row, position (the first is 1, or 0
            if any is 0), clicked, and optionally the impression or visit, for every document that
            was shown. Columns of a data frame or of a file (CSV, TSV, Parquet, JSON lines) are
            found by names such as query, doc_id, rank, clicked, session.
        ids : pair of sequences, default=None
            Names of the queries and of the documents, if ``relevant`` or ``clicks`` name them.
        propensities : array-like of shape (n_positions,), default=None
            How often each position of the log is looked at, at most 1. None: estimated.

        Returns
        -------
        self : QueryAdapter
            The fitted adapter.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> pairs = [("how?", "d3"), ("why?", "d5")]
        >>> names = ["how?", "why?"], [f"d{row}" for row in range(30)]
        >>> model = QueryAdapter(anchor=1.0).fit(documents[[4, 6]], documents, pairs, ids=names)
        >>> model.components_.shape
        (4, 4)
        >>> log = [("how?", "d7", 1, 0), ("how?", "d3", 2, 1), ("why?", "d5", 1, 1),
        ...        ("why?", "d3", 2, 0)]
        >>> model = model.fit(documents[[4, 6]], documents, clicks=log, ids=names)
        >>> model.propensities_.shape
        (2,)
        """
        Q, X, supervision = self._check_fit(queries, documents, relevant, clicks, ids)
        identity = np.eye(X.shape[1], dtype=X.dtype)
        start = identity
        if self.warm_start and hasattr(self, "components_"):
            self._check_same_width(X)
            start = self.components_
        with show(self):
            return self._learn((Q, X), supervision, propensities, identity, start)

    def partial_fit(
        self,
        queries: ArrayLike,
        documents: ArrayLike,
        relevant: ArrayLike | None = None,
        *,
        clicks: Clicks | None = None,
        ids: Ids | None = None,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Update the map with the new part of a log; it is kept near the current map.

        The first call is a ``fit``. In later ones the current map takes the place of the identity.
        It is kept if no map leads it by more than chance on held-out queries of the new part.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features)
            Vectors of the new queries.
        documents : array-like of shape (n_documents, n_features)
            Vectors of the documents, which may have changed.
        relevant, clicks : array-like
            As for ``fit``, of the new queries.
        ids : pair of sequences, default=None
            Names of the new queries and of the documents, if they are named.
        propensities : array-like, default=None
            As for ``fit``.

        Returns
        -------
        self : QueryAdapter
            The fitted adapter.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> rng = np.random.default_rng(0)
        >>> documents = rng.normal(size=(40, 4))
        >>> model = QueryAdapter(anchor=1.0)
        >>> for day in range(2):
        ...     rows = rng.integers(40, size=9)
        ...     clicks = np.column_stack([np.arange(9), rows])
        ...     model = model.partial_fit(documents[rows] * [1, 1, 1, -1], documents, clicks)
        """
        if not hasattr(self, "components_"):
            return self.fit(
                queries, documents, relevant, clicks=clicks, ids=ids, propensities=propensities
            )
        Q, X, supervision = self._check_fit(queries, documents, relevant, clicks, ids)
        self._check_same_width(X)
        with show(self):
            return self._learn(
                (Q, X), supervision, propensities, self.components_, self.components_
            )

    def _learn(
        self,
        vectors: tuple[FloatArray, FloatArray],
        supervision: Relevance | ClickLog,
        propensities: ArrayLike | None,
        anchor: FloatArray,
        start: FloatArray,
    ) -> Self:
        Q, X = vectors
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        arrays = load_arrays(find_device("QueryAdapter(device=...)", self.device))
        by_distance = self.search_similarity == "euclidean"
        supervision = supervision.join(find_repeats(Q, by_length=self.similarity == "euclidean"))
        collection = collect(Q, X, arrays, by_distance)
        clicks, shown, bias = None, None, None
        if isinstance(supervision, ClickLog):
            scores = score_shown(
                collection, Q[supervision.queries], supervision.documents, anchor, self.symmetric
            )
            bias = find_propensities(supervision, scores, propensities)
            clicks, shown = (supervision, bias.values), np.unique(supervision.documents)
            pairs = supervision.to_relevance(bias.values)
        else:
            pairs = supervision
        plan = AdapterPlan(
            anchor, self.rank, self.symmetric, self.n_negatives, self.max_iter, shown
        )
        fit = AdapterFit(collection, pairs, plan, start, rng)
        held_out: dict[str, Any] = {}
        strength: float | None = None
        if isinstance(self.anchor, str):
            held_out = asdict(choose_strength(fit, pairs, _ROUGHER * self.tol, rng, clicks))
            strength = held_out.pop("best")
            held_out |= {} if bias is None else {"bias": bias.source}
        else:
            strength = self.anchor
        fitted, history = anchor, [np.nan]
        if strength is not None:
            if fit.is_sampled:  # a rough map is enough to find hard documents under it
                fit.run(strength, tol=_ROUGHER * self.tol)
                fit.refresh()
            history = fit.run(strength, tol=self.tol)
            fitted = fit.map
        self.n_features_in_ = X.shape[1]
        self.components_ = np.ascontiguousarray(fitted)
        self.improved_ = strength is not None
        self.strength_ = float("inf") if strength is None else float(strength)
        self.held_out_ = held_out
        self.propensities_ = np.empty(0) if bias is None else bias.values
        self.history_ = np.array(history if self.improved_ else [])
        self.n_iter_ = max(0, len(self.history_) - 1)
        if not self.improved_:
            is_first = np.array_equal(anchor, np.eye(len(anchor)))
            warn_unimproved(
                held_out, "the vectors as they are" if is_first else "the vectors of the last map"
            )
        return self

    def _check_fit(
        self,
        queries: ArrayLike,
        documents: ArrayLike,
        relevant: ArrayLike | None,
        clicks: Clicks | None,
        ids: Ids | None,
    ) -> tuple[FloatArray, FloatArray, Relevance | ClickLog]:
        """Return checked arrays, in single precision, as the similarity needs them."""
        self._check_parameters()
        Q, X = (
            check_array(A, dtype=np.float32, input_name=name, estimator=self)
            for A, name in ((queries, "queries"), (documents, "documents"))
        )
        if Q.shape[1] != X.shape[1]:
            raise ValueError(
                f"queries have {Q.shape[1]} features, documents {X.shape[1]}; both must come from "
                "the same encoder."
            )
        if self.rank is not None:
            check_integer(self, "rank", self.rank, 1, X.shape[1], what=", the number of features")
        if (relevant is None) == (clicks is None):
            raise ValueError(
                "Pass either relevant, pairs of a query and a relevant document, or clicks, a log "
                "with rows (query, document, position, clicked)."
            )
        supervision: Relevance | ClickLog
        if relevant is not None:
            supervision = read_relevance(relevant, ids, len(Q), len(X))
        else:
            assert clicks is not None
            supervision = read_clicks(clicks, ids, len(Q), len(X))
        if len(X) < 2:
            raise ValueError("There must be at least two documents: a single one cannot be ranked.")
        if self.similarity == "cosine":
            Q, X = scale_rows(Q), scale_rows(X)
        return Q, X, supervision

    def _check_parameters(self) -> None:
        check_choice(self, "similarity", self.similarity, SIMILARITIES)
        check_choice(self, "symmetric", self.symmetric, [True, False])
        check_choice(self, "warm_start", self.warm_start, [True, False])
        check_choice(self, "device", self.device, [None, "cpu", "cuda", "auto"])
        check_integer(self, "max_iter", self.max_iter, 1)
        check_number(self, "tol", self.tol, 0.0)
        if not isinstance(self.n_negatives, str) or self.n_negatives != "auto":
            check_integer(self, "n_negatives", self.n_negatives, 4)
        if not isinstance(self.anchor, str) or self.anchor != "auto":
            check_number(self, "anchor", self.anchor, 0.0)

    def _check_same_width(self, X: FloatArray) -> None:
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"documents have {X.shape[1]} features, but the map was fitted to "
                f"{self.n_features_in_}. Use a new QueryAdapter."
            )
