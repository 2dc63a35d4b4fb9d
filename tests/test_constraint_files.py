"""Constraints in files: what is written comes back, and what is wrong is named by its line."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_constraint_values import constraints, small

from mdaml.constraints import Constraints, InvalidLine, checks, read_constraints
from mdaml.io import texts

pytestmark = pytest.mark.needs("openpyxl", "pyarrow")

SUFFIXES = (".csv", ".parquet", ".npz")
# Everything that a cell, a quotation mark or the end of a line could trip over.
NAMES = st.text("abAB09 ,;\"'#\r\n\t-.é\ufeff\u2028", min_size=1, max_size=5) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes text or bytes to a CSV file."""

    def write(content, name="said.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def listed(folder):
    return [path.name for path in Path(folder).iterdir()]


def problems_of(path, **options):
    return [(problem.line, problem.reason) for problem in read_constraints(path, **options)[1]]


# There and back


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(value=constraints(), data=st.data())
def test_what_is_written_comes_back_bit_for_bit(suffix, value, data):
    numbers = st.integers(-(2**63), 2**63 - 1)
    n = value.n_points
    lists = [st.lists(id_, min_size=n, max_size=n, unique=True) for id_ in (NAMES, numbers)]
    ids = data.draw(st.none() | lists[0] | lists[1])
    parts = {name: getattr(value, name) for name in ("triplets", "pairs", "pair_labels")}
    cells = st.lists(
        NAMES | st.just(""), min_size=value.n_constraints, max_size=value.n_constraints
    )
    columns = data.draw(st.dictionaries(st.sampled_from(["who", "Time, s", "Ort"]), cells))
    value = Constraints(
        **parts,
        quadruplets=value.quadruplets,
        weights=value.weights,
        n_points=n,
        ids=ids,
        columns=columns,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"said{suffix}"
        value.write(path)
        again, problems = read_constraints(path, ids=ids, n_points=n)
        assert again == value
        assert problems == []
        assert listed(folder) == [path.name]


def test_csv_of_each_kind_is_what_a_person_would_write(tmp_path):
    def text(**parts):
        Constraints(**parts).write(tmp_path / "said.csv")
        return (tmp_path / "said.csv").read_bytes()

    names = ["cat", "lion", "a car", "x,y"]
    assert text(triplets=[[0, 1, 2]]) == b"a,b,c\n0,1,2\n"
    assert text(triplets=[[0, 1, 2]], ids=names) == b"a,b,c\ncat,lion,a car\n"
    assert text(triplets=[[0, 1, 3]], ids=names) == b'a,b,c\ncat,lion,"x,y"\n'
    assert (
        text(pairs=[[0, 1]], pair_labels=[-1], weights=[0.1]) == b"a,b,label,weight\n0,1,-1,0.1\n"
    )
    assert text(quadruplets=[[0, 1, 2, 3]]) == b"a,b,c,d\n0,1,2,3\n"
    assert text(triplets=[[0, 1, 2]], pairs=[[0, 1]], pair_labels=[1]) == (
        b"kind,a,b,c,d,label\ntriplet,0,1,2,,\npair,0,1,,,1\n"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_points_are_found_by_id_when_rows_have_another_order(suffix, tmp_path):
    value = small(ids=list("uvwxyz"))
    value.write(tmp_path / f"said{suffix}")
    order = [5, 0, 3, 1, 2, 4]
    again = Constraints.read(tmp_path / f"said{suffix}", ids=np.array(list("uvwxyz"))[order])
    assert again == value.restrict(order)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ids_that_are_gone_are_problems(suffix, tmp_path):
    small(ids=list("uvwxyz")).write(tmp_path / f"said{suffix}")
    value, problems = read_constraints(tmp_path / f"said{suffix}", ids=list("vwxyz"))
    assert value.n_constraints == 2 - 1
    assert len(problems) == 4
    assert problems[0].reason == "a is 'u', which is not one of the ids"
    assert [problem.line - (suffix == ".csv") for problem in problems] == [1, 2, 3, 5]


def test_npz_keeps_the_number_of_points_and_the_ids(tmp_path):
    value = small(ids=list("uvwxyz"))
    value.write(tmp_path / "said.npz")
    assert Constraints.read(tmp_path / "said.npz") == value
    small().write(tmp_path / "said.npz")
    assert Constraints.read(tmp_path / "said.npz") == small()
    assert Constraints.read(tmp_path / "said.npz", ids=list("uvwxyz")) == value
    with pytest.raises(ValueError, match="written for 6 points, but X has 7"):
        Constraints.read(tmp_path / "said.npz", n_points=7)


# Columns of the user's own


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_own_columns_go_with_their_constraints_through_files_and_orders(suffix, tmp_path):
    who = ["ann", "bob", "", "ann", "eve"]
    value = small(ids=list("uvwxyz"), columns={"who": who, "Place": list("vwxyz")})
    value.write(tmp_path / f"said{suffix}")
    assert Constraints.read(tmp_path / f"said{suffix}", ids=list("uvwxyz")) == value
    order = [5, 0, 3, 1, 2, 4]
    again = Constraints.read(tmp_path / f"said{suffix}", ids=np.array(list("uvwxyz"))[order])
    assert again == value.restrict(order)
    assert again.columns["who"].tolist() == who


def test_npz_keeps_numbers_and_dates_of_own_columns(tmp_path):
    times = np.array(["2024-05-01", "NaT", "2024-05-02", "2024-05-03", "2024-05-04"], "M8[s]")
    value = small(columns={"seconds": [0.5, np.nan, 2, 3, 4], "when": times, "n": [1, 2, 3, 4, 5]})
    value.write(tmp_path / "said.npz")
    again = Constraints.read(tmp_path / "said.npz", ids=list("uvwxyz"))
    assert {name: column.dtype for name, column in again.columns.items()} == {
        "seconds": np.float64,
        "when": np.dtype("M8[s]"),
        "n": np.int64,
    }
    np.testing.assert_array_equal(again.columns["seconds"], value.columns["seconds"])


def test_own_columns_of_a_table_are_kept_and_lines_that_are_wrong_leave_with_theirs(write):
    path = write("who,a,B,c,Time,\nann,0,1,2,9:30,x\nbob,0,0,2,9:31,y\n007,1,0,2,,z\n")
    value, problems = read_constraints(path)
    assert [problem.line for problem in problems] == [3]
    assert {name: column.tolist() for name, column in value.columns.items()} == {
        "who": ["ann", "007"],
        "Time": ["9:30", ""],
        "column 6": ["x", "z"],
    }


def test_a_misspelled_column_is_not_taken_for_one_of_the_users_own(write):
    with pytest.raises(ValueError, match=r"unknown column 'Wieght'\. Did you mean 'weight'"):
        Constraints.read(write("a,b,c,Wieght\n0,1,2,1\n"))


# Other formats

ANSWERS = pd.DataFrame(
    {
        "anchor": ["cat", "car", "lion"],
        "closer": ["lion", "bus", "cat"],
        "farther": ["car", "cat", "bus"],
        "weight": [0.5, 2.0, 1.25],
        "who": ["Ann", "Zoë", "Ann"],
    }
)
FORMATS = {
    "said.csv": lambda path: ANSWERS.to_csv(path, index=False, sep=";", decimal=","),
    "said.tsv": lambda path: ANSWERS.to_csv(path, index=False, sep="\t"),
    "said.csv.gz": lambda path: ANSWERS.to_csv(path, index=False, sep=";", decimal=","),
    "wide.csv": lambda path: ANSWERS.to_csv(path, index=False, sep=";", encoding="utf-16"),
    "said.xlsx": lambda path: ANSWERS.to_excel(path, index=False),
    "said.feather": ANSWERS.to_feather,
}


@pytest.mark.parametrize("name", FORMATS)
def test_files_of_answers_are_read_as_spreadsheets_write_them(name, tmp_path):
    FORMATS[name](tmp_path / name)
    value = Constraints.read(
        tmp_path / name, ids=["car", "bus", "cat", "lion"], columns=list(ANSWERS)[:3]
    )
    assert value.triplets.tolist() == [[2, 3, 0], [0, 1, 2], [3, 2, 1]]
    assert value.weights.tolist() == [0.5, 2.0, 1.25]
    assert value.columns["who"].tolist() == ["Ann", "Zoë", "Ann"]


# Writing


@pytest.mark.parametrize("name", ["said", "said.txt", "said.csv.gz", "said.json"])
def test_other_formats_are_refused_before_anything_is_written(name, tmp_path):
    with pytest.raises(ValueError, match=r"\.csv, \.parquet or \.npz"):
        small().write(tmp_path / name)
    error = FileNotFoundError if name.endswith(".gz") else ValueError  # which could be read
    with pytest.raises(error, match=r"\.csv.*\.feather or \.npz|no such file"):
        Constraints.read(tmp_path / name)
    assert listed(tmp_path) == []


def test_suffixes_may_be_in_capitals(tmp_path):
    small().write(tmp_path / "SAID.CSV")
    assert Constraints.read(tmp_path / "SAID.CSV", n_points=6) == small()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_that_fails_leaves_the_old_file_and_no_other(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"said{suffix}"
    small().write(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        small(n_points=9).write(path)
    assert path.read_bytes() == before
    assert listed(tmp_path) == [path.name]


def test_ids_that_are_no_text_leave_no_file(tmp_path):
    broken = Constraints(triplets=[[0, 1, 2]], ids=["a", "b", "\ud800"])
    with pytest.raises(UnicodeEncodeError):
        broken.write(tmp_path / "said.csv")
    assert listed(tmp_path) == []


def test_nothing_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="nothing to write"):
        small().select([]).write(tmp_path / "said.csv")
    assert listed(tmp_path) == []


# Reading CSV


def test_lines_of_a_file_are_checked_once(write, monkeypatch):
    """The reader has checked every line: what it found is not checked as a whole again."""
    path = write("kind,a,b,c,d,label\ntriplet,0,1,2,,\npair,0,1,,,1\nquadruplet,0,1,2,3,\n")
    for name in ("check_triplets", "check_pairs", "check_quadruplets", "check_weights"):
        monkeypatch.setattr(checks, name, lambda *_: pytest.fail("checked again"))
    assert Constraints.read(path).n_constraints == 3


@pytest.mark.parametrize(
    "content",
    [
        "a,b,c\n0,1,2\n3,2,0\n",
        "0,1,2\n3,2,0",
        "\ufeffa,b,c\r\n0,1,2\r\n3,2,0\r\n",
        "a,b,c\r0,1,2\r3,2,0\r",
        '# comparisons\n#, "unclosed\n\na,b,c\n\n0,1,2\n   \n3,2,0\n\n',
        "# comparisons\n0,1,2\n3,2,0\n,,\n",
        'A, B ,"C"\n"0", 1 , "2"\n3.0,2.0,0.0\n',
        "c,a,b\n2,0,1\n0,3,2\n",
        "a,b,c,weight\n0,1,2,1\n3,2,0,\n",
        "kind,a,b,c\ntriplet,0,1,2\nTriplet,3,2,0\n",
    ],
)
def test_the_same_triplets_however_they_are_written(content, write):
    assert Constraints.read(write(content)) == Constraints(triplets=[[0, 1, 2], [3, 2, 0]])


def test_kinds_may_be_mixed_in_any_order(write):
    content = (
        "kind,a,b,c,d,label,weight\n"
        "pair,0,3,,,dissimilar,3\n"
        "quadruplet,0,1,2,3,,5\n"
        "triplet,0,1,2,,,1\n"
        "pair,1,2,,,similar,4\n"
        "triplet,3,2,0,,,2\n"
    )
    assert Constraints.read(write(content), n_points=6) == small()


@pytest.mark.parametrize(
    "labels",
    [("1", "-1"), ("1", "0"), ("1.0", "-1.0"), ("Similar", "dissimilar"), ("same", "different")],
)
def test_labels_are_read_in_the_usual_forms(labels, write):
    content = "a,b,label\n" + "".join(f"0,{n + 1},{label}\n" for n, label in enumerate(labels))
    assert Constraints.read(write(content)).pair_labels.tolist() == [1, -1]


def test_zero_beside_minus_one_is_not_guessed_at(write):
    with pytest.raises(ValueError, match=r"said\.csv: the labels 0 and -1 both occur"):
        Constraints.read(write("a,b,label\n0,1,1\n0,2,0\n1,2,-1\n"), invalid="skip")


def test_ids_are_matched_letter_for_letter(write):
    path = write('a,b,c\n01,1,"x y"\n')
    assert Constraints.read(path, ids=["1", "01", "x y"]).triplets.tolist() == [[1, 0, 2]]
    assert problems_of(write("a,b,c\n1,01,X y\n1,01,x y\n"), ids=["1", "01", "x y"]) == [
        (2, "c is 'X y', which is not one of the ids (did you mean 'x y'?)")
    ]
    padded = write('a,b,c\n01 ,"1 ",x y \n')  # as in tables, spaces round a name do not count
    assert Constraints.read(padded, ids=["1", "01", "x y"]).triplets.tolist() == [[1, 0, 2]]
    assert Constraints.read(padded, ids=["1", "1 ", "01", "x y"]).triplets.tolist() == [[2, 1, 3]]
    assert Constraints.read(write("a,b,c\n30,10,20\n"), ids=[10, 20, 30]).triplets.tolist() == [
        [2, 0, 1]
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0,1", "2 cells where 3 are wanted, a,b,c"),
        ("0,1,2,3", "4 cells where 3 are wanted, a,b,c"),
        ("0,x,2", "b is 'x', not an integer; if points have names, pass ids="),
        ("0,1.5,2", "b is '1.5', not an integer; if points have names, pass ids="),
        ("0,1_0,2", "b is '1_0', not an integer; if points have names, pass ids="),
        ("0,٣,2", "b is '٣', not an integer; if points have names, pass ids="),
        ("0,,2", "b is missing"),
        ("0,-1,2", "b is -1, but rows are counted from 0"),
        ("0,9,2", "b is row 9, but X has 9 rows"),
        ("0,99999999999999999999,2", "b is row 99999999999999999999, but X has 9 rows"),
        ("4,2,4", "a and c are the same point, '4'"),
        ("2,02,4", "a and b are the same point, '2'"),
        ("4,2,2", "b and c are the same point, '2'"),
    ],
)
def test_a_wrong_triplet_is_named_by_line_and_reason(line, reason, write):
    path = write(f"# nonsense\na,b,c\n0,1,2\n\n{line}\n3,2,0\n")
    value, problems = read_constraints(path, n_points=9)
    assert value.triplets.tolist() == [[0, 1, 2], [3, 2, 0]]
    assert problems == [InvalidLine(5, line, reason)]
    with pytest.raises(ValueError, match=r"said\.csv: 1 of 3 lines are wrong") as caught:
        Constraints.read(path, n_points=9)
    assert reason in str(caught.value)
    assert Constraints.read(path, n_points=9, invalid="skip") == value


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("word,0,1,2,,,", "kind is 'word', not triplet, pair or quadruplet"),
        ("triplet,0,1,2,3,,", "d is '3', which a triplet does not have"),
        ("triplet,0,1,2,x,,", "d is 'x', which a triplet does not have"),
        ("triplet,0,1,2,,1,", "label is '1', which a triplet does not have"),
        ("triplet,0,1,,,,", "c is missing"),
        ("pair,0,1,,,,", "label is '', not 1 (similar) or -1 (dissimilar)"),
        ("pair,0,1,,,2,", "label is '2', not 1 (similar) or -1 (dissimilar)"),
        ("pair,0,1,,,yes,", "label is 'yes', not 1 (similar) or -1 (dissimilar)"),
        ("pair,1,1,,,1,", "a and b are the same point, '1'"),
        ("quadruplet,0,1,2,,,", "d is missing"),
        ("quadruplet,0,1,2,2,,", "c and d are the same point, '2'"),
        ("quadruplet,0,1,1,0,,", "a,b and c,d are the same pair"),
        ("quadruplet,0,1,0,3,1,", "label is '1', which a quadruplet does not have"),
        ("triplet,0,1,2,,,0", "weight is '0', not a number from 1e-100 to 1e100"),
        ("triplet,0,1,2,,,-1", "weight is '-1', not a number from 1e-100 to 1e100"),
        ("triplet,0,1,2,,,inf", "weight is 'inf', not a number from 1e-100 to 1e100"),
        ("triplet,0,1,2,,,nan", "weight is 'nan', not a number from 1e-100 to 1e100"),
        ("triplet,0,1,2,,,1_0", "weight is '1_0', not a number from 1e-100 to 1e100"),
        ("triplet,0,1,2,,,1e-200", "weight is '1e-200', not a number from 1e-100 to 1e100"),
        ("triplet,0,1,2,,,heavy", "weight is 'heavy', not a number from 1e-100 to 1e100"),
    ],
)
def test_a_wrong_line_of_a_mixture_is_named(line, reason, write):
    path = write(f"kind,a,b,c,d,label,weight\ntriplet,0,1,2,,,\n{line}\n")
    value, problems = read_constraints(path)
    assert value == Constraints(triplets=[[0, 1, 2]])
    assert problems == [InvalidLine(3, line, reason)]


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_problems_are_in_the_order_of_lines_whatever_the_blocks(block, write, monkeypatch):
    monkeypatch.setattr(texts, "BLOCK_ROWS", block)
    lines = ["0,1,2", "0,0,2", "0,1", "3,1,2", "x,1,2", "0", "0,1,3"]
    value, problems = read_constraints(write("a,b,c\n" + "\n".join(lines)))
    assert [problem.line for problem in problems] == [3, 4, 6, 7]
    assert value.triplets.tolist() == [[0, 1, 2], [3, 1, 2], [0, 1, 3]]


def test_lines_are_counted_through_cells_with_line_ends(write):
    path = write('a,b,c\n"two\nlines",x,y\nz,x,y\n"two\nlines",x,z\n')
    value, problems = read_constraints(path, ids=["two\nlines", "x", "y"])
    assert value.n_constraints == 1
    assert [problem.line for problem in problems] == [4, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n \n# only this\n", "the file is empty"),
        ("a,b,c\n", "there is no constraint"),
        ("a,b,c\n,,\n\n", "there is no constraint"),
        ("a,b,c\n0,0,1\n1,1,2\n", "none of 2 lines is a constraint; line 2: a and b are the same"),
        ("0,1\n", "Pairs need a header: a,b,label"),
        ("0\n", "got 1"),
        ("0,1,2,3,4\n", "got 5"),
        (
            "anchor,near,far\n0,1,2\n",
            "is not a header .* holds no constraint: 'anchor', not an int",
        ),
        ("a,b\n0,1\n", "the header a,b fits no kind"),
        ("a,b,c,label\n0,1,2,1\n", "fits no kind"),
        ("a,b,c,wieght\n0,1,2,1\n", "unknown column 'wieght'"),
        ("a,b,c,a\n0,1,2,1\n", "a column twice"),
        ('a,b,c\n0,1,2\n"0,1,2\n0,1,3\n', ":3: .* quotation mark"),
        ('a,b,c\n0,1,2\n"0"x,1,2\n', ":3: .* quotation mark"),
        (b"a,b,c\n0,1,\xff\n", "2: this is not UTF-8 text.*Save it as UTF-8"),
    ],
)
def test_files_that_are_no_constraints_are_refused_by_name(content, message, write):
    with pytest.raises(ValueError, match=rf"said\.csv.*{message}"):
        read_constraints(write(content))


def test_a_first_line_of_ids_needs_no_header(write):
    path = write("cat,lion,car\nlion,cat,car\n")
    assert Constraints.read(path, ids=["cat", "lion", "car"]).n_constraints == 2
    assert Constraints.read(write("1,2,3,0\n")).quadruplets.tolist() == [[1, 2, 3, 0]]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_file_is_that(suffix, tmp_path):
    with pytest.raises(FileNotFoundError):
        Constraints.read(tmp_path / f"said{suffix}")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"invalid": "drop"}, ValueError, "'raise' or 'skip', got 'drop'"),
        ({"ids": ["a", "a"]}, ValueError, "'a' occurs 2 times"),
        ({"ids": ["a", "b"], "n_points": 3}, ValueError, "2 ids, but n_points is 3"),
        ({"n_points": "3"}, TypeError, "n_points"),
    ],
)
def test_wrong_options_are_refused_before_the_file_is_opened(options, kind, message):
    with pytest.raises(kind, match=message):
        Constraints.read("absent.csv", **options)


@given(
    lines=st.lists(
        st.lists(
            st.sampled_from(["0", "1", "2", "-1", "x", "", "1.0", "pair", "triplet", '"']),
            max_size=7,
        ).map(",".join)
        | st.text(max_size=20),
        max_size=12,
    ),
    header=st.sampled_from(["a,b,c", "a,b,label", "a,b,c,d", "kind,a,b,c,d,label,weight", ""]),
)
@settings(max_examples=3 * settings.default.max_examples)
def test_every_line_is_a_constraint_or_a_problem_and_nonsense_is_a_value_error(lines, header):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.csv"
        path.write_text("\n".join([header, *lines]), encoding="utf-8", newline="")
        try:
            value, problems = read_constraints(path)
        except ValueError as error:
            supervision = str(error)
        else:
            supervision = str(path)
            assert value.n_constraints > 0
            assert all(problem.reason for problem in problems)
            if not any(mark in line for line in lines for mark in '"\r\n'):
                blank = sum(not line.strip(", \t") for line in lines)
                assert len(lines) - blank <= value.n_constraints + len(problems) <= len(lines)
        assert str(path) in supervision


# Parquet


def parquet(path, **columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_parquet_of_a_data_frame_with_gaps(tmp_path):
    import pandas

    frame = pandas.DataFrame(
        [
            {"kind": "triplet", "a": 0, "b": 1, "c": 2},
            {"kind": "pair", "a": 0, "b": 3, "label": 1},
            {"kind": "quadruplet", "a": 0, "b": 1, "c": 2, "d": 3, "weight": 0.5},
        ]
    )
    assert frame["c"].dtype == float
    frame.to_parquet(tmp_path / "said.parquet")
    frame.to_csv(tmp_path / "said.csv", index=False)
    wanted = Constraints(
        triplets=[[0, 1, 2]],
        pairs=[[0, 3]],
        pair_labels=[1],
        quadruplets=[[0, 1, 2, 3]],
        weights=[1, 1, 0.5],
    )
    assert Constraints.read(tmp_path / "said.parquet") == wanted
    assert Constraints.read(tmp_path / "said.csv") == wanted


def test_parquet_columns_of_categories_are_read_as_text(tmp_path):
    import pandas

    frame = pandas.DataFrame({"a": ["u", "v"], "b": ["v", "w"], "c": ["w", "u"]}, dtype="category")
    frame.to_parquet(tmp_path / "said.parquet")
    value = Constraints.read(tmp_path / "said.parquet", ids=["u", "v", "w"])
    assert value.triplets.tolist() == [[0, 1, 2], [1, 2, 0]]


def test_wrong_rows_of_parquet_are_named(tmp_path):
    path = parquet(tmp_path / "said.parquet", a=[0, 1, None], b=[1, 1, 2], c=[2, 0, 0])
    assert problems_of(path) == [(2, "a and b are the same point, '1'"), (3, "a is missing")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [0], "y": [1]}, "no columns a and b, but x, y"),
        ({"a": [0], "b": [1]}, "fits no kind"),
        ({"a": [[0]], "b": [1], "c": [2]}, "column 'a' holds list<"),
        ({"a": [], "b": [], "c": []}, "there is no constraint"),
        ({"a": [0.5], "b": [1.0], "c": [2.0]}, "a is '0.5', not an integer"),
    ],
)
def test_parquet_that_holds_no_constraints_is_refused(columns, message, tmp_path):
    with pytest.raises(ValueError, match=rf"said\.parquet.*{message}"):
        Constraints.read(parquet(tmp_path / "said.parquet", **columns))


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r'pip install "mdaml\[cli\]"'):
        small().write(tmp_path / "said.parquet")
    assert listed(tmp_path) == []
    small().write(tmp_path / "said.csv")


# NPZ


def npz(path, **changes):
    names = ("triplets", "pairs", "pair_labels", "quadruplets", "weights", "n_points")
    arrays = {name: getattr(small(), name) for name in names} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"triplets": None}, "it holds pairs"),
        ({"more": np.ones(3)}, "it holds .*more"),
        ({"triplets": np.ones((2, 3))}, "triplets must be integers .* got dtype float64"),
        ({"triplets": np.zeros((2, 4), int)}, r"triplets must be .* got shape \(2, 4\)"),
        ({"pair_labels": np.array(1)}, r"pair_labels must .* got shape \(\)"),
        ({"pair_labels": np.array([1])}, r"got shape \(1,\) for 2 pairs"),
        ({"pair_labels": np.array([1, 2])}, "pair_labels must hold"),
        ({"weights": np.ones(4)}, r"5 for 2 triplets, .* got shape \(4,\)"),
        ({"weights": np.full(5, np.nan)}, "got nan at place 0"),
        ({"n_points": np.array([6])}, "n_points is not an integer"),
        ({"n_points": np.array(3)}, "triplets name row 3, but X has 3 rows"),
        ({"triplets": np.array([[0, 1, -1], [0, 1, 2]])}, "triplets name row -1"),
        ({"triplets": np.array([[0, 1, 1], [0, 1, 2]])}, r"triplet 0 is \(0, 1, 1\)"),
        ({"ids": np.array(["a", "b"])}, "2 ids, but n_points is 6"),
        ({"ids": np.array(list("aabcde"))}, "'a' occurs 2 times"),
        ({"ids": np.array(["a", 1, None, 2, 3, 4], dtype=object)}, "allow_pickle=False"),
    ],
)
def test_npz_of_other_things_is_refused(changes, message, tmp_path):
    path = npz(tmp_path / "said.npz", **changes)
    for ids in (None, list("uvwxyz")):
        if "ids" in changes and ids is not None:
            continue
        with pytest.raises(ValueError, match=rf"said\.npz.*{message}"):
            Constraints.read(path, ids=ids)


def test_npz_with_repeated_ids_is_refused_when_read_by_id_too(tmp_path):
    path = npz(tmp_path / "said.npz", ids=np.array(list("uuwxyz")))
    with pytest.raises(ValueError, match=r"said\.npz.*'u' occurs 2 times"):
        Constraints.read(path, ids=list("uvwxyz"))


def test_an_array_under_the_name_of_an_archive_is_refused(tmp_path):
    with (tmp_path / "said.npz").open("wb") as file:
        np.save(file, np.zeros((3, 3), int))
    with pytest.raises(ValueError, match=r"said\.npz.*single array"):
        Constraints.read(tmp_path / "said.npz")


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_damaged_file_is_a_value_error_or_still_valid(suffix, tmp_path):
    path = tmp_path / f"said{suffix}"
    small(ids=list("uvwxyz")).write(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = []
    cuts = [whole[:n] for n in rng.integers(0, len(whole), 40)]
    spots = rng.integers(0, len(whole), 150)
    flips = [
        whole[:n] + bytes([whole[n] ^ 1 << int(rng.integers(8))]) + whole[n + 1 :] for n in spots
    ]
    for content in cuts + flips:
        path.write_bytes(content)
        try:
            Constraints.read(path, ids=list("uvwxyz"), invalid="skip")
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) >= len(cuts)
    assert all(str(path) in message for message in refused)


# Speed


@pytest.mark.slow
def test_a_million_lines_would_be_read_in_seconds(tmp_path):
    value = Constraints.from_labels(np.arange(50_000) % 10, n=250_000, random_state=0)
    value.write(tmp_path / "said.csv")
    begin = time.process_time()
    again = Constraints.read(tmp_path / "said.csv", n_points=50_000)
    assert time.process_time() - begin < 2.5
    assert again == value
