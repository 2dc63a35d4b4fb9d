"""Results that appear under their name only when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


@contextmanager
def replacing(out: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
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
        typer.echo(f"--out: cannot write {out}: {error.strerror or error}.", err=True)
        raise typer.Exit(2) from None
    try:
        yield temporary
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
