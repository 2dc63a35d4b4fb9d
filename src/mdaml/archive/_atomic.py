"""Files that are whole or not there."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when it is complete, and not before.

    It is written beside the target and renamed, so that readers see the old file or the new one.
    After an error the old file is as it was and nothing is left behind.

    Parameters
    ----------
    path : str or path
        What to replace, or create; a symbolic link stays, and what it points to is replaced.

    Yields
    ------
    file : binary file, to write to

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml.archive import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "answer")) as file:
    ...         _ = file.write(b"42")
    ...     Path(folder, "answer").read_bytes()
    b'42'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"{os.fspath(path)} is a folder. Name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write to. Create it first.")
    part = target.with_name(f".mdaml-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:  # unlike tempfile, with the permissions of any new file
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name outlast a crash, where the system can."""
    with contextlib.suppress(OSError):  # folders cannot be opened on Windows
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
