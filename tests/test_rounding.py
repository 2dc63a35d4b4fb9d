"""How far rounding moves a fit: single precision, blocks and devices beside double precision.

Without an anchor the alternation multiplies any difference from round to round, in double precision
too, so fits agree at their start and after one round only; with an anchor whole fits agree.
"""

from functools import cache

import numpy as np
import pytest
from suite.models import make_mdaml

from mdaml import limit_memory

N_PROBLEMS = 12
N_ANCHORED = 6
ROUND = 3  # entries of history_: centres, weights, metric


def draw_problem(n):
    rng = np.random.default_rng([5, n])
    n_rows, d, n_modes = (
        int(rng.integers(20, 200)),
        int(rng.integers(2, 9)),
        int(rng.integers(1, 5)),
    )
    X = rng.normal(size=(n_rows, d)) * 10.0 ** rng.uniform(-1, 1, d)
    triplets = np.array(
        [rng.choice(n_rows, 3, replace=False) for _ in range(rng.integers(20, 400))]
    )
    options = {"n_modes": rng.dirichlet(np.ones(n_modes), n_rows), "max_iter": 10}
    return X.astype(np.float32).astype(np.float64), triplets, options


ROADS = ["single", "blocks", pytest.param("device", marks=pytest.mark.needs("torch"))]


def fit(X, triplets, options, road, monkeypatch):
    single = X.astype(np.float32)
    if road == "blocks":
        with monkeypatch.context() as patch:
            patch.setattr("mdaml.stores.choice.must_spare", lambda *_: True)
            with limit_memory("1 GB"):
                return make_mdaml(**options).fit(single, triplets=triplets)
    if road == "device":
        options = options | {"device": "cpu"}
    return make_mdaml(**options).fit(X if road == "moved" else single, triplets=triplets)


@cache
def draw_anchored(n):
    """Return a problem with an anchor, and the end of its fit in double precision."""
    X, triplets, options = draw_problem(n)
    options |= {"row": "neighbors", "anchor": 0.03, "random_state": 0}
    return X, triplets, options, make_mdaml(**options).fit(X, triplets=triplets).history_[-1]


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_with_an_anchor_whole_fits_agree(road, monkeypatch):
    for n in range(N_ANCHORED):
        X, triplets, options, wanted = draw_anchored(n)
        got = fit(X, triplets, options, road, monkeypatch).history_[-1]
        assert got == pytest.approx(wanted, rel=1e-3), n


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_an_anchor_the_start_and_the_first_round_agree(road, monkeypatch):
    for n in range(N_PROBLEMS):
        X, triplets, options = draw_problem(n)
        options |= {"row": "eq. 7", "random_state": 0, "max_iter": 1}
        wanted = make_mdaml(**options).fit(X, triplets=triplets).history_
        got = fit(X, triplets, options, road, monkeypatch).history_
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5, err_msg=str(n))
        np.testing.assert_allclose(got[: ROUND + 1], wanted[: ROUND + 1], rtol=1e-3, err_msg=str(n))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_an_anchor_neither_precision_ends_lower(monkeypatch):
    """Fits end elsewhere, not worse: the mean over problems is much smaller than the largest."""
    apart, moved = [], []
    for n in range(N_PROBLEMS):
        X, triplets, options = draw_problem(n)
        options |= {"row": "eq. 7", "random_state": 0}
        wanted = make_mdaml(**options).fit(X, triplets=triplets).history_[-1]
        single = fit(X, triplets, options, "single", monkeypatch).history_[-1]
        noise = 1 + 6e-8 * np.random.default_rng(n).standard_normal(X.shape)
        close = fit(X * noise, triplets, options, "moved", monkeypatch).history_[-1]
        apart.append(np.log(single / wanted))
        moved.append(np.log(close / wanted))
    assert abs(np.mean(apart)) < 0.03
    # In double precision samples that differ by the rounding of single precision end as far apart.
    assert np.max(np.abs(moved)) > 1e-3
