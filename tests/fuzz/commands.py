"""Command lines over damaged inputs, in this process; and commands killed at random moments."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from suite.children import default_ctrl_c
from typer.testing import CliRunner

from fuzz import check
from fuzz.files import damage
from mdaml import load
from mdaml.cli import build_app
from mdaml.io.atomic import replace_file

MAIN = "from mdaml.cli import main; main()"
FAST = ("--param", "max_iter=2", "--param", "n_modes=1")
OLD = b"an old file"


def make_inputs(folder):
    """Write whole inputs of all kinds, once."""
    if (folder / "plain.mdaml").exists():
        return
    import pandas as pd

    from mdaml import Constraints, Euclidean

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=np.arange(30) % 2)
    frame.insert(0, "id", [f"i{n}" for n in range(30)])
    frame.to_csv(folder / "items.csv", index=False)
    frame.to_parquet(folder / "items.parquet", index=False)
    np.save(folder / "items.npy", X)
    rows = np.array([rng.choice(30, 3, replace=False) for _ in range(40)])
    supervision = Constraints(triplets=rows, n_points=30, ids=frame["id"].tolist())
    for suffix in (".csv", ".parquet", ".npz"):
        supervision.write(folder / f"said{suffix}")
    Euclidean().fit(X).save(folder / "plain.mdaml")


def attack(rng, folder):
    """Run a command on inputs of which one may be damaged: it ends in words, and loses nothing."""
    make_inputs(folder)
    inputs = {path.name: path for path in folder.glob("*.*") if not path.name.startswith("broken")}
    victim = str(rng.choice(list(inputs)))
    if rng.random() < 0.8:
        broken = folder / f"broken{Path(victim).suffix}"
        content = inputs[victim].read_bytes()
        if rng.random() < 0.2:  # the content of another kind of file
            content = inputs[str(rng.choice(list(inputs)))].read_bytes()
        broken.write_bytes(damage(content, rng) if rng.random() < 0.8 else content)
        inputs[victim] = broken
    command, words, out = _draw_words(rng, folder, inputs)
    if out is not None:
        out.write_bytes(OLD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(build_app(), [command, *map(str, words)])
    what = f"mdaml {command} {' '.join(map(str, words))} ({victim}):"
    check(result.exception is None or isinstance(result.exception, SystemExit), what, result)
    check(result.exit_code in (0, 1, 2), what, "exit code", result.exit_code)
    check("should not have happened" not in result.stderr, what, result.stderr)
    if "--json" in words and result.stdout:
        lines = result.stdout.splitlines()
        check(len(lines) == 1 and isinstance(json.loads(lines[0]), dict), what, "no document")
    if out is not None:
        check((out.read_bytes() == OLD) == (result.exit_code != 0), what, "the old file")
    check(not list(folder.glob(".mdaml-*")), what, "left a part behind")
    return f"exit {result.exit_code}"


def _draw_words(rng, folder, inputs):
    data = inputs[str(rng.choice(["items.csv", "items.parquet", "items.npy"]))]
    supervision = inputs[str(rng.choice(["said.csv", "said.parquet", "said.npz"]))]
    option = str(rng.choice(["--triplets", "--triplets", "--constraints", "--pairs"]))
    columns = [] if data.suffix == ".npy" else ["--drop", "y"]
    command = str(rng.choice(["fit", "score", "audit", "neighbors", "transform"]))
    words, out = [data, *columns], None
    if command == "fit":
        out = folder / "out.model.mdaml"
        method = str(rng.choice(["gmml", "euclidean", "kissme", "mdaml"]))
        words += ["--method", method, "--out", out, option, supervision]
        words += FAST if method == "mdaml" else []
    else:
        words.insert(0, inputs["plain.mdaml"])
    if command in ("score", "audit"):
        words += [option, supervision]
    if command == "audit" or command == "transform":
        out = folder / f"out{rng.choice(['.csv', '.parquet'])}"
        words += ["--out", out]
    if command == "neighbors":
        words += ["--query", str(rng.choice(["i3", "3", "x", "-1", "9" * 400]))]
    words += ["--skip-invalid"] if command in ("fit", "score") and rng.random() < 0.4 else []
    return command, words + (["--json"] if rng.random() < 0.6 else []), out


def attack_by_signal(rng, folder):
    """Kill a command that writes: its file is the old one or a whole new one."""
    make_inputs(folder)
    where = {"cwd": folder, "env": os.environ | {"COLUMNS": "80"}}
    command, words, out = draw_writer(rng, folder)
    if out is not None:
        out.write_bytes(OLD)
    sent = [signal.SIGINT, signal.SIGKILL, signal.SIGTERM][int(rng.integers(3))]
    impatient = rng.random() < 0.5  # Ctrl-C again and again, to the last moment of the process
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    start = f"import mdaml.cli, sys; sys.stderr.write('up\\n'); sys.stderr.flush(); {MAIN}"
    with default_ctrl_c():
        run = subprocess.Popen([sys.executable, "-c", start, *command, *words], **pipes, **where)
    with run:
        run.stderr.readline()
        time.sleep(float(rng.uniform(0, 5)))
        run.send_signal(sent)
        while sent == signal.SIGINT and impatient and run.poll() is None:
            time.sleep(0.01)
            run.send_signal(sent)
        stdout, stderr = run.communicate(timeout=120)
    what = f"mdaml {' '.join([*command, *words])} and {sent.name}:"
    if sent == signal.SIGINT:
        check(run.returncode in (0, 130), what, run.returncode, stderr)
        check("Traceback" not in stderr, what, stderr)
        if "--json" in words:
            check(len(stdout.splitlines()) == 1, what, "no document")
    if out is not None and out.read_bytes() != OLD and out.suffix == ".mdaml":
        load(out)
    with replace_file(folder / "next"):
        parts = list(folder.glob(".mdaml-*"))
        check(len(parts) == 1, what, f"{len(parts) - 1} parts are left after the next run")
    return f"{sent.name}: {run.returncode}"


def draw_writer(rng, folder):
    """Return a command that writes, its arguments and its file."""
    out = folder / f"out.{rng.integers(3)}.mdaml"
    learn = ("items.csv", "--drop", "y", "--triplets", "said.csv", "--out", str(out), "--json")
    table = folder / "out.csv"
    model = ("plain.mdaml", "items.csv", "--drop", "y")
    return [
        (("fit",), (*learn, *FAST), out),
        (("search",), (*learn, "--method", "gmml"), out),
        (("transform",), (*model, "--out", str(table), "--json"), table),
        (("audit",), (*model, "--triplets", "said.csv", "--out", str(table), "--json"), table),
        (("demo",), ("--splits", "1", "--out", str(folder / "demo.png")), folder / "demo.png"),
        (("paper", "run"), ("--quick", "--datasets", "balance", "--jobs", "1", "--out", "p"), None),
    ][int(rng.integers(6))]
