"""Fits whose samples and comparisons are spread over the workers of a Dask cluster."""

from dataclasses import replace
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from mdaml._typing import ArrayLike, FloatArray, IntArray, Params
from mdaml._validation import check_random_state
from mdaml.basis import Basis
from mdaml.constraints import arguments
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import compared_rows
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators import LocalMDaML, MDaML
from mdaml.estimators.local_learning import compare_classes, learn
from mdaml.estimators.local_rounds import few_comparisons
from mdaml.estimators.posing import Posed, pose
from mdaml.stores.choice import check_limit, current_limit, find_device, fit_size, must_spare
from mdaml.stores.dask.cluster import Cluster, check_client
from mdaml.stores.dask.plan import cut_rows
from mdaml.stores.dask.rows import Rows
from mdaml.stores.dask.store import DaskStore

__all__ = ["fit"]
_MOST_SMALL_SHARDS, _ROWS_OF_A_SHARD = 16, 100
_MOST_ROWS = 20_000  # that places are found among, and those that are compared
Estimator = TypeVar("Estimator", MDaML, LocalMDaML)


def fit(
    estimator: Estimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    triplets: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    pair_labels: ArrayLike | None = None,
    quadruplets: ArrayLike | None = None,
    constraints: Constraints | None = None,
    constraint_weight: ArrayLike | None = None,
    who: ArrayLike | None = None,
    client: Any = None,
    n_shards: int | None = None,
    timeout: float = 60.0,
) -> Estimator:
    """Fit MDaML or LocalMDaML to samples and comparisons spread over the workers of a Dask cluster.

    The result is that of ``estimator.fit`` with the same arguments: the same steps in the same
    order, apart from rounding. Samples stay on the workers; for each step of the metric they send
    one matrix of the size of the metric and a few numbers.

    Parameters
    ----------
    estimator : MDaML or LocalMDaML
        The estimator to fit. It is changed only after the fit has succeeded.
    X : dask array of shape (n_samples, n_features), list of futures, or array-like
        Samples. Each future is a block of rows. Arrays are cut into blocks and sent.
    y : array-like of shape (n_samples,), optional
        Class labels, from which triplets are drawn.
    triplets, pairs, pair_labels, quadruplets : array-like, optional
        Comparisons of the rows of X, as for :meth:`mdaml.MDaML.fit`.
    constraints : Constraints, optional
        The same in one value.
    constraint_weight : array-like, optional
        Positive weights of the comparisons, as for :meth:`mdaml.MDaML.fit`.
    who : array-like, optional
        Who made each comparison, as for :meth:`mdaml.MDaML.fit`. The mapped samples then come to
        this process a few times, to see which answers hold.
    client : distributed.Client, optional
        The cluster; by default the client that was made last.
    n_shards : int, optional
        Number of parts into which samples and comparisons are cut; by default one for each
        worker. With more than 16 parts, each holds at least 100 rows.
    timeout : float, default=60.0
        Seconds to wait for a worker while there is none.

    Returns
    -------
    estimator : MDaML or LocalMDaML
        The one that was passed, fitted; its attributes are arrays in this process.

    Raises
    ------
    RuntimeError
        If the cluster is gone. If a single worker is lost, its work is repeated.

    See Also
    --------
    mdaml.MDaML : The same fit in one process, or on a GPU with ``device=``.

    Notes
    -----
    All parameters of the estimator mean the same as on one machine; ``device`` and
    :func:`mdaml.limit_memory` apply to each worker. At most 20 000 rows come to this process, to
    estimate the first modes. For labels, neighbours are searched shard by shard, with the same
    recall as in one memory. The guide "Clusters with Dask" tells what is sent when, and what a
    large fit costs.

    :class:`~mdaml.LocalMDaML` chooses and finds places in this process, among at most 80 000 rows;
    workers make the columns of their own rows. Of up to 20 000 rows the result is that of ``fit``.

    Examples
    --------
    With a cluster that runs elsewhere, ``Client("address:8786")`` is all that changes.

    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> import mdaml.distributed
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_triplets
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> triplets, _ = make_triplets(X, n_triplets=3000, components=np.eye(4)[:1], random_state=0)
    >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
    ...     metric = mdaml.distributed.fit(MDaML(anchor=0.01), X, triplets=triplets, client=client)
    >>> metric.score_triplets(X, triplets) > 0.95
    True
    """
    if isinstance(estimator, type) or not isinstance(estimator, MDaML | LocalMDaML):
        raise TypeError(
            "estimator must be an MDaML or a LocalMDaML, such as MDaML(n_modes=4), got "
            f"{estimator!r}. Other methods are fitted in one memory."
        )
    is_count = isinstance(n_shards, Integral) and not isinstance(n_shards, bool) and n_shards > 0
    if n_shards is not None and not is_count:
        raise ValueError(f"n_shards must be None or an integer of at least 1, got {n_shards!r}.")
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}.")
    given = {
        "triplets": triplets,
        "pairs": pairs,
        "pair_labels": pair_labels,
        "quadruplets": quadruplets,
        "constraints": constraints,
        "constraint_weight": constraint_weight,
    }
    given = {form: value for form, value in given.items() if value is not None}
    arguments.check_forms("MDaML", arguments.EVERY_FORM, y, given)
    with Cluster(check_client(client), timeout) as cluster:
        cluster.place(n_shards or cluster.n_workers)
        rows = Rows.from_any(X, cluster)
        supervision = _check_supervision(rows.n_samples, y, given)
        persons = None if who is None else arguments.persons_of(supervision, who)
        if isinstance(estimator, LocalMDaML):
            _fit_places(estimator, cluster, rows, supervision, persons, n_shards)
        else:
            _fit_linear(estimator, cluster, rows, supervision, persons, n_shards)
    estimator.__dict__.pop("_stream", None)  # what partial_fit kept of other samples
    return estimator


def _fit_linear(
    estimator: MDaML,
    cluster: Cluster,
    rows: Rows,
    supervision: arguments.Supervision,
    persons: Persons | None,
    n_shards: int | None,
) -> None:
    """Fit one linear map of the rows."""
    cluster.place(n_shards or cluster.n_workers)
    shape = (rows.n_samples, rows.n_features)
    posed = pose(estimator, shape, supervision, unit_rows=rows.unit_length, persons=persons)
    most = max(_MOST_SMALL_SHARDS, rows.n_samples // _ROWS_OF_A_SHARD)
    cuts = cut_rows(_references(posed.supervision), rows.n_samples, min(cluster.n_shards, most))
    cluster.place(len(cuts) - 1)
    kind = _kind(estimator, rows, posed, len(cuts) - 1)
    store: Any = DaskStore.of(cluster, rows, cuts, kind)
    with store.threads():
        posed, gain = posed.choose(store)
        run = posed.problem.start(store, check_random_state(estimator.random_state))
        estimator._keep(np.empty((0, rows.n_features), rows.dtype), posed, run.complete(), gain)


def _fit_places(
    estimator: LocalMDaML,
    cluster: Cluster,
    rows: Rows,
    supervision: arguments.Supervision,
    persons: Persons | None,
    n_shards: int | None,
) -> None:
    """Find places among some of the rows, in this process; then fit the metric to all of them."""

    def fit_to_all(metric: MDaML, basis: Basis, T: FloatArray | None) -> None:
        columns, given = rows, supervision
        if T is not None:
            columns = rows.on_basis(cluster, basis, T)
            if isinstance(given, Classes):
                given = compare_classes(given, rows.n_samples)
        _fit_linear(metric, cluster, columns, given, persons, n_shards)

    order = np.random.RandomState(0).permutation(rows.n_samples)
    some: IntArray = np.sort(order[:_MOST_ROWS])
    few: arguments.Supervision
    if isinstance(supervision, Classes):
        labels = np.full(rows.n_samples, -1)  # none
        labels[supervision.rows] = supervision.of
        few = Classes.from_labels("LocalMDaML", labels[some])
    else:
        few = few_comparisons(supervision)
        some = np.union1d(some, compared_rows(few))
        few = few.restrict(some)
    X = rows.fetch(cluster, some)
    learned = learn(estimator, X, few, None, fit_to_all)
    estimator._keep(np.empty((0, rows.n_features)), learned, supervision)


def _check_supervision(n_samples: int, y: ArrayLike | None, given: Params) -> arguments.Supervision:
    """Return labels, one for each row, or constraints."""
    if y is None:
        return arguments.constraints_of(n_samples, **given)
    labels = np.asarray(y)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"y must hold one label for each of the {n_samples} rows of X, got shape "
            f"{labels.shape}."
        )
    return Classes.from_labels("MDaML", labels)


def _references(supervision: arguments.Supervision) -> IntArray:
    """Return the rows that comparisons will begin with, about as often as they will."""
    if isinstance(supervision, Classes):
        return supervision.rows[supervision.references]
    near = np.concatenate([supervision.pairs, supervision.quadruplets[:, :2]])
    return np.concatenate([supervision.triplets[:, 0], near.min(axis=1)])


def _kind(estimator: MDaML, rows: Rows, posed: Posed, n_shards: int) -> str:
    """Return how workers compute: on a device, in memory, or in blocks to keep a limit."""
    device = find_device("MDaML(device=...)", estimator.device)
    limit = current_limit()
    if limit is None:
        return device or "memory"
    shape, itemsize = (rows.n_samples, rows.n_features), rows.dtype.itemsize
    whole = fit_size(shape, itemsize, posed.spec, posed.supervision, copied=True)
    n_pairs, n_comparisons = -(-whole.n_pairs // n_shards), -(-whole.n_comparisons // n_shards)
    # Own rows and, at most, one partner for each pair.
    n_rows = min(shape[0], -(-shape[0] // n_shards) + 2 * n_pairs)
    size = replace(
        whole,
        n_samples=n_rows,
        n_pairs=n_pairs,
        n_comparisons=n_comparisons,
        n_drawn=2 * n_comparisons,
    )
    if device is not None:
        check_limit(limit, size, size.needed_on_device())
        return device
    copies = 2 * n_rows * shape[1] * itemsize  # of own rows with those of partners
    return "blocks" if must_spare(limit, size, copies) else "memory"
