"""Learns from the answers in a process of its own, and proposes questions to the server."""

import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from mdaml._typing import FloatArray, IntArray
from mdaml.ask import owner, persons
from mdaml.ask.answers import to_constraints
from mdaml.ask.items import Items
from mdaml.ask.questions import Row
from mdaml.ask.storage import Stamp, Storage
from mdaml.constraints import Constraints
from mdaml.estimators import Euclidean, MDaML
from mdaml.estimators.base import MahalanobisTransformer as Metric
from mdaml.inspection import suggest_queries
from mdaml.kernels.threads import threads_at_most
from mdaml.persistence import load

PAUSE = 2.0  # seconds between looks at the database
_MOST_AXES = 50  # some hundred answers of a session cannot determine more
_LEAST_ANSWERS = 5
_N_QUERIES = 60
_REFIT = 1.25  # growth of the number of answers after which all is fitted again
_HOLD = 6.0  # answers about a feature that the Euclidean metric counts for
_OPEN_ANCHOR = 1.0  # where held-out answers cannot tell whether learning helps
_SLOW = 2.0  # seconds of a whole fit above which answers in between only refine the model


@dataclass
class ItemAxes:
    """The principal axes of items, in which the metric is learned.

    The leading axes are learned; along the others the distance stays Euclidean, at the scale that
    keeps their share of the mean distance.
    """

    scale: FloatArray  # (d,) of the features
    axes: FloatArray  # (r, d) principal axes of the scaled features, the longest first
    X: FloatArray  # (n, k) items on the leading ones

    @classmethod
    def of(cls, X: FloatArray, *, scaled: bool) -> "ItemAxes":
        """Return the axes of items."""
        scale = np.ones(X.shape[1])
        if scaled:
            scale = StandardScaler().fit(X).scale_
        centered = X / scale - np.mean(X / scale, axis=0)
        if len(X) <= X.shape[1]:  # embeddings of a few items
            _, _, axes = np.linalg.svd(centered, full_matrices=False)
        else:
            axes = np.linalg.eigh(centered.T @ centered)[1].T[::-1]
        axes = axes[: min(len(X) - 1, X.shape[1])]
        return cls(scale, axes, centered @ axes[:_MOST_AXES].T)

    def widen(self, model: MDaML, X: FloatArray) -> MDaML:
        """Return a model of features as they are, from one of the leading axes."""
        k, L = self.X.shape[1], model.components_
        spread = np.sum(self.X**2)
        c = np.sqrt(np.sum((self.X @ L.T) ** 2) / spread) if spread else 1.0
        learned, rest = L @ self.axes[:k], c * self.axes[k:]
        wide: MDaML = copy(model)
        wide.components_ = np.concatenate([learned, rest]) / self.scale
        means = np.mean(X, axis=0)
        wide.centers_ = (model.centers_ @ self.axes[:k]) * self.scale + means
        wide.n_features_in_ = X.shape[1]
        return wide


class Learner:
    """Turns answers into a model, a report and questions.

    Parameters
    ----------
    storage : Storage
        Where answers come from, and where models go.
    items : Items
        What is compared. Without features the report has persons only.
    """

    def __init__(self, storage: Storage, items: Items) -> None:
        self._storage, self._items = storage, items
        self._stamp: Stamp | None = None
        self._model: MDaML | None = None
        self._curve: dict[int, Metric] = {}  # models by their versions
        self._n_fitted, self._n_learned, self._seconds = 0, 0, 0.0
        self._space = None if items.X is None else ItemAxes.of(items.X, scaled=items.is_scaled)
        self._euclidean = None
        if self._space is not None and items.X is not None:
            plain = Euclidean().fit(items.X)
            plain.components_ = np.diag(1 / self._space.scale)
            self._euclidean = plain

    def step(self) -> bool:
        """Learn from the answers that came since the last step; return whether there were any."""
        stamp = self._storage.stamp()
        if stamp == self._stamp:
            return False
        answers = self._storage.answers()
        held, taught = split_answers(answers)
        verdicts: dict[str, persons.Verdict] = {}
        report, blob, queries = Row(), None, list[list[str]]()
        X, ids = self._items.X, self._items.ids
        if X is not None:
            supervision = to_constraints(taught, ids)
            model = self._learn(supervision)
            if model is not None:
                blob = _to_bytes(model, self._items.features)
                verdicts = persons.judge(model, X, answers, ids)
            queries = self._suggest(model, answers)
            report |= self._report(model, to_constraints(held, ids), supervision)
        report |= persons.describe_answers(answers, verdicts)
        n_taught = len([a for a in taught if a["outcome"] != "skip"])
        self._storage.add_model(n_taught, blob, report, queries)
        self._prune()
        self._stamp = stamp
        return True

    def _learn(self, supervision: Constraints | None) -> MDaML | None:
        """Fit to all answers, or refine the last model by the new ones if that took long."""
        space, X = self._space, self._items.X
        assert space is not None
        assert X is not None
        began, n = time.perf_counter(), 0 if supervision is None else supervision.n_constraints
        if supervision is None or n < _LEAST_ANSWERS or not owner.can_compare(supervision):
            return None
        refine = self._seconds > _SLOW and self._n_learned < n < _REFIT * self._n_fitted
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # people who collect answers know that there are few
            if refine and self._model is not None and len(supervision.triplets) == n:
                new = supervision.select(np.arange(self._n_learned, n))
                self._model.partial_fit(space.X, constraints=new._replaced(ids=None))
            elif n != self._n_fitted or self._model is None:
                anchor = choose_anchor(supervision, space.X.shape[1])
                self._model = MDaML(anchor=anchor, random_state=0)
                n_persons = len(np.unique(supervision.columns["who"]))
                several = n_persons > 1 and len(supervision.triplets) == n
                given: Row = {
                    "constraints": supervision._replaced(ids=None),
                    "who": "who" if several else None,
                }
                self._model.fit(space.X, **given)
                if self._model.start_kept_:
                    # Questions are asked because they are open: few of them distinguish metrics.
                    self._model.set_params(anchor=_OPEN_ANCHOR).fit(space.X, **given)
                self._n_fitted, self._seconds = n, time.perf_counter() - began
        self._n_learned = n
        return space.widen(self._model, X)

    def _suggest(self, model: MDaML | None, answers: Sequence[Row]) -> list[list[str]]:
        """Return triplets of ids to ask next; without a model, near ties of Euclidean distance."""
        space, ids = self._space, self._items.ids
        assert space is not None
        asked = _asked_triplets(answers, self._items.rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = self._model if model is not None else Euclidean().fit(space.X)
            try:
                found = suggest_queries(
                    metric, space.X, _N_QUERIES, asked=asked, random_state=len(answers)
                )
            except ValueError:  # hardly any comparison is left
                return []
        return [[ids[row] for row in triplet] for triplet in found]

    def _report(
        self, model: MDaML | None, held: Constraints | None, supervision: Constraints | None
    ) -> Row:
        X = self._items.X
        assert X is not None
        assert self._euclidean is not None
        kept = [(row["n_answers"], self._load(row["version"])) for row in self._storage.models()]
        if model is not None and supervision is not None:
            n_now = len(set(supervision.columns["question"].tolist()))
            kept = [(n, m) for n, m in kept if n < n_now] + [(n_now, model)]
        report = owner.describe_learning(kept, self._euclidean, X, held)
        if model is not None and supervision is not None:
            report |= owner.describe_items(model, self._euclidean, X)
            report["again"] = owner.find_doubtful(model, X, supervision)
        rows = {row for part in report.get("again", []) for row in part["items"]}
        report["rows"] = sorted(rows | set(report.get("rows", [])))
        return report

    def _load(self, version: int) -> Metric:
        """Return a model of the learning curve, read once."""
        if version not in self._curve:
            self._curve[version] = _from_bytes(self._storage.read_model(version))
        return self._curve[version]

    def _prune(self) -> None:
        """Keep models at 10, 14, 20, ... answers and the latest one, for the learning curve."""
        models = self._storage.models()
        best: dict[int, int] = {}
        for row in models:
            best.setdefault(int(2 * np.log2(max(row["n_answers"], 1))), row["version"])
        kept = {*best.values(), *(row["version"] for row in models[-1:])}
        dropped = [row["version"] for row in models if row["version"] not in kept]
        if dropped:
            self._storage.drop_models(dropped)
        self._curve = {version: m for version, m in self._curve.items() if version in kept}


def choose_anchor(supervision: Constraints, n_features: int) -> float | Literal["auto"]:
    """Return the strength of the anchor, which holds the metric near the Euclidean one.

    With fewer than six answers per feature, the Euclidean metric counts like six answers about each
    feature. With more, "auto" chooses on held-out answers: of few answers, or of near ties that
    were asked because they are open, it would conclude that nothing can be learned.
    """
    anchor = _HOLD * n_features / len(np.unique(supervision.columns["question"]))
    return min(anchor, 10.0) if anchor > 1 else "auto"


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


def _to_bytes(model: MDaML, features: Sequence[str]) -> bytes:
    """Return the file of a model, with the names of its features."""
    model = copy(model)
    if features:
        model.feature_names_in_ = np.array(features, dtype=object)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.mdaml")
        model.save(path)
        return path.read_bytes()


def _from_bytes(blob: bytes) -> Metric:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.mdaml")
        path.write_bytes(blob)
        model = load(path)
    model.__dict__.pop("feature_names_in_", None)  # so that it takes arrays without a warning
    return model


def start(place: str, items: Items) -> BaseProcess:
    """Start a process that learns until this one ends; return the process."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_run, args=(place, items), name="mdaml-learner", daemon=True)
    process.start()
    return process


def _run(place: str, items: Items) -> None:
    if hasattr(os, "nice"):
        os.nice(10)  # requests of people go first
    parent = multiprocessing.parent_process()
    storage = Storage(place)
    learner = Learner(storage, items)
    n_threads = max(1, (os.cpu_count() or 1) - 1)  # one core is left for the server
    with threads_at_most(n_threads), threadpool_limits(n_threads):
        _learn_on(learner, parent)


def _learn_on(learner: Learner, parent: BaseProcess | None) -> None:
    # Another child of the parent may hold the pipe that would signal the end of the parent.
    while parent is None or (parent.is_alive() and os.getppid() == parent.pid):
        began = time.monotonic()
        learner.step()
        time.sleep(max(0.1, PAUSE - (time.monotonic() - began)))
