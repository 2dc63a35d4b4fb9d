"""Files of answers of every form: as the same arrays in Python, and wrong lines named."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdaml import Constraints
from mdaml.constraints import read_constraints
from mdaml.io import texts

IDS = ["ant", "bee", "cat", "dog", "eel", "fox"]


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "answers.csv"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def read(path, **options):
    value, problems = read_constraints(path, **{"ids": IDS} | options)
    return value, [(problem.line, problem.reason) for problem in problems]


# Columns of any name


def test_a_missing_column_is_refused_with_what_to_type(write):
    path = write("person,left,middle,right,odd\nann,ant,bee,cat,cat\n")
    with pytest.raises(
        ValueError, match="no column 'item1', which the form odd-one-out needs"
    ) as caught:
        read(path, form="odd-one-out")
    listed = "columns=['item1', 'item2', 'item3', 'odd'] with your names in place of these."
    assert str(caught.value).endswith(f"Pass {listed}")
    with pytest.raises(ValueError, match="columns of odd-one-out are"):
        read(path, form="odd-one-out", columns=["left", "odd"])


def test_columns_are_mapped_in_their_order(write):
    path = write("who,closer,anchor,farther,a\nann,bee,ant,cat,7\nbob,dog,eel,fox,8\n")
    value, problems = read(path, columns=["anchor", "closer", "Farther"])
    assert value.triplets.tolist() == [[0, 1, 2], [4, 3, 5]]
    assert value.columns["who"].tolist() == ["ann", "bob"]
    assert value.columns["a (file)"].tolist() == ["7", "8"]
    assert problems == []
    assert Constraints.read(path, ids=IDS, columns=["anchor", "closer", "farther"]) == value


def test_columns_of_pairs_and_quadruplets(write):
    value, _ = read(
        write("left,right,same\nant,bee,1\nant,cat,0\n"),
        columns=["left", "right", "same"],
        form="pairs",
    )
    assert value.pair_labels.tolist() == [1, -1]
    value, _ = read(write("p,q,r,s\nant,bee,cat,dog\n"), columns=["p", "q", "r", "s"])
    assert value.quadruplets.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("x,y,z\n", {"columns": ["x", "y", "zed"]}, r"no column 'zed'.*columns are x, y, z"),
        ("anchor,near,far\n", {"columns": ["ancor", "near", "far"]}, "Did you mean 'anchor'"),
        ("x,y\n", {"columns": ["x", "y"]}, "three columns for triplets, or four"),
        ("x,y\n", {"columns": "x,y"}, "columns must be a list"),
        ("x,y\n", {"form": "triplet"}, "form must be one of .* Did you mean 'triplets'"),
        ("x,y\n", {"form": "votes", "columns": ["x", "y"]}, "columns of votes are, in this order"),
        ("x,y\n", {"form": "votes"}, r"no column 'a', which the form votes needs\."),
        ("head,winner,loser\n0,1,2\n", {}, "It looks like a file of salmon: pass form='salmon'"),
        ("anchor,closer,farther\n0,1,2\n", {}, "Pass columns= to say which columns are a, b and c"),
        ("anchor,shown,picked\n0,1|2,1\n", {}, "It looks like picks: pass form='picks'"),
    ],
)
def test_columns_that_are_not_there_are_named(content, options, message, write):
    with pytest.raises((ValueError, TypeError), match=message):
        read(write(content), **options)


# Each form is what the same arrays are in Python


def test_odd_one_out(write):
    path = write(
        "item1,item2,item3,odd,who,t\nant,bee,cat,cat,ann,1\ndog,eel,fox,none,bob,2\n"
        "ant,bee,cat,dog,ann,3\nant,ant,cat,cat,ann,4\nant,Bee,cat,cat,ann,5\nant,bee,cat,,ann,6\n"
        "ant,bee\n"
    )
    value, problems = read(path, form="odd-one-out")
    assert value == Constraints.from_odd_one_out(
        [[0, 1, 2], [3, 4, 5]], [2, -1], IDS, columns={"who": ["ann", "bob"], "t": ["1", "2"]}
    )
    assert problems == [
        (4, "the answer 'dog' is none of ant, bee, cat"),
        (5, "an item is there twice"),
        (6, "item2 is 'Bee', which is not one of the ids (did you mean 'bee'?)"),
        (7, "there is no answer"),
        (8, "2 cells where 6 are wanted, item1,item2,item3,odd,who,t"),
    ]


def test_choices(write):
    answers = ["bee", "right", "2", "b", "Neither", "c", "cat", "dog", ""]
    lines = "".join(f"ant,bee,cat,{answer}\n" for answer in answers)
    value, problems = read(write("a,b,c,answer\n" + lines), form="choices")
    votes = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]
    assert value == Constraints.from_votes([[0, 1, 2]] * 7, votes, IDS)
    assert value.counts().ties == 1
    assert [line for line, _ in problems] == [9, 10]


def test_votes_and_weights(write):
    path = write(
        'a,b,c,votes_b,votes_c,neither,weight\nant,bee,cat,3,0,0,2\nant,bee,dog,1,"1,5",1,\n'
        "ant,bee,eel,0,0,0,\nant,bee,eel,x,0,0,\nant,bee,eel,1,0,0,-1\n"
    )
    value, problems = read(path, form="votes")
    wanted = Constraints.from_votes([[0, 1, 2], [0, 1, 3]], [[3, 0, 0], [1, 1.5, 1]], IDS)
    np.testing.assert_array_equal(value.triplets, wanted.triplets)
    np.testing.assert_allclose(value.weights, wanted.weights * [2, 1])
    assert [reason for _, reason in problems] == [
        "there is no vote",
        "votes must be counts, 0 or more",
        "weight is '-1', not a number from 1e-100 to 1e100",
    ]


@pytest.mark.parametrize(
    "content",
    [
        "anchor,rank1,rank2,rank3\nant,bee,cat,dog\neel,fox,ant,\n",
        'anchor,rank1\nant,bee|cat|dog\neel,"[""fox"", ""ant""]"\n',
        "rank10,anchor,rank2,rank1\ndog,ant,cat,bee\n,eel,ant,fox\n",
    ],
)
def test_rankings(content, write):
    value, problems = read(write(content), form="rankings")
    assert value == Constraints.from_rankings([0, 4], [[1, 2, 3], [5, 0, -1]], IDS)
    assert problems == []


@pytest.mark.parametrize("block", [1, 100])
def test_picks_of_different_length(block, write, monkeypatch):
    monkeypatch.setattr(texts, "BLOCK_ROWS", block)
    path = write(
        "anchor,shown,picked\nant,bee|cat|dog,cat\neel,fox;ant,\nbee,cat|dog|eel|fox,fox|cat\n"
        "ant,bee|cat,dog\nant,bee|kat,bee\n"
    )
    value, problems = read(path, form="picks")
    assert value == Constraints.from_picks(
        [0, 4, 1],
        [[1, 2, 3, -1], [5, 0, -1, -1], [2, 3, 4, 5]],
        [[2, -1], [-1, -1], [5, 2]],
        IDS,
    )
    assert problems == [
        (5, "something was picked that was not shown"),
        (6, "a list names 'kat', which is not one of the ids (did you mean 'cat'?)"),
    ]


def test_grades_are_compared_within_persons(write):
    path = write('a,b,grade,who\nant,bee,7,ann\nant,cat,1,ann\nant,dog,5,bob\ncat,dog,"2,5",bob\n')
    value, problems = read(path, form="grades")
    who = {"who": ["ann", "ann", "bob", "bob"]}
    pairs = [[0, 1], [0, 2], [0, 3], [2, 3]]
    assert value == Constraints.from_grades(pairs, [7, 1, 5, 2.5], IDS, columns=who)
    assert len(value.quadruplets) == 2
    assert problems == []


def test_positives(write):
    value, problems = read(write("a,b,day\nant,bee,mon\ncat,cat,tue\n"), form="positives")
    assert value == Constraints.from_positives([[0, 1]], IDS, columns={"day": ["mon"]})
    assert problems == [(3, "both are the same point")]


# Files of programs


def test_salmon(write):
    path = write(
        "head,left,right,winner,loser,puid,response_time\n0,1,2,2,1,p1,1.5\n3,4,5,4,5,p2,2\n"
    )
    value, problems = read(path, ids=None, form="salmon")
    assert value.triplets.tolist() == [[0, 2, 1], [3, 4, 5]]
    assert value.columns["puid"].tolist() == ["p1", "p2"]
    assert problems == []


def test_things(write):
    path = write(
        "image1,image2,image3,choice,RT,subject_id\n1,2,3,3,800,s1\n4,5,6,1,900,s2\n4,5,6,4,9,s\n"
    )
    value, problems = read(path, ids=[1, 2, 3, 4, 5, 6], form="things")
    wanted = Constraints.from_odd_one_out([[0, 1, 2], [3, 4, 5]], [2, 3])
    np.testing.assert_array_equal(value.triplets, wanted.triplets)
    assert problems == [(4, "the answer '4' is none of 4, 5, 6")]


def test_jspsych_leaves_other_trials_out_and_names_those_without_an_answer(write):
    path = write(
        "trial_type,anchor,left,right,response,rt\ninstructions,,,,,300\nbutton,ant,bee,cat,0,700\n"
        "button,ant,bee,dog,1,650\nbutton,ant,bee,eel,2,900\nbutton,ant,bee,fox,null,\nend,,,,0,1\n"
    )
    value, problems = read(path, form="jspsych")
    votes = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    wanted = Constraints.from_votes([[0, 1, 2], [0, 1, 3], [0, 1, 4]], votes, IDS)
    np.testing.assert_array_equal(value.triplets, wanted.triplets)
    assert value.columns["rt"].tolist() == ["700", "650", "900", "900"]
    assert problems == [(6, "there is no answer")]


def test_splink(write):
    path = write(
        "unique_id_l,source_dataset_l,unique_id_r,clerical_match_score\nant,x,bee,1.0\ncat,y,dog,0.0\n"
    )
    value, problems = read(path, form="splink")
    assert value.pairs.tolist() == [[0, 1], [2, 3]]
    assert value.pair_labels.tolist() == [1, -1]
    assert problems == []


# All problems in one report; nothing lost


def test_all_problems_of_a_file_are_in_one_report(write):
    lines = ["ant,bee,cat", *(f"ant,ant,{name}" for name in IDS[1:]), "ant,bee,hen", "ant,bee"]
    path = write("a,b,c\n" + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="7 of 8 lines are wrong") as caught:
        Constraints.read(path, ids=IDS)
    report = str(caught.value).splitlines()
    assert len(report) == 1 + 7
    assert report[1] == (
        "line 3: a and b are the same point, 'ant' (ant,ant,bee): compare different points, or "
        "remove the line"
    )
    assert report[-1].startswith("line 9: 2 cells where 3 are wanted")


def test_a_long_report_ends_in_counts(write):
    path = write("a,b,c\nant,bee,cat\n" + "ant,ant,bee\n" * 50 + "ant,bee,hen\n")
    with pytest.raises(ValueError, match="51 of 52") as caught:
        Constraints.read(path, ids=IDS)
    assert "and 31 more; in all:" in str(caught.value)
    assert "50 times: a and b are the same point, ..." in str(caught.value)
    assert "1 times: c is ..., which is not one of the ids" in str(caught.value)


CELLS = st.sampled_from([*IDS, "hen", "", "none", "1", "0", "-1", "ant|bee|cat", "nan"])
HEADERS = {
    "choices": "a,b,c,answer",
    "odd_one_out": "item1,item2,item3,odd",
    "picks": "anchor,shown,picked",
    "rankings": "anchor,rank1,rank2",
    "votes": "a,b,c,votes_b,votes_c",
    "grades": "a,b,grade",
    "positives": "a,b",
}


@pytest.mark.parametrize("form", HEADERS)
@given(data=st.data())
def test_every_line_is_an_answer_or_a_problem(form, data, tmp_path_factory):
    width = HEADERS[form].count(",") + 1
    rows = st.lists(CELLS, min_size=width, max_size=width)
    right = {
        "choices": "ant,bee,cat,b",
        "odd_one_out": "ant,bee,cat,ant",
        "picks": "ant,bee|cat,bee",
        "rankings": "ant,bee,cat",
        "votes": "ant,bee,cat,1,0",
        "grades": "ant,bee,1\nant,cat,2",
        "positives": "ant,bee",
    }[form]
    lines = [",".join(row) for row in data.draw(st.lists(rows, max_size=8))]
    path = tmp_path_factory.mktemp("answers") / "answers.csv"
    path.write_text(
        f"{HEADERS[form]},line\n"
        + "\n".join(f"{line},{n}" for n, line in enumerate([*right.split("\n"), *lines]))
    )
    value, problems = read_constraints(path, ids=IDS, form=form)
    n_right = right.count("\n") + 1
    used = set(value.columns["line"].tolist())
    wrong = {str(problem.line - 2) for problem in problems}
    assert not used & wrong
    if form != "grades":  # of two grades the lower one is only compared with
        assert used | wrong == {str(n) for n in range(n_right + len(lines))}


# The command line


@pytest.fixture
def items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(30, 3))
    names = [f"item{n:02}" for n in range(30)]
    lines = [",".join([name, *map(repr, row)]) for name, row in zip(names, X.tolist(), strict=True)]
    (tmp_path / "items.csv").write_text("id,x,y,z\n" + "\n".join(lines) + "\n")
    return X, names


def command(*words):
    from typer.testing import CliRunner

    from mdaml.cli import build_app

    return CliRunner().invoke(build_app(), [*words, "--json"])


@pytest.mark.needs("pandas", "pyarrow", "typer")
def test_commands_take_columns_and_forms(items, write):
    X, names = items
    rng = np.random.default_rng(1)
    rows = np.array([rng.permutation(30)[:3] for _ in range(200)])
    near, far = (np.abs(X[rows[:, 0], 0] - X[rows[:, other], 0]) for other in (1, 2))
    rows = np.where((near < far)[:, None], rows, rows[:, [0, 2, 1]])
    lines = "".join(
        f"{names[a]},{names[b]},{names[c]},p{n % 3}\n" for n, (a, b, c) in enumerate(rows)
    )
    write("anchor,closer,farther,person\n" + lines)
    learn = ("fit", "items.csv", "--param", "n_modes=1", "--out", "m.mdaml")
    done = command(*learn, "--triplets", "answers.csv", "--columns", "anchor,closer,farther")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["comparisons"]["triplets"] == 200
    done = command("audit", "m.mdaml", "items.csv", "--triplets", "answers.csv", "--columns",
                   "anchor,closer,farther", "--top", "1")  # fmt: skip
    assert json.loads(done.stdout)["most_suspicious"][0]["a"] in names
    done = command(*learn, "--triplets", "answers.csv", "--columns", "anchor,closer,father")
    assert done.exit_code == 2
    assert "Did you mean 'farther'" in done.output
    write("item1,item2,item3,odd\n" + "".join(
        f"{names[a]},{names[b]},{names[c]},{names[c]}\n" for a, b, c in rows
    ) + "item00,item01,item02,item3\n")  # fmt: skip
    done = command(*learn, "--constraints", "answers.csv", "--form", "odd-one-out")
    assert done.exit_code == 2
    assert "1 of 201 lines cannot be used" in done.output
    done = command(
        *learn, "--constraints", "answers.csv", "--form", "odd-one-out", "--skip-invalid"
    )
    assert json.loads(done.stdout)["comparisons"]["triplets"] == 400
    done = command(*learn, "--constraints", "answers.csv", "--form", "odd")
    assert done.exit_code == 2
    assert "form must be one of" in done.output
    done = command(*learn, "--labels", "x", "--form", "votes")
    assert "--form is about files of answers" in done.output
    write("person,left,middle,right,odd\n")
    done = command(*learn, "--constraints", "answers.csv", "--form", "odd-one-out")
    assert "Pass --columns item1,item2,item3,odd with your names in place" in done.output
