"""Tables as text, cell by cell: lines of text files, rows of Excel, Parquet and Feather files."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TextIO, TypeAlias

from mdaml._typing import Array
from mdaml.io.formats import (
    TEXT_SUFFIXES,
    TextFormat,
    detect_format,
    find_undecodable_line,
    get_suffix,
    open_text,
    read_sheet,
)
from mdaml.io.messages import Naming, check_readable, name_argument

Texts: TypeAlias = Array  # Python strings
ArrowBatch: TypeAlias = Any  # pyarrow has no types of its own
ArrowSchema: TypeAlias = Any

BLOCK_ROWS = 1 << 16  # held at a time
COLUMN_SUFFIXES = (".parquet", ".feather")
# All tables that :func:`read_texts` reads.
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".xlsx", *COLUMN_SUFFIXES)


def list_suffixes(suffixes: Sequence[str]) -> str:
    """Return suffixes for a message, such as ``.csv, .parquet or .npy``."""
    return " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))


def check_suffix(path: Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of a file name in lower case, or refuse the name."""
    suffix = get_suffix(path, suffixes)
    if not suffix:
        raise ValueError(f"{path}: the name must end in {list_suffixes(suffixes)}.")
    return suffix


def read_texts(
    path: Path, encoding: str | None = None, naming: Naming | None = None
) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    r"""Read a table in blocks: the numbers of lines, and the columns of their cells.

    Parameters
    ----------
    path : Path
        Any of :data:`TABLE_SUFFIXES`; other names are taken for text files. Delimiter, encoding
        and compression of a text file are found out, by :func:`mdaml.io.formats.detect_format`,
        which also tells its decimal mark: cells are as they are written.
    encoding : str or None
        Of text files that are neither UTF-8 nor UTF-16, such as "cp1252".
    naming : callable or None
        How the caller is given an encoding, for the message that proposes one.

    Yields
    ------
    lines : sequence of int
        Lines of a text file on which the records begin, rows of a sheet, or rows of a Parquet or
        Feather file, from 1.
    columns : list of list of str
        One list of cells for each column. The first block is the first line of a text file or
        sheet alone, or the names of the columns of a Parquet or Feather file. A line that has
        another number of cells than the first is a block of its own.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml.io.texts import read_texts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("name;age\ncat;3\ndog;5\n")
    ...     list(read_texts(path))
    [([1], [['name'], ['age']]), ([2, 3], [['cat', 'dog'], ['3', '5']])]
    """
    check_readable(path)
    if get_suffix(path, COLUMN_SUFFIXES):
        yield from _read_column_texts(path)
        return
    form = detect_format(path, check_encoding(encoding, naming or name_argument))
    records = read_records(path, form, naming)
    line, first = next(records, (0, []))
    if not first:
        raise ValueError(f"{path}: the file is empty. Write a header and rows into it.")
    yield [line], [[cell] for cell in first]
    # Cells are kept in one list: to keep a list for each line costs more than to read it.
    width, lines, cells = len(first), list[int](), list[str]()
    for line, row in records:
        if len(row) != width:
            yield [line], [[cell] for cell in row]
            continue
        lines.append(line)
        cells += row
        if len(lines) == BLOCK_ROWS:
            yield lines, [cells[place::width] for place in range(width)]
            lines, cells = [], []
    if lines:
        yield lines, [cells[place::width] for place in range(width)]


def _read_column_texts(path: Path) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    with open_columns(path) as (schema, iterate):
        names = schema.names
        yield [0], [[name] for name in names]
        n_rows = 0
        for batch in iterate(names):
            lines = range(n_rows + 1, n_rows + 1 + batch.num_rows)
            yield lines, [to_texts(path, batch, name).tolist() for name in names]
            n_rows += batch.num_rows


def check_encoding(encoding: str | None, naming: Naming) -> str | None:
    """Return the name of an encoding, or refuse it."""
    if encoding is not None:
        try:
            " ".encode(encoding)  # of an empty text Python does not look it up
        except (LookupError, ValueError):
            setting = naming("encoding", encoding)
            raise ValueError(f"{setting}: there is no such encoding. Try cp1252.") from None
    return encoding


def read_records(
    path: Path, form: TextFormat | None = None, naming: Naming | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each record of a text file or sheet begins, from 1, and its cells.

    Blank lines are left out, and at the top of a text file those that begin with # too. The format
    of a text file is found out if it is not known.
    """
    if get_suffix(path, (".xlsx",)):
        yield from read_sheet(path)
        return
    form = form or detect_format(path)
    line = 1
    try:
        with open_text(path, form) as file:
            lines, mark = _blank_comments(file), form.delimiter
            rows = csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True)
            for row in rows:
                if row:
                    yield line, row
                line = rows.line_num + 1
    except csv.Error as error:
        message = f"{path}:{line}: {error}. Is a quotation mark not closed?"
        raise ValueError(message) from None
    except UnicodeDecodeError:
        if form.encoding != "utf-8-sig":
            raise ValueError(
                f"{path}: this is not {form.encoding} text. Save it as UTF-8."
            ) from None
        line = find_undecodable_line(path, form)
        option = "" if naming is None else f", or pass {naming('encoding', 'cp1252')}"
        raise ValueError(
            f"{path}:{line}: this is not UTF-8 text. Save it as UTF-8 (in Excel: Save as, 'CSV "
            f"UTF-8'){option}."
        ) from None


def _blank_comments(file: TextIO) -> Iterator[str]:
    """Return the lines; comments at the top become blank lines, which keeps the count of lines."""
    top = []
    for line in file:
        is_text = not line.startswith("#") and line.strip()
        top.append(line if is_text else "\n")
        if is_text:
            break
    return chain(top, file)


@contextmanager
def open_columns(
    path: Path,
) -> Iterator[tuple[ArrowSchema, Callable[[list[str]], Iterator[ArrowBatch]]]]:
    """Open a Parquet or Feather file: its schema, and a function from columns to Arrow batches.

    Errors of Arrow become ones that name the file.
    """
    arrow = load_arrow()
    kind = "Feather" if get_suffix(path, (".feather",)) else "Parquet"
    try:
        if kind == "Feather":
            with path.open("rb") as stream:
                schema = arrow.ipc.open_file(stream).schema
                yield schema, lambda names: _iterate_feather(arrow, stream, schema, names)
        else:
            with arrow.parquet.ParquetFile(to_source(path)) as file:
                iterate = lambda names: file.iter_batches(BLOCK_ROWS, columns=names)  # noqa: E731
                yield file.schema_arrow, iterate
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        why = str(error).strip().rstrip(".") or "Arrow does not say where"
        raise ValueError(
            f"{path}: it is not a {kind} file, or it is damaged: {why}. Write it again."
        ) from None


def to_source(path: Path) -> str | BinaryIO:
    """Return what Arrow opens: the name, or the content if the name is not UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return io.BytesIO(path.read_bytes())
    return str(path)


def _iterate_feather(
    arrow: ModuleType, stream: BinaryIO, schema: ArrowSchema, names: list[str]
) -> Iterator[ArrowBatch]:
    """Yield some columns of a Feather file, which is a file of Arrow batches, in blocks."""
    places = [schema.get_field_index(name) for name in names]
    options = arrow.ipc.IpcReadOptions(included_fields=places)
    reader = arrow.ipc.open_file(stream, options=options)
    for n in range(reader.num_record_batches):
        batch = reader.get_batch(n)
        for first in range(0, batch.num_rows, BLOCK_ROWS):
            yield batch.slice(first, BLOCK_ROWS)


def to_texts(path: Path, batch: ArrowBatch, name: str, *, trim: bool = False) -> Texts:
    """Return a column of an Arrow batch as text, empty where there is no value."""
    arrow, column = load_arrow(), batch.column(name)
    if arrow.types.is_floating(column.type):  # whole numbers with gaps, as data frames hold them
        column = arrow.compute.if_else(arrow.compute.is_nan(column), None, column)
    try:
        texts = column.cast("string").fill_null("")
    except arrow.ArrowException:
        message = f"{path}: column {name!r} holds {column.type}, not text or numbers."
        raise ValueError(message) from None
    if trim:
        texts = arrow.compute.utf8_trim_whitespace(texts)
    return texts.to_numpy(zero_copy_only=False)


def load_arrow() -> ModuleType:
    """Return pyarrow with the parts that are used here."""
    try:
        for part in ("compute", "csv", "ipc", "parquet"):
            import_module(f"pyarrow.{part}")
    except ModuleNotFoundError as error:
        message = 'This table needs pyarrow: pip install "mdaml[cli]"'
        raise ModuleNotFoundError(message, name="pyarrow") from error
    return import_module("pyarrow")
