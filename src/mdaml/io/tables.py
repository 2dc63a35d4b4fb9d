"""Tables in files become numbers, with ids and labels, whole or in blocks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mdaml._typing import Array
from mdaml.io.columns import Table, Wanted, choose_columns
from mdaml.io.formats import TextFormat, detect_format, is_date, is_number
from mdaml.io.messages import check_readable
from mdaml.io.model_zip import ARRAY_DAMAGE
from mdaml.io.parsing import parse_rows
from mdaml.io.preparation import MISSING, Preparation, Unknown
from mdaml.io.problems import report_problems
from mdaml.io.row_names import warn_of_counter
from mdaml.io.texts import (
    BLOCK_ROWS,
    TABLE_SUFFIXES,
    ArrowBatch,
    Texts,
    check_encoding,
    check_suffix,
    load_arrow,
    open_columns,
    read_records,
    to_texts,
)

SUFFIXES = (*TABLE_SUFFIXES, ".npy")
_NO_ROW = "{}: every row has an empty cell, and such rows are left out."


def read_table(path: Path, **columns: Any) -> Table:
    """Read a whole table, with the options of :func:`read_blocks`; ids must be distinct.

    Without a known preparation, categories and medians are those of the table.
    """
    wanted = Wanted(**columns, distinct_ids=True)
    blocks = list(_read_raw(path, wanted))
    preparation = _get_preparation(blocks[0])
    if wanted.known is None:
        texts = {n: np.concatenate([b.texts[n] for b in blocks]) for n in blocks[0].texts}
        X = _join([block.X for block in blocks]) if wanted.missing == "median" else blocks[0].X
        try:
            preparation = preparation.learn(X, texts, wanted.naming)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        warn_of_counter(blocks[0], blocks[0].X)
    n_rows, unknown = 0, Unknown()
    for place, block in enumerate(blocks):
        blocks[place] = _prepare(block, preparation, n_rows, unknown)
        n_rows += len(block.X)
    preparation.warn_of_unknown(unknown)
    is_mapped = all(isinstance(block.X, np.memmap) for block in blocks)
    X = _map_npy(path) if is_mapped else _join([block.X for block in blocks])
    if not len(X):
        raise ValueError(_NO_ROW.format(path))
    ids, labels = (
        _join(parts) if (parts := [part for part in each if part is not None]) else None
        for each in ([block.ids for block in blocks], [block.labels for block in blocks])
    )
    changes = sum((Counter(block.changes) for block in blocks), Counter[str]())
    return replace(blocks[0], X=X, ids=ids, labels=labels, changes=changes)


def read_blocks(path: Path, **columns: Any) -> Iterator[Table]:
    """Read a table in blocks of rows; refuse the file with all that is wrong, and where.

    Parameters
    ----------
    path : Path
        Text with a header, unless all its cells are numbers: commas, semicolons or tabs, also
        compressed by gzip; the first sheet of an Excel file; a Parquet, Feather or NPY file.
    **columns
        ``id_column``, ``label_column``: columns of ids and labels, with NPY other NPY files. None:
        ids are in a column that is called id in some spelling or in the index of a data frame, if
        there is one; no labels. ``drop``: columns to leave out. ``categorical``: columns that hold
        categories, or "auto" for all that hold text. ``missing``: what to do about empty cells, as
        in :class:`Preparation`. ``known``: the preparation of a model, instead of the last two.
        ``na``: texts that mean an empty cell, beside the usual ones. ``encoding``: of text files
        that are neither UTF-8 nor UTF-16, such as "cp1252".

    Yields
    ------
    block : Table
    """
    wanted, n_rows, n_left, unknown = Wanted(**columns), 0, 0, Unknown()
    for block in _read_raw(path, wanted):
        prepared = _prepare(block, _get_preparation(block), n_rows, unknown)
        n_rows += len(block.X)
        n_left += len(prepared.X)
        yield prepared
    if not n_left:
        raise ValueError(_NO_ROW.format(path))
    _get_preparation(block).warn_of_unknown(unknown)


def _join(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _read_raw(path: Path, wanted: Wanted) -> Iterator[Table]:
    """Read blocks in which X has the columns of numbers, NaN where there is none."""
    suffix = check_suffix(path, SUFFIXES)
    check_readable(path)
    if suffix == ".npy":
        yield from _read_npy(path, wanted)
    elif suffix in (".parquet", ".feather"):
        yield from _read_columns(path, wanted)
    else:
        yield from _read_lines(path, wanted)


def _prepare(block: Table, preparation: Preparation, n_before: int, unknown: Unknown) -> Table:
    """Return the block with features in place of columns."""
    if preparation.missing == "drop":
        if block.ids is None:  # comparisons name rows by their place in the file
            numbers = np.arange(n_before, n_before + len(block.X))
            block = replace(block, ids=numbers.astype(str).astype(object))
        gaps = preparation.find_gaps(block.X, block.texts)
        block = block.select(~gaps, "rows left out")
    changes = dict(block.changes)
    cells = preparation.join(block.X, block.texts, unknown)
    cells, changes["cells filled in"] = preparation.fill(cells)
    X, changes["cells of unknown categories"] = preparation.encode(cells)
    changes = {what: n for what, n in changes.items() if n}
    names = preparation.features
    return replace(block, X=X, texts={}, features=names, preparation=preparation, changes=changes)


def _check_block(block: Table) -> None:
    """Refuse a block with what cannot be prepared; what it is will be looked for."""
    preparation = _get_preparation(block)
    is_bad = np.isinf(block.X).any() or (block.ids is not None and not all(block.ids))
    if preparation.missing in ("error", "fill"):
        is_bad |= preparation.find_gaps(block.X, block.texts).any()
    if is_bad:
        raise ValueError("some cells cannot be used")


def _to_block(table: Table, batch: ArrowBatch, *, trim: bool = False) -> Table:
    """Return rows as Arrow holds them, NaN and empty texts where there is nothing."""
    X = np.empty((batch.num_rows, len(table.features)))
    for place, name in enumerate(table.features):
        column = batch.column(name).cast("float64", safe=False)
        X[:, place] = column.to_numpy(zero_copy_only=False)
    ids, labels = (
        None if name is None else to_texts(table.path, batch, name, trim=trim)
        for name in (table.id_column, table.label_column)
    )
    texts = {}
    for name in _get_categories(table):
        cells = to_texts(table.path, batch, name, trim=trim)
        texts[name] = np.where(np.isin(cells.astype(str), _get_preparation(table).na), "", cells)
    return replace(table, X=X, ids=ids, labels=labels, texts=texts)


def _get_preparation(table: Table) -> Preparation:
    assert table.preparation is not None  # chosen before any row is read
    return table.preparation


def _get_categories(table: Table) -> Mapping[str, Sequence[str]]:
    return {} if table.preparation is None else table.preparation.categories


def _to_blocks(
    table: Table, batches: Iterable[ArrowBatch], wanted: Wanted, *, trim: bool = False
) -> Iterator[Table]:
    """Yield the rows of Arrow's batches, each block checked before it is used."""
    seen = set[str]()
    for batch in batches:
        if batch.num_rows:
            block = _to_block(table, batch, trim=trim)
            _check_block(block)
            yield _check_repeats(block, wanted, seen)


def _check_repeats(block: Table, wanted: Wanted, seen: set[str]) -> Table:
    """Return the block without rows whose id was there before, or refuse them."""
    if not wanted.distinct_ids or block.ids is None:
        return block
    ids = block.ids.tolist()
    first = {name: row for row, name in reversed(list(enumerate(ids))) if name not in seen}
    seen.update(first)
    if len(first) == len(ids):
        return block
    keep = np.isin(np.arange(len(ids)), list(first.values()))
    if wanted.duplicates == "error":
        raise ValueError(f"the id {ids[keep.argmin()]!r} is there twice")
    return block.select(keep, "rows of repeated ids left out")


def _read_lines(path: Path, wanted: Wanted) -> Iterator[Table]:
    """Read with Arrow, and once more line by line if something is wrong."""
    form = detect_format(path, check_encoding(wanted.text_encoding, wanted.naming))
    names, n_skipped, is_header = _read_head(path, form, wanted)
    texts: Sequence[str] = ()
    if wanted.categorical == ["auto"]:
        texts = _find_texts(path, form, names, n_skipped, wanted)
    table = choose_columns(path, names, wanted, texts, named=is_header)
    block = None
    try:
        batches = parse_rows(table, form, names, n_skipped)
        for block in _to_blocks(table, batches, wanted, trim=True):
            yield block
    except ValueError as error:  # errors of Arrow are ValueErrors too
        if "Empty CSV file" not in str(error):
            report = report_problems(table, names, wanted, n_skipped, form.decimal)
            raise ValueError(report or f"{path}: it cannot be read: {error}") from None
    if block is None:
        raise ValueError(f"{path}: there is a header, but no row under it.")


def _find_texts(
    path: Path, form: TextFormat, names: Sequence[str], n_skipped: int, wanted: Wanted
) -> list[str]:
    """Return the columns that hold text, not dates, in the first rows of a file."""
    rows = (row for line, row in read_records(path, form, wanted.naming) if line > n_skipped)
    some = [dict(zip(names, map(str.strip, row), strict=False)) for row in islice(rows, 1000)]

    na = (*MISSING, *wanted.na)

    def is_text(cell: str) -> bool:
        return not (is_number(cell, form.decimal) or cell in na or is_date(cell))

    return [name for name in names if any(is_text(row.get(name, "")) for row in some)]


def _read_head(path: Path, form: TextFormat, wanted: Wanted) -> tuple[tuple[str, ...], int, bool]:
    """Return names of columns, the lines before the first row, and whether one is a header."""
    line, cells = next(read_records(path, form, wanted.naming), (0, []))
    cells = [cell.strip() for cell in cells]
    if not cells:
        raise ValueError(f"{path}: the file is empty. Write a header and rows into it.")
    # Data frames without names write 0,1,2,... for a header.
    numbered = len(cells) > 1 and cells == [str(n) for n in range(len(cells))]
    if all(is_number(cell, form.decimal) for cell in cells) and not numbered:
        return tuple(f"x{n}" for n in range(len(cells))), line - 1, False
    unnamed = [place for place, cell in enumerate(cells) if not cell and place]
    if unnamed:
        message = f"{path}:{line}: column {unnamed[0] + 1} of the header has no name. Name it."
        raise ValueError(message)
    return tuple(cells), line, True


def _read_columns(path: Path, wanted: Wanted) -> Iterator[Table]:
    """Read a Parquet or Feather file."""
    types = load_arrow().types
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    words = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    with open_columns(path) as (schema, iterate):
        kinds = dict(zip(schema.names, schema.types, strict=True))
        texts = [name for name, kind in kinds.items() if any(is_word(kind) for is_word in words)]
        table = choose_columns(path, schema.names, wanted, texts, named=True)
        used = {*table.features, *_get_categories(table), table.id_column, table.label_column}
        block = None
        try:
            for name in table.features:
                if not any(is_kind(kinds[name]) for is_kind in numbers):
                    raise ValueError(f"column {name!r} holds {kinds[name]}, not numbers")
            batches = iterate([name for name in used if name is not None])
            for block in _to_blocks(table, batches, wanted):
                yield block
        except ValueError as error:
            report = report_problems(table, schema.names, wanted)
            why = str(error).strip().rstrip(".") or "Arrow does not say where it is damaged"
            raise ValueError(report or f"{path}: it cannot be read: {why}.") from None
        if block is None:
            raise ValueError(f"{path}: there are columns, but no row.")


def _read_npy(path: Path, wanted: Wanted) -> Iterator[Table]:
    for setting, names in (("drop", wanted.drop), ("categorical", wanted.categorical)):
        if names:
            what = wanted.naming(setting, "")
            raise ValueError(f"{path}: {what} is for tables with named columns, not for NPY files.")
    array = _map_npy(path)
    if array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
        raise ValueError(
            f"{path}: it must hold numbers of shape (rows, features); got {array.dtype} of shape "
            f"{array.shape}."
        )
    ids, labels = (
        None if name is None else _read_npy_texts(array, path, wanted.naming(setting, name), name)
        for setting, name in (
            ("id_column", wanted.id_column),
            ("label_column", wanted.label_column),
        )
    )
    names = tuple(f"x{n}" for n in range(array.shape[1]))
    table = choose_columns(
        path, names, replace(wanted, id_column=None, label_column=None), named=False
    )
    table = replace(table, id_column=wanted.id_column, label_column=wanted.label_column)
    is_float, seen = array.dtype in (np.float32, np.float64), set[str]()
    for start in range(0, len(array), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        X = array[rows] if is_float else np.array(array[rows], np.float64)
        few_ids, few_labels = (None if part is None else part[rows] for part in (ids, labels))
        block = replace(table, X=X, ids=few_ids, labels=few_labels)
        try:
            _check_block(block)
        except ValueError:
            raise ValueError(_describe_npy_fault(block, start, wanted)) from None
        try:
            block = _check_repeats(block, wanted, seen)
        except ValueError as error:
            keep = wanted.naming("duplicates", "drop")
            raise ValueError(f"{path}: {error}. Correct it, or pass {keep}.") from None
        yield block


def _describe_npy_fault(block: Table, n_before: int, wanted: Wanted) -> str:
    """Return the first value that cannot be used, and where."""
    where = f"{block.path}: row"
    if np.isfinite(block.X).all():
        assert block.ids is not None
        row = block.ids.tolist().index("")
        return f"{where} {n_before + row} (from 0): the id is empty."
    bad = np.isinf(block.X) if np.isinf(block.X).any() else np.isnan(block.X)
    row, place = np.argwhere(bad)[0].tolist()
    where = f"{where} {n_before + row} (from 0), column {block.features[place]!r}"
    if np.isinf(block.X[row, place]):
        return f"{where}: {block.X[row, place]} is not finite."
    rules = (wanted.naming("missing", rule) for rule in ("median", "drop"))
    advice = "" if wanted.known is not None else f" Pass {' or '.join(rules)}."
    return f"{where}: empty cell (NaN).{advice}"


def _read_npy_texts(array: Texts, path: Path, setting: str, name: str) -> Texts:
    """Return the entries of another file, one for each row of an array."""
    other = Path(name)
    if other.suffix.lower() != ".npy" or not other.is_file():
        raise ValueError(
            f"{setting}: with vectors in an NPY file, this must be another .npy file that "
            "holds one entry for each row."
        )
    texts = _map_npy(other)
    if texts.shape != (len(array),) or texts.dtype.kind not in "iuU":
        raise ValueError(
            f"{other}: it must hold {len(array)} texts or whole numbers, one for each row of "
            f"{path}; got {texts.dtype} of shape {texts.shape}."
        )
    return texts.astype(np.str_).astype(object)


def _map_npy(path: Path) -> Array:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise ValueError("it is an archive of several arrays")
    except (*ARRAY_DAMAGE, OSError) as error:
        raise ValueError(
            f"{path}: it is not an NPY file of numbers, or it is damaged: {error}."
        ) from None
    return array


def slice_rows(n_rows: int, n_columns: int, n_values: int = 1 << 20) -> Iterator[slice]:
    """Yield slices of rows that hold about so many values each."""
    step = max(1, n_values // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
