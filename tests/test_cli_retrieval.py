"""The commands ``adapt`` and ``evaluate``, on files as people have them."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer.testing

import mdaml
from mdaml import cli
from mdaml.datasets import load_banking77
from mdaml.io.beir import read_pairs, read_vectors

pytestmark = pytest.mark.needs("pyarrow")


def invoke(*args):
    return typer.testing.CliRunner().invoke(cli.build_app(), [str(arg) for arg in args])


@pytest.fixture
def folder(tmp_path):
    """Questions, passages and pairs as BEIR has them, with vectors in the lines."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 8))
    rows = rng.integers(120, size=200)
    Q = X[rows] + 0.2 * rng.normal(size=(200, 8))
    Q[:, :3] = 2 * rng.normal(size=(200, 3))
    for name, A, letter in (("queries", Q, "q"), ("corpus", X, "d")):
        lines = [
            json.dumps({"_id": f"{letter}{n}", "text": "…", "embedding": a.tolist()})
            for n, a in enumerate(A)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        np.save(tmp_path / f"{name}.npy", A)
    pairs = [f"q{q}\td{x}\t1" for q, x in enumerate(rows)]
    (tmp_path / "train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *pairs[:140]]))
    (tmp_path / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *pairs[140:]]))
    (tmp_path / "clicks.csv").write_text(
        "\n".join(["query,document", *(f"{q},{x}" for q, x in enumerate(rows[:140]))])
    )
    noise = rng.integers(120, size=200)
    lines = (f"q{q}\td{x}" for q, x in enumerate(noise))
    (tmp_path / "noise.tsv").write_text("\n".join(lines))
    return tmp_path


def files(folder, pairs="train.tsv"):
    return folder / "queries.jsonl", folder / "corpus.jsonl", folder / pairs


def test_questions_and_passages_in_json_lines_to_a_model_that_answers_better(folder):
    out = folder / "faq.mdaml"
    result = invoke("adapt", *files(folder), "--out", out)
    assert result.exit_code == 0, result.output
    assert "140 pairs of 140 queries" in result.output
    assert "test: 140 different held-out queries: nDCG@10" in result.output
    result = invoke("evaluate", out, *files(folder, "test.tsv"), "-k", 1, "-k", 10, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    low, _ = document["scores"]["mrr@10"]["interval"]
    assert low > 0
    assert document["relevant"]["queries"] == 60
    text = invoke("evaluate", out, *files(folder, "test.tsv"))
    assert "ndcg@10" in text.output
    assert "95 % interval" in text.output


def test_where_it_does_not_help_the_command_says_so(folder):
    out = folder / "noise.mdaml"
    result = invoke("adapt", *files(folder, "noise.tsv"), "--out", out, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["map"] == {"improved": False}
    assert "no map was better by more than chance" in document["warnings"][0]
    model = mdaml.load(out)
    assert np.array_equal(model.components_, np.eye(8))


def test_all_forms_of_the_same_files_give_the_same_map(folder):
    maps = []
    for name, pairs, more in (
        ("lines.npy", files(folder), ()),
        (
            "beside.npy",
            files(folder),
            (
                *("--query-vectors", folder / "queries.npy"),
                *("--document-vectors", folder / "corpus.npy"),
            ),
        ),
        ("rows.npy", (folder / "queries.npy", folder / "corpus.npy", folder / "clicks.csv"), ()),
    ):
        result = invoke("adapt", *pairs, "--out", folder / name, *more)
        assert result.exit_code == 0, result.output
        maps.append(np.load(folder / name))
    assert np.array_equal(maps[0], maps[1])
    assert np.array_equal(maps[0], maps[2])


@pytest.mark.parametrize(
    "name", ["a.safetensors", pytest.param("a.onnx", marks=pytest.mark.needs("onnx")), "2_Dense"]
)
def test_other_formats_are_written(folder, name):
    result = invoke("adapt", *files(folder), "--out", folder / name, "--anchor", 0.1)
    assert result.exit_code == 0, result.output
    assert (folder / name).exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1\td1\t1\t1\t1", "a query, a document and perhaps a grade are wanted, got 5 cells"),
        ("q1\td1\tgood", "the grade must be a number, got 'good'"),
        ("q1\td999", "'d999' is not in"),
    ],
)
def test_wrong_pairs_are_named_by_their_line(folder, line, message):
    (folder / "wrong.tsv").write_text(f"q0\td0\t1\n{line}\n")
    result = invoke("adapt", *files(folder, "wrong.tsv"), "--out", folder / "a.mdaml")
    assert result.exit_code == 2
    assert message in result.output
    assert not (folder / "a.mdaml").exists()


def test_unknown_pairs_are_left_out_on_request(folder):
    path = folder / "more.tsv"
    path.write_text((folder / "train.tsv").read_text() + "\nq1\td999\t1\n")
    result = invoke(
        "adapt", *files(folder, "more.tsv"), "--out", folder / "a.npy", "--skip-unknown"
    )
    assert result.exit_code == 0, result.output
    assert "1 pair left out" in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ":1: this is not a line of JSON"),
        ("[1]", ":1: an object is wanted"),
        ('{"text": "a"}', ":1: there is no id"),
        ('{"_id": "a"}', ":1: there is no vector"),
        ('{"_id": "a", "embedding": [1, "b"]}', ":1: the vector must be a list of finite numbers"),
        (
            '{"_id": "a", "embedding": [1]}\n{"_id": "b", "embedding": [1, 2]}',
            ":2: 2 numbers, but 1 in the lines above",
        ),
        (
            '{"_id": "a", "embedding": [1]}\n{"_id": "a", "embedding": [1]}',
            "the id 'a' is there twice",
        ),
        ("", "the file is empty"),
    ],
)
def test_wrong_lines_are_named(tmp_path, text, message):
    path = tmp_path / "corpus.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_vectors(path)


def test_pairs_of_trec_beir_and_tables_read_alike(tmp_path):
    wanted = [("1", "7", 2.0), ("1", "8", 0.0)]
    texts = {
        "beir.tsv": "query-id\tcorpus-id\tscore\n1\t7\t2\n1\t8\t0\n",
        "trec.tsv": "1 0 7 2\n1 0 8 0\n",
        "plain.csv": "query,document,grade\n1,7,2\n1,8,0\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert read_pairs(tmp_path / name) == wanted
    np.save(tmp_path / "pairs.npy", np.array([[1, 7, 2], [1, 8, 0]]))
    assert read_pairs(tmp_path / "pairs.npy") == wanted
    (tmp_path / "clicks.tsv").write_text("1\t7\n")
    assert read_pairs(tmp_path / "clicks.tsv") == [("1", "7", 1.0)]


def test_places_that_cannot_be_written_are_refused_before_the_work(folder):
    for out in (folder / "a.txt", folder / "nowhere" / "a.mdaml", folder / "queries.npy" / "b"):
        result = invoke("adapt", *files(folder), "--out", out)
        assert result.exit_code != 0
    result = invoke("evaluate", folder / "queries.npy", *files(folder))
    assert result.exit_code == 1
    assert "cannot be loaded" in result.output


def test_a_metric_can_be_evaluated_too(folder):
    mdaml.Euclidean().fit(np.load(folder / "corpus.npy")).save(folder / "plain.mdaml")
    result = invoke("evaluate", folder / "plain.mdaml", *files(folder, "test.tsv"), "--json")
    assert result.exit_code == 0, result.output
    scores = json.loads(result.stdout)["scores"]
    assert all(value["change"] == 0 for value in scores.values())


@pytest.fixture
def bank(tmp_path, monkeypatch):
    """The files of the guide, with vectors, in the folder of now."""
    data = load_banking77()
    known = np.flatnonzero(~data.is_test)
    asked = np.concatenate([known[1::3], np.flatnonzero(data.is_test)])
    rng = np.random.default_rng(0)
    for name, rows in (("queries", asked), ("corpus", known[::3])):
        lines = [json.dumps({"_id": f"{row}", "text": data.texts[row]}) for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        np.save(tmp_path / f"{name}.npy", data.data[rows])
    stored = known[::3]
    relevant = {q: stored[data.target[stored] == data.target[q]] for q in asked.tolist()}
    chance = {q: rng.choice(stored, 1) for q in known[1::3][:20].tolist()}
    parts = (("train", relevant, known[1::3]), ("test", relevant, np.flatnonzero(data.is_test)))
    for name, pairs, rows in (*parts, ("few", chance, list(chance))):
        lines = [f"{q}\t{x}\t1" for q in rows for x in pairs[q]]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    monkeypatch.chdir(tmp_path)
    return [set(map(str, relevant[q])) for q in asked.tolist()], data.is_test[asked]


@pytest.mark.filterwarnings("ignore")  # what the store warns of is its own
@pytest.mark.needs("qdrant_client")
def test_the_walkthrough_of_the_guide_ends_at_a_collection_that_answers_better(bank):
    relevant, is_new = bank
    page = Path(__file__).parents[1].joinpath("docs", "guide", "adapting_embeddings.md").read_text()
    commands = re.findall(r"^\$ mdaml (.*)$", page, re.M)
    outputs = [invoke(*shlex.split(command)) for command in commands]
    assert [result.exit_code for result in outputs] == [0, 0, 0]
    assert "held-out queries: nDCG@10" in outputs[0].output
    assert "ndcg@10" in outputs[1].output
    assert "no map was better by more than chance" in outputs[2].output
    (recipe,) = re.findall(r"```python\n((?:(?!```).)*?qdrant_client.*?)```", page, re.S)
    given = {}
    exec(compile(recipe, "adapting_embeddings.md", "exec"), given)
    right = [
        np.array([found in wanted for found, wanted in zip(given[part], relevant, strict=True)])
        for part in ("before", "after")
    ]
    assert right[1][is_new].sum() > right[0][is_new].sum() + 10


def write_log(folder, name="log.csv"):
    """Write what was shown for every query, by cosine: the right document is clicked if seen."""
    Q, X = (np.load(folder / f"{name}.npy") for name in ("queries", "corpus"))
    answers = dict(
        line.split("\t")[:2] for line in (folder / "train.tsv").read_text().splitlines()[1:]
    )
    scores = (Q @ X.T) / np.linalg.norm(X, axis=1)
    rows = ["session_id,query_id,doc_id,rank,clicked"]
    for visit, (query, answer) in enumerate(answers.items()):
        best = np.argsort(-scores[int(query[1:])])[:10]
        rows += [f"{visit},{query},d{x},{k},{f'd{x}' == answer}" for k, x in enumerate(best, 1)]
    (folder / name).write_text("\n".join(rows) + "\n")
    return folder / name


def test_a_log_is_learned_from_as_in_python(folder):
    from mdaml.retrieval import QueryAdapter

    log, out = write_log(folder), folder / "log.mdaml"
    tables = files(folder)[:2]
    shares = ",".join(f"{1 / k:.4f}" for k in range(1, 11))
    result = invoke(
        "adapt", *tables, "--clicks", log, "--propensities", shares, "--anchor", 0.03, "--out", out,
        "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["clicks"] == {"rows": 1400, "queries": 140, "skipped": 0}
    assert document["propensities"] == pytest.approx([1 / k for k in range(1, 11)], abs=1e-4)
    ids = [f"q{n}" for n in range(200)], [f"d{n}" for n in range(120)]
    Q, X = (np.load(folder / f"{name}.npy") for name in ("queries", "corpus"))
    given = [float(share) for share in shares.split(",")]
    model = QueryAdapter(anchor=0.03, random_state=0)
    model.fit(Q, X, clicks=log, ids=ids, propensities=given)
    assert np.array_equal(mdaml.load(out).components_, model.components_)


def test_a_log_in_several_files_is_one_log(folder):
    from mdaml.retrieval import QueryAdapter

    log, out = write_log(folder), folder / "log.mdaml"
    head, *lines = log.read_text().splitlines()
    parts = [folder / "monday.csv", folder / "tuesday.csv"]
    for path, some in zip(parts, (lines[:800], lines[800:]), strict=True):
        path.write_text("\n".join([head, *some]) + "\n")
    given = [option for path in parts for option in ("--clicks", path)]
    command = ("adapt", *files(folder)[:2], *given, "--anchor", 0.1, "--out", out)
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    assert "1400 rows of 140 queries" in result.output
    ids = [f"q{n}" for n in range(200)], [f"d{n}" for n in range(120)]
    Q, X = (np.load(folder / f"{name}.npy") for name in ("queries", "corpus"))
    for clicks in (log, parts):
        model = QueryAdapter(anchor=0.1, random_state=0).fit(Q, X, clicks=clicks, ids=ids)
        assert np.array_equal(mdaml.load(out).components_, model.components_)


def test_a_grown_log_starts_from_the_map_of_yesterday(folder):
    log, out = write_log(folder), folder / "log.mdaml"
    lines = log.read_text().splitlines()
    (folder / "monday.csv").write_text("\n".join(lines[:1001]) + "\n")
    given = ("--anchor", 0.1, "--param", "tol=1e-6", "--json")
    command = ("adapt", *files(folder)[:2], *given, "--clicks")
    fresh = invoke(*command, log, "--out", folder / "fresh.mdaml")
    first = invoke(*command, folder / "monday.csv", "--out", out)
    again = invoke(*command, log, "--start", out, "--out", out)
    assert [each.exit_code for each in (fresh, first, again)] == [0, 0, 0], again.output
    model, alone = mdaml.load(out), mdaml.load(folder / "fresh.mdaml")
    assert model.get_params() == alone.get_params()
    assert model.tol == 1e-6
    assert np.allclose(model.components_, alone.components_, atol=0.01)
    assert model.history_[0] < alone.history_[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--param", "rank=3"], "n_negatives, max_iter, tol can be set so"),
        (["--start", "metric.mdaml"], "this is a GMML, not an adapter"),
        (["--start", "gone.mdaml"], "gone.mdaml"),
    ],
)
def test_settings_of_an_adapter_are_checked(folder, options, message, monkeypatch):
    monkeypatch.chdir(folder)
    X = np.random.default_rng(0).normal(size=(20, 3))
    mdaml.GMML().fit(X, np.arange(20) % 2).save("metric.mdaml")
    result = invoke("adapt", *files(folder), *options, "--out", "m.mdaml")
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("document,query,position,clicked", "Swap the names of these columns."),
        ("query,document,clicked,position", "Is this the column of positions?"),
    ],
)
def test_a_log_with_swapped_columns_is_refused_with_the_cause(folder, columns, message):
    log, out = write_log(folder), folder / "log.mdaml"
    lines = log.read_text().replace("True", "1").replace("False", "0").splitlines()[1:]
    log.write_text("\n".join([f"visit,{columns}", *lines]) + "\n")
    result = invoke("adapt", *files(folder)[:2], "--clicks", log, "--out", out)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_columns_of_a_log_may_have_any_names(folder):
    log, out = write_log(folder), folder / "log.mdaml"
    command = ("adapt", *files(folder)[:2], "--anchor", 0.1, "--clicks")
    plain = invoke(*command, log, "--out", out)
    lines = log.read_text().splitlines()[1:]
    theirs = "visit,question,article,place,chosen"
    odd = folder / "odd.csv"
    odd.write_text("\n".join([theirs, *lines]) + "\n")
    objects = folder / "odd.jsonl"
    rows = (dict(zip(theirs.split(","), line.split(","), strict=True)) for line in lines)
    objects.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = mdaml.load(out).components_
    for path in (odd, objects):
        result = invoke(*command, path, "--out", out)
        assert result.exit_code == 2
        message = " ".join(result.output.split())
        # Those that were found stand in the advice already.
        assert "pass --columns QUERY,article,POSITION,CLICKED,visit, with that name" in message
        names = ("--columns", "question,article,place,chosen,visit")
        result = invoke(*command, path, *names, "--out", out)
        assert (plain.exit_code, result.exit_code) == (0, 0), result.output
        assert np.array_equal(mdaml.load(out).components_, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clicks", "log.csv", "--columns", "query_id,doc_id,rank,gone"], "no column 'gone'"),
        (["--clicks", "log.csv", "--columns", "query,document"], "must name the query, the"),
        (["train.tsv", "--columns", "a,b,c,d"], "give --clicks too"),
        (["--clicks", "train.tsv"], "pass them as RELEVANT, the third file"),
        (["--clicks", "short.csv"], "1 for the first: export it too."),
        (["log.csv"], "Pass it as --clicks of mdaml adapt."),
        (["--clicks", "others.csv"], "use the same names in both files."),
    ],
)
def test_a_file_in_the_place_of_another_is_refused_with_advice(
    folder, arguments, message, monkeypatch
):
    monkeypatch.chdir(folder)
    log = write_log(folder)
    Path("others.csv").write_text(re.sub(r",d(\d)", r",other\1", log.read_text()))
    Path("short.csv").write_text("query,document,clicked\nq0,d0,1\n")
    result = invoke("adapt", *files(folder)[:2], *arguments, "--out", "m.mdaml")
    assert result.exit_code == 2
    text = " ".join(result.output.split())
    assert message in text
    assert "--skip-unknown" not in text


def test_rows_of_unknown_documents_are_left_out_of_a_log_on_request(folder):
    log, out = write_log(folder), folder / "log.mdaml"
    log.write_text(log.read_text() + "999,q0,gone,3,0\n")
    command = ("adapt", *files(folder)[:2], "--clicks", log, "--anchor", 0.1, "--out", out)
    result = invoke(*command)
    assert result.exit_code == 2
    assert "'gone' is not in" in result.output
    result = invoke(*command, "--skip-unknown")
    assert result.exit_code == 0, result.output
    assert "1400 rows of 140 queries; 1 row left out" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Give either RELEVANT"),
        (["train.tsv", "--clicks", "log.csv"], "Give either RELEVANT"),
        (["train.tsv", "--propensities", "1,0.5"], "give --clicks too"),
        (["--clicks", "log.csv", "--propensities", "1;0.5"], "numbers with commas"),
        (["--clicks", "log.csv", "--propensities", "1,0.5"], "each of the 10 positions"),
    ],
)
def test_options_of_a_log_are_checked(folder, options, message, monkeypatch):
    monkeypatch.chdir(folder)
    write_log(folder)
    result = invoke("adapt", *files(folder)[:2], *options, "--out", "m.mdaml")
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
