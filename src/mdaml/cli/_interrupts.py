"""Ctrl-C, from the first moment of the command ``mdaml`` to its last.

A module of its own that loads next to nothing: it comes before everything that takes time.
"""

import atexit
import os
import signal
from typing import Any

_noted = False


def hold_interrupts() -> None:
    """Only note Ctrl-C: what could answer it is still being loaded.

    A process that was started with Ctrl-C ignored, such as a job in the background, stays so.
    """
    before = signal.signal(signal.SIGINT, _note)
    if before is signal.default_int_handler:
        # Python puts handlers of ours back to "end the process" at the very end, but not this one.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGINT, before)


def allow_interrupts() -> None:
    """Raise KeyboardInterrupt on Ctrl-C from here on, and now if one was noted."""
    global _noted
    if signal.getsignal(signal.SIGINT) is _note:
        signal.signal(signal.SIGINT, _interrupt)
    if _noted:
        _noted = False
        raise KeyboardInterrupt


def ignore_interrupts() -> None:
    """Let the outcome be told once and to its end: Ctrl-C changes nothing any more.

    Raises KeyboardInterrupt for one that came just before. Does nothing outside of the command.
    """
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, _ignore)


def leave_on_interrupt(code: int) -> None:
    """Exit at once, with the code that was told, if Ctrl-C comes while Python ends its threads."""
    if signal.getsignal(signal.SIGINT) is _ignore:
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))


def _note(*_: Any) -> None:
    global _noted
    _noted = True


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _ignore(*_: Any) -> None:
    pass
