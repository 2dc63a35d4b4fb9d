"""Tables in files, in every format in which people have them."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mdaml.io.formats import detect_format
from mdaml.io.tables import read_table
from mdaml.io.texts import read_texts

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
        ("t.csv.gz", gzip.compress(b"x,y\n" + bytes(range(256)) * 99)[:60], "no gzip file, or dam"),
        ("t.csv", b"PK\x03\x04 and so on", "a zip archive, or an Excel file under another name"),
        ("t.xlsx", b"x,y\n1,2\n", r"no Excel file \(.xlsx\), or damaged"),
        ("t.feather", b"x,y\n1,2\n", "no Feather file, or damaged"),
        ("t.csv", b"a;b\n1.234;2\n1,500;2\n", ":3: column 'a' holds '1,500'"),
    ],
)
def test_damaged_and_misnamed_files_are_refused(name, data, message):
    Path(name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        read_table(Path(name))


def test_a_sheet_may_have_empty_rows_and_whole_numbers():
    frame = pd.DataFrame({"id": [7.0, None, 9.0], "x": [1, None, 2.5]})
    frame.to_excel("t.xlsx", index=False)
    table = read_table(Path("t.xlsx"))
    assert table.ids.tolist() == ["7", "9"]
    np.testing.assert_array_equal(table.X, [[1], [2.5]])
