"""The zip: what may be in it, and how much of it is believed.

Entries are stored, not compressed, so that no file is larger unpacked than packed; whatever is read
is bounded by the size of the file.
"""

import hashlib
import json
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from mdaml.archive import _npy
from mdaml.archive._npy import Array, Layout

DOCUMENT = "model.json"
MOST_ENTRIES = 1000
MOST_TEXT = 4 << 20  # bytes of the document: parsed, JSON takes up to some 20 times its length
_MOST_DIRECTORY = 1 << 20
_END, _END64 = b"PK\x05\x06", b"PK\x06\x07"
_LARGE = 1 << 31  # from here on the zip needs fields of 64 bits
_ENCRYPTED = 0x1
# What zipfile raises for files that are not as they should be.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError),
    *(struct.error, LookupError, OverflowError, UnicodeError),
)


def write_container(
    file: BinaryIO, document: Mapping[str, Any], arrays: Mapping[str, tuple[Array, Layout]]
) -> None:
    """Write a document and arrays; equal contents give equal bytes."""
    text = json.dumps(document, indent=1, allow_nan=False).encode("ascii")
    if len(text) > MOST_TEXT or len(arrays) >= MOST_ENTRIES:
        raise ValueError(
            f"The model has {len(text)} bytes of parameters and names and {len(arrays)} arrays; "
            f"a file holds {MOST_TEXT} and {MOST_ENTRIES - 1}. Pass long lists as NumPy arrays."
        )
    with zipfile.ZipFile(file, "w") as container:
        container.writestr(_new_entry(DOCUMENT, len(text)), text)
        for name, (array, layout) in arrays.items():
            entry = _new_entry(name, layout.n_bytes)
            with container.open(entry, "w") as out:
                for chunk in _npy.to_chunks(array, layout):
                    out.write(chunk)


def _new_entry(name: str, n_bytes: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # of 1980, not of now
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    entry.file_size = n_bytes  # tells zipfile whether it needs 64 bits
    return entry


class Container:
    """A zip that is open for reading and whose directory was found in order."""

    def __init__(self, file: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        _check_end(file, size)
        with _refusing():
            self._zip = zipfile.ZipFile(file)
            self._entries = _check_entries(self._zip.infolist(), size)
        self._unread = set(self._entries) - {DOCUMENT}

    def document(self) -> Any:
        """Return the JSON document."""
        entry = self._entries[DOCUMENT]
        if entry.file_size > MOST_TEXT:
            raise ValueError(f"{DOCUMENT} has {entry.file_size} bytes, more than {MOST_TEXT}")
        with _refusing(), self._zip.open(entry) as file:
            text = file.read(entry.file_size)
            file.read(1)  # the end, at which the sum is checked
        try:
            return json.loads(
                text.decode("ascii"), object_pairs_hook=_unique, parse_constant=_refuse_constant
            )
        except RecursionError:
            raise ValueError(f"{DOCUMENT} is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"{DOCUMENT} is not valid: {error}") from None

    def array(self, name: str, layout: Layout, sha256: str) -> Array:
        """Return an array, each only once."""
        if name not in self._unread:
            raise ValueError(f"the entry {name!r} is missing, or used twice")
        self._unread.remove(name)
        entry = self._entries[name]
        if entry.file_size != layout.n_bytes:
            raise ValueError(
                f"{name!r} has {entry.file_size} bytes, but {layout.dtype} of shape "
                f"{layout.shape} takes {layout.n_bytes}"
            )
        digest = hashlib.sha256()
        with _refusing(), self._zip.open(entry) as file:
            array = _npy.from_file(cast(BinaryIO, file), layout, digest)
        if digest.hexdigest() != sha256:
            raise ValueError(f"the checksum of {name!r} is wrong: the file was changed or damaged")
        return array

    def check_all_read(self) -> None:
        """Refuse entries that nothing refers to."""
        if self._unread:
            raise ValueError(f"it holds unknown entries such as {min(self._unread)!r}")


def _check_end(file: BinaryIO, size: int) -> None:
    """Refuse what is no zip, and directories too long to be read into memory."""
    file.seek(max(0, size - 42))
    tail = file.read(42)
    end = tail[-22:]
    if len(end) < 22 or end[:4] != _END or end[-2:] != b"\0\0":
        raise ValueError("it is no zip file, or it was cut off")
    n_entries, n_bytes = struct.unpack("<HI", end[10:16])
    # The directory of a large file may be described again, by fields of 64 bits, which count.
    if size < _LARGE and tail[:4] == _END64:
        raise ValueError("its directory is described twice")
    if n_entries > MOST_ENTRIES or n_bytes > _MOST_DIRECTORY:
        raise ValueError(f"its directory is too long: {n_entries} entries, {n_bytes} bytes")


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = entry.orig_filename  # `filename` ends at a zero byte
        if name in found:
            raise ValueError(f"the entry {name!r} is there twice")
        if entry.flag_bits & _ENCRYPTED:
            raise ValueError(f"the entry {name!r} is encrypted")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise ValueError(f"the entry {name!r} is compressed, which models never are")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"the entry {name!r} is a link or a folder, not a plain file")
        if not 0 <= entry.header_offset < size:
            raise ValueError(f"the entry {name!r} lies outside the file")
        found[name] = entry
    if DOCUMENT not in found:
        raise ValueError(f"it holds no {DOCUMENT}")
    total = sum(entry.file_size for entry in entries)
    if total > size:
        raise ValueError(f"it claims to hold {total} bytes, but has only {size}")
    return found


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the errors of the zip reader into refusals."""
    try:
        yield
    except _ZIP_ERRORS as error:
        raise ValueError(f"it is damaged: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
