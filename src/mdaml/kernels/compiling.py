"""Loops that Numba compiles when they are first called, not when they are imported.

``import mdaml`` must not wait for the compiler, so a decorated function is a :class:`Loop` until
its first call. Then it is compiled, and so are the loops that it calls.
"""

import gc
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from pickle import UnpicklingError
from types import FunctionType
from typing import Any, ClassVar, TypeAlias

from mdaml._progress import interrupt, resume

# Numba has no types for others: its module, what it makes of a function, and types of arguments.
_Untyped: TypeAlias = Any


class Loop:
    """A function of arrays, to be compiled by ``make(numba)`` at its first call."""

    def __init__(
        self, function: Callable[..., _Untyped], make: Callable[[_Untyped], _Untyped]
    ) -> None:
        self.function, self.make = function, make
        self.__doc__ = function.__doc__

    def __call__(self, *args: object) -> _Untyped:
        """Compile, and run."""
        return self.compiled(*args)

    @cached_property
    def compiled(self) -> _Untyped:
        """What Numba makes of the function; its name in the module refers to this from now on."""
        import numba

        names: dict[str, _Untyped] = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(names.get(name), Loop):
                names[name] = names[name].compiled
        return self.make(numba)(self.function)

    @cached_property
    def plain(self) -> Callable[..., _Untyped]:
        """The function for Python itself, and so are the loops that it calls."""
        names: dict[str, _Untyped] = self.function.__globals__
        called = {name: names.get(name) for name in self.function.__code__.co_names}
        loops = {name: loop.plain for name, loop in called.items() if isinstance(loop, Loop)}
        return FunctionType(self.function.__code__, {**names, **loops}, self.function.__name__)


class IntegerLoop(Loop):
    """A loop over integers alone: Python gives the same result, and is not to be compiled first.

    So a first fit to little data does not wait for the compiler. A loop whose compiled code is in a
    file is never left to Python. The same result may also be had from functions of NumPy.
    """

    # Elementary operations left to Python, in all: about 0.2 s. The compiler takes about a second
    # for the loops of a fit.
    patience: ClassVar[int] = 2_000_000

    def suited_to(self, cost: int) -> Callable[..., _Untyped]:
        """Return the function for so many elementary operations, compiled or not."""
        return self.plain if self.can_wait(cost) else self.compiled

    def can_wait(self, cost: int) -> bool:
        """Whether so many elementary operations are better done without the compiler."""
        cls = IntegerLoop
        if "compiled" in vars(self) or cost > cls.patience or self._is_kept:
            return False
        cls.patience -= cost
        return True

    @cached_property
    def _is_kept(self) -> bool:
        """Whether there is a file with compiled code."""
        from numba.core.caching import FunctionCache

        code = self.function.__code__
        with suppress(OSError, RuntimeError):  # there is no folder that can be written
            folder = Path(FunctionCache(self.function).cache_path)
            return any(folder.glob(f"*{code.co_qualname}-{code.co_firstlineno}.*.nbi"))
        return False


def suited_to(loop: Callable[..., _Untyped], cost: int) -> Callable[..., _Untyped]:
    """Return what to call for so many elementary operations, and by any thread."""
    if isinstance(loop, IntegerLoop):
        return loop.suited_to(cost)
    return loop.compiled if isinstance(loop, Loop) else loop


def can_wait(loop: Callable[..., _Untyped], cost: int) -> bool:
    """Whether so many elementary operations are better done without the compiled loop."""
    return isinstance(loop, IntegerLoop) and loop.can_wait(cost)


def _njit(fastmath: frozenset[str], **options: object) -> Callable[[_Untyped], _Untyped]:
    def make(numba: _Untyped) -> Callable[[_Untyped], _Untyped]:
        # Never needed, and more to compile: a wrapper to be called from C, tests for division by 0.
        compiled = numba.njit(
            nogil=True,
            fastmath=set(fastmath) or False,
            error_model="numpy",
            no_cfunc_wrapper=True,
            **options,
        )
        return lambda function: _without_collector(_with_cache(compiled(function)))

    return make


def _without_collector(compiled: _Untyped) -> _Untyped:
    """Let the collector of garbage rest while the loop is compiled.

    It would go through the millions of objects of the compiler again and again, which took an
    eighth of the time. They are let go by their counts of references, most of them.
    """
    compile_loop = compiled.compile

    def compile_undisturbed(types: _Untyped) -> _Untyped:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return compile_loop(types)
        finally:
            if was_on:  # neither by the user, nor by a loop that calls this one, switched off
                gc.enable()

    compiled.compile = compile_undisturbed
    return compiled


def _with_cache(compiled: _Untyped) -> _Untyped:
    """Let compiled code outlast the process, where that is possible.

    ``cache=True`` of Numba would fail where no file can be written or one is damaged.
    """
    from numba.core.caching import FunctionCache

    class SafeCache(FunctionCache):
        """Numba's own, which compiles where it cannot read, and goes on where it cannot write."""

        def load_overload(self, types: _Untyped, *args: _Untyped) -> _Untyped:
            try:
                found = super().load_overload(types, *args)
            except _DAMAGE as error:
                _warn_once(error)
                found = None
                with suppress(OSError):
                    self.flush()  # an empty file in place of the damaged one
            # Of two processes that save at the same time, one may overwrite the file of the other.
            if found is None or found.signature.args != tuple(types):
                interrupt("compiling, once")
                return None
            return found

        def save_overload(self, *args: _Untyped) -> None:
            resume()
            try:
                super().save_overload(*args)
            except _DAMAGE as error:
                _warn_once(error)

    try:
        # What cache=True sets to a FunctionCache; there is no public way to another one.
        compiled._cache = SafeCache(compiled.py_func)
    except (OSError, RuntimeError) as error:  # there is no folder that can be written
        _warn_once(error)
    return compiled


# What unpickling a file that was cut off or changed may raise, and files that cannot be written.
_DAMAGE = (
    *(OSError, EOFError, UnpicklingError, MemoryError, ImportError),
    *(AttributeError, LookupError, RuntimeError, TypeError, ValueError),
)
_warned = False


def _warn_once(error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"Compiled code cannot be kept or read: {error}. It is compiled again in every "
            "process, which takes up to a minute. Set NUMBA_CACHE_DIR to a folder with free space "
            "that can be written.",
            RuntimeWarning,
            stacklevel=2,
        )


# Sums may be reordered and contracted for vector units, and maximum and minimum need no test for
# NaN: all input was checked to be finite.
_FAST = frozenset({"reassoc", "contract", "nsz", "nnan"})
fast_loop: _Untyped = partial(Loop, make=_njit(_FAST))
# Called by other loops only: a wrapper for Python would be more to compile.
inner_loop: _Untyped = partial(Loop, make=_njit(_FAST, no_cpython_wrapper=True))
# A step of one other loop, compiled as a part of it: by itself it would be optimised twice.
inner_step: _Untyped = partial(Loop, make=_njit(_FAST, inline="always"))
integer_loop: _Untyped = partial(IntegerLoop, make=_njit(_FAST))
# Sums stay in the order written: where a term is added to many entries, vector units need no other.
# Reordered ones came out differently from compiled code and from the same code out of its cache.
# Called by other loops only, as the second kind.
ordered_loop: _Untyped = partial(
    Loop, make=_njit(frozenset({"contract", "nsz", "nnan"}), no_cpython_wrapper=True)
)
# Nothing is reordered: for logarithms and comparisons. Loops over integers take the first kind all
# the same: Numba compiles what they call, such as np.empty, once for each kind.
exact_loop: _Untyped = partial(Loop, make=_njit(frozenset()))
# Code generation in LLVM, for what Python cannot say.
intrinsic: _Untyped = partial(Loop, make=lambda numba: numba.extending.intrinsic)
