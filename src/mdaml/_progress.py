"""Progress of long work: named phases and their steps, shown as a bar where somebody looks.

The work calls :func:`report` and knows nothing else. Its caller says by :func:`listen` or
:func:`show` where reports go; otherwise they are dropped, at the cost of one look-up.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

# Called with the phase, the steps done in it and their number, None where that is not known.
Listener: TypeAlias = Callable[[str, int | None, int | None], None]
_Report: TypeAlias = tuple[str, int | None, int | None]

# Who listens, whether to interruptions only, and what was reported last.
_Listening: TypeAlias = tuple[Listener, bool, list[_Report]]

_listening: ContextVar[_Listening | None] = ContextVar("listening", default=None)
_SECONDS = 1.0  # between two lines of one phase


def report(phase: str, done: int | None = None, total: int | None = None) -> None:
    """Say in which phase the work is, and how far."""
    current = _listening.get()
    if current is not None and not current[1]:
        listener, _, last = current
        last[:] = [(phase, done, total)]
        listener(phase, done, total)


def interrupt(phase: str) -> None:
    """Report another phase, until :func:`resume`."""
    current = _listening.get()
    if current is not None:
        current[0](phase, None, None)


def resume() -> None:
    """Say again what was reported before the interruption."""
    current = _listening.get()
    if current is not None and current[2]:
        current[0](*current[2][0])


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send reports to a function, whatever else would show them."""
    before = _listening.set((listener, False, []))
    try:
        yield
    finally:
        _listening.reset(before)


@contextmanager
def mute() -> Iterator[None]:
    """Drop reports, such as those of the many fits of a search, but not interruptions."""
    current = _listening.get()
    before = _listening.set(None if current is None else (current[0], True, current[2]))
    try:
        yield
    finally:
        _listening.reset(before)


@contextmanager
def show(owner: object) -> Iterator[None]:
    """Show the progress of an estimator if it is verbose and nobody else listens.

    A bar in a terminal or a notebook, plain lines there if rich is not installed; nothing in a
    pipe or a file.
    """
    verbose = getattr(owner, "verbose", 0)
    if not isinstance(verbose, int) or verbose < 0:
        name = type(owner).__name__
        raise ValueError(f"{name}(verbose=...) must be 0 or 1, got {verbose!r}.")
    is_seen = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not verbose or _listening.get() is not None or not is_seen:
        yield
        return
    with _open_display(type(owner).__name__) as listener, listen(listener):
        yield


@contextmanager
def _open_display(title: str) -> Iterator[Listener]:
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        yield _print_lines(title)
        return
    with make_bars(Console(stderr=True)) as bars:
        yield follow(bars, title)


def _print_lines(title: str) -> Listener:
    """Return a listener that prints a line for each phase, and one a second for its steps."""
    shown, at = "", 0.0

    def listener(phase: str, done: int | None, total: int | None) -> None:
        nonlocal shown, at
        if phase == shown and done != total and time.monotonic() < at + _SECONDS:
            return
        shown, at = phase, time.monotonic()
        sys.stderr.write(f"{title}: {_describe(phase, done, total)}\n")
        sys.stderr.flush()

    return listener


def make_bars(console: "Console", *, transient: bool = True) -> "Progress":
    """Return rich's progress bars, shown in terminals and notebooks only; transient to the end."""
    from rich import progress

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    is_hidden = not (console.is_terminal or console.is_jupyter)
    return progress.Progress(*columns, console=console, transient=transient, disable=is_hidden)


def follow(bars: "Progress", title: str) -> Listener:
    """Return a listener that moves one new bar of some bars."""
    from rich.markup import escape

    task = bars.add_task(escape(title), total=None)

    def listener(phase: str, done: int | None, total: int | None) -> None:
        text = f"{title}: {_describe(phase, done, total)}"
        bars.update(task, description=escape(text), completed=done or 0)
        bars.tasks[bars.task_ids.index(task)].total = total  # update() takes None for no change
        bars.refresh()

    return listener


def _describe(phase: str, done: int | None, total: int | None) -> str:
    if done is None:
        return phase
    return f"{phase} {done}" if total is None else f"{phase} {done}/{total}"
