"""The rows of text files and sheets, as Arrow parses them."""

from collections.abc import Iterator, Sequence

from mdaml.io.columns import Table
from mdaml.io.formats import TextFormat, copy_sheet, get_suffix
from mdaml.io.texts import ArrowBatch, Texts, load_arrow, to_source

_BLOCK_BYTES = 8 << 20  # of a text file, parsed at a time


def parse_rows(
    table: Table, form: TextFormat, names: Sequence[str], n_skipped: int
) -> Iterator[ArrowBatch]:
    """Yield the rows of a text file or sheet in batches: texts, and numbers in the features.

    Arrow compares cells with the texts for nothing as they are written, and takes off spaces when
    it reads a number. If a cell such as " " or "NA " stops it, the rest is read as text.
    """
    n_rows = 0
    try:
        for batch in _open(table, form, names, n_skipped, "float64"):
            yield batch
            n_rows += batch.num_rows
    except load_arrow().ArrowInvalid:
        for batch in _open(table, form, names, n_skipped, "string"):
            if batch.num_rows > n_rows:
                yield _convert(table, form, batch.slice(n_rows))
            n_rows = max(0, n_rows - batch.num_rows)


def _open(
    table: Table, form: TextFormat, names: Sequence[str], n_skipped: int, numbers: str
) -> Iterator[ArrowBatch]:
    """Yield Arrow's batches, with the features as numbers or as texts."""
    arrow = load_arrow()
    is_sheet = get_suffix(table.path, (".xlsx",))
    compression = "gzip" if form.is_gzip else None
    source = arrow.input_stream(
        copy_sheet(table.path) if is_sheet else to_source(table.path), compression=compression
    )
    assert table.preparation is not None  # chosen before any row is read
    texts = [name for name in (table.id_column, table.label_column) if name is not None]
    types = dict.fromkeys(table.features, numbers)
    types |= dict.fromkeys([*texts, *table.preparation.categories], "string")
    yield from arrow.csv.open_csv(
        source,
        arrow.csv.ReadOptions(
            column_names=names,
            skip_rows=min(1, n_skipped) if is_sheet else n_skipped,
            block_size=_BLOCK_BYTES,
            encoding="utf8" if form.encoding == "utf-8-sig" else form.encoding,
        ),
        arrow.csv.ParseOptions(delimiter=form.delimiter),
        arrow.csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            decimal_point=form.decimal,
            null_values=list(table.preparation.na),
        ),
    )


def _convert(table: Table, form: TextFormat, batch: ArrowBatch) -> ArrowBatch:
    """Return a batch of texts with the features as numbers."""
    columns = [
        _to_numbers(table, form, column) if name in table.features else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return load_arrow().RecordBatch.from_arrays(columns, names=batch.schema.names)


def _to_numbers(table: Table, form: TextFormat, column: Texts) -> Texts:
    """Return the numbers that texts hold between spaces, nothing where they say so."""
    arrow = load_arrow()
    assert table.preparation is not None
    texts = arrow.compute.utf8_trim_whitespace(column)
    is_empty = arrow.compute.is_in(texts, value_set=arrow.array(table.preparation.na))
    texts = arrow.compute.if_else(is_empty, None, texts)
    if form.decimal == ",":  # a point is no part of a number there
        texts = arrow.compute.replace_substring(texts, ".", "_")
        texts = arrow.compute.replace_substring(texts, ",", ".")
    return texts.cast("float64")
