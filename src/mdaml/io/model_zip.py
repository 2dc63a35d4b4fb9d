"""The zip of a saved model: one JSON document and arrays, every size checked before it is used.

Entries are stored, not compressed, so that no file is larger unpacked than packed: the size of the
file bounds the memory. An array is a file in NumPy's format. Its header is never parsed: the JSON
document describes the array, and the header must be exactly the one that follows from that.
"""

import hashlib
import json
import math
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np

from mdaml._typing import Array

Fields: TypeAlias = Mapping[str, Any]  # of JSON, checked before they are used
Described: TypeAlias = tuple[Array, Fields]  # an array, and what the document says of it

# Numbers and truth values of fixed size; objects, strings, dates and long doubles are left out.
DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
# What zipfile raises for files that are not as they should be, besides ValueError.
DAMAGE = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, EOFError, struct.error),
    *(LookupError, OverflowError),
)
# What NumPy raises for damaged arrays and archives of them. A header is Python source to NumPy,
# hence the errors of a parser.
ARRAY_DAMAGE = (
    *DAMAGE,
    *(zlib.error, tokenize.TokenError, ArithmeticError, MemoryError, SyntaxError),
    *(TypeError, ValueError),
)
_REMEDY = "Name a file that save, or mdaml fit, wrote"
_DOCUMENT = "model.json"
_MAX_ENTRIES = 1000
_MAX_TEXT = 4 << 20  # bytes of the document: parsed, JSON takes up to some 20 times its length
_MAX_DIRECTORY = 1 << 20
_MAX_AXES = 8
_CHUNK = 1 << 20  # bytes read or written at a time
_END, _END64 = b"PK\x05\x06", b"PK\x06\x07"
_LARGE = 1 << 31  # from here on the zip needs fields of 64 bits
_ENCRYPTED = 0x1


def get_dtype(values: Array | np.generic) -> str:
    """Return the dtype of an array or a scalar as files have it; it may be none of DTYPES."""
    return values.dtype.newbyteorder("<").str


def describe_array(name: str, array: Array) -> Described:
    """Return an array with its description: file, dtype, shape, order and checksum."""
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    order = "F" if fortran else "C"  # products depend on it in their last bits
    fields = {"file": name, "dtype": get_dtype(array), "shape": list(array.shape), "order": order}
    digest = hashlib.sha256()
    for chunk in _to_chunks(array, fields):
        digest.update(chunk)
    return array, fields | {"sha256": digest.hexdigest()}


def write_zip(
    file: BinaryIO, document: Mapping[str, object], arrays: Collection[Described]
) -> None:
    """Write a document and arrays with their descriptions; equal contents give equal bytes."""
    text = json.dumps(document, indent=1, allow_nan=False).encode("ascii")
    if len(text) > _MAX_TEXT or len(arrays) >= _MAX_ENTRIES:
        raise ValueError(
            f"The model has {len(text)} bytes of parameters and names and {len(arrays)} arrays; "
            f"a file holds {_MAX_TEXT} and {_MAX_ENTRIES - 1}. Pass long lists as NumPy arrays."
        )
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_new_entry(_DOCUMENT, len(text)), text)
        for array, fields in arrays:
            with archive.open(_new_entry(fields["file"], _count_bytes(fields)), "w") as out:
                for chunk in _to_chunks(array, fields):
                    out.write(chunk)


def _new_entry(name: str, n_bytes: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980, so that equal models give equal bytes
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    entry.file_size = n_bytes  # tells zipfile whether it needs 64 bits
    return entry


def _header(fields: Fields) -> bytes:
    """Return the first bytes of the file of an array, version 1.0 of NumPy's format."""
    text = (
        f"{{'descr': '{fields['dtype']}', 'fortran_order': {fields['order'] == 'F'}, "
        f"'shape': {tuple(fields['shape'])}, }}"
    )
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def _count_bytes(fields: Fields) -> int:
    return len(_header(fields)) + math.prod(fields["shape"]) * np.dtype(fields["dtype"]).itemsize


def _to_chunks(array: Array, fields: Fields) -> Iterator[bytes | memoryview]:
    yield _header(fields)
    flat = array.astype(fields["dtype"], copy=False).reshape(-1, order=fields["order"])
    data = np.ascontiguousarray(flat).view(np.uint8).data
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]


class ZipReader:
    """A zip that is open for reading and whose directory was checked."""

    def __init__(self, file: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        _check_end(file, size)
        self._zip = zipfile.ZipFile(file)
        self._unread = _check_entries(self._zip.infolist(), size)

    def read_document(self) -> object:
        """Return the JSON document."""
        entry = self._unread.pop(_DOCUMENT)
        if entry.file_size > _MAX_TEXT:
            raise ValueError(f"{_DOCUMENT} has {entry.file_size} bytes, more than {_MAX_TEXT}")
        text = self._zip.read(entry)
        try:
            return json.loads(
                text.decode("ascii"), object_pairs_hook=_to_dict, parse_constant=_refuse_constant
            )
        except RecursionError:
            raise ValueError(f"{_DOCUMENT} is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"{_DOCUMENT} is not valid: {error}") from None

    def read_array(self, fields: Fields) -> Array:
        """Return the array that the document describes, each only once."""
        _check_description(fields)
        name, dtype, shape = fields["file"], fields["dtype"], tuple(fields["shape"])
        if name not in self._unread:
            raise ValueError(f"the entry {name!r} is missing, or used twice")
        entry = self._unread.pop(name)
        if entry.file_size != _count_bytes(fields):
            raise ValueError(
                f"{name!r} has {entry.file_size} bytes, but {dtype} of shape {shape} takes "
                f"{_count_bytes(fields)}"
            )
        flat: Array = np.empty(math.prod(shape), dtype)
        data = flat.view(np.uint8).data
        with self._zip.open(entry) as file:
            header = file.read(len(_header(fields)))
            if header != _header(fields):
                raise ValueError(f"the header of an array, {name!r}, does not fit {_DOCUMENT}")
            digest = hashlib.sha256(header)
            for start in range(0, len(data), _CHUNK):
                chunk = file.read(min(_CHUNK, len(data) - start))
                data[start : start + len(chunk)] = chunk
                digest.update(chunk)
        if digest.hexdigest() != fields["sha256"]:
            raise ValueError(f"the checksum of {name!r} is wrong: the file was changed or damaged")
        if dtype == "|b1" and flat.size and flat.view(np.uint8).max() > 1:
            raise ValueError(f"{name!r} holds other bytes than 0 and 1 as truth values")
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        return native.reshape(shape, order=fields["order"])

    def check_all_read(self) -> None:
        """Refuse entries that nothing refers to."""
        if self._unread:
            raise ValueError(f"it holds unknown entries such as {min(self._unread)!r}")


def _check_description(fields: Fields) -> None:
    if set(fields) != {"file", "dtype", "shape", "order", "sha256"}:
        raise ValueError("an array must have the fields file, dtype, shape, order and sha256")
    dtype, shape, order = fields["dtype"], fields["shape"], fields["order"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"an array has dtype {dtype!r}; only numbers can be read")
    is_shape = isinstance(shape, list) and len(shape) <= _MAX_AXES
    if not is_shape or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError("an array has a shape that is not a list of sizes")
    if order not in ("C", "F"):
        raise ValueError(f"an array has the order {order!r}, which is neither 'C' nor 'F'")
    if not isinstance(fields["file"], str):
        raise ValueError("an array has no file")


def _check_end(file: BinaryIO, size: int) -> None:
    """Refuse files that are no zip, and directories too long to be read into memory."""
    file.seek(max(0, size - 42))
    tail = file.read(42)
    end = tail[-22:]
    if len(end) < 22 or end[:4] != _END or end[-2:] != b"\0\0":
        raise ValueError(f"it is not a zip file, or it was cut off. {_REMEDY}")
    n_entries, n_bytes = struct.unpack("<HI", end[10:16])
    # The directory of a large file may be described again, by fields of 64 bits, which count.
    if size < _LARGE and tail[:4] == _END64:
        raise ValueError("its directory is described twice")
    if n_entries > _MAX_ENTRIES or n_bytes > _MAX_DIRECTORY:
        raise ValueError(f"its directory is too long: {n_entries} entries, {n_bytes} bytes")


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name, if all are plain, whole and inside the file."""
    if _DOCUMENT not in [entry.orig_filename for entry in entries]:
        raise ValueError(f"it is a zip file without {_DOCUMENT}. {_REMEDY}")
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
    total = sum(entry.file_size for entry in entries)
    if total > size:
        raise ValueError(f"it claims to hold {total} bytes, but has only {size}")
    return found


def _to_dict(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
