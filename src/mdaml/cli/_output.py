"""Results that appear under their name only when they are complete."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

BAD_INPUT = 2
WORK_FAILED = 1


class CommandError(Exception):
    """What a user did wrong or what went wrong for them, in words they can act on.

    Attributes
    ----------
    code : int
        Exit code of the command.
    details : sequence of str
        Lines to print above the message.
    """

    def __init__(self, message: str, *, code: int = BAD_INPUT, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


@contextmanager
def staging(out: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Temporary file beside `out` that takes its name at the end, or vanishes on any error.

    It is created at once, so that an unwritable place is refused before the work, not after.
    """
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        if out.suffix.lower() not in suffixes:
            raise OSError(f"the name must end in {' or '.join(suffixes)}")
        if out.is_dir():
            raise OSError("this is a folder")
        temporary.touch()
    except OSError as error:
        raise CommandError(f"--out: cannot write {out}: {error.strerror or error}.") from None
    try:
        yield temporary
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(out: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Do as :func:`staging` does, and end the command where it refuses."""
    try:
        with staging(out, suffixes) as temporary:
            yield temporary
    except CommandError as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(refusal.code) from None
