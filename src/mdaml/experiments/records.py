"""Results as lines of JSON: appended one by one, read back after any interruption."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

Record = dict[str, Any]


def read_records(path: str | Path) -> list[Record]:
    """Return the complete records of a file; a last line cut short by an interruption is left out.

    Parameters
    ----------
    path : str or Path
        A file written by `appending`; one that does not exist has no records.

    Returns
    -------
    list of dict
    """
    lines = _complete_lines(Path(path))
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except ValueError:
            raise ValueError(
                f"Line {number} of {path} is no JSON. This file was changed by something else than "
                "mdaml; remove that line, or start again with another --out."
            ) from None
    return records


@contextmanager
def appending(path: Path) -> Iterator["Appender"]:
    """Open a file of records for appending, alone; a line cut short is removed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        _lock(file, path)
        os.truncate(path, sum(map(len, _complete_lines(path))))
        yield Appender(file)


class Appender:
    """Writes whole lines, each on disk before the next work starts."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __call__(self, record: Record) -> None:
        """Append a record."""
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _complete_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    return lines


def _lock(file: BinaryIO, path: Path) -> None:
    """Refuse a second run that would write the same file. The system lifts the lock at the end."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not on this system: trust the user
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BlockingIOError(
            f"Another run is writing {path}. Wait for it, or choose another --out."
        ) from None
