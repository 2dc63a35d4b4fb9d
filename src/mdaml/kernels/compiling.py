"""Loops that Numba compiles when they are first called, not when they are imported.

``import mdaml`` must not wait for the compiler, so a decorated function is a :class:`Loop` until
its first call. Then it is compiled, and so are the loops that it calls.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any


class Loop:
    """A function of arrays, to be compiled by ``make(numba)`` at its first call."""

    def __init__(self, function: Callable[..., Any], make: Callable[[Any], Any]) -> None:
        self.function, self.make = function, make
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any) -> Any:
        """Compile, and run."""
        return self.compiled(*args)

    @cached_property
    def compiled(self) -> Any:
        """What Numba makes of the function; its name in the module refers to this from now on."""
        import numba

        names: dict[str, Any] = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(names.get(name), Loop):
                names[name] = names[name].compiled
        return self.make(numba)(self.function)


def _njit(fastmath: frozenset[str]) -> Callable[[Any], Any]:
    return lambda numba: numba.njit(nogil=True, cache=True, fastmath=set(fastmath) or False)


# Sums may be reordered and contracted for vector units, and maximum and minimum need no test for
# NaN: all input was checked to be finite.
fast_loop: Any = partial(Loop, make=_njit(frozenset({"reassoc", "contract", "nsz", "nnan"})))
# Sums stay in the order written: where a term is added to many entries, vector units need no other.
# Reordered ones came out differently from compiled code and from the same code out of its cache.
ordered_loop: Any = partial(Loop, make=_njit(frozenset({"contract", "nsz", "nnan"})))
# Nothing is reordered: for logarithms and comparisons.
exact_loop: Any = partial(Loop, make=_njit(frozenset()))
# Code generation in LLVM, for what Python cannot say.
intrinsic: Any = partial(Loop, make=lambda numba: numba.extending.intrinsic)
