"""A whole fit to the answers: the axes of the items, the strength of the anchor, the file."""

import tempfile
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.preprocessing import StandardScaler

from mdaml._typing import FloatArray
from mdaml.ask.questions import Row
from mdaml.constraints import Constraints
from mdaml.estimators import LocalMDaML, MDaML
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.persistence import load

Method = Literal["mdaml", "localmdaml"]
_MOST_AXES = 50  # some hundred answers of a session cannot determine more
_LEAST_ANSWERS = 5
_HOLD = 6.0  # answers about a feature that the Euclidean metric counts for
_OPEN_ANCHOR = 1.0  # where held-out answers cannot tell whether learning helps
# Learned attributes that are points among the samples.
_POINTS = ("centers_", "map_centers_", "landmark_centers_", "mean_")
Model = MDaML | LocalMDaML


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

    def widen(self, model: Model, X: FloatArray) -> Model:
        """Return a model of features as they are, from one of the leading axes.

        One with places sees the leading axes alone.
        """
        k, means = self.X.shape[1], np.mean(X, axis=0)
        wide = copy(model)
        wide.n_features_in_ = X.shape[1]
        for name in _POINTS:
            if hasattr(model, name):
                points = getattr(model, name) @ self.axes[:k]
                setattr(wide, name, points * self.scale + means)
        if isinstance(wide, LocalMDaML) and not wide.is_linear:
            wide.front_matrix_ = self.axes[:k] / self.scale
            wide.front_offset_ = -wide.front_matrix_ @ means
            return wide
        L, spread = model.components_, np.sum(self.X**2)
        c = np.sqrt(np.sum((self.X @ L.T) ** 2) / spread) if spread else 1.0
        learned, rest = L @ self.axes[:k], c * self.axes[k:]
        wide.components_ = np.concatenate([learned, rest]) / self.scale
        return wide


def fit_whole(
    space: ItemAxes, supervision: Constraints | None, method: Method = "mdaml"
) -> Model | None:
    """Return a model of the leading axes, fitted to all answers; None if they are too few.

    The same answers give the same model, whatever was learned before. Places need answers enough
    to choose on held-out ones.
    """
    if (
        supervision is None
        or supervision.n_constraints < _LEAST_ANSWERS
        or not _can_learn(supervision)
    ):
        return None
    n = supervision.n_constraints
    several = len(np.unique(supervision.columns["who"])) > 1 and len(supervision.triplets) == n
    given: Row = {
        "constraints": supervision._replaced(ids=None),
        "who": "who" if several else None,
    }
    anchor = choose_anchor(supervision, space.X.shape[1])
    model: Model = MDaML(anchor=anchor, random_state=0)
    if method == "localmdaml" and anchor == "auto":
        model = LocalMDaML(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # people who collect answers know that there are few
        model.fit(space.X, **given)
        if model.start_kept_:
            # Questions are asked because they are open: few of them distinguish metrics.
            model = MDaML(anchor=_OPEN_ANCHOR, random_state=0).fit(space.X, **given)
    return model


def choose_anchor(supervision: Constraints, n_features: int) -> float | Literal["auto"]:
    """Return the strength of the anchor, which holds the metric near the Euclidean one.

    With fewer than six answers per feature, the Euclidean metric counts like six answers about each
    feature. With more, "auto" chooses on held-out answers: of few answers, or of near ties that
    were asked because they are open, it would conclude that nothing can be learned.
    """
    anchor = _HOLD * n_features / len(np.unique(supervision.columns["question"]))
    return min(anchor, 10.0) if anchor > 1 else "auto"


def _can_learn(supervision: Constraints) -> bool:
    """Say whether there are comparisons, or pairs of both kinds."""
    return len(supervision.triplets) > 0 or len(np.unique(supervision.pair_labels)) == 2


def to_bytes(model: Model, features: Sequence[str]) -> bytes:
    """Return the file of a model, with the names of its features."""
    model = copy(model)
    if features:
        model.feature_names_in_ = np.array(features, dtype=object)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.mdaml")
        model.save(path)
        return path.read_bytes()


def from_bytes(blob: bytes) -> MahalanobisTransformer:
    """Return the model of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.mdaml")
        path.write_bytes(blob)
        model = load(path)
    model.__dict__.pop("feature_names_in_", None)  # so that it takes arrays without a warning
    return model
