"""How much memory a fit may use: a setting of the process, not of an estimator."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mdaml._validation import check_memory_limit

_VARIABLE = "MDAML_MEMORY_LIMIT"
_limit: ContextVar[int | None] = ContextVar("memory_limit")  # none was set: the variable decides


@contextmanager
def limit_memory(limit: int | str | None) -> Iterator[None]:
    """Limit the memory of fits of :class:`MDaML` within a ``with`` block.

    X is copied only if the copies fit; a fit that needs more without them is refused before it
    starts. Without a limit memory is saved if X is larger than 32 MiB. On a device it limits the
    memory there, on a cluster that of each worker. The environment variable ``MDAML_MEMORY_LIMIT``
    sets a limit for a whole process, also for threads and processes that others start within the
    block; :class:`~mdaml.model_selection.MetricSearchCV` hands the limit on to its own. The guide
    "scaling" says how much a fit needs.

    Parameters
    ----------
    limit : int, str or None
        Maximum number of bytes, or text such as "2 GB", that a fit may use beyond X and the
        comparisons passed. None sets no limit, whatever the environment variable says.

    Yields
    ------
    None
        Fits in the block keep the limit.

    See Also
    --------
    MDaML : The fits that keep the limit.

    Examples
    --------
    >>> import mdaml
    >>> from mdaml.datasets import make_multimodal
    >>> X, y = make_multimodal(random_state=0)
    >>> with mdaml.limit_memory("500 MB"):
    ...     model = mdaml.MDaML(random_state=0).fit(X, y)
    """
    token = _limit.set(check_memory_limit("limit_memory(limit)", limit))
    try:
        yield
    finally:
        _limit.reset(token)


def current_limit() -> int | None:
    """Return the limit in force, in bytes; None is none."""
    try:
        return _limit.get()
    except LookupError:
        given = os.environ.get(_VARIABLE)
        return check_memory_limit(f"The environment variable {_VARIABLE}", given or None)
