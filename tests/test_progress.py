"""Bars and lines that say how far long work is, on a terminal and nowhere else."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from mdaml import LMNN, DMLdc, DMLeig, MDaML, MDaMLCV
from mdaml._progress import interrupt, listen, mute, report, resume
from mdaml.datasets import make_multimodal, make_triplets
from mdaml.model_selection import MetricSearchCV
from mdaml.people import PersonalMetrics
from mdaml.retrieval import QueryAdapter

X, y = make_multimodal(60, random_state=0)
T, _ = make_triplets(X, n_triplets=200, components=[[1.0, 0.0]], random_state=0)


def follow(work):
    """Return the reports of some work."""
    heard = []
    with listen(lambda *heard_now: heard.append(heard_now)):
        work()
    return heard


def search(n_jobs=None):
    grid = {"anchor": [0.1, 1.0]}
    return MetricSearchCV(MDaML(1), grid, cv=2, n_jobs=n_jobs, random_state=0)


def adapt():
    pairs = np.column_stack([np.arange(60), np.arange(60)])
    QueryAdapter(anchor=1.0, max_iter=5).fit(X, X + 0.1, pairs)


WORK = {
    "labels": (lambda: MDaML(2, random_state=0).fit(X, y), ["reading", "start", "neighbours"]),
    "triplets": (lambda: MDaML(1, anchor=1.0).fit(X, triplets=T), ["reading", "start"]),
    "lmnn": (lambda: LMNN().fit(X, y), ["reading", "neighbours", "start"]),
    "dml-eig": (lambda: DMLeig(random_state=0).fit(X, y), ["reading", "start"]),
    "dml-dc": (lambda: DMLdc().fit(X, y), ["reading", "neighbours"]),
    "adapter": (adapt, []),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", WORK)
def test_iterative_methods_name_their_phases_and_count_rounds(name):
    work, phases = WORK[name]
    heard = [each for each in follow(work) if not each[0].startswith("compiling")]
    named = list(dict.fromkeys(phase for phase, _, _ in heard))
    assert named[: len(phases)] == phases
    assert named[-1] == "rounds"
    rounds = [done for phase, done, total in heard if phase == "rounds" and done <= total]
    assert rounds[-1] >= 1
    assert rounds == sorted(rounds)


def test_rounds_reach_their_number_unless_the_fit_settles():
    heard = follow(lambda: MDaML(2, max_iter=3, tol=0.0, random_state=0).fit(X, y))
    assert [done for phase, done, _ in heard if phase == "rounds"] == [0, 1, 2, 3, 3, 4, 5, 6]
    assert {total for phase, _, total in heard if phase == "rounds"} == {6}


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_searches_count_fits_and_not_the_rounds_in_them(n_jobs):
    heard = follow(lambda: search(n_jobs).fit(X, triplets=T))
    what = "fits" if n_jobs is None else "splits"
    total = 4 if n_jobs is None else 2
    assert (what, total, total) in heard
    before = heard[: heard.index((what, total, total))]
    assert {phase for phase, _, _ in before} <= {what, "compiling, once"}


def test_choices_and_persons_are_reported():
    heard = follow(lambda: MDaMLCV(random_state=0).fit(X, y))
    assert ("candidates", 0, heard[1][2]) == heard[1]
    who = np.repeat(["ann", "bob"], 100)
    model = PersonalMetrics(MDaML(1, anchor=1.0), n_kinds=2)
    assert "kinds" in {phase for phase, _, _ in follow(lambda: model.fit(X, triplets=T, who=who))}


def test_an_interruption_ends_with_what_was_reported_before():
    def work():
        report("rounds", 1, 3)
        interrupt("compiling")
        resume()

    rounds, compiling = ("rounds", 1, 3), ("compiling", None, None)
    assert follow(work) == [rounds, compiling, rounds]


def test_what_is_muted_can_still_be_interrupted():
    def work():
        report("fits", 0, 2)
        with mute():
            report("rounds", 1, 3)
            interrupt("compiling")
            resume()

    assert follow(work) == [("fits", 0, 2), ("compiling", None, None), ("fits", 0, 2)]


@pytest.mark.parametrize("verbose", [-1, "yes", None])
def test_verbose_is_a_number(verbose):
    with pytest.raises(ValueError, match=r"MDaML\(verbose=\.\.\.\) must be 0 or 1"):
        MDaML(verbose=verbose).fit(X, y)


CODE = """
from mdaml import LMNN
from mdaml.datasets import make_multimodal
def fit(verbose):
    LMNN(max_iter=3, tol=0.0, verbose=verbose).fit(*make_multimodal(60, random_state=0))
"""
WITHOUT_RICH = """
import sys
sys.modules["rich"] = None
"""
WITH_RICH_AGAIN = """
fit(0)
sys.stderr.write("|")
fit(1)
sys.stderr.write("|")
del sys.modules["rich"]
fit(1)
"""


def run(code):
    """Return what code writes to stderr, a pseudo-terminal."""
    import pty

    options = {"stdin": subprocess.DEVNULL, "env": os.environ | {"TERM": "xterm", "COLUMNS": "100"}}
    command = [sys.executable, "-W", "ignore", "-c", code]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE, **options) as process:
        os.close(theirs)
        parts = []
        while part := read(ours):
            parts.append(part)
        os.close(ours)
        assert process.stdout.read() == b""
    assert process.returncode == 0, b"".join(parts)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode())


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so at the end
        return b""


@pytest.mark.needs("POSIX", "rich")
def test_a_terminal_shows_a_bar_with_phases_and_without_rich_lines():
    unasked, lines, bar = run(WITHOUT_RICH + CODE + WITH_RICH_AGAIN).split("|")
    assert unasked == ""
    assert {"neighbours", "3/3"} <= set(lines.split())
    assert "━" not in lines
    assert "LMNN: neighbours" in bar
    assert "LMNN: rounds 3/3" in bar
    assert "━" in bar


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_written_to_a_pipe(monkeypatch):
    ours, theirs = os.pipe()
    with os.fdopen(ours) as written:
        with os.fdopen(theirs, "w") as pipe, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", pipe)
            LMNN(max_iter=3, tol=0.0, verbose=1).fit(X, y)
        assert written.read() == ""
