"""Which comparisons to ask next."""

from typing import TypeAlias

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from mdaml._typing import Array, ArrayLike, FloatArray, IntArray, Rng
from mdaml._validation import check_at_least, check_random_state
from mdaml.constraints.forms.triplets import check_triplets
from mdaml.constraints.generators import random_triples
from mdaml.constraints.names import check_ids, get_index
from mdaml.inspection import models

Seed: TypeAlias = int | np.random.Generator | Rng | None
_CANDIDATES_PER_QUERY, _MIN_CANDIDATES = 50, 2000


def suggest_queries(
    model: BaseEstimator,
    X: ArrayLike,
    n: int,
    *,
    candidates: ArrayLike | int | None = None,
    asked: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    training_rows: bool | None = None,
    random_state: Seed = None,
) -> Array:
    """Propose comparisons whose answers would teach the metric the most.

    The queries are near ties under the learned distance. They differ from
    each other and are spread over references and modes.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, a pipeline that ends in one, or a search over them.
    X : array-like of shape (n_samples, n_features)
        The points that can be compared, at least three.
    n : int
        How many comparisons to propose.
    candidates : int or array-like of shape (n_candidates, 3), optional
        The comparisons to choose from, or how many to draw at random. None draws 50 for each
        query, at least 2000, or all of them if there are fewer.
    asked : array-like of shape (n_asked, 3), optional
        Comparisons that are not proposed again, with near and far in either order. None: those of
        ``fit``, if X has its rows.
    ids : sequence of str, optional
        Names of the rows of X, to ask by name. None: the index of X, if it is a data frame with
        texts in its index; otherwise rows are numbers.
    training_rows : bool or None, default=None
        Whether X has the rows of ``fit``. None: yes if there are equally many.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the draw of candidates.

    Returns
    -------
    triplets : array of shape (n, 3)
        Row numbers or names ``(a, b, c)``, most useful first: is a closer to b or to c? The learned
        distance says b; swap b and c if the answer is c.

    See Also
    --------
    mdaml.ask.serve : Asks people these questions on a page.
    audit : Which answers to doubt.

    Notes
    -----
    Let ``u`` and ``v`` be the differences from a to b and from a to c under the learned map. The
    margin is ``|v|² - |u|²``, and its slope under a relative change of the metric is ``vvᵀ - uuᵀ``.
    An answer is as informative about this change as a logistic observation:
    ``σ'(margin / s) |vvᵀ - uuᵀ|²`` with s the median margin of the candidates, times the mean
    self-weight of the two pairs. Queries are chosen one by one, each where the earlier ones leave
    the most unknown (a Gaussian process with these slopes as features). Modes take turns in
    proportion to their candidates, and a reference is used again only after all others of its mode.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml import suggest_queries
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> T, _ = make_triplets(X, n_triplets=200, components=np.eye(3)[:1], random_state=0)
    >>> model = MDaML().fit(X, triplets=T)
    >>> suggest_queries(model, X, 5, random_state=0).shape
    (5, 3)
    """
    names = get_index(X) if ids is None else check_ids(ids)
    metric, X = models.metric_and_samples("suggest_queries", model, X)
    check_at_least("suggest_queries(n=...)", n, 1)
    Y = models.mapped_samples(metric, X)
    weights = models.mode_weights("suggest_queries", metric, Y, training_rows)
    if asked is None and weights is not None:
        own = models.are_training_rows("suggest_queries", metric, Y, training_rows)
        asked = metric.triplets_ if own and len(metric.triplets_) else None
    if names is not None and len(names) != len(Y):
        raise ValueError(f"ids must name the {len(Y)} rows of X, got {len(names)}.")
    taken = np.array([], int)
    if asked is not None:
        taken = _keys(check_triplets(asked, len(Y), names), len(Y))
    if candidates is not None and not isinstance(candidates, int | np.integer):
        candidates = check_triplets(candidates, len(Y), names)
    pool = _pool(candidates, len(Y), int(n), taken, random_state)
    u, v = (Y[pool[:, 0]] - Y[pool[:, place]] for place in (1, 2))
    near, far = np.sum(u**2, axis=1), np.sum(v**2, axis=1)
    shared = sum(models.self_weights(metric, weights, pool[:, [0, other]]) for other in (1, 2))
    scale = float(np.median(np.abs(far - near))) or 1.0
    chance = expit((far - near) / scale)
    modes = np.zeros(len(Y), int) if weights is None else weights.argmax(axis=1)
    chosen = _spread(u, v, chance * (1 - chance) * shared, modes[pool[:, 0]], pool[:, 0], int(n))
    ordered = np.where((near <= far)[:, None], pool, pool[:, [0, 2, 1]])
    return ordered[chosen] if names is None else names.astype(object)[ordered[chosen]]


def _pool(
    candidates: IntArray | int | np.integer | None,
    n_samples: int,
    n: int,
    taken: IntArray,
    random_state: Seed,
) -> IntArray:
    """Return the distinct comparisons to choose from, those asked left out."""
    if candidates is None or isinstance(candidates, int | np.integer):
        many = max(_MIN_CANDIDATES, _CANDIDATES_PER_QUERY * n)
        pool = _draw(n_samples, int(candidates or many), check_random_state(random_state))
    else:
        pool = candidates
    keys, first = np.unique(_keys(pool, n_samples), return_index=True)
    pool = pool[np.sort(first[~np.isin(keys, taken)])]
    if len(pool) < n:
        raise ValueError(
            f"suggest_queries was to propose {n} comparisons, but only {len(pool)} of the "
            "candidates have not been asked. Lower n or pass more candidates."
        )
    return pool


def _draw(n_samples: int, n_triplets: int, rng: Rng) -> IntArray:
    """Draw comparisons of three rows at random, or return all there are if they are no more."""
    if n_samples < 3:
        raise ValueError(f"A comparison needs three points, but X has {n_samples} rows.")
    if n_samples * (n_samples - 1) * (n_samples - 2) // 2 <= n_triplets:
        a, b, c = np.indices((n_samples,) * 3).reshape(3, -1)
        return np.column_stack([a, b, c])[(b < c) & (a != b) & (a != c)]
    return random_triples(n_samples, n_triplets, rng)


def _keys(triplets: IntArray, n_samples: int) -> IntArray:
    """Return a number for each question: near and far are not told apart."""
    a, b, c = triplets.astype(np.int64).T
    return (a * n_samples + np.minimum(b, c)) * n_samples + np.maximum(b, c)


def _spread(
    u: FloatArray,
    v: FloatArray,
    openness: FloatArray,
    modes: IntArray,
    references: IntArray,
    n: int,
) -> IntArray:
    """Choose n rows one by one, the most uncertain given those before; modes take turns."""
    sizes = np.bincount(modes)
    n_of_mode, n_of_reference = np.zeros(len(sizes)), np.zeros(references.max() + 1)
    unknown = openness * _slope_products(u, v, u, v)
    strength = np.sqrt(openness / (np.median(unknown) or 1.0))
    unknown = strength**2 * _slope_products(u, v, u, v)
    free, known = np.ones(len(u), bool), np.zeros((n, len(u)))
    chosen = np.empty(n, int)
    for k in range(n):
        left = np.bincount(modes[free], minlength=len(sizes)) > 0
        turn = np.argmin(np.where(left, (n_of_mode + 0.5) / np.maximum(sizes, 1), np.inf))
        rows = np.flatnonzero(free & (modes == turn))
        rows = rows[n_of_reference[references[rows]] == n_of_reference[references[rows]].min()]
        i = rows[np.argmax(unknown[rows])]
        # One more observation with unit noise: a row of the Cholesky factor.
        column = strength * strength[i] * _slope_products(u, v, u[i], v[i])
        column -= known[:k].T @ known[:k, i]
        known[k] = column / np.sqrt(1.0 + unknown[i])
        unknown = unknown - known[k] ** 2
        chosen[k], free[i] = i, False
        n_of_mode[turn] += 1
        n_of_reference[references[i]] += 1
    return chosen


def _slope_products(u: FloatArray, v: FloatArray, s: FloatArray, t: FloatArray) -> FloatArray:
    """Return the inner products of ``vvᵀ - uuᵀ`` and ``ttᵀ - ssᵀ``, row by row."""
    return (
        np.sum(v * t, axis=1) ** 2
        - np.sum(v * s, axis=1) ** 2
        - np.sum(u * t, axis=1) ** 2
        + np.sum(u * s, axis=1) ** 2
    )
