"""Calls of the public interface with one or two arguments that make no sense."""

import warnings
from functools import cache

import numpy as np

import mdaml
from fuzz import Broken
from mdaml import constraints, datasets, estimators, features, inspection, model_selection

N, D = 20, 3
WANTED = (ValueError, TypeError)  # NotFittedError is a ValueError


@cache
def _known():
    """Return samples, labels, triplets and a fitted model for calls that are right."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, D)), np.arange(N) % 2
    triplets = np.array([rng.choice(N, 3, replace=False) for _ in range(30)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mdaml.MDaML.paper(n_modes=2, max_iter=1, random_state=0).fit(X, triplets=triplets)
    return X, y, triplets, model


def _right_calls():
    """Return functions with arguments that are right, by name."""
    X, y, triplets, model = _known()
    supervision = mdaml.Constraints(triplets=triplets, n_points=N)
    pairs, signs = triplets[:, :2], np.resize([1, -1], len(triplets))
    score = {"metric": model, "X": X, "y": y}
    by_said = {"metric": model, "X": X, "constraints": supervision}
    Constraints, search = mdaml.Constraints, model_selection.MetricSearchCV
    calls = [
        (model.transform, {"X": X}),
        (model.pair_distance, {"A": X, "B": X}),
        (model.score_triplets, {"X": X, "triplets": triplets}),
        (model.score_quadruplets, {"X": X, "quadruplets": triplets[:, [0, 1, 0, 2]]}),
        (model.score_pairs, {"X": X, "pairs": pairs, "pair_labels": signs}),
        (
            constraints.sample_triplets,
            {"y": y, "n_similar": 2, "n_dissimilar": 2, "pairing": "zip"},
        ),
        (constraints.neighbor_triplets, {"X": X, "y": y, "n_similar": 2, "n_dissimilar": 2}),
        (Constraints, {"triplets": triplets, "weights": np.ones(len(triplets)), "n_points": N}),
        (Constraints, {"pairs": pairs, "pair_labels": signs, "ids": [f"i{n}" for n in range(N)]}),
        (Constraints.from_labels, {"y": y, "kind": "pairs", "n": 5}),
        (Constraints.from_neighbors, {"X": X, "y": y, "n_similar": 2, "n_dissimilar": 2}),
        (Constraints.from_chunks, {"groups": y}),
        (supervision.select, {"which": np.arange(3)}),
        (supervision.restrict, {"points": np.arange(N)}),
        (supervision.with_noise, {"rate": 0.1, "random_state": 0}),
        (model_selection.knn_accuracy, score | {"k": 3, "gallery": (X, y)}),
        (model_selection.hit_rate_at_k, score | {"k": 1}),
        (model_selection.map_at_r, score),
        (model_selection.triplet_accuracy, by_said),
        (model_selection.neighbor_accuracy, by_said),
        (lambda **given: search(**given).fit(X, y), {"estimator": mdaml.GMML(), "param_grid": {}}),
        (inspection.audit, {"model": model, "X": X, "triplets": triplets}),
        (inspection.explain_distance, {"model": model, "a": X[0], "b": X[1]}),
        (inspection.feature_relevance, {"model": model, "X": X}),
        (inspection.mode_map, {"model": model, "X": X, "triplets": triplets}),
        (inspection.suggest_queries, {"model": model, "X": X, "n": 2, "candidates": 20}),
        (datasets.make_multimodal, {"n_samples": 20, "n_classes": 2, "noise": 0.1}),
        (datasets.make_triplets, {"X": X, "y": y, "n_triplets": 5, "wrong": 0.0}),
        (datasets.make_triplets, {"X": X, "components": np.eye(D), "n_triplets": 5}),
        (datasets.load_dataset, {"name": "balance", "return_X_y": True}),
        (features.gist, {"images": [np.zeros((8, 8))], "size": 32, "cutoff": 4.0, "n_blocks": 2}),
    ]
    for name in estimators.__all__:
        make = getattr(estimators, name)
        params = {key: value for key, value in make().get_params().items() if key != "device"}
        params |= {"max_iter": 1} if "max_iter" in params else {}
        if name != "MDaMLCV":  # slow
            calls.append((_fitting(make, X, y), params))
        calls.append((make().fit, {"X": X, "y": y}))
        if issubclass(make, estimators.MDaML | estimators.GMML):
            quick = make(**({"max_iter": 1, "n_modes": 1} if name == "MDaML" else {}))
            given = {"triplets": triplets, "pairs": pairs, "pair_labels": signs}
            calls.append((quick.fit, {"X": X, **given, "constraint_weight": np.ones(60)}))
    return calls


def _fitting(make, X, y):
    def fit(**params):
        return make(**params).fit(X, y)

    fit.__qualname__ = f"{make.__name__}(...).fit"
    return fit


def _nonsense():
    X, *_ = _known()
    import pandas as pd
    from scipy.sparse import csr_array

    return [
        *(None, True, False, -1, 0, 1, 2, 10**30, 1.5, -0.5, np.nan, np.inf, 1j, "", "abc", b"x"),
        *([], {}, (), set(), object(), int, iter([]), [[1], [1, 2]], [None], ["a", "b"], [np.nan]),
        *(np.array([]), np.zeros((3, 0)), np.zeros((2, 2, 2)), np.array(["a"] * N), np.array(5)),
        *(np.full((N, D), np.nan), np.full(N, np.inf), np.full((N, D), 1e300), np.zeros((N, D))),
        *(np.arange(N), np.arange(N) + 0.5, np.zeros(N, complex), np.zeros(N, "M8[s]")),
        *(
            np.zeros((N, D), object),
            np.array([[10**6, 1, 2]]),
            np.array([[-1, 0, 1]]),
            X[:1],
            X[:, :1],
        ),
        *(np.array([[0, 0, 0]]), np.array([[0, 1]]), np.array([0.5, "a", None], object)),
        *(csr_array(X), pd.DataFrame(X), pd.Series([pd.NA] * N), pd.DataFrame({"a": ["x"] * N})),
        *(
            np.ma.masked_less(X, 0),
            X.astype(np.float16),
            X.astype(np.longdouble),
            "2 GB",
            -(10**20),
        ),
    ]


def attack(rng, _folder):
    """Make a call: it works, or is refused by one of the promised errors."""
    calls, nonsense = _right_calls(), _nonsense()
    function, right = calls[rng.integers(len(calls))]
    names = rng.choice(list(right) or ["nothing"], min(len(right) or 1, rng.integers(1, 3)), False)
    given = right | {str(name): nonsense[rng.integers(len(nonsense))] for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**given)
        except WANTED:
            return "refused"
        except Exception as error:
            shown = ", ".join(f"{name}={str(given[str(name)])[:60]!r}" for name in names)
            what = getattr(function, "__qualname__", function)
            raise Broken(f"{what}({shown}): {type(error).__name__}: {error}") from error
    return "done"
