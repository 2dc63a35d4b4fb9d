"""Commands at their limits: damaged inputs, errors of all kinds, interruptions, full disks."""

import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.preprocessing
from typer.testing import CliRunner

import mdaml.cli.features as features_module
import mdaml.cli.fit as fit_module
from mdaml import Euclidean, MDaML
from mdaml.cli import build_app, main
from mdaml.cli.audit import audit
from mdaml.cli.fit import fit
from mdaml.cli.search import search
from mdaml.cli.transform import transform
from mdaml.io.atomic import replace_file
from mdaml.io.tables import read_table

pytestmark = pytest.mark.needs("pyarrow")

N = 30
MAIN = "from mdaml.cli import main; main()"
FULL = "the disk is full. Free some space, or write to another disk."
# Acts when the command has begun and loads the first of its modules.
EARLY = """
import os, signal, sys
class Loader:
    def find_spec(self, name, path=None, target=None):
        if name == "mdaml.cli._failures":
            {}
from mdaml.cli import main
sys.modules.pop("mdaml.cli._failures", None)
sys.meta_path.insert(0, Loader())
main()
"""
NOW = "print('now', file=sys.stderr, flush=True)"
MOMENTS = {
    "begin": EARLY.format(NOW),
    "work": f"""
import sys
from mdaml import _progress
def report(phase, done=None, total=None):
    if done == 2:
        {NOW}
_progress.report = report
{MAIN}
""",
}


def run(*arguments, code=0):
    result = CliRunner().invoke(build_app(), [str(word) for word in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table, triplets and models."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    frame.insert(0, "id", [f"i{n}" for n in range(N)])
    frame.assign(y=np.arange(N) % 2).to_csv(folder / "items.csv", index=False)
    np.save(folder / "items.npy", X)
    np.save(folder / "ids.npy", frame["id"].to_numpy(str))
    np.save(folder / "y.npy", np.arange(N) % 2)
    rows = [rng.choice(N, 3, replace=False) for _ in range(40)]
    supervision = "a,b,c\n" + "".join(f"i{a},i{b},i{c}\n" for a, b, c in rows)
    (folder / "said.csv").write_text(supervision)
    Euclidean().fit(X).save(folder / "plain.mdaml")
    return folder


@pytest.fixture(autouse=True)
def files(made, tmp_path, monkeypatch):
    """Copies of the files, in the folder where the test runs."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


COMMANDS = {
    "fit": (fit, {"data": "items.csv", "triplets": "said.csv", "id_column": "ids.npy"}),
    "search": (search, {"data": "items.csv", "triplets": "said.csv", "labels": "y.npy"}),
    "audit": (audit, {"model": "plain.mdaml", "data": "items.csv", "triplets": "said.csv"}),
    "transform": (transform, {"model": "plain.mdaml", "data": "items.npy", "id_column": "ids.npy"}),
}
SUFFIX = {"fit": ".mdaml", "search": ".mdaml", "audit": ".csv", "transform": ".npy"}


@pytest.mark.parametrize(
    ("command", "name"),
    [(command, name) for command, (_, given) in COMMANDS.items() for name in given],
)
@pytest.mark.parametrize("link", [False, True])
def test_no_command_writes_to_what_it_reads(command, name, link):
    function, given = COMMANDS[command]
    read = Path(given[name])
    out = Path(f"same{SUFFIX[command]}")
    if link:
        out.symlink_to(read)
    else:
        out.hardlink_to(read)
        read = out
    before = read.read_bytes()
    given = given | {name: str(out) if not link else given[name]}
    parameters = inspect.signature(function).parameters
    words = [command]
    for key, value in given.items():
        is_argument = parameters[key].default is inspect.Parameter.empty
        option = {"id_column": "--id"}.get(key, f"--{key}")
        words += [value] if is_argument else [option, value]
    if command in ("fit", "search"):
        words += ["--drop", "y"]
    if command == "search" and name != "labels":
        words = [word for word in words if word not in ("--labels", "y.npy")]
    if name == "labels":
        words = [word for word in words if word not in ("--triplets", "said.csv")]
    result = run(*words, "--out", out, "--json", code=2)
    assert "the same file as" in json.loads(result.stdout)["error"]["message"]
    assert read.read_bytes() == before


def test_audit_leaves_its_triplets_alone():
    before = Path("said.csv").read_bytes()
    common = ("audit", "plain.mdaml", "items.csv", "--drop", "y", "--triplets", "said.csv")
    run(*common, "--out", "said.csv", code=2)
    assert Path("said.csv").read_bytes() == before


def damage_npy():
    whole = Path("items.npy").read_bytes()
    yield "empty.npy", b""
    yield "cut.npy", whole[:150]
    yield "archive.npy", _npz(x=np.eye(3))
    yield "words.npy", Path("items.csv").read_bytes()
    yield "header.npy", whole.replace(b"'shape'", b"'shape(")
    yield "huge.npy", whole.replace(b"(30, 3)", b"(1<<9)")
    yield "brace.npy", whole.replace(b"{", b"(", 1)


def _npz(**arrays):
    np.savez("made.npz", **arrays)
    return Path("made.npz").read_bytes()


def test_damaged_arrays_are_refused_in_a_sentence():
    for name, content in damage_npy():
        Path(name).write_bytes(content)
        result = run("fit", name, "--method", "euclidean", "--out", "m.mdaml", "--json", code=2)
        assert json.loads(result.stdout)["error"]["message"].startswith(name)


def test_an_archive_that_claims_more_than_it_has_is_not_read():
    n = 1 << 20
    parts = {"triplets": np.zeros((n, 3), np.int64), "pairs": np.zeros((0, 2), np.int64)}
    parts |= {"pair_labels": np.zeros(0, np.int64), "quadruplets": np.zeros((0, 4), np.int64)}
    np.savez_compressed("bomb.npz", **parts, weights=np.ones(1), n_points=np.array(N))
    result = run(
        *("fit", "items.csv", "--drop", "y", "--constraints", "bomb.npz", "--out", "m.mdaml"),
        code=2,
    )
    assert "claims to hold" in result.stderr


def test_long_cells_are_not_printed_whole():
    Path("long.csv").write_text(f"a,b\n1,2\n3,{'x' * 10**5}\n")
    result = run("fit", "long.csv", "--method", "euclidean", "--out", "m.mdaml", code=2)
    assert "long.csv:3: column 'b' holds 'xxx" in result.stderr
    assert len(result.stderr) < 1000
    Path("long_said.csv").write_text(f"a,b,c\n{'x' * 10**5},i1,i2\n")
    common = ("fit", "items.csv", "--drop", "y", "--out", "m.mdaml", "--json")
    result = run(*common, "--triplets", "long_said.csv", code=2)
    assert len(result.stderr) < 2000
    result = run("neighbors", "plain.mdaml", "items.npy", "--query", "1" * 5000, code=2)
    assert "There is no row '111" in result.stderr
    assert len(result.stderr) < 1000


def test_names_of_many_columns_are_checked_in_linear_time():
    names = [f"c{n}" for n in range(100_000)]
    Path("wide.csv").write_text(",".join([*names, "c5"]) + "\n")
    start = time.process_time()
    with pytest.raises(ValueError, match="the column 'c5' is there twice"):
        read_table(Path("wide.csv"))
    assert time.process_time() - start < 10.0  # it was more than a minute


@pytest.mark.parametrize("out", ["", "/", pytest.param("a" * 300 + ".mdaml", id="long")])
def test_impossible_outputs_are_refused(out):
    result = run("fit", "items.csv", "--drop", "y", "--triplets", "said.csv", "--out", out, code=2)
    assert result.stderr.startswith("--out: cannot write ")


def test_an_error_of_ours_is_a_sentence_and_a_document(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("no such number")

    monkeypatch.setattr(fit_module, "read_inputs", fail)
    common = ("fit", "items.csv", "--triplets", "said.csv", "--out", "m.mdaml", "--json")
    result = run(*common, code=1)
    document = json.loads(result.stdout)
    assert document["exit_code"] == 1
    assert "ZeroDivisionError: no such number" in document["error"]["message"]
    assert "MDAML_TRACEBACK=1" in result.stderr
    assert "Traceback" not in result.stderr
    monkeypatch.setenv("MDAML_TRACEBACK", "1")
    assert "Traceback" in run(*common, code=1).stderr


def test_wrong_arguments_give_a_document(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mdaml", "fit", "items.csv", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert "--out" in json.loads(printed.out)["error"]["message"]
    assert "--out" in printed.err


@pytest.mark.parametrize("line", ['{"kind":', "[1]", '{"kind": "trial"}', "[" * 10**5])
def test_broken_records_are_named(line):
    Path("records.jsonl").write_text(f"{line}\n" + '{"kind": "trial"}\n')
    result = run("paper", "run", "--out", ".", "--datasets", "balance", "--jobs", 1, code=2)
    assert "Line 1 of records.jsonl" in result.stderr


def test_records_need_a_folder():
    result = run("paper", "run", "--out", "items.csv", "--quick", code=2)
    assert "items.csv is a file" in result.stderr


def test_formulas_in_ids_are_disarmed():
    names = ["=HYPERLINK(1)", "+cmd", "-3", "@x", "plain", "-x"]
    frame = pd.DataFrame({"id": names, "u": range(6), "v": 0, "w": 1})
    frame.to_csv("formulas.csv", index=False)
    common = ("transform", "plain.mdaml", "formulas.csv", "--out")
    run(*common, "out.csv")
    shown = ["'=HYPERLINK(1)", "'+cmd", "-3", "'@x", "plain", "'-x"]
    assert pd.read_csv("out.csv")["id"].tolist() == shown
    run(*common, "raw.csv", "--raw")
    assert pd.read_csv("raw.csv")["id"].tolist() == names
    run(*common, "out.parquet")
    assert pd.read_parquet("out.parquet")["id"].tolist() == names
    supervision = "a,b,c\n=HYPERLINK(1),plain,@x\n"
    Path("formulas_said.csv").write_text(supervision)
    run("audit", "plain.mdaml", "formulas.csv", "--triplets", "formulas_said.csv", "--out", "a.csv")
    assert pd.read_csv("a.csv").loc[0, ["a", "b", "c"]].tolist() == [shown[0], "plain", shown[3]]


def test_a_model_that_single_precision_cannot_hold_is_refused():
    X = np.load("items.npy").astype(np.float32) * np.float32(1e-41)
    np.save("tiny.npy", X)
    result = run(
        *("fit", "tiny.npy", "--labels", "y.npy", "--method", "kissme", "--no-scale"),
        *("--out", "m.mdaml"),
        code=2,
    )
    assert "Scale the features" in result.stderr
    assert not Path("m.mdaml").exists()


def start_slow_fit(start, moment):
    """Start a fit without end; return when the command begins, or is in the middle of its work."""
    words = ("fit", "items.csv", "--drop", "y", "--triplets", "said.csv", "--out", "m.mdaml")
    options = (
        "--param",
        "max_iter=100000",
        "--param",
        "tol=0",
        "--param",
        "n_modes=3",
        "--param",
        "anchor=0.1",
        "--json",
    )
    process = start("-c", MOMENTS[moment], *words, *options)
    assert process.stderr.readline() == "now\n"
    return process


@pytest.mark.needs("POSIX")
@pytest.mark.parametrize(("moment", "impatient"), [("begin", False), ("work", True)])
def test_ctrl_c_gives_130_and_a_document(start, moment, impatient):
    Path("m.mdaml").write_bytes(b"old")
    process = start_slow_fit(start, moment)
    process.send_signal(signal.SIGINT)
    while impatient and process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["exit_code"] == 130
    assert "Traceback" not in err
    assert Path("m.mdaml").read_bytes() == b"old"
    assert not list(Path().glob(".mdaml-*"))


@pytest.mark.needs("POSIX")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fit", "items.csv", "--labels", "y", "--method", "gmml", "--out", "m.mdaml"), 0),
        pytest.param(
            ("fit", "no.csv", "--labels", "y", "--out", "m.mdaml"), 2, marks=pytest.mark.slow
        ),
    ],
)
def test_ctrl_c_after_the_outcome_was_told_changes_nothing(start, words, code):
    process = start("-c", MAIN, *words, "--json")
    document = process.stdout.readline()
    while process.poll() is None:  # at every moment until the process is gone
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert (json.loads(document).get("exit_code", 0), out) == (code, "")
    assert "Traceback" not in err


@pytest.mark.needs("POSIX")
def test_ctrl_c_ends_a_command_that_waits_for_its_threads_with_its_code(start):
    code = f"""
import threading, time
def wait():
    threading.main_thread().join()
    print("waits", flush=True)
    time.sleep(300)
threading.Thread(target=wait).start()
{MAIN}"""
    process = start("-c", code, "--version")
    assert process.stdout.readline().startswith("mdaml ")
    assert process.stdout.readline() == "waits\n"
    while process.poll() is None:  # Python may miss one that comes just before it waits
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.needs("POSIX")
def test_ctrl_c_while_the_command_loads_is_answered_afterwards(start):
    """The signal comes when the module that explains errors is asked for."""
    code = EARLY.format("os.kill(os.getpid(), signal.SIGINT)")
    process = start("-c", code, "demo", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["exit_code"] == 130
    assert err == "Interrupted.\n"


@pytest.mark.needs("POSIX")
def test_a_job_that_ignores_ctrl_c_goes_on_to_ignore_it(start):
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += "try:\n    from mdaml.cli import main; main()\n"
    code += "finally:\n    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    process = start("-c", code, "--version")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_warnings_of_a_score_are_in_its_document(monkeypatch):
    class Noisy(sklearn.preprocessing.StandardScaler):
        def fit(self, X, y=None):
            warnings.warn("compiled again", RuntimeWarning, stacklevel=1)
            return super().fit(X, y)

    monkeypatch.setattr(sklearn.preprocessing, "StandardScaler", Noisy)
    words = ("plain.mdaml", "items.csv", "--drop", "y", "--triplets", "said.csv", "--json")
    result = run("score", *words)
    assert json.loads(result.stdout)["warnings"] == ["compiled again"]
    assert result.stderr == "warning: compiled again\n"


@pytest.mark.parametrize(
    ("encoding", "options"),
    [("latin-1", []), ("ascii", ["--json"]), ("latin-1", ["--json"])],
    ids=["text", "ascii", "latin-1"],
)
def test_letters_that_an_encoding_lacks_are_escaped(encoding, options, monkeypatch):
    frame = pd.read_csv("items.csv").assign(art=np.where(np.arange(N) % 2, "Möwe", "Şahin 😀"))
    frame.to_csv("birds.csv", index=False)
    Euclidean().fit(frame[["u", "v", "w"]]).save("m.mdaml")
    words = ["audit", "m.mdaml", "birds.csv", "--labels", "art", "--drop", "y"]
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "argv", ["mdaml", *words, *options])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    written.flush()
    out = written.buffer.getvalue().decode(encoding)
    if options:
        assert out.isascii()
        assert "Şahin 😀" in str(json.loads(out))
    else:
        assert "\\u015eahin \\U0001f600" in out


def test_a_refused_header_is_one_line(start):
    Path("said.csv").write_text("a,b\n1,2\n")
    words = ("fit", "items.csv", "--triplets", "said.csv", "--out", "m.mdaml")
    _, err = start("-c", MAIN, *words).communicate(timeout=60)
    assert err.startswith("said.csv: the header a,b fits no kind of constraint.")
    assert len(err.splitlines()) == 1, err  # nothing is printed when Python ends


@pytest.mark.needs("POSIX")
def test_what_a_killed_writer_left_goes_with_the_next_one():
    code = "import os, signal; from mdaml.io.atomic import replace_file\n"
    code += "with replace_file('m') as part: part.write_bytes(b'x'); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(list(Path().glob(".mdaml-*.part"))) == 1
    with replace_file("other") as one, replace_file("m") as two:
        assert sorted(Path().glob(".mdaml-*.part")) == sorted([Path(one.name), Path(two.name)])
        one.write_bytes(b"1")
        two.write_bytes(b"2")
    assert not list(Path().glob(".mdaml-*.part"))
    assert Path("m").read_bytes() == b"2"


@pytest.mark.needs("POSIX", "skimage")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_full_disk_is_a_sentence(suffix, monkeypatch):
    from PIL import Image

    Path("images").mkdir()
    for n in range(4):
        pixels = np.random.default_rng(n).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"images/{n}.png")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(features_module, "write_frame", fail)
    result = run("features", "images", "--kind", "lab", "--out", f"t{suffix}", code=1)
    assert result.stderr.endswith(f"t{suffix} cannot be written: {FULL}\n")
    assert not [path for path in Path().iterdir() if path.name.startswith((".mdaml", "t."))]


@pytest.mark.needs("Linux")
def test_a_full_disk_behind_stdout_is_a_sentence():
    words = ("transform", "plain.mdaml", "items.npy", "--out", "o.npy", "--json")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == f"The system refused to read or write: {FULL}\n"


@pytest.mark.needs("Linux")
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_workers_and_their_driver_end_together(start, victim):
    words = ("paper", "run", "--datasets", "letter,segment", "--jobs", "2", "--out", "r")
    process = start("-c", MAIN, *words, "--methods", "DML-dc")
    workers = wait_for_workers(process)
    os.kill(process.pid if victim == "driver" else workers[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    if victim == "worker":
        assert process.returncode == 1
        assert "A worker process was killed" in err
        assert "Traceback" not in err
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_for_workers(process):
    """Return the workers of a run once they have a job."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [pid for task in tasks for pid in task.read_text().split()]
        names = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in children}
        found = [int(pid) for pid, words in names.items() if "popen_loky" in words]
        if len(found) == 2:
            time.sleep(8.0)  # until they have loaded what they need, and begun a job
            return found
        time.sleep(0.1)
    raise AssertionError("no workers")


def test_partial_fit_needs_counts():
    X = np.load("items.npy")
    model = MDaML(n_modes=1, shrinkage=0.0, max_iter=1).fit(X, np.arange(N) % 2)
    del model.n_comparisons_seen_
    with pytest.raises(ValueError, match="n_comparisons_seen_"):
        model.partial_fit(X, np.arange(N) % 2)
