"""Tables in files, in every format in which people have them."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

from mdaml.io import parsing
from mdaml.io.formats import detect_format
from mdaml.io.tables import read_blocks, read_table
from mdaml.io.texts import read_texts

pytestmark = pytest.mark.needs("openpyxl")

FRAME = pd.DataFrame({"id": ["a", "b, c", "ü"], "x": [1.5, -2.25, 3.0], "y": [10.0, 0.125, -7.0]})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_text(name, *, sep=",", decimal=".", encoding="utf-8"):
    text = FRAME.to_csv(index=False, sep=sep, decimal=decimal)
    data = text.encode(encoding)
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


WRITERS = {
    "comma.csv": lambda name: write_text(name),
    "semicolon.csv": lambda name: write_text(name, sep=";"),
    "german.csv": lambda name: write_text(name, sep=";", decimal=","),
    "tabs.csv": lambda name: write_text(name, sep="\t"),
    "tabs.tsv": lambda name: write_text(name, sep="\t"),
    "comma.csv.gz": lambda name: write_text(name),
    "german.tsv.gz": lambda name: write_text(name, sep="\t", decimal=","),
    "wide.csv": lambda name: write_text(name, encoding="utf-16"),
    "big_end.csv": lambda name: write_text(name, encoding="utf-16-be"),
    "small_end.csv.gz": lambda name: write_text(name, sep=";", encoding="utf-16-le"),
    "bom.CSV": lambda name: write_text(name, encoding="utf-8-sig"),
    "frame.parquet": lambda name: FRAME.to_parquet(name),
    "frame.feather": lambda name: FRAME.to_feather(name),
    "packed.feather": lambda name: FRAME.to_feather(name, compression="zstd"),
    "sheet.xlsx": lambda name: FRAME.to_excel(name, index=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(name):
    WRITERS[name](name)
    table = read_table(Path(name))
    assert table.ids.tolist() == FRAME["id"].tolist()
    assert table.features == ("x", "y")
    np.testing.assert_array_equal(table.X, FRAME[["x", "y"]])


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_texts(name):
    WRITERS[name](name)
    blocks = list(read_texts(Path(name)))
    assert blocks[0][1] == [["id"], ["x"], ["y"]]
    assert blocks[1][1][0] == FRAME["id"].tolist()
    assert [float(cell.replace(",", ".")) for cell in blocks[1][1][1]] == FRAME["x"].tolist()


@pytest.mark.parametrize(
    ("text", "delimiter", "decimal"),
    [
        ("a,b\n1,2\n", ",", "."),
        ("a;b\n1,5;2\n", ";", ","),
        ("1,5;2,5;3,5\n4,5;5,5;6,5\n", ";", ","),
        ("a;b\n1,500;2\n", ";", "."),  # thousands, not a half
        ("a;b\n0,500;2\n", ";", ","),
        ("a;b\n1,5;2.5\n", ";", "."),  # undecided: the wrong cell is named
        ('name,said\nx,"one; two"\ny,"a; b"\n', ",", "."),
        ("a,b,c\n1,2\n1,2,3,4\n", ",", "."),
        ("alone\n1\n2\n", ",", "."),
        ("", ",", "."),
    ],
)
def test_delimiter_and_decimal_mark_are_found_out(text, delimiter, decimal):
    Path("t.csv").write_text(text)
    form = detect_format(Path("t.csv"))
    assert (form.delimiter, form.decimal) == (delimiter, decimal)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "t.csv.gz",
            gzip.compress(b"x,y\n" + bytes(range(256)) * 99, mtime=0)[:60],
            "not a gzip file, or it is dam",
        ),
        ("t.csv", b"PK\x03\x04 and so on", "a zip archive, or an Excel file under another name"),
        ("t.xlsx", b"x,y\n1,2\n", r"not an Excel file \(.xlsx\), or it is damaged"),
        ("t.feather", b"x,y\n1,2\n", "not a Feather file, or it is damaged"),
        ("t.csv", b"a;b\n1.234;2\n1,500;2\n", ":3: column 'a' holds '1,500'"),
    ],
)
def test_damaged_and_misnamed_files_are_refused(name, data, message):
    Path(name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        read_table(Path(name))


@pytest.mark.parametrize(("sep", "mark"), [(",", "."), (";", ","), ("\t", ",")])
def test_spaces_around_cells_of_numbers_do_not_count(sep, mark, monkeypatch):
    monkeypatch.setattr(parsing, "_BLOCK_BYTES", 40)  # some rows are parsed before the first space
    cells = [
        "1.5",
        "-2",
        "3e1",
        "4",
        " ",
        "",
        "\u00a0",
        '"  "',
        "NA ",
        " k.A. ",
        " 5.25 ",
        "6\u00a0",
        "7",
    ]
    rows = [
        f"r{n}{sep}{cell.replace('.', mark, cell != ' k.A. ')}{sep}{n}\n"
        for n, cell in enumerate(cells)
    ]
    Path("t.csv").write_text(f"id{sep}x{sep}y\n{''.join(rows)}", encoding="utf-8")
    table = read_table(Path("t.csv"), missing="median", na=["k.A."])
    values = [1.5, -2.0, 30.0, 4.0, *[5.25] * 6, 5.25, 6.0, 7.0]
    np.testing.assert_array_equal(table.X, np.column_stack([values, range(len(cells))]))
    assert table.ids.tolist() == [f"r{n}" for n in range(len(cells))]
    Path("t.csv").write_text(f"id{sep}x{sep}y\n{''.join(rows)}z{sep}8 9{sep}1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"t\.csv:15: column 'x' holds '8 9'"):
        read_table(Path("t.csv"), missing="median", na=["k.A."])


def test_a_sheet_may_have_empty_rows_and_whole_numbers():
    frame = pd.DataFrame({"id": [7.0, None, 9.0], "x": [1, None, 2.5]})
    frame.to_excel("t.xlsx", index=False)
    table = read_table(Path("t.xlsx"))
    assert table.ids.tolist() == ["7", "9"]
    np.testing.assert_array_equal(table.X, [[1], [2.5]])


def test_every_kind_of_problem_is_in_the_report():
    Path("t.csv").write_text(
        "id,x,y,z,day\na,1,2,3,2020-01-01\n,,2,3,2020-01-02\na,1,NA,inf,2020-01-03\nb,1\nc,1,2,3,2020-01-04\n"
        "d,1,oops,3,2020-01-05\n"
    )
    with pytest.raises(ValueError, match="8 problems") as caught:
        read_table(Path("t.csv"))
    for line in (
        "t.csv:5: the line has 2 cells, but 5 are wanted",
        "t.csv:3: the id, column 'id', is empty",
        "t.csv:4: the id 'a' was there before, at t.csv:2. Ids must differ",
        "t.csv:2: column 'day' holds dates, such as '2020-01-01' (5 of 5 rows)",
        "t.csv:3: column 'x': empty cell",
        "t.csv:4: column 'y': 'NA' counts as an empty cell",
        "t.csv:4: column 'z' holds 'inf', not a finite number",
    ):
        assert line in str(caught.value).split("\n")
    assert "column 'y' holds 'oops'" in str(caught.value)


def test_long_cells_are_shortened_in_messages():
    Path("t.csv").write_text(f"x,y\n1,2\n3,{'z' * 10000}\n")
    with pytest.raises(ValueError, match="column 'y' holds 'zzz") as caught:
        read_table(Path("t.csv"))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("cell", "words"),
    [("1,250", "with a decimal point"), ("1.5.2", "'1.5.2', not a finite"), ("1_0", "'1_0'")],
)
def test_a_cell_that_is_nearly_a_number_is_named(cell, words):
    Path("t.csv").write_text(f"x;y\n1;2.5\n3;4\n5;6\n7;{cell}\n")
    with pytest.raises(ValueError, match=words):
        read_table(Path("t.csv"))


@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_feather_files_are_read_in_blocks(compression):
    X = np.random.default_rng(0).normal(size=(20 << 14, 4))
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.to_feather("t.feather", compression=compression, chunksize=1 << 14)
    read, held = [], []
    for block in read_blocks(Path("t.feather"), drop=["b"]):
        read.append(block.X)
        held.append(pyarrow.total_allocated_bytes())
    np.testing.assert_array_equal(np.concatenate(read), X[:, [0, 2, 3]])
    assert max(held) < X.nbytes / 4


def test_columns_of_arrow_types_are_read():
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["b", "a", "b", "c"]),
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
            "ok": [True, False, True, True],
        }
    )
    for name in ("t.parquet", "t.feather"):
        getattr(frame, f"to_{name[2:]}")(name)
        table = read_table(Path(name), categorical=["auto"], missing="median")
        assert table.features == ("kind=a", "kind=b", "kind=c", "count", "ok")
        np.testing.assert_array_equal(table.X[1], [1, 0, 0, 3, 0])
