"""Results as lines of JSON: appended one by one, and read back after any interruption."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mdaml._typing import Params
from mdaml.io.atomic import lock_file

Record = Params


def read_records(path: str | Path) -> list[Record]:
    """Return the complete records of a file, without a last line that was cut off.

    Parameters
    ----------
    path : str or Path
        A file written by `appending`. A file that does not exist has no records.

    Returns
    -------
    list of dict
    """
    records = []
    for number, line in enumerate(_complete_lines(Path(path)), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise ValueError(
                f"Line {number} of {path} is not JSON of a record. Another program has changed "
                "this file: remove the line, or start again with another --out."
            )
        records.append(record)
    return records


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Record], None]]:
    """Yield a function that appends a record to a file, and lock the file meanwhile.

    Every record is on disk when the function returns. A last line that was cut off is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if lock_file(file.fileno()) is False:
            raise BlockingIOError(
                f"Another run is writing {path}. Wait for it to end, or choose another --out."
            )
        os.truncate(path, sum(map(len, _complete_lines(path))))

        def append(record: Record) -> None:
            file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

        yield append


def _complete_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    return lines
