"""A script as a user with types writes it: ``mypy --strict`` must have nothing to say.

``assert_type`` pins what must not decay to Any. Checked by ``make lint`` and by test_typing.py,
which also runs it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import mdaml
from mdaml import (
    GMML,
    LMNN,
    PRESETS,
    Constraints,
    MDaML,
    MDaMLCV,
    PairVerifier,
    Partners,
    audit,
    suggest_queries,
)
from mdaml.constraints import sample_triplets
from mdaml.datasets import list_datasets, load_dataset, make_multimodal, make_triplets
from mdaml.inspection import effective_rank, mode_map
from mdaml.model_selection import (
    ConstraintKFold,
    MetricSearchCV,
    PointKFold,
    knn_accuracy,
    triplet_accuracy,
)

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]


def from_labels() -> float:
    X, y = make_multimodal(random_state=0)
    assert_type(X, npt.NDArray[np.float64])
    model = MDaML(n_modes=4, partners=Partners(n_similar=3), random_state=0).fit(X, y)
    assert_type(PRESETS["paper"].partners, Partners)
    assert_type(MDaML.paper(n_modes=4), MDaML)
    assert_type(MDaML(goal=replace(PRESETS["labels"], floor=0.1)), MDaML)
    assert_type(model, MDaML)  # fit returns the estimator, not its base
    assert_type(model.transform(X), Floats)
    assert_type(model.get_mahalanobis_matrix(), Floats)
    assert_type(model.pair_distance(X[:3], X[3:6]), Floats)
    assert_type(model.embed(X), npt.NDArray[np.float32])
    assert_type(model.get_metric()(X[0], X[1]), float)
    assert_type(mode_map(model, X).links, Floats)
    assert_type(effective_rank(model), float)
    assert_type(LMNN().fit(X, y), LMNN)
    return knn_accuracy(model, X, y, k=3)


def from_comparisons() -> float:
    X = np.random.default_rng(0).normal(size=(60, 3))
    triplets, wrong = make_triplets(X, n_triplets=300, components=np.eye(3)[:1], random_state=0)
    assert_type(wrong, npt.NDArray[np.bool_])
    supervision = Constraints(triplets=triplets, n_points=len(X))
    assert_type(supervision.restrict(range(30)), Constraints)
    for split in ConstraintKFold(3, random_state=0).split(supervision):
        assert split.train is not None  # None where labels alone are split
        assert split.test is not None
        metric = GMML(t=0.5).fit(X, constraints=split.train)
        assert_type(triplet_accuracy(metric, X, split.test), float)
    search = MetricSearchCV(MDaML(n_modes=1), {"eta": [2.0, 3.0]}, cv=2, random_state=0)
    assert_type(search.fit(X, triplets=triplets), MetricSearchCV)
    queries = suggest_queries(search.best_estimator_, X, n=5)
    assert_type(queries, npt.NDArray[Any])  # rows, or names
    report = audit(search.best_estimator_, X, triplets=triplets)
    assert len(report) == len(triplets)
    return search.score_triplets(X, triplets)


def from_answers(folder: Path) -> int:
    (folder / "odd.csv").write_text("item1,item2,item3,odd,who\nant,bee,cat,cat,ann\n")
    names = np.array(["ant", "bee", "cat"])
    supervision = Constraints.read(folder / "odd.csv", ids=names, form="odd_one_out")
    assert_type(supervision.columns["who"], npt.NDArray[Any])
    votes = Constraints.from_votes([["ant", "bee", "cat"]], [[3, 1]], ids=names)
    assert_type(votes, Constraints)
    metric = GMML().fit(np.eye(3), constraints=supervision)
    assert_type(metric.score_odd_one_out(np.eye(3), [[0, 1, 2]], [2]), float)
    return supervision.n_constraints + votes.n_constraints


def saved_and_verified(folder: Path) -> bool:
    X, y = load_dataset("balance", return_X_y=True)
    names = [record.name for record in list_datasets()]
    assert_type(names, list[str])
    model = MDaMLCV(random_state=0).fit(X[::5], y[::5])
    model.save(folder / "balance.mdaml", compact=True)
    loaded = mdaml.load(folder / "balance.mdaml")
    assert_type(loaded.transform(X), Floats)
    (first, *_) = PointKFold(2, random_state=0).split(y=y)
    assert_type(first.train_points, Integers)
    triplets = sample_triplets(y, 1, 1, random_state=0)
    pairs = np.concatenate([triplets[:, [0, 1]], triplets[:, [0, 2]]])
    labels = np.repeat([1, -1], len(triplets))
    verifier = PairVerifier(loaded, threshold="eer").fit(X, pairs, labels)
    assert_type(verifier, PairVerifier)
    assert_type(verifier.score(X, pairs, labels), float)
    return bool(np.array_equal(loaded.transform(X), model.transform(X)))
