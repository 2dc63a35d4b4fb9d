"""The workers of a Dask cluster, as far as a fit needs them; the only file that imports Dask.

All data on the workers are results of pure functions, and the scheduler remembers how each was
made, back to X and the comparisons. When a worker dies, Dask computes again elsewhere what it had;
the driver does not notice.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from mdaml._typing import FloatArray
from mdaml.kernels.threads import threads_at_most

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

# Sums of more than this many parts are first added up on the workers.
FAN_IN = 8
# Bytes of an argument of all tasks from which on it is not sent with each.
LARGE = 8_000
# Seconds between two looks at whether anything is left to wait for.
PATIENCE = 1.0


class Remote:
    """A result on a worker, or to be on one; let go of it, and the worker may forget it."""

    __slots__ = ("__weakref__", "future", "key")

    def __init__(self, key: str, future: "Future | None" = None) -> None:
        self.key, self.future = key, future


class Cluster:
    """Shards on workers: shard ``i`` is computed where it was before, while that worker lives.

    Tasks are gathered, and sent when a result is fetched, all in one graph. Leave a cluster by
    ``with``: on an error, what was sent and is not yet done is cancelled.
    """

    def __init__(self, client: "Client", timeout: float) -> None:
        self._client, self._timeout = client, timeout
        self._name, self._counter = uuid4().hex, count()
        self._graph: dict[str, tuple[object, ...]] = {}  # not yet sent
        self._unsent: WeakValueDictionary[str, Remote] = WeakValueDictionary()
        self._sent: WeakSet[Future] = WeakSet()  # futures
        self._workers: list[str] = []  # by shard
        self._n_threads: list[int] = []  # by shard
        with self._explained():
            try:
                client.wait_for_workers(1, timeout=timeout)
            except TimeoutError:
                raise RuntimeError(
                    f"The Dask cluster had no worker for {timeout:g} seconds. Start workers, or "
                    "pass a longer timeout=."
                ) from None
            self._threads: dict[str, int] = dict(sorted(client.nthreads().items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(Exception):  # the client may be gone; the first error matters
                self._client.cancel(list(self._sent), force=True)

    @property
    def n_workers(self) -> int:
        """Workers at the start."""
        return len(self._threads)

    @property
    def n_shards(self) -> int:
        """Shards that have been placed."""
        return len(self._workers)

    def place(self, n_shards: int) -> None:
        """Spread shards over the workers and their threads."""
        workers = list(self._threads)
        self._workers = [workers[i * len(workers) // n_shards] for i in range(n_shards)]
        shares = Counter(self._workers)
        self._n_threads = [max(1, self._threads[w] // shares[w]) for w in self._workers]

    def load(self, tasks: "Sequence[Delayed]") -> list[Remote]:
        """Return the results of tasks of other making, such as the blocks of a Dask array."""
        with self._explained():
            futures = self._client.compute(list(tasks), optimize_graph=False)
        self._sent.update(futures)
        return [Remote(future.key, future) for future in futures]

    def task(self, index: int, function: Callable[..., object], *args: object) -> Remote:
        """Return a part to be computed on the worker of a shard."""
        # The dashboard shows the first word; the last says where.
        part = Remote(f"{function.__name__}-{self._name}-{next(self._counter)}-{index}")
        how = Carried((function, self._n_threads[index]))
        self._graph[part.key] = _run, how, *map(_spell, args)
        self._unsent[part.key] = part
        return part

    def share(self, value: object) -> Remote:
        """Return a value that is sent once, then from worker to worker."""
        return self.task(0, same, value)

    def each(self, function: Callable[..., object], *columns: object) -> list[Remote]:
        """Return a part for each shard; columns are lists with an entry for each, or shared."""
        shared = [
            self.share(c) if isinstance(c, np.ndarray) and c.nbytes > LARGE else c for c in columns
        ]
        return [
            self.task(i, function, *(c[i] if isinstance(c, list) else c for c in shared))
            for i in range(self.n_shards)
        ]

    def total(self, function: Callable[..., object], *columns: object) -> tuple[FloatArray, ...]:
        """Return the sum over shards of a function that returns arrays."""
        parts = self.each(function, *columns)
        while len(parts) > FAN_IN:
            firsts = range(0, len(parts), FAN_IN)
            parts = [self.task(i, add, *parts[i : i + FAN_IN]) for i in firsts]
        return add(*self.fetch(parts))

    def fetch(self, parts: Sequence[Remote]) -> list[Any]:
        """Return results, once they are there."""
        from distributed import wait

        with self._explained():
            self._send()
            futures, last_seen = [part.future for part in parts], time.monotonic()
            while True:
                try:
                    wait(futures, timeout=PATIENCE)
                    return self._client.gather(futures)
                except TimeoutError:
                    if self._client.scheduler_info(n_workers=-1)["workers"]:
                        last_seen = time.monotonic()
                    elif time.monotonic() - last_seen > self._timeout:
                        raise RuntimeError(
                            f"No worker of the Dask cluster has been alive for {self._timeout:g} "
                            "seconds, and the fit was given up. Start workers, or pass a longer "
                            "timeout=, and fit again."
                        ) from None

    def _send(self) -> None:
        """Send all tasks; keep futures of those parts that somebody still has."""
        import dask

        graph, self._graph = self._graph, {}
        parts = list(self._unsent.values())
        self._unsent.clear()
        where = {"workers": partial(_worker_of, self._workers), "allow_other_workers": True}
        # X and comparisons, where they come from the driver, travel with the tasks on purpose: the
        # scheduler must be able to send them again.
        quiet = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}
        with dask.annotate(**where), dask.config.set(quiet):
            futures = self._client.get(graph, [part.key for part in parts], sync=False)
        for part, future in zip(parts, futures, strict=True):
            part.future = future
        self._sent.update(futures)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain errors that mean the cluster is gone or cannot do the work."""
        import distributed.client
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        # Not every version of Dask has an error of its own for this.
        closed = getattr(distributed.client, "ClosedClientError", CommClosedError)
        try:
            yield
        except KilledWorker as error:
            raise RuntimeError(
                "Workers died one after another while they computed the same part of the fit, "
                "most likely for lack of memory. Give them more, or pass a higher n_shards= with "
                "more workers."
            ) from error
        except (CancelledError, CommClosedError, closed) as error:
            raise RuntimeError(_GONE) from error
        except (OSError, RuntimeError) as error:  # how a connection ends depends on its transport
            if getattr(self._client, "status", "closed") != "running":
                raise RuntimeError(_GONE) from error
            raise


_GONE = (
    "The Dask cluster is gone: its scheduler or the client was closed during the fit, or rows of "
    "X that had been scattered were lost with their worker. The estimator is as it was before. "
    "Connect to a running cluster, pass X as an array that Dask can load again, and fit again."
)


def _worker_of(workers: Sequence[str], key: str) -> list[str]:
    """Return the worker of a task, by the shard that its key ends in; asked by the scheduler."""
    return [workers[int(key.rpartition("-")[2])]]


def _spell(arg: object) -> object:
    """Return an argument as Dask knows it: futures of what was sent, keys of what was not."""
    if isinstance(arg, Remote):
        return arg.key if arg.future is None else arg.future
    if isinstance(arg, list) or type(arg) is tuple:  # tuples with names are values
        return list(map(_spell, arg))
    return arg if isinstance(arg, int | float) else Carried(arg)


class Carried:
    """A value that travels with a task; Dask would read all of it to name the graph."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __dask_tokenize__(self) -> str:
        return uuid4().hex


def _run(how: "Carried", *args: object) -> object:
    """Compute on a worker, with the threads that it has for this shard."""
    function, n_threads = how.value
    with threads_at_most(n_threads):
        return function(*map(_read, args))


def _read(arg: object) -> object:
    if isinstance(arg, list):
        return list(map(_read, arg))
    return arg.value if isinstance(arg, Carried) else arg


def same(value: object) -> object:
    """Return a value, which then is on a worker and goes on from there."""
    return value


def add(*parts: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """Return sums, place by place."""
    return tuple(np.sum(part, axis=0) for part in zip(*parts, strict=True))


def check_client(client: "Client | None") -> "Client":
    """Return a client that is connected, the one that was made last if none is given."""
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
