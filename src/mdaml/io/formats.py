"""How a table is written down: compression, encoding, delimiter, decimal mark; and Excel sheets.

All of it is detected from the first part of the file.
"""

import csv
import gzip
import io
import math
import re
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, TextIO

from mdaml.io.model_zip import ARRAY_DAMAGE

TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_SAMPLE_BYTES = 1 << 16
_NUMBER_WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_NUMBER_WITH_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([ T].*)?")


@dataclass(frozen=True)
class TextFormat:
    """How the cells of a text file are written down.

    Attributes
    ----------
    encoding : str
        A name that ``open`` knows: UTF-8 or UTF-16, with or without a byte order mark; or what was
        given for files that are neither.
    is_gzip : bool
        Whether the file is compressed by gzip, whatever it is called.
    delimiter : str
        What separates cells: a comma, a semicolon or a tab.
    decimal : str
        The decimal mark: a point, or a comma where commas separate no cells.
    """

    encoding: str
    is_gzip: bool
    delimiter: str
    decimal: str


def get_suffix(path: Path, suffixes: Sequence[str]) -> str:
    """Return the longest of some suffixes in which a file name ends, in any case, or ""."""
    name = path.name.lower()
    found = [suffix for suffix in suffixes if name.endswith(suffix) and name != suffix]
    return max(found, key=len, default="")


def detect_format(path: Path, encoding: str | None = None) -> TextFormat:
    r"""Find out how a text file is written, from its first 64 kB.

    Parameters
    ----------
    path : Path
        A file of lines of cells.
    encoding : str or None
        Of a file that is neither UTF-8 nor UTF-16, such as "cp1252".

    Returns
    -------
    TextFormat

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml.io.formats import detect_format
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("name;age\ncat;3,5\n", encoding="utf-16")
    ...     detect_format(path)
    TextFormat(encoding='utf-16', is_gzip=False, delimiter=';', decimal=',')
    """
    if get_suffix(path, (".xlsx",)):  # that of the copy of a sheet
        return TextFormat("utf-8-sig", is_gzip=False, delimiter=",", decimal=".")
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"PK\x03\x04"):
        raise ValueError(f"{path}: this is a zip archive, or an Excel file under another name.")
    is_gzip = start.startswith(b"\x1f\x8b")
    with _name_damage(path), _open_binary(path, is_gzip) as binary:
        sample = binary.read(_SAMPLE_BYTES)
    found = _detect_encoding(sample)
    if encoding is not None and found == "utf-8-sig" and not _is_utf8(path, is_gzip):
        found = encoding
    encoding = found
    text = sample.decode(encoding, errors="ignore")
    if len(sample) == _SAMPLE_BYTES:  # without the line that was cut
        text = text[: text.rfind("\n") + 1] or text
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    delimiter = _detect_delimiter(lines)
    return TextFormat(encoding, is_gzip, delimiter, _detect_decimal(lines, delimiter))


def _detect_encoding(sample: bytes) -> str:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    # Without a mark: of ASCII characters in UTF-16, one byte of two is zero.
    for encoding, zeros, others in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        few = len(sample) // 20
        if sample[zeros::2].count(0) > 9 * few and sample[others::2].count(0) <= few:
            return encoding
    return "utf-8-sig"


def _is_utf8(path: Path, is_gzip: bool) -> bool:
    """Return whether all of a file is UTF-8 text."""
    decoder = getincrementaldecoder("utf-8")()
    with _name_damage(path), _open_binary(path, is_gzip) as binary:
        try:
            while chunk := binary.read(_SAMPLE_BYTES):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _detect_delimiter(lines: Sequence[str]) -> str:
    """Return what cuts all lines into the same number of cells, or the first line into the most.

    Where a comma and another mark both do, the comma is a decimal mark.
    """
    marks = ("\t", ";", ",")
    widths = {mark: _count_cells(lines[:50], mark) for mark in marks}
    for mark in marks:
        if widths[mark] and widths[mark][0] > 1 and len(set(widths[mark])) == 1:
            return mark
    return max(reversed(marks), key=lambda mark: widths[mark][:1])


def _count_cells(lines: Sequence[str], mark: str) -> list[int]:
    try:
        return [len(row) for row in csv.reader(lines, delimiter=mark, skipinitialspace=True)]
    except csv.Error:
        return []


def _detect_decimal(lines: Sequence[str], delimiter: str) -> str:
    """Return a comma if numbers have one, none has a point, and they do not group thousands."""
    if delimiter == ",":
        return "."
    cells = [cell.strip(' "') for line in lines for cell in line.split(delimiter)]
    with_comma = [cell for cell in cells if _NUMBER_WITH_COMMA.fullmatch(cell)]
    if any(map(_NUMBER_WITH_POINT.fullmatch, cells)) or all(map(_THOUSANDS.fullmatch, with_comma)):
        return "."
    return ","


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell holds a finite number."""
    if decimal == ",":
        cell = cell.replace(".", "_").replace(",", ".")
    try:
        # Python knows the digits of all scripts, the readers of tables those of ASCII.
        return math.isfinite(float(cell)) and "_" not in cell and cell.isascii()
    except ValueError:
        return False


def is_fraction(cell: str) -> bool:
    """Return whether a cell holds a number, but not a whole one."""
    try:
        return not float(cell.replace(",", ".")).is_integer()
    except (ValueError, OverflowError):
        return False


def is_date(cell: str) -> bool:
    """Return whether a cell looks like a date."""
    return _DATE.fullmatch(cell) is not None


@contextmanager
def open_text(path: Path, form: TextFormat) -> Iterator[TextIO]:
    """Open the text of a file, with the ends of its lines as they are."""
    with _name_damage(path), _open_binary(path, form.is_gzip) as binary:
        yield io.TextIOWrapper(binary, form.encoding, newline="")


def find_undecodable_line(path: Path, form: TextFormat) -> int:
    """Return the first line that is not UTF-8 text."""
    with _open_binary(path, form.is_gzip) as binary:
        lines = enumerate(binary, 1)
        return next(n for n, text in lines if text.decode(errors="ignore").encode() != text)


def _open_binary(path: Path, is_gzip: bool) -> io.BufferedReader | gzip.GzipFile:
    return gzip.open(path, "rb") if is_gzip else path.open("rb")


@contextmanager
def _name_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: it is not a gzip file, or it is damaged: {error}.") from None


def read_sheet(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the first sheet of an Excel file with their numbers, cells as text.

    Rows without any value are left out; cells that are not there are empty.
    """
    try:
        load_workbook = import_module("openpyxl").load_workbook
    except ModuleNotFoundError as error:
        message = 'An .xlsx file needs openpyxl: pip install "mdaml[cli]"'
        raise ModuleNotFoundError(message, name="openpyxl") from error
    try:
        with path.open("rb") as file:
            sheet = load_workbook(file, read_only=True, data_only=True).worksheets[0]
            width = 0
            for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
                cells = list(map(_write_value, values))
                while cells and not cells[-1]:
                    cells.pop()
                if cells:
                    width = width or len(cells)
                    yield number, cells + [""] * (width - len(cells))
    except (*ARRAY_DAMAGE, OSError) as error:
        raise ValueError(
            f"{path}: it is not an Excel file (.xlsx), or it is damaged: {error}. Save it again."
        ) from None


def _write_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):  # numbers of Excel are floats; ids should not end in .0
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value).strip()


def copy_sheet(path: Path) -> BinaryIO:
    """Return the first sheet of an Excel file as CSV with commas, in memory."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells for _, cells in read_sheet(path))
    return io.BytesIO(text.getvalue().encode())
