"""Which labels are suspected: against plain loops, and against labels that were changed."""

from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import mdaml
from mdaml import GMML, LFDA, Euclidean, MDaML, fold_pipeline
from mdaml.datasets import load_dataset, make_triplets
from mdaml.inspection import audit_labels
from mdaml.inspection._crossfit import deal_rows, find_units

pytestmark = [
    pytest.mark.needs("pandas"),  # what is tested returns data frames
    # Of wrong labels so little may be learned that the start is kept; audits work with that too.
    pytest.mark.filterwarnings("ignore:Nothing was learned"),
]


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
    frame = audit_labels(model, X, y, n_neighbors=k, refit=False)
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


def flipped(load, seed):
    """A set of scikit-learn with nine labels of a hundred changed, and which."""
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(seed)
    wrong = np.zeros(len(y), bool)
    wrong[rng.choice(len(y), round(0.09 * len(y)), replace=False)] = True
    n_classes = y.max() + 1
    return X, np.where(wrong, (y + rng.integers(1, n_classes, len(y))) % n_classes, y), wrong


def n_found(model, X, y, wrong, **options):
    frame = audit_labels(model, X, y, **options)
    return int(np.count_nonzero(wrong & (frame["category"] == "suspected wrong")))


@pytest.mark.parametrize(
    "load", [pytest.param(load_breast_cancer, marks=pytest.mark.slow), load_wine]
)
def test_nine_tenths_of_what_the_best_method_finds(load):
    found, best = 0, 0
    for seed in range(3):
        X, y, wrong = flipped(load, seed)
        scaled = StandardScaler().fit_transform(X)
        others = (Euclidean().fit(scaled), GMML().fit(scaled, y), LFDA().fit(scaled, y))
        best += max(n_found(model, scaled, y, wrong, refit=False) for model in others)
        found += n_found(MDaML().fit(scaled, y), scaled, y, wrong)
    assert found >= 0.9 * best


def test_a_model_finds_the_same_however_it_is_passed(tmp_path):
    X, y, _ = flipped(load_wine, 0)
    metric = MDaML(shrinkage=0.0, random_state=0)  # learns in any case
    pipeline = make_pipeline(StandardScaler(), PCA(8), metric).fit(X, y)
    wanted = audit_labels(pipeline, X, y)
    folded = fold_pipeline(pipeline)
    folded.save(tmp_path / "wine.mdaml", compact=False)
    folded.save(tmp_path / "compact.mdaml")
    for model in (folded, *(mdaml.load(tmp_path / f"{n}.mdaml") for n in ("wine", "compact"))):
        frame = audit_labels(model, X, y)
        assert frame["slack"].to_numpy() == pytest.approx(wanted["slack"].to_numpy(), abs=0.05)
        assert (frame["category"] == wanted["category"]).mean() > 0.95
    again = audit_labels(pipeline, X, y)
    assert again.equals(wanted)
    direct = audit_labels(folded, X, y, refit=False)
    assert np.mean(direct["slack"]) > np.mean(wanted["slack"]) + 0.02  # as the labels want it


def test_a_folded_model_that_is_fitted_again_forgets_the_steps():
    X, y, _ = flipped(load_wine, 0)
    model = fold_pipeline(make_pipeline(StandardScaler(), GMML()).fit(X, y))
    assert model.input_map_.shape == (13,)
    assert not hasattr(model.fit(X, y), "input_map_")


def test_labels_that_the_model_never_saw_are_judged_by_the_model_itself():
    X, y, _ = flipped(load_wine, 0)
    X = StandardScaler().fit_transform(X)
    rows = np.arange(len(X))
    old, new = rows[::2], rows[1::2]
    T, _ = make_triplets(X, n_triplets=500, random_state=0)
    for model in (
        MDaML(random_state=0).fit(X[old], y[old]),
        GMML().fit(X[old], y[old]),
        MDaML(random_state=0).fit(X[new], triplets=T[T.max(axis=1) < len(new)]),
    ):
        found = audit_labels(model, X[new], y[new])
        assert found.equals(audit_labels(model, X[new], y[new], refit=False))


def test_copies_of_a_row_are_held_out_together():
    rng = np.random.default_rng(0)
    codes, units = rng.integers(3, size=90), np.arange(90) // 3 * 3
    fold = deal_rows(codes, units, np.random.RandomState(0))
    assert np.array_equal(fold, fold[units])
    assert np.bincount(fold).tolist() == [30, 30, 30]
    X, _, _ = flipped(load_wine, 0)
    assert np.array_equal(find_units(np.repeat(X, 2, axis=0), X), np.arange(2 * len(X)) // 2 * 2)


def test_what_cannot_be_fitted_again_is_said():
    X, y, _ = flipped(load_wine, 0)
    model = fold_pipeline(make_pipeline(Normalizer(), GMML()).fit(X, y))
    with pytest.warns(UserWarning, match="made by fold_pipeline; pass the pipeline"):
        found = audit_labels(model, X, y)
    assert found.equals(audit_labels(model, X, y, refit=False))
    small, labels = X[[0, 1, 60]], [0, 0, 1]
    with pytest.warns(UserWarning, match="cannot be fitted again"):
        audit_labels(LFDA().fit(X, y), small, labels, refit=True)
    assert len(audit_labels(Euclidean().fit(small), small, labels)) == 3
