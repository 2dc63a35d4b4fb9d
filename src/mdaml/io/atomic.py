"""The one way in which this package writes files: complete, or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a new file beside ``path`` and rename it to ``path`` once it is complete.

    Readers see the old file or the new one. After an error the old file is unchanged and the new
    one is deleted. The new file is created at once, so that a place where nothing can be written
    is refused before the work and not after it.

    Parameters
    ----------
    path : str or path
        What to replace, or create. A symbolic link stays, and the file it points to is replaced.

    Yields
    ------
    part : path of the new file, empty so far

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml.io.atomic import replace_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replace_file(Path(folder, "answer")) as part:
    ...         _ = part.write_bytes(b"42")
    ...     Path(folder, "answer").read_bytes()
    b'42'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"{os.fspath(path)} is a folder. Name a file in it.")
    part = target.with_name(f".mdaml-{secrets.token_hex(8)}.part")
    try:
        part.touch(exist_ok=False)  # unlike tempfile, with the permissions of any new file
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"There is no folder {target.parent} to write to. Create it first."
        raise type(error)(message) from error
    try:
        yield part
        _sync(part)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # folders cannot be opened on Windows
        _sync(target.parent)


def _sync(path: Path) -> None:
    """Make a file or the names in a folder outlast a crash."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
