"""Which labels are suspected: against plain loops, and against labels that were changed."""

from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mdaml import GMML, Euclidean, MDaML
from mdaml.datasets import load_dataset
from mdaml.inspection import audit_labels


def literal(Y, y, row, k):
    """Slack and other labels of one row, by sorting all distances."""
    far = sorted(
        (np.sum((Y[row] - Y[j]) ** 2), j) for j in range(len(Y)) if y[j] not in (y[row], -1)
    )
    near = sorted(
        np.sum((Y[row] - Y[j]) ** 2) for j in range(len(Y)) if y[j] == y[row] and j != row
    )
    votes = Counter(y[j] for _, j in far[:k])
    most = {label for label, n in votes.items() if n == max(votes.values())}
    if not near:
        return 0.0, most
    a, b = np.mean(near[:k]), np.mean([d for d, _ in far[:k]])
    return (b - a) / (b + a), most


@pytest.mark.parametrize("k", [1, 3, 5, 50])
def test_slack_and_other_label_are_those_of_plain_loops(k):
    rng = np.random.default_rng(k)
    X, y = rng.normal(size=(40, 3)), rng.integers(-1, 3, size=40)
    y[0] = 9  # no other sample has this label
    model = GMML().fit(X, np.where(y == 9, 0, y))
    frame = audit_labels(model, X, y, n_neighbors=k)
    assert frame["row"].tolist() == np.flatnonzero(y != -1).tolist()
    assert frame["label"].tolist() == y[y != -1].tolist()
    Y = model.transform(X)
    for row, other, slack in zip(frame["row"], frame["other"], frame["slack"], strict=True):
        wanted, most = literal(Y, y, row, k)
        assert slack == pytest.approx(wanted, abs=1e-9)
        assert other in most
    kept = frame["category"] == "kept"
    assert (kept == (frame["slack"] > 0)).all()
    order = frame["suspicion"].to_numpy()[np.argsort(frame["slack"])]
    assert (np.diff(order) <= 1e-12).all()  # the less slack, the more suspicion


def test_changed_labels_are_suspected():
    X, y = load_dataset("segment", return_X_y=True)
    X, y = X[:600], np.unique(y[:600], return_inverse=True)[1]
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < 0.1
    given = np.where(wrong, (y + rng.integers(1, 7, len(y))) % 7, y)
    model = make_pipeline(StandardScaler(), MDaML(random_state=0)).fit(X, given)
    frame = audit_labels(model, X, given)
    assert roc_auc_score(wrong, frame["suspicion"]) > 0.95
    suspected = frame["category"] == "suspected wrong"
    assert wrong[suspected].mean() > 0.5
    assert suspected[wrong].mean() > 0.8
    right = frame["other"].to_numpy()[wrong & suspected] == y[wrong & suspected]
    assert right.mean() > 0.75  # of seven; chance is one in six


def test_labels_may_be_text():
    X, y = np.array([[0.0], [0.1], [5.0], [5.1], [0.05]]), np.array(["a", "a", "b", "b", "b"])
    frame = audit_labels(Euclidean().fit(X), X, y, n_neighbors=1)
    assert frame.sort_values("slack")["row"].iloc[0] == 4
    assert frame["other"].tolist() == ["b", "b", "a", "a", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 1]}, "one label per row of X, which has 4"),
        ({"y": [0, 0, 0, 0]}, "at least two classes"),
        ({"n_neighbors": 0}, "n_neighbors must be an integer of at least 1, got 0"),
        ({"n_neighbors": True}, "n_neighbors must be"),
        ({"y": [0.5, 1.5, 0.5, 1.5]}, "continuous values"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    X = np.arange(4.0)[:, None]
    arguments = {"y": [0, 0, 1, 1], **arguments}
    with pytest.raises(ValueError, match=message):
        audit_labels(Euclidean().fit(X), X, **arguments)
