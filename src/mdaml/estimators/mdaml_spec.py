"""The parameters of MDaML, checked before a fit, and what is warned of after it."""

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mdaml._validation import (
    check_callback,
    check_choice,
    check_integer,
    check_metric,
    check_number,
    check_start_weights,
    warn,
)
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.fit import Fit
from mdaml.solver.spec import Spec


def check_parameters(model: Any, shape: tuple[int, int], said: Classes | Constraints) -> Spec:
    """Check all parameters for samples of a shape; return them with every "auto" resolved."""
    n_samples, n_features = shape
    near = isinstance(said, Classes) and model.sampling == "neighbors"
    check_choice(model, "sampling", model.sampling, ["neighbors", "random"])
    check_choice(model, "pairing", model.pairing, ["grid", "zip"])
    check_callback(model, model.callback)
    rows = ", the number of rows of X"
    n_modes = check_integer(model, "n_modes", model.n_modes, 1, n_samples, what=rows)
    why = " There is no best weight of a sample in a mode (Eq. 14 of the paper) for eta <= 1."
    eta = check_number(model, "eta", model.eta, 1.0, strict=True, why=why)
    rank = check_low_rank(model, n_features)
    auto = isinstance(model.init_metric, str) and model.init_metric == "auto"
    return Spec(
        n_modes=n_modes,
        eta=eta,
        triplet_weight=_check_triplet_weight(model, near),
        ridge=check_number(model, "ridge", model.ridge, 0.0),
        rank=rank,
        metric=_check_init_metric(model, n_features),
        scale_metric=auto and rank is None,  # of low rank a start has its scale already
        weights=_check_init(model, n_samples),
        neighbors=near,
        n_refresh=check_integer(model, "n_refresh", model.n_refresh, 0),
        n_similar=check_integer(model, "n_similar", model.n_similar, 1),
        n_dissimilar=check_integer(model, "n_dissimilar", model.n_dissimilar, 1),
        pairing=model.pairing,
        max_iter=_check_max_iter(model, near),
        max_inner_iter=check_integer(model, "max_inner_iter", model.max_inner_iter, 1),
        tol=check_number(model, "tol", model.tol, 0.0),
        callback=model.callback,
    )


def check_low_rank(model: Any, n_features: int) -> int | None:
    """Return ``n_components`` if it asks for less than full rank, otherwise None."""
    if model.n_components is None:
        return None
    what = ", the number of features of X"
    rank = check_integer(model, "n_components", model.n_components, 1, n_features, what=what)
    return rank if rank < n_features else None


def _check_triplet_weight(model: Any, near: bool) -> float:
    if isinstance(model.triplet_weight, str) and model.triplet_weight == "auto":
        with np.errstate(over="ignore"):  # the check below says it in words
            auto = (1000.0 if near else 300.0) * np.float64(model.n_modes) ** model.eta
        why = f" 'auto' grows like n_modes**eta, and eta is {model.eta}: lower it."
        return check_number(model, "triplet_weight", auto, 0.0, strict=True, why=why)
    why = " 'auto' chooses a value."
    return check_number(model, "triplet_weight", model.triplet_weight, 0.0, strict=True, why=why)


def _check_init_metric(model: Any, n_features: int) -> Any:
    if not isinstance(model.init_metric, str):
        return check_metric(model, "init_metric", model.init_metric, n_features)
    why = " Or pass a positive definite matrix."
    check_choice(model, "init_metric", model.init_metric, ["auto", "identity", "whitened"], why=why)
    return "whitened" if model.init_metric == "whitened" else None


def _check_init(model: Any, n_samples: int) -> Any:
    if not isinstance(model.init, str):
        return check_start_weights(model, model.init, n_samples, model.n_modes)
    why = " Or pass an array of first weights, of shape (n_samples, n_modes)."
    check_choice(model, "init", model.init, ["gmm", "kmeans"], why=why)
    return model.init


def _check_max_iter(model: Any, near: bool) -> int:
    """Return the most rounds of a pass, given whether its triplets are neighbours."""
    if not isinstance(model.max_iter, str):
        return check_integer(model, "max_iter", model.max_iter, 1)
    check_choice(model, "max_iter", model.max_iter, ["auto"], why=" Or pass a whole number.")
    return 2 if near else 10


def warn_if_needed(model: Any, spec: Spec, fit: Fit) -> None:
    """Warn of a fit that was cut short, of a weight too low, of comparisons that cannot be met."""
    few_by_design = spec.neighbors and isinstance(model.max_iter, str)
    unfinished = fit.status is Status.MAX_ITER and not few_by_design
    if unfinished and fit.history[-1] < 0.5 * fit.history[-4]:
        warn(
            f"{fit.status.value} The last of {fit.n_last} rounds still halved the objective: "
            "increase max_iter.",
            ConvergenceWarning,
        )
    if fit.triplet_weight < fit.critical_weight:
        advice = "Increase triplet_weight."
        if np.isinf(fit.critical_weight):
            advice = "Along no direction are dissimilar samples farther apart than similar ones."
        warn(
            f"triplet_weight={fit.triplet_weight:g} is below lambda1_critical_="
            f"{fit.critical_weight:.3g}: the best metric is zero, and what was learned "
            f"depends on where the iteration stopped. {advice}",
        )
        return
    if fit.mean_loss > 0.49:
        warn(
            "The weighted mean loss of the triplets is no lower than that of a zero metric: "
            "the comparisons could not be met. Are they consistent, and are the features "
            "informative and scaled? If so, increase triplet_weight.",
        )
