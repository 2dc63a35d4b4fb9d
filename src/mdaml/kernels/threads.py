"""Threads for compiled loops that release the interpreter lock.

Why not Numba's own ``prange``: its OpenMP threads spin while they wait. Beside BLAS threads, or any
other busy process, that made a fit two to a hundred times slower; it also forbids a later ``fork``.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from typing import TypeVar

from mdaml.kernels.compiling import suited_to

# Elementary operations, about half a millisecond, below which a thread is not worth waking: the
# scheduler often takes tens of milliseconds to move a woken thread to a free core.
GRAIN = 1_000_000

Result = TypeVar("Result")


def n_threads() -> int:
    """Threads used by the kernels: ``NUMBA_NUM_THREADS``, or one per available core."""
    import numba

    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


_allowed: ContextVar[int] = ContextVar("allowed", default=1_000_000)


@contextmanager
def threads_at_most(n: int) -> Iterator[None]:
    """Use at most n threads for work that starts in this context."""
    before = _allowed.set(n)
    try:
        yield
    finally:
        _allowed.reset(before)


def share(loop: Callable[..., None], n_items: int, cost: int, *args: object) -> None:
    """Call ``loop(begin, end, *args)`` on consecutive shares of the items, in all threads.

    ``cost`` estimates the elementary operations of the whole; small work stays in this thread.
    """
    loop = suited_to(loop, cost)  # not by every thread for itself
    n_shares = min(n_items, cost // GRAIN)
    if n_shares > 1:
        n_shares = min(n_shares, n_threads(), _allowed.get())
    if n_shares <= 1:
        loop(0, n_items, *args)
        return
    cuts = [n_items * part // n_shares for part in range(n_shares + 1)]
    others = [_pool().submit(loop, begin, end, *args) for begin, end in pairwise(cuts[1:])]
    loop(0, cuts[1], *args)
    for other in others:
        other.result()


def with_memory(
    loop: Callable[..., None], make: Callable[[], tuple[object, ...]]
) -> Callable[..., None]:
    """Return the loop with new arrays behind its arguments in every call, for every thread its own.

    Arrays that are made in a loop would have to be compiled with it.
    """
    compiled = suited_to(loop, GRAIN)
    return lambda *args: compiled(*args, *make())


def side_by_side(
    call: Callable[..., Result], items: Sequence[tuple[object, ...]], n_at_once: int
) -> Iterator[Result]:
    """Yield ``call(*item)`` for each item in order, several at a time, the first one by itself.

    For calls that mostly wait, such as for a device. The first one compiles what all need.
    """
    if n_at_once == 1 or len(items) < 3:
        yield from (call(*item) for item in items)
        return
    yield call(*items[0])
    with ThreadPoolExecutor(n_at_once, "mdaml-calls") as pool:
        made = [pool.submit(copy_context().run, call, *item) for item in items[1:]]
        try:
            yield from (one.result() for one in made)
        finally:
            for one in made:  # after an error, or when the caller stops
                one.cancel()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, n_threads() - 1), "mdaml")


# The threads of a pool do not live on in a forked child: let it make its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
