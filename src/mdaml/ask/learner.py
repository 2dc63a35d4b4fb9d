"""Learns from the answers in a process of its own, and proposes questions to the server.

Every model is a whole fit to the answers that count when it is made, so that neither the order of
answers, undos and corrections nor a restart changes it. New models are made as rarely as they must
be, and one replaces the model that is served unless held-out answers speak against it.
"""

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from mdaml._typing import FloatArray, IntArray
from mdaml.ask import owner, persons
from mdaml.ask.answers import to_constraints
from mdaml.ask.fitting import ItemAxes, Method, Model, fit_whole, from_bytes, to_bytes
from mdaml.ask.items import Items
from mdaml.ask.mapping import describe_map
from mdaml.ask.questions import Row
from mdaml.ask.storage import Stamp, Storage
from mdaml.constraints import Constraints
from mdaml.estimators import Euclidean
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.inspection import suggest_queries
from mdaml.kernels.threads import threads_at_most

PAUSE = 2.0  # seconds between looks at the database
_N_QUERIES, _MOST_QUERIES = 60, 200  # to ask until the next report; more if people are many
_MANY = 0.05  # share of the answers learned from that is worth a new fit soon
# Pause after a fit, in times of its own duration: if many answers are new or one was withdrawn, and
# otherwise.
_SHORT_REST, _LONG_REST = 1.0, 10.0


class Served(NamedTuple):
    """A model in the database, with the ids of the answers that it was learned from."""

    model: MahalanobisTransformer
    answers: frozenset[str]


class Learner:
    """Turns answers into a model, a report and questions.

    Parameters
    ----------
    storage : Storage
        Where answers come from, and where models go.
    items : Items
        What is compared. Without features the report has persons only.
    patience : float
        Factor of the pauses between fits; 0 to fit whenever an answer is new.
    method : {"mdaml", "localmdaml"}
        What is fitted.
    """

    def __init__(
        self, storage: Storage, items: Items, patience: float = 1.0, method: Method = "mdaml"
    ) -> None:
        self._storage, self._items, self._patience = storage, items, patience
        self._method = method
        self._stamp: Stamp | None = None
        self._n_seen: int | None = None  # answers at the last report
        self._fitted: Model | None = None  # to all answers, on the leading axes
        self._learned: frozenset[str] | None = None  # ids of the answers of the last fit
        self._seconds, self._ended = 0.0, -np.inf  # of the last fit
        self._is_behind, self._rest = False, 0.0  # whether answers wait for the next fit
        self._declined: Row | None = None  # why the last fit is not served
        # The answers of the last fit, and what is learned if all of them are turned round.
        self._turned: tuple[frozenset[str] | None, Model | None] | None = None
        self._kept: dict[int, Served] = {}  # by their versions
        self._space = None if items.X is None else ItemAxes.of(items.X, scaled=items.is_scaled)
        self._euclidean = None
        if self._space is not None and items.X is not None:
            plain = Euclidean().fit(items.X)
            plain.components_ = np.diag(1 / self._space.scale)
            self._euclidean = plain

    def step(self) -> bool:
        """Learn from what changed since the last step; return whether anything was done."""
        stamp = self._storage.stamp()
        if stamp == self._stamp and not (self._is_behind and self._is_rested()):
            return False
        answers = self._storage.answers()
        held, taught = split_answers(answers)
        verdicts: dict[str, persons.Verdict] = {}
        report, queries = Row(), list[list[str]]()
        X, ids = self._items.X, self._items.ids
        if X is not None:
            supervision, scored = to_constraints(taught, ids), to_constraints(held, ids)
            self._learn(taught, supervision, scored)
            served = self._served()
            if served is not None:
                verdicts = persons.judge(served.model, X, answers, ids)
            queries = self._suggest(answers)
            decided = to_constraints([a for a in answers if a["outcome"] == "answer"], ids)
            report |= self._report(scored, supervision, decided)
            report["opposite"] = self._find_opposite(report["curve"], supervision, scored)
        report |= persons.describe_answers(answers, verdicts)
        with self._storage.write(learned=True) as change:
            change.replace_report(report, queries)
        self._stamp, self._n_seen = stamp, len(answers)
        return True

    # Fits

    def _learn(
        self, taught: Sequence[Row], supervision: Constraints | None, held: Constraints | None
    ) -> None:
        """Fit to all answers if it is time, and store the model unless answers speak against it."""
        there = self._items.rows.keys()  # nothing is learned from items that were removed
        now = frozenset(
            a["answer"] for a in taught if a["outcome"] != "skip" and there >= set(a["items"])
        )
        self._is_behind = now != self._learned
        if not self._is_due(now):
            return
        assert self._space is not None
        assert self._items.X is not None
        began = time.monotonic()
        self._fitted = fit_whole(self._space, supervision, self._method)
        self._ended = time.monotonic()
        self._seconds = self._ended - began
        self._learned, self._is_behind, self._declined = now, False, None
        self._forget_withdrawn(now)
        if self._fitted is None:
            return
        X, served = self._items.X, self._served()
        model = self._space.widen(self._fitted, X)
        if served is not None and owner.speaks_against(model, served.model, X, held):
            self._declined = {"n_answers": len(now)}
        elif served is None or served.answers != now or not _are_alike(model, served.model, X):
            blob = to_bytes(model, self._items.features)
            with self._storage.write(learned=True) as change:
                version = change.insert_model(sorted(now), blob)
            self._kept[version] = Served(model, now)
            self._prune()

    def _is_due(self, now: frozenset[str]) -> bool:
        """Say whether the answers differ so much from those of the last fit that it is time."""
        before = self._learned
        if before is None:
            return True
        change, withdrawn = now ^ before, before - now
        soon = bool(withdrawn) or len(change) >= _MANY * len(before)
        self._rest = self._patience * (_SHORT_REST if soon else _LONG_REST)
        return bool(change) and self._is_rested()

    def _is_rested(self) -> bool:
        return time.monotonic() - self._ended >= self._rest * self._seconds

    def _served(self) -> Served | None:
        """Return the latest model in the database."""
        self._read_kept()
        return self._kept[max(self._kept)] if self._kept else None

    def _read_kept(self) -> None:
        versions = [row["version"] for row in self._storage.models()]
        unreadable = []
        for version in versions:
            if version not in self._kept:
                row = self._storage.read_model(version)
                try:
                    model = from_bytes(row["model"])
                except ValueError:  # damaged, or of another version: there will be a new one
                    unreadable.append(version)
                    continue
                self._kept[version] = Served(model, frozenset(row["answers"]))
        self._kept = {version: self._kept[version] for version in versions if version in self._kept}
        self._drop(unreadable)

    def _forget_withdrawn(self, now: frozenset[str]) -> None:
        """Delete all models that were learned from an answer which no longer counts."""
        self._read_kept()
        gone = [version for version, kept in self._kept.items() if not kept.answers <= now]
        self._drop(gone)

    def _prune(self) -> None:
        """Keep models at 10, 14, 20, ... answers and the latest one, for the learning curve."""
        best: dict[int, int] = {}
        for version, kept in sorted(self._kept.items()):
            best.setdefault(int(2 * np.log2(max(len(kept.answers), 1))), version)
        few = {*best.values(), max(self._kept)}
        self._drop([version for version in self._kept if version not in few])

    def _drop(self, versions: Sequence[int]) -> None:
        if versions:
            with self._storage.write(learned=True) as change:
                change.delete_models(versions)
            self._kept = {v: kept for v, kept in self._kept.items() if v not in versions}

    # Questions and figures

    def _suggest(self, answers: Sequence[Row]) -> list[list[str]]:
        """Return triplets of ids to ask next; without a model, near ties of Euclidean distance."""
        space, ids = self._space, self._items.ids
        assert space is not None
        asked = _asked_triplets(answers, self._items.rows)
        n_new = 0 if self._n_seen is None else len(answers) - self._n_seen
        n_queries = min(max(_N_QUERIES, 2 * n_new), _MOST_QUERIES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = self._fitted or Euclidean().fit(space.X)
            try:
                found = suggest_queries(
                    metric, space.X, n_queries, asked=asked, random_state=len(answers)
                )
            except ValueError:  # hardly any comparison is left
                return []
        return [[ids[row] for row in triplet] for triplet in found]

    def _report(
        self,
        held: Constraints | None,
        supervision: Constraints | None,
        decided: Constraints | None,
    ) -> Row:
        X, ids, served = self._items.X, self._items.ids, self._served()
        assert X is not None
        assert self._euclidean is not None
        curve = [(len(kept.answers), kept.model) for _, kept in sorted(self._kept.items())]
        report = owner.describe_learning(curve, self._euclidean, X, held)
        report["declined"] = self._declined
        if served is not None:
            report |= describe_map(served.model, self._euclidean, X, decided)
            report["nearest"] = owner.describe_nearest(served.model, self._euclidean, X)
            if supervision is not None:
                report["again"] = owner.find_doubtful(served.model, X, supervision)
        return owner.name_items(report, ids)

    def _find_opposite(
        self,
        curve: Sequence[Sequence[float]],
        supervision: Constraints | None,
        held: Constraints | None,
    ) -> Row | None:
        """Look whether people choose the opposite, where the model explains no more than half."""
        served, X = self._served(), self._items.X
        if not (curve and curve[-1][1] <= 0.5) or served is None or supervision is None:
            return None
        assert self._space is not None
        assert X is not None
        if self._turned is None or self._turned[0] != self._learned:
            model = fit_whole(self._space, owner.turn_round(supervision), self._method)
            self._turned = self._learned, model and self._space.widen(model, X)
        turned = self._turned[1]
        return turned and owner.holds_better(turned, served.model, X, held)


def _are_alike(
    first: MahalanobisTransformer, second: MahalanobisTransformer, X: FloatArray
) -> bool:
    """Whether two models put all items in the same places; those of other items may differ."""
    places, others = first.transform(X), second.transform(X)
    return places.shape == others.shape and bool(np.allclose(places, others))


def split_answers(answers: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return answers to score by, and answers to learn from, which share no question.

    Catch questions are in neither: they test persons.
    """
    held = [a for a in answers if a["source"] == "held out"]
    keys = {_key(a) for a in answers if a["held_out"]}
    taught = [a for a in answers if a["source"] != "catch" and _key(a) not in keys]
    return held, taught


def _key(answer: Row) -> tuple[str, ...]:
    """Return a key that is the same for the same question, whichever the sides."""
    first = answer["items"][:1] if answer["form"] in ("triplet", "pick") else []
    return (answer["form"], *first, *sorted(answer["items"][len(first) :]))


def _asked_triplets(answers: Sequence[Row], rows: dict[str, int]) -> IntArray | None:
    named = [
        a["items"] for a in answers if a["form"] == "triplet" and rows.keys() >= set(a["items"])
    ]
    return np.array([[rows[name] for name in items] for items in named]) if named else None


def start(place: str, study: str, method: Method) -> tuple[BaseProcess, Connection]:
    """Start a process that learns until this one ends; it waits for :func:`hand_over`."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    given = (place, study, method, receiver)
    process = context.Process(target=_run, args=given, name="mdaml-learner", daemon=True)
    process.start()
    receiver.close()
    return process, sender


def hand_over(sender: Connection, items: Items) -> None:
    """Send the items to a process that learns, unless it has ended.

    As arguments they would be written to a pipe whose other end this process holds too: if the
    other one were killed meanwhile, this one would wait for ever.
    """
    with sender, suppress(BrokenPipeError, ConnectionResetError):
        sender.send(items)


def _run(place: str, study: str, method: Method, receiver: Connection) -> None:
    if hasattr(os, "nice"):
        os.nice(10)  # requests of people go first
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        items = receiver.recv()
    except EOFError:  # the server has ended
        return
    storage = Storage(place, study)
    n_threads = max(1, (os.cpu_count() or 1) - 1)  # one core is left for the server
    with threads_at_most(n_threads), threadpool_limits(n_threads):
        try:
            _learn_on(Learner(storage, items, method=method), storage)
        except Exception as error:  # the owner must know; the process ends all the same
            storage.note_failure(f"{type(error).__name__}: {error}")
            raise


def _end_with_parent() -> None:
    """End this process when the server is gone, in the middle of a fit too.

    Otherwise it would compete with the learner of the next server. What it stores is stored
    completely or not at all.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    # Another child of the parent may hold the pipe that would signal the end of the parent.
    while parent.is_alive() and os.getppid() == parent.pid:
        time.sleep(PAUSE)
    os._exit(0)


def _learn_on(learner: Learner, storage: Storage) -> None:
    while True:
        began = time.monotonic()
        if learner.step():
            storage.note_failure(None)
        took = time.monotonic() - began
        time.sleep(max(0.1, PAUSE - took, took))  # reports of many answers take seconds
