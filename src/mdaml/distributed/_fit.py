"""A fit of MDaML on a cluster."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_metric, check_start_weights, check_triplets
from mdaml.alternation import Outcome, alternate
from mdaml.distributed import _shard
from mdaml.distributed._cluster import Cluster
from mdaml.distributed._plan import Survey, cut_rows, make_plan
from mdaml.distributed._problem import Parts, ShardedProblem, ShardedState
from mdaml.distributed._rows import Rows
from mdaml.estimators import MDaML
from mdaml.estimators._base import principal_components
from mdaml.estimators._mdaml_checks import check_parameters, warn_if_needed
from mdaml.modes import estimate_kmeans, estimate_mixture, rows_for_start
from mdaml.scatter import whitening_from_covariance

Estimator = TypeVar("Estimator", bound=MDaML)


def fit(
    estimator: Estimator,
    X: Any,
    *,
    triplets: npt.ArrayLike,
    client: Any = None,
    n_shards: int | None = None,
    timeout: float = 60.0,
) -> Estimator:
    """Fit MDaML to samples and triplets spread over the workers of a Dask cluster.

    The result is that of ``estimator.fit(X, triplets=triplets)``: the same steps in the same order,
    apart from rounding. Samples stay on the workers; for each step of the metric they send one
    matrix of shape (n_features, n_features) and a few numbers.

    Parameters
    ----------
    estimator : MDaML
        What to fit, with all its parameters; it is changed only once all has been learned.
    X : dask array of shape (n_samples, n_features), list of futures, or array-like
        Samples. Each future is a block of rows. Arrays are cut into blocks and sent.
    triplets : array-like of shape (n_triplets, 3)
        Row numbers of X: ``X[t[0]]`` is closer to ``X[t[1]]`` than to ``X[t[2]]``.
    client : distributed.Client, optional
        The cluster; by default the client that was made last.
    n_shards : int, optional
        Into how many parts to cut the triplets, by anchor; by default one for each worker.
    timeout : float, default=60.0
        Seconds to wait for a worker while there is none.

    Returns
    -------
    estimator : MDaML
        The one that was passed, fitted; its attributes are arrays in this process.

    Raises
    ------
    RuntimeError
        If the cluster is gone. The loss of single workers is made good.

    Notes
    -----
    ``init_metric``, ``init``, ``random_state`` and all other parameters mean what they mean in one
    memory. At most 20 000 rows come to this process, to estimate the first modes. See
    docs/distributed.md for what is sent when, and what a large fit takes.

    Examples
    --------
    With a cluster that runs elsewhere, ``Client("address:8786")`` is all that changes.

    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> import mdaml.distributed
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_triplets
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> said, _ = make_triplets(X, n_triplets=2000, components=np.eye(4)[:1], random_state=0)
    >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
    ...     metric = mdaml.distributed.fit(MDaML(n_modes=1), X, triplets=said, client=client)
    >>> metric.score_triplets(X, said) > 0.95
    True
    """
    _check_estimator(estimator)
    _check_counts(n_shards, timeout)
    with Cluster(_check_client(client), timeout) as cluster, kernels.one_blas_thread():
        outcome = _fit(estimator, X, triplets, cluster, n_shards or cluster.n_workers)
    warn_if_needed(estimator, outcome, outcome.state.mean_loss, few_by_design=False)
    return estimator


def _check_counts(n_shards: Any, timeout: Any) -> None:
    if n_shards is not None and (not isinstance(n_shards, Integral) or n_shards < 1):
        raise ValueError(f"n_shards must be None or an integer of at least 1, got {n_shards!r}.")
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}.")


def _check_estimator(estimator: object) -> None:
    if isinstance(estimator, type) or not isinstance(estimator, MDaML):
        raise TypeError(
            f"estimator must be an MDaML, such as MDaML(n_modes=4), got {estimator!r}. Other "
            "methods are fitted in one memory."
        )
    if estimator.device is not None:
        raise ValueError(
            f"MDaML(device={estimator.device!r}) cannot be fitted on a cluster: workers compute "
            "with NumPy. Set device=None."
        )
    if estimator.memory_limit is not None:
        raise ValueError(
            f"MDaML(memory_limit={estimator.memory_limit!r}) cannot be kept on a cluster: a worker "
            "takes what its share of the rows needs. Set memory_limit=None and use more workers."
        )


def _check_client(client: Any) -> Any:
    try:
        from distributed import Client, default_client
    except ImportError as error:
        raise ImportError(
            "mdaml.distributed needs Dask, which is not installed: "
            'pip install "mdaml[dask]", here and on the workers.'
        ) from error
    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise ValueError(
                "client was not passed, and there is no Dask client yet: make one by "
                "dask.distributed.Client(...)."
            ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(
            f"client must be a dask.distributed.Client, not asynchronous; got {client!r}."
        )
    if client.status in ("closing", "closed"):  # a client that is connecting is waited for
        raise ValueError("client is closed: pass one that is connected to a cluster.")
    return client


def _fit(
    estimator: MDaML, X: Any, triplets: npt.ArrayLike, cluster: Cluster, n_shards: int
) -> Outcome[ShardedState]:
    cluster.place(n_shards)
    rows = Rows.from_any(X, cluster)
    given = check_triplets(triplets, rows.n_samples)
    triplet_weight = check_parameters(estimator, rows.n_samples, rows.n_features, near=False)
    if estimator.n_components not in (None, rows.n_features):
        raise ValueError(
            f"MDaML(n_components={estimator.n_components}) is a metric of low rank, which is "
            "learned in one memory only. Leave n_components out, or use fit."
        )
    cuts = cut_rows(given[:, 0], rows.n_samples, n_shards)
    cluster.place(len(cuts) - 1)
    problem = _make_problem(estimator, rows, given, cuts, cluster, triplet_weight)
    rows = replace(rows, blocks=[])  # shards have copies of what they need
    rng = check_random_state(estimator.random_state)
    F = _start_metric(estimator, problem, rows.n_features)
    tables = _start_tables(estimator, problem, cuts, rng)
    sums, masses = cluster.total(_shard.weighted_sums, problem.shards, tables)
    centers = (sums / masses[:, None]).astype(rows.dtype)
    outcome = alternate(
        problem,
        estimator._better_start(problem, problem.start(F, centers, tables)),
        max_iter=estimator._n_rounds(near=False),
        tol=estimator.tol,
        callback=estimator.callback,
    )
    estimator._store(
        np.empty((0, rows.n_features)),
        principal_components(outcome.state.F),
        rows.dtype,
        triplets_=given,
        comparisons_=None,
        comparison_weights_=None,
        triplet_weight_=triplet_weight,
        lambda1_critical_=problem.critical_triplet_weight(outcome.state),
        centers_=outcome.state.centers + rows.mean,
        weights_=problem.weights(outcome.state),
        history_=np.array(outcome.history),
        pass_starts_=np.array([0]),
        n_iter_=outcome.n_iter,
        n_samples_seen_=rows.n_samples,
        n_comparisons_seen_=len(given),
    )
    estimator.__dict__.pop("_stream", None)  # what partial_fit kept of other samples
    return outcome


def _make_problem(
    estimator: MDaML,
    rows: Rows,
    triplets: IntArray,
    cuts: IntArray,
    cluster: Cluster,
    triplet_weight: float,
) -> ShardedProblem:
    """Group the triplets on the workers, plan what they exchange, and send rows to where."""
    grouped = [
        cluster.task(i, _shard.group, chosen, begin, end, rows.n_samples)
        for i, (begin, end, chosen) in enumerate(_by_anchor(triplets, cuts))
    ]
    surveys: list[Survey] = cluster.fetch(cluster.each(_shard.survey, grouped))
    plan = make_plan(surveys, cuts)
    shards = []
    for i, survey in enumerate(surveys):
        own = np.arange(cuts[i], cuts[i + 1])
        blocks, wanted, places = rows.pieces(
            np.concatenate([own, survey.near_rows, survey.far_rows])
        )
        pieces = [
            cluster.task(i, _shard.take, rows.blocks[b], w)
            for b, w in zip(blocks, wanted, strict=True)
        ]
        args = (i, grouped[i], plan.borders[i], rows.mean, places, pieces)
        shards.append(cluster.task(i, _shard.assemble, *args))
    return ShardedProblem(
        cluster=cluster,
        shards=shards,
        plan=plan,
        n_samples=rows.n_samples,
        n_triplets=len(triplets),
        eta=float(estimator.eta),
        triplet_weight=triplet_weight,
        ridge=float(estimator.ridge),
        max_inner_iter=estimator.max_inner_iter,
        dtype=rows.dtype.name,
    )


def _by_anchor(triplets: IntArray, cuts: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """Yield each block of rows, its begin and end, and the triplets whose anchors are in it."""
    owner = (np.searchsorted(cuts, triplets[:, 0], side="right") - 1).astype(np.uint16)
    order = None if np.all(owner[:-1] <= owner[1:]) else np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner, np.arange(len(cuts)), sorter=order)
    for i, (begin, end) in enumerate(pairwise(cuts.tolist())):
        chosen = slice(ends[i], ends[i + 1])
        # Sorted triplets, perhaps of a file that is mapped into memory, are read and not copied.
        yield begin, end, triplets[chosen] if order is None else triplets[order[chosen]]


def _start_metric(estimator: MDaML, problem: ShardedProblem, n_features: int) -> FloatArray:
    """Return the factor of the first metric."""
    given = estimator.init_metric
    if not isinstance(given, str):
        return np.linalg.cholesky(check_metric(estimator, "init_metric", given, n_features))
    if given != "whitened":
        return np.eye(n_features)
    (moment,) = problem.cluster.total(_shard.second_moment, problem.shards)
    return whitening_from_covariance(moment / problem.n_samples)


def _start_tables(
    estimator: MDaML, problem: ShardedProblem, cuts: IntArray, rng: np.random.RandomState
) -> Parts:
    """Return the first weights, by the same estimate as in one memory."""
    cluster, n_samples = problem.cluster, problem.n_samples
    mean: FloatArray = np.zeros(1)
    spread: FloatArray = np.ones(1)
    if isinstance(estimator.init, str) and estimator.n_modes > 1:
        if estimator.init == "gmm":
            mean, spread = _mean_and_spread(problem)
        rows = rows_for_start(n_samples, estimator.n_modes, rng)
        rows = np.arange(n_samples) if rows is None else rows
        chosen = [
            rows[slice(*np.searchsorted(rows, bounds))] - bounds[0] for bounds in pairwise(cuts)
        ]
        some = cluster.each(_shard.scaled_rows, problem.shards, chosen, mean, spread)
        estimate = estimate_mixture if estimator.init == "gmm" else estimate_kmeans
        start = estimate(np.concatenate(cluster.fetch(some)), estimator.n_modes, rng)
    else:
        given: FloatArray = np.ones((n_samples, 1))
        if not isinstance(estimator.init, str):
            given = check_start_weights(estimator, estimator.init, n_samples, estimator.n_modes)
        start = [given[begin:end] for begin, end in pairwise(cuts)]
    return cluster.each(_shard.first_table, problem.shards, start, mean, spread, problem.eta)


def _mean_and_spread(problem: ShardedProblem) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the features."""
    (total,) = problem.cluster.total(_shard.own_sum, problem.shards)
    mean = (total / problem.n_samples).astype(problem.dtype)
    (squares,) = problem.cluster.total(_shard.own_squares, problem.shards, mean)
    return mean, np.sqrt(squares / problem.n_samples).astype(problem.dtype)
