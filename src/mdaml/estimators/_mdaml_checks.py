"""What is checked before MDaML is fitted, and what it warns of afterwards."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mdaml._validation import (
    check_callback,
    check_choice,
    check_integer,
    check_memory_limit,
    check_metric,
    check_number,
    check_start_weights,
)
from mdaml.alternation import Outcome
from mdaml.device import find_device
from mdaml.optimize import Status


def check_parameters(model: Any, n_samples: int, n_features: int, near: bool) -> float:
    """Check all parameters; return the triplet weight in force, given what triplets are."""
    rows = ", the number of rows of X"
    check_integer(model, "n_modes", model.n_modes, 1, n_samples, what=rows)
    why = " There is no best weight of a sample in a mode (Eq. 14 of the paper) for eta <= 1."
    check_number(model, "eta", model.eta, 1.0, strict=True, why=why)
    check_number(model, "ridge", model.ridge, 0.0)
    check_integer(model, "n_similar", model.n_similar, 1)
    check_integer(model, "n_dissimilar", model.n_dissimilar, 1)
    check_choice(model, "sampling", model.sampling, ["neighbors", "random"])
    check_integer(model, "n_refresh", model.n_refresh, 0)
    check_choice(model, "pairing", model.pairing, ["grid", "zip"])
    if isinstance(model.init_metric, str):
        why = " Or pass a positive definite matrix."
        starts = ["auto", "identity", "whitened"]
        check_choice(model, "init_metric", model.init_metric, starts, why=why)
    else:
        check_metric(model, "init_metric", model.init_metric, n_features)
    if isinstance(model.init, str):
        why = " Or pass an array of first weights, of shape (n_samples, n_modes)."
        check_choice(model, "init", model.init, ["gmm", "kmeans"], why=why)
    else:
        check_start_weights(model, model.init, n_samples, model.n_modes)
    if isinstance(model.max_iter, str):
        check_choice(model, "max_iter", model.max_iter, ["auto"], why=" Or pass a whole number.")
    else:
        check_integer(model, "max_iter", model.max_iter, 1)
    check_integer(model, "max_inner_iter", model.max_inner_iter, 1)
    check_number(model, "tol", model.tol, 0.0)
    if model.n_components is not None:
        columns = ", the number of features of X"
        check_integer(model, "n_components", model.n_components, 1, n_features, what=columns)
    check_callback(model, model.callback)
    check_choice(model, "device", model.device, [None, "cpu", "cuda", "auto"])
    device = find_device("MDaML(device=...)", model.device)
    limited = check_memory_limit(model, model.memory_limit) is not None
    if limited and (device is not None or model.n_components not in (None, n_features)):
        raise ValueError(
            "MDaML(memory_limit=...) is kept by fits of full rank with NumPy: leave device and "
            f"n_components out, or memory_limit; got device={model.device!r} and "
            f"n_components={model.n_components}."
        )
    if isinstance(model.triplet_weight, str) and model.triplet_weight == "auto":
        with np.errstate(over="ignore"):  # the check below says it in words
            auto = (1000.0 if near else 300.0) * np.float64(model.n_modes) ** model.eta
        why = f" 'auto' grows like n_modes**eta, and eta is {model.eta}: lower it."
        return check_number(model, "triplet_weight", auto, 0.0, strict=True, why=why)
    why = " 'auto' chooses a value."
    return check_number(model, "triplet_weight", model.triplet_weight, 0.0, strict=True, why=why)


def warn_if_needed(
    model: Any, outcome: Outcome[Any], mean_loss: float, *, few_by_design: bool
) -> None:
    """Warn of a fit that was cut short, of a weight too low, of comparisons that cannot be met."""
    history = outcome.history
    unfinished = outcome.status is Status.MAX_ITER and not few_by_design
    if unfinished and history[-1] < 0.5 * history[-4]:
        warnings.warn(
            f"{outcome.status.value} The last of {outcome.n_iter} rounds still halved the "
            "objective: increase max_iter.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if model.triplet_weight_ < model.lambda1_critical_:
        advice = "Increase triplet_weight."
        if np.isinf(model.lambda1_critical_):
            advice = "Along no direction are dissimilar samples farther apart than similar ones."
        warnings.warn(
            f"triplet_weight={model.triplet_weight_:g} is below lambda1_critical_="
            f"{model.lambda1_critical_:.3g}: the best metric is zero, and what was learned "
            f"depends on where the iteration stopped. {advice}",
            UserWarning,
            stacklevel=3,
        )
        return
    if mean_loss > 0.49:
        warnings.warn(
            "The weighted mean loss of the triplets is no lower than that of a zero metric: "
            "the comparisons could not be met. Are they consistent, and are the features "
            "informative and scaled? If so, increase triplet_weight.",
            UserWarning,
            stacklevel=3,
        )
