"""Pictures: that they show the numbers they should, and leave the user's axes and figures alone."""

import sys
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from mdaml import GMML, Euclidean, MDaML
from mdaml.datasets import make_multimodal, make_triplets
from mdaml.inspection import audit, effective_rank, explain_distance, feature_relevance
from mdaml.plot import (
    plot_audit,
    plot_distance_explanation,
    plot_feature_relevance,
    plot_history,
    plot_metric_ellipse,
    plot_modes,
    plot_roc,
    plot_spectrum,
)
from mdaml.verification import PairVerifier


@pytest.fixture(autouse=True)
def no_window():
    before = mpl.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


@pytest.fixture(scope="module")
def fitted():
    X, y = make_multimodal(random_state=0)
    names = [f"feature {n}" for n in range(X.shape[1])]
    X = pd.DataFrame(X, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MDaML(n_modes=9, max_iter=3, random_state=0).fit(X, y)
    return X, y, model


@pytest.fixture(scope="module")
def report(fitted):
    X, _, model = fitted
    triplets, _ = make_triplets(X.to_numpy(), n_triplets=200, random_state=0)
    return audit(model, X, triplets=triplets)


@pytest.fixture(scope="module")
def verified(fitted):
    X, y, _ = fitted
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(len(X), 2, replace=False) for _ in range(300)])
    labels = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    verifier = PairVerifier(GMML().fit(X, y), threshold="cost").fit(X, pairs, labels)
    return verifier, X, pairs, labels


@pytest.fixture
def calls(fitted, report, verified):
    X, _, model = fitted
    return {
        "history": lambda **k: plot_history(model, **k),
        "spectrum": lambda **k: plot_spectrum(model, **k),
        "relevance": lambda **k: plot_feature_relevance(model, X, **k),
        "explanation": lambda **k: plot_distance_explanation(model, X.iloc[0], X.iloc[1], **k),
        "modes": lambda **k: plot_modes(model, X, **k),
        "audit": lambda **k: plot_audit(report, **k),
        "roc": lambda **k: plot_roc(*verified, **k),
        "ellipse": lambda **k: plot_metric_ellipse(model, X, **k),
    }


NAMES = ["history", "spectrum", "relevance", "explanation", "modes", "audit", "roc", "ellipse"]


@pytest.mark.parametrize("name", NAMES)
def test_all_are_drawn_with_labelled_axes(calls, name, tmp_path):
    ax = calls[name]()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or name in ("relevance", "explanation")  # bars are named one by one
    ax.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.parametrize("name", NAMES)
def test_axes_given_are_used_and_no_figure_opens(calls, name):
    ax = Figure().subplots()
    assert calls[name](ax=ax) is ax
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_matplotlib_stay(calls, name):
    before = dict(mpl.rcParams)
    calls[name]()
    assert dict(mpl.rcParams) == before


def test_the_history_is_the_objective_with_its_passes(fitted):
    _, _, model = fitted
    ax = plot_history(model)
    lines = [line for line in ax.lines if len(line.get_xdata()) > 2 and line.get_marker() == "None"]
    drawn = np.concatenate([line.get_ydata() for line in lines])
    np.testing.assert_array_equal(drawn, model.history_)
    assert max(line.get_xdata()[-1] for line in lines) == pytest.approx(model.n_iter_)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["new triplets drawn"]


def test_bars_have_the_relevances(fitted):
    X, _, model = fitted
    shares = feature_relevance(model, X)
    widths = [bar.get_width() for bar in plot_feature_relevance(model, X).patches]
    np.testing.assert_allclose(sorted(widths), sorted(shares))
    ax = plot_feature_relevance(model, X, max_features=1)
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(1)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [shares.abs().idxmax(), f"{len(shares) - 1} others"]
    with pytest.raises(ValueError, match="at least 1"):
        plot_feature_relevance(model, X, max_features=0)


def test_bars_have_the_contributions(fitted):
    X, _, model = fitted
    ax = plot_distance_explanation(model, X.iloc[0], X.iloc[1])
    parts = explain_distance(model, X.iloc[0], X.iloc[1])["contribution"]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(widths, key=abs, reverse=True)
    np.testing.assert_allclose(sorted(widths), sorted(parts))


def test_the_spectrum_sums_to_one_and_names_the_rank(fitted):
    model = fitted[2]
    ax = plot_spectrum(model)
    heights = [bar.get_height() for bar in ax.patches]
    eigenvalues = np.linalg.eigvalsh(model.get_mahalanobis_matrix())[::-1]
    np.testing.assert_allclose(heights, eigenvalues / eigenvalues.sum(), atol=1e-12)
    assert ax.texts[0].get_text() == f"effective rank {effective_rank(model):.1f}"


def test_every_point_is_drawn_in_its_mode(fitted):
    X, _, model = fitted
    ax = plot_modes(model, X)
    listed = [text.get_text() for text in ax.get_legend().get_texts()]
    sizes = np.bincount(model.weights_.argmax(axis=1), minlength=9)
    assert listed == [*(f"mode {k} ({n})" for k, n in enumerate(sizes)), "centres"]
    drawn = sum(len(points.get_offsets()) for points in ax.collections)
    assert drawn == len(X) + 9  # and the centres
    with pytest.raises(TypeError, match="needs a model with modes"):
        plot_modes(Euclidean().fit(X), X)


def test_a_metric_of_one_component_can_be_drawn(fitted):
    X, y, _ = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MDaML(n_modes=2, n_components=1, max_iter=1, random_state=0).fit(X, y)
    plot_modes(model, X)
    plot_metric_ellipse(model, X)
    plot_spectrum(model)


def test_the_legend_counts_the_categories(report):
    texts = [text.get_text() for text in plot_audit(report).get_legend().get_texts()]
    counts = report["category"].value_counts()
    assert len(texts) == (counts > 0).sum()
    for text in texts:
        category, number = text.split(": ")
        assert int(number.split()[0]) == counts[category]
    with pytest.raises(TypeError, match="audit returns"):
        plot_audit(report[["slack"]])


def test_many_comparisons_are_thinned(report):
    ax = plot_audit(pd.concat([report] * 60, ignore_index=True))
    assert sum(len(points.get_offsets()) for points in ax.collections) <= 5000


def test_the_threshold_lies_where_the_verifier_decides(verified):
    verifier, X, pairs, labels = verified
    ax = plot_roc(verifier, X, pairs, labels)
    (mark,) = [line for line in ax.lines if line.get_label().startswith("threshold")]
    decided = verifier.predict(X, pairs)
    x, y = mark.get_data()
    assert x == pytest.approx(np.mean(decided[labels < 0] > 0))
    assert y == pytest.approx(np.mean(decided[labels > 0] > 0))


def test_the_ellipse_holds_points_of_equal_distance_and_the_area_of_the_circle():
    X = np.random.default_rng(0).normal(size=(100, 3))
    metric = Euclidean().fit(X)
    metric.components_ = np.array([[2.0, 1.0, 0.3], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]])
    ax = plot_metric_ellipse(metric, X, features=(2, 0))
    curves = {line.get_label(): np.stack(line.get_data()) for line in ax.lines}
    middle = X[:, [2, 0]].mean(axis=0)[:, None]
    M = metric.get_mahalanobis_matrix()[np.ix_([2, 0], [2, 0])]
    around = curves["learned distance"] - middle
    sq_dists = np.sum(around * (M @ around), axis=0)
    np.testing.assert_allclose(sq_dists, sq_dists[0])

    def area(curve):
        x, y = curve
        return abs(np.trapezoid(y, x))

    assert area(around) == pytest.approx(area(curves["Euclidean distance"] - middle))
    with pytest.raises(ValueError, match="two different columns below 3"):
        plot_metric_ellipse(metric, X, features=(0, 3))


def test_models_without_history_are_refused(fitted):
    with pytest.raises(TypeError, match="history_"):
        plot_history(GMML().fit(fitted[0], fitted[1]))


def test_without_matplotlib_the_extra_is_named(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"mdaml\[cli\]"):
        plot_spectrum(fitted[2])
