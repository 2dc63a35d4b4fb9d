"""Pairs, each labelled as similar or dissimilar."""

import numpy as np
from sklearn.metrics import roc_auc_score

from mdaml._typing import ArrayLike, BoolArray, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import Names, get_index
from mdaml.kernels.pairs import pair_sq_dists

COLUMNS = ("a", "b", "label")
_LABELS = {"1": 1, "-1": -1, "0": -1, "similar": 1, "dissimilar": -1, "same": 1, "different": -1}


def check_pairs(
    pairs: ArrayLike, pair_labels: ArrayLike | None, n_samples: int, names: Names = None
) -> tuple[IntArray, BoolArray]:
    """Return pairs as an (n, 2) integer array of row indices, and which of them are similar."""
    given = answers.check_members("pairs", pairs, 2, n_samples, "two row numbers of X", names)
    wanted = "pair_labels must hold one number for each pair: 1 if similar, -1 or 0 if dissimilar"
    if pair_labels is None:
        raise ValueError(f"{wanted}; got None. Pass pairs= and pair_labels= together.")
    labels = np.asarray(pair_labels)
    if labels.shape != (len(given),):
        raise ValueError(f"{wanted}; got shape {labels.shape} for {len(given)} pairs.")
    if labels.dtype.kind not in "iufb":
        raise ValueError(f"{wanted}; got dtype {labels.dtype}.")
    values = np.unique(labels)
    if not (np.isin(values, [1, -1]).all() or np.isin(values, [1, 0]).all()):
        hint = ""
        if np.isin(values, [-1, 0, 1]).all():
            hint = " Does 0 mean dissimilar, or not known? Use 1 and -1, or 1 and 0."
        raise ValueError(f"{wanted}; got the values {', '.join(map(str, values[:5]))}.{hint}")
    return given, labels > 0


def check_both_kinds(name: str, n_similar: float, n_dissimilar: float, advice: str) -> None:
    """Refuse pairs that are all similar or all dissimilar."""
    for count, kind in ((n_similar, "similar"), (n_dissimilar, "dissimilar")):
        if count == 0:
            raise ValueError(
                f"{name} needs similar and dissimilar pairs, got no {kind} pair. {advice}"
            )


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return the rows of (n, 2) pairs and their labels, and the faults of lines."""
    members, faults = reader.find_points(cells[:2], COLUMNS)
    labels = reader.look_up(cells[2], _parse_label)
    if {_strip(text) for text in reader.texts_of(_parse_label)} >= {"0", "-1"}:
        raise ValueError(
            f"{reader.path}: the labels 0 and -1 both occur: does 0 mean dissimilar, or not "
            "known? Use 1 and -1, or 1 and 0, and leave out pairs that are not known."
        )

    def describe(place: int) -> str:
        return f"label is {cells[2][place]!r}, not 1 (similar) or -1 (dissimilar)"

    faults += [(labels == 0, describe), *reader.find_repeats(members, cells, [(0, 1)])]
    return (members, labels), faults


def _parse_label(text: str) -> int:
    return _LABELS.get(_strip(text).lower(), 0)


def _strip(text: str) -> str:
    return text.strip().removesuffix(".0")


def score_pairs(
    self: "answers.Metric", X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike
) -> float:
    """Return how well the learned distance tells similar from dissimilar pairs.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the pairs index; they need not be those of ``fit``.
    pairs : array-like of shape (n_pairs, 2)
        Row indices.
    pair_labels : array-like of shape (n_pairs,)
        1 for similar, -1 or 0 for dissimilar pairs; both must be there.

    Returns
    -------
    score : float
        The area under the ROC curve: of all combinations of a similar with a dissimilar pair,
        the share in which the similar pair is closer. Ties count half.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_pairs(X, [[0, 1], [1, 2], [0, 2], [2, 3]], [1, -1, 1, -1])
    0.625
    """
    Y = self.transform(X)
    rows, similar = check_pairs(pairs, pair_labels, len(Y), get_index(X))
    check_both_kinds(
        type(self).__name__, similar.sum(), (~similar).sum(), "The score compares the two."
    )
    return float(roc_auc_score(similar, -pair_sq_dists(Y, rows)))
