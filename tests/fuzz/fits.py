"""Fits of every method to samples that nobody wants."""

import warnings
from dataclasses import replace

import numpy as np

from fuzz import Broken, check
from mdaml import PRESETS, estimators, limit_memory

GOALS = [
    replace(PRESETS["neighbors"], floor=0.5, init_modes="kmeans"),
    replace(PRESETS["comparisons"], floor=0.0, anchor=0.0, init_modes="kmeans"),
]
LIMITS = (None, None, "200 MB")
# Beside the default parameters, those that fits take other roads with.
SETTINGS = {
    "MDaML": {
        "n_modes": ["auto", 1, 2, 4],
        "goal": ["auto", "neighbors", "paper", *GOALS],
        "partners": ["auto", "neighbors", "random"],
        "n_components": [None, None, 1, 2],
        "anchor": ["auto", 0.0, 1.0],
        "shrinkage": ["auto", 0.0, 0.3],
        "eta": ["auto", 1.5, 3.0],
        "init_metric": ["auto", "identity", "whitened"],
        "max_iter": [1, 3, 8],
    },
    "LMNN": {"max_iter": [5]},
    "DMLdc": {"max_iter": [3]},
    "DMLeig": {"max_iter": [5]},
}


def make_samples(rng):
    """Return samples with one or two things wrong with them."""
    n, d = int(rng.integers(4, 50)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, d))
    with np.errstate(all="ignore"):
        for _ in range(rng.integers(0, 3)):
            X = TROUBLES[rng.integers(len(TROUBLES))](X, rng)
        X = X.astype(np.float32) if rng.random() < 0.3 else X
    return np.asfortranarray(X) if rng.random() < 0.2 else X


def _outlier(X, rng):
    X = X.copy()
    X[rng.integers(len(X))] *= 10.0 ** rng.integers(2, 12)
    return X


def _repeat(X, rng):
    return X[rng.integers(0, max(1, len(X) // 3), len(X))]


def _copy_column(X, rng):
    return np.column_stack([X, X[:, rng.integers(X.shape[1])]])


TROUBLES = [
    _outlier,
    _repeat,
    _copy_column,
    lambda X, rng: X + 10.0 ** rng.integers(1, 12),
    lambda X, rng: X * 10.0 ** rng.uniform(-8, 8, X.shape[1]),
    lambda X, rng: X * 10.0 ** rng.integers(-300, 300),
    lambda X, _: np.round(X),
    lambda X, rng: X * (rng.random(X.shape[1]) < 0.5),
    lambda X, rng: np.where(rng.random(X.shape) < 0.02, np.nan, X),
]


def make_supervision(rng, n):
    """Return labels or comparisons, sometimes senseless."""
    if rng.random() < 0.5:
        return {"y": rng.integers(-1 if rng.random() < 0.3 else 0, 4, n)}
    kind = rng.choice(["triplets", "pairs", "quadruplets"])
    width = {"triplets": 3, "pairs": 2, "quadruplets": 4}[kind]
    size = int(rng.integers(1, 100))
    rows = np.array([rng.choice(n, width, replace=False) for _ in range(size)])
    given = {kind: rows}
    if kind == "pairs":
        given["pair_labels"] = rng.choice([-1, 1], size)
    if rng.random() < 0.3:
        given["constraint_weight"] = 10.0 ** rng.uniform(-5, 5, size)
    return given


def attack(rng, _folder):
    """Fit a method; what it learned must be finite, and its objective what it says."""
    X = make_samples(rng)
    slow = rng.random() < 0.9  # a search is a hundred fits
    names = [name for name in estimators.__all__ if not (slow and name == "MDaMLCV")]
    name = str(rng.choice(names))
    given = make_supervision(rng, len(X))
    choices = SETTINGS.get(name, {})
    params = {key: values[rng.integers(len(values))] for key, values in choices.items()}
    model = getattr(estimators, name)(**params)
    if "random_state" in model.get_params():
        model.set_params(random_state=int(rng.integers(100)))
    limit = LIMITS[rng.integers(len(LIMITS))]
    what = f"{model}.fit({X.dtype} {X.shape}, {', '.join(given)}), limit {limit}"
    with warnings.catch_warnings(), limit_memory(limit):
        warnings.simplefilter("ignore")
        try:
            model.fit(X, **given)
        except (ValueError, TypeError) as error:
            check(not hasattr(model, "components_"), what, "was refused half-way:", error)
            return "refused"
        except Exception as error:
            raise Broken(f"{what}: {type(error).__name__}: {error}") from error
        check_model(model, X, what)
    return "fitted"


def check_model(model, X, what):
    """Refuse what is not finite, an objective that rises, and one that is not Eq. (7)."""
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            check(np.all(np.isfinite(value)), what, name, "is not finite")
    check(np.all(np.isfinite(model.transform(X))), what, "maps its samples to infinity")
    if type(model).__name__ != "MDaML":
        return
    for part in np.split(model.history_, model.pass_starts_[1:]):
        check(np.all(np.diff(part) <= 0), what, "has an objective that rises")
    shrunk = model.shrinkage_ > 0 or model.start_kept_
    if model.anchor_ == 0 and model.floor_ == 0 and model.comparisons_ is None and not shrunk:
        value, bound = recompute(model, X)
        off = abs(value - model.history_[-1])
        check(off <= bound, what, f"Eq. (7) is {value}, history_ says {model.history_[-1]}")


def recompute(model, X):
    """Return Eq. (7) from the attributes, and by how much it may be off; see docs/reliability.md.

    Samples and centres are mapped after their common mean is subtracted, as in a fit.
    """
    # Squares below the least number of the precision vanish in a fit.
    eps, least = float(np.finfo(X.dtype).eps), float(np.finfo(X.dtype).tiny)
    X, centers, L = (
        np.asarray(each, np.float64) for each in (X, model.centers_, model.components_)
    )
    mean = X.mean(axis=0)
    Y, C = (X - mean) @ L.T, (centers - mean) @ L.T
    E = model.weights_.astype(np.float64) ** model.eta_
    to_centers = np.sqrt(np.sum((Y[:, None] - C) ** 2, axis=2))
    i, j, r = model.triplets_.T
    near, far = (np.sqrt(np.sum((Y[i] - Y[other]) ** 2, axis=1)) for other in (j, r))
    short = np.maximum(1 - (far**2 - near**2), 0)
    slope = np.minimum(short, 1)
    together = model.triplet_weight_ * E[i] * E[j]
    value = np.mean(E * to_centers**2) + np.mean(together * (slope * (short - slope / 2))[:, None])
    value += model.ridge_ / 2 * np.sum((L.T @ L) ** 2)
    # Rounding moves every mapped sample by a little, and its distances with it.
    moved = eps * np.linalg.norm(L, 2) * np.abs(X).max() * np.sqrt(X.shape[1])
    steepness = 4 * np.mean(E * to_centers) + 4 * np.mean(
        together * (slope * (near + far))[:, None]
    )
    return value, moved * steepness + moved**2 * np.mean(E) + 1e4 * eps * abs(value) + least
