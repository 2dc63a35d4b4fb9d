"""Ctrl-C, from the first moment of the command ``mdaml`` to its last.

The first one raises KeyboardInterrupt; later ones change nothing while it is handled, and the
process always ends in :func:`_leave`. The handlers are functions of Python, never
SIG_IGN while work is done: processes that the command starts would go on ignoring Ctrl-C.

A module of its own that loads next to nothing: it comes before everything that takes time.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130  # the exit code
_AGAIN = 0.05  # seconds until an interrupt that got lost is raised once more

_noted = False
_raised = False
_is_command = False  # or the functions are called by another program
_code: int | None = None  # that the process ends with
_kept: BaseException | None = None


def hold_interrupts() -> None:
    """Only note Ctrl-C, because what handles it is still being loaded.

    A process that was started with Ctrl-C ignored, such as a job in the background, stays so.
    """
    global _is_command
    _is_command = True
    atexit.register(_leave)  # first of all, to run last
    before = signal.signal(signal.SIGINT, _note)
    if before is not signal.default_int_handler:
        signal.signal(signal.SIGINT, before)


def allow_interrupts() -> None:
    """Raise KeyboardInterrupt on Ctrl-C from here on, and now if one was noted."""
    global _noted
    if signal.getsignal(signal.SIGINT) is _note:
        sys.unraisablehook = _answer_unraisable
        signal.signal(signal.SIGINT, _interrupt)
    if _noted:
        _noted = False
        raise KeyboardInterrupt


def ignore_interrupts() -> None:
    """Report the outcome once and completely: from here on Ctrl-C changes nothing.

    Raises KeyboardInterrupt for one that came just before, unless one is being handled. Does
    nothing outside of the command.
    """
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, _ignore)


def leave_on_interrupt(code: int) -> None:
    """Exit at once, with the code that was reported, if Ctrl-C comes while Python ends threads.

    The traceback of an interruption is kept to the very end, and with it the objects that were
    being made: the compiler crashes when half-made objects are destroyed.
    """
    global _code, _kept
    if _is_command:
        _code = code
    if signal.getsignal(signal.SIGINT) is _ignore:
        _kept = sys.exception() if code == INTERRUPTED else None
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))


def walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it: packages turn an interruption into their own."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _note(*_: object) -> None:
    global _noted
    _noted = True


def _interrupt(_: int, frame: FrameType | None) -> None:
    global _noted, _raised
    if _is_answering(frame):  # what is raised there would be printed
        _noted = True
        return
    # Unless the signal came while one is handled: in an except, a finally or the end of a with.
    if not any(isinstance(each, KeyboardInterrupt) for each in walk_causes(sys.exception())):
        _raised = True
        raise KeyboardInterrupt


def _ignore(*_: object) -> None:
    pass


def _is_answering(frame: FrameType | None) -> bool:
    """Say whether the signal came during :func:`_answer_unraisable`."""
    while frame is not None and frame.f_code is not _answer_unraisable.__code__:
        frame = frame.f_back
    return frame is not None


def _answer_unraisable(lost: "UnraisableHookArgs") -> None:
    """Deal with an error that came where Python can only print it, such as in a callback.

    An interrupt is raised again. Other errors after an interrupt are its consequences: objects
    whose making was interrupted fail when they are destroyed.
    """
    global _noted
    is_interrupt = issubclass(lost.exc_type, KeyboardInterrupt)
    if not is_interrupt and not _raised:
        sys.__unraisablehook__(lost)
    if (is_interrupt or _noted) and signal.getsignal(signal.SIGINT) is _interrupt:
        from threading import Timer

        again = Timer(_AGAIN, _press)
        again.daemon = True  # nobody waits for it at the end
        again.start()
    _noted = False


def _press() -> None:
    """Interrupt the main thread, also while it waits."""
    if hasattr(signal, "pthread_kill"):
        from threading import main_thread

        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
    else:
        from _thread import interrupt_main

        interrupt_main()


def _leave() -> None:
    """End the process: from here on Ctrl-C is ignored by the system itself.

    Python puts handlers of ours back to "end the process" at the very end, but not this one.
    After an interruption modules may be half loaded, and some crash when Python unloads them. After
    an error a thread of Arrow may still read ahead, which aborts a process that unloads it. So
    nothing is unloaded, unless output could not be written: then Python says so.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _code is None:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # full, closed, or no longer read
            if _code != INTERRUPTED:
                return
    os._exit(_code)
