"""The one way in which this package writes files: complete, or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mdaml.io.messages import find_status, is_failed_write, name_os_error


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
    try:
        find_status(path)
    except OSError as error:
        if not isinstance(error, NotADirectoryError):
            raise name_os_error(error, path, "written") from error
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"{os.fspath(path)} is a folder. Name a file in it.")
    _remove_orphans(target.parent)
    try:
        part, handle = _create(target.parent)
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"There is no folder {target.parent} to write to. Create it first."
        raise type(error)(message) from error
    try:
        try:
            yield part
            _sync(part)
        finally:
            os.close(handle)  # Windows renames closed files only
        part.replace(target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and is_failed_write(error):
            raise name_os_error(error, path, "written") from error
        raise
    with contextlib.suppress(OSError):  # folders cannot be opened on Windows
        _sync(target.parent)


def _create(folder: Path) -> tuple[Path, int]:
    """Create a new file, locked for as long as its handle is open."""
    while True:
        part = folder / f".mdaml-{secrets.token_hex(8)}.part"
        # Unlike tempfile, with the permissions of any new file.
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        lock_file(handle)
        if part.exists():  # otherwise another process took it for an orphan before it was locked
            return part, handle
        os.close(handle)


def _remove_orphans(folder: Path) -> None:
    """Delete new files of processes that were killed: those that nobody has locked."""
    for part in folder.glob(".mdaml-*.part"):
        with contextlib.suppress(OSError):  # another user's, or gone by now
            handle = os.open(part, os.O_RDWR)
            try:
                if lock_file(handle):
                    part.unlink()
            finally:
                os.close(handle)


def lock_file(handle: int) -> bool | None:
    """Lock a file until its handle is closed; return False if it is locked by another process.

    None where there are no such locks, as on Windows, where open files cannot be deleted anyway.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(path: Path) -> None:
    """Make a file or the names in a folder outlast a crash."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
