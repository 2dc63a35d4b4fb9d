"""GMML: a point on a geodesic, in closed form."""

import literal_baselines as literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdaml import GMML
from mdaml.estimators.gmml import geometric_mean_factor

PINS = {  # methods notes: [m11, m12, m22] on the worked example, reg=0
    "t=0": ({"t": 0.0}, [0.159949, 0.027561, 0.034204]),
    "t=0.25": ({"t": 0.25}, [0.751117, 0.126769, 0.196265]),
    "t=0.5": ({"t": 0.5}, [3.527454, 0.579565, 1.133327]),
    "t=0.75": ({"t": 0.75}, [16.567338, 2.628372, 6.579086]),
    "identity as prior": (
        {"t": 0.3, "prior": np.eye(2), "prior_weight": 0.1},
        [1.012183, 0.169540, 0.277794],
    ),
    "another prior": (
        {"t": 0.5, "prior": [[2, 0.5], [0.5, 1]], "prior_weight": 0.1},
        [3.517754, 0.578835, 1.132872],
    ),
}


def e8_supervision(kind):
    _, y = literal.e8()
    similar, dissimilar = literal.labelled_pairs(y)
    pairs = np.array(similar + dissimilar)
    signs = np.repeat([1, -1], [len(similar), len(dissimilar)])
    triplets = [(i, j, r) for i, j in similar for r in range(8) if y[r] != y[i]]
    return {
        "labels": {"y": y},
        "pairs": {"pairs": pairs, "pair_labels": signs},
        "pairs, turned round": {"pairs": pairs[:, ::-1], "pair_labels": signs},
        "triplets": {"triplets": triplets},
    }[kind]


def positive_definite(rng, d):
    A = rng.normal(size=(d, d + 3))
    return A @ A.T


def fitted_matrix(**options):
    X, _ = literal.e8()
    supervision = e8_supervision(options.pop("kind", "labels"))
    return GMML(**options).fit(X, **supervision).get_mahalanobis_matrix()


@pytest.mark.parametrize(("options", "entries"), PINS.values(), ids=PINS)
@pytest.mark.parametrize("kind", ["labels", "pairs", "pairs, turned round"])
def test_worked_example(options, entries, kind):
    M = fitted_matrix(kind=kind, reg=0, **options)
    np.testing.assert_allclose([M[0, 0], M[0, 1], M[1, 1]], entries, atol=2e-6, rtol=1e-5)


def test_objective_of_the_worked_example():
    X, y = literal.e8()
    S, D = (literal.pair_scatter(X, pairs) for pairs in literal.labelled_pairs(y))
    M = fitted_matrix(t=0.5, reg=0)
    assert literal.gmml_objective(M, S, D) == pytest.approx(114.609700, abs=1e-6)


def test_repeated_pairs_count_as_often_as_they_are_given():
    X, _ = literal.e8()
    triplets = np.array(e8_supervision("triplets")["triplets"])
    S = literal.pair_scatter(X, triplets[:, [0, 1]].tolist())
    D = literal.pair_scatter(X, triplets[:, [0, 2]].tolist())
    np.testing.assert_allclose(
        fitted_matrix(kind="triplets", t=0.3, reg=0), literal.gmml(S, D, 0.3), rtol=1e-10
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 8), t=st.floats(0, 1))
def test_factor_is_the_twin_by_a_fractional_power(seed, d, t):
    rng = np.random.default_rng(seed)
    S, D = positive_definite(rng, d), positive_definite(rng, d)
    F = geometric_mean_factor(S, D, t)
    expected = literal.gmml(S, D, t)
    np.testing.assert_allclose(F @ F.T, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 6))
def test_the_middle_solves_the_riccati_equation_and_the_ends_are_the_ends(seed, d):
    rng = np.random.default_rng(seed)
    S, D = positive_definite(rng, d), positive_definite(rng, d)

    def mean(t):
        F = geometric_mean_factor(S, D, t)
        return F @ F.T

    M = mean(0.5)
    np.testing.assert_allclose(M @ S @ M, D, rtol=1e-6, atol=1e-8 * np.abs(D).max())
    np.testing.assert_allclose(mean(0.0) @ S, np.eye(d), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(mean(1.0), D, rtol=1e-6, atol=1e-8 * np.abs(D).max())


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    t=st.floats(0, 1),
    a=st.floats(0.1, 10),
    b=st.floats(0.1, 10),
)
def test_inverse_and_scale_laws(seed, t, a, b):
    rng = np.random.default_rng(seed)
    S, D = positive_definite(rng, 3), positive_definite(rng, 3)
    F = geometric_mean_factor(S, D, t)
    G = geometric_mean_factor(a * S, b * D, t)
    np.testing.assert_allclose(G @ G.T, a ** (t - 1) * b**t * (F @ F.T), rtol=1e-8, atol=1e-10)
    # The inverse of S^-1 #_t D is S #_t D^-1, which runs from S to D^-1.
    H = geometric_mean_factor(np.linalg.inv(S), np.linalg.inv(D), t)
    np.testing.assert_allclose((F @ F.T) @ (H @ H.T), np.eye(3), rtol=1e-6, atol=1e-7)


def test_the_middle_minimises_the_objective():
    rng = np.random.default_rng(0)
    S, D = positive_definite(rng, 3), positive_definite(rng, 3)
    F = geometric_mean_factor(S, D, 0.5)
    least = literal.gmml_objective(F @ F.T, S, D)
    for _ in range(20):
        other = F @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3)))
        assert literal.gmml_objective(other @ other.T, S, D) > least


def test_sums_or_means_only_rescale_the_metric():
    means = np.array([3.054865, 0.501918, 0.981490])  # t=0.5 with means instead of sums
    M = fitted_matrix(reg=0)
    np.testing.assert_allclose([M[0, 0], M[0, 1], M[1, 1]] / means, (16 / 12) ** 0.5, rtol=1e-5)


def test_no_dissimilar_pairs_is_an_error_unless_a_prior_is_given():
    X, _ = literal.e8()
    supervision = {"pairs": [[0, 1], [2, 3], [4, 5]], "pair_labels": [1, 1, 1]}
    with pytest.raises(ValueError, match="no dissimilar pair"):
        GMML().fit(X, **supervision)
    M = GMML(t=0.3, prior=np.eye(2)).fit(X, **supervision).get_mahalanobis_matrix()
    S = literal.pair_scatter(X, supervision["pairs"])
    np.testing.assert_allclose(M, literal.gmml(S + np.eye(2), np.eye(2), 0.3), rtol=1e-10)


def test_no_similar_pairs_is_an_error_unless_a_prior_is_given():
    X, _ = literal.e8()
    supervision = {"pairs": [[0, 4], [1, 5]], "pair_labels": [-1, -1]}
    with pytest.raises(ValueError, match="no similar pair"):
        GMML().fit(X, **supervision)
    assert np.all(np.isfinite(GMML(prior=np.eye(2)).fit(X, **supervision).components_))


def test_fewer_similar_pairs_than_features_is_decided_by_the_ridge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 4))
    pairs = [[0, 1], [2, 3], *([i, i + 3] for i in range(6))]
    supervision = {"pairs": pairs, "pair_labels": [1, 1] + 6 * [-1]}
    with pytest.raises(ValueError, match="similar pairs is singular"):
        GMML(reg=0).fit(X, **supervision)
    for reg in (1e-6, 1e-4):
        largest = np.linalg.eigvalsh(GMML(reg=reg).fit(X, **supervision).get_mahalanobis_matrix())
        assert 0.01 < largest[-1] * reg**0.5 < 100  # of the order reg ** (t - 1)


def test_identical_similar_points_are_refused_and_duplicates_add_nothing():
    X, _ = literal.e8()
    X[1] = X[0]
    with pytest.raises(ValueError, match="similar pairs do not differ"):
        GMML().fit(X, pairs=[[0, 1], [0, 4]], pair_labels=[1, -1])
    with_zero = {
        "pairs": [[0, 1], [2, 3], [4, 5], [0, 4], [1, 6]],
        "pair_labels": [1, 1, 1, -1, -1],
    }
    without = {"pairs": [[2, 3], [4, 5], [0, 4], [1, 6]], "pair_labels": [1, 1, -1, -1]}
    np.testing.assert_allclose(
        GMML(reg=0).fit(X, **with_zero).get_mahalanobis_matrix(),
        GMML(reg=0).fit(X, **without).get_mahalanobis_matrix(),
        rtol=1e-10,
    )


def test_dependent_features_are_an_error_without_a_ridge_and_finite_with_it():
    X, y = literal.e8()
    X = np.column_stack([X, X @ [1.0, 2.0]])
    with pytest.raises(ValueError, match="features depend on each other"):
        GMML(reg=0).fit(X, y)
    assert np.all(np.isfinite(GMML().fit(X, y).components_))


def test_the_authors_rule_leaves_well_conditioned_scatters_alone():
    np.testing.assert_array_equal(fitted_matrix(reg="original"), fitted_matrix(reg=0))


def test_the_authors_rule_adds_a_fixed_ridge_to_both_if_either_is_nearly_singular():
    X, y = literal.e8()
    S, D = (literal.pair_scatter(X, pairs) for pairs in literal.labelled_pairs(y))
    ridge = 1e-6 * np.eye(2)
    expected = np.eye(3)  # the constant feature has 1e-6 in S and in D: their mean is 1
    expected[:2, :2] = literal.gmml(S + ridge, D + ridge, 0.5)
    constant = np.column_stack([X, np.zeros(8)])
    M = GMML(reg="original").fit(constant, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, expected, rtol=1e-9, atol=1e-9)
    S, D = (literal.pair_scatter(constant, pairs) for pairs in literal.labelled_pairs(y))
    np.testing.assert_allclose(literal.gmml_original_ridge(S, D)[0] - S, 1e-6 * np.eye(3), 1e-6)


BAD = {
    "t below": ({"t": -0.1}, ValueError, "between 0 and 1, got -0.1"),
    "t above": ({"t": 1.5}, ValueError, "between 0 and 1, got 1.5"),
    "t a word": ({"t": "half"}, TypeError, "between 0 and 1, got 'half'"),
    "reg": ({"reg": -1}, ValueError, "at least 0, got -1"),
    "reg a word": ({"reg": "none"}, TypeError, "Or 'original'"),
    "prior weight": ({"prior_weight": 0}, ValueError, "greater than 0, got 0"),
    "prior shape": ({"prior": np.eye(3)}, ValueError, r"\(2, 2\); got shape \(3, 3\)"),
    "prior not symmetric": ({"prior": [[1, 1], [0, 1]]}, ValueError, "not symmetric"),
    "prior indefinite": ({"prior": [[1, 2], [2, 1]]}, ValueError, "smallest eigenvalue is -1"),
    "prior not finite": ({"prior": [[1, 0], [0, np.nan]]}, ValueError, "not finite"),
    "prior words": ({"prior": "identity"}, ValueError, "symmetric positive definite"),
}


@pytest.mark.parametrize(("options", "error", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        fitted_matrix(**options)


# scikit-learn's check sums the samples, and the sum overflows.
@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce:RuntimeWarning")
def test_samples_that_overflow_when_mapped_are_refused():
    rng = np.random.default_rng(0)
    X = (rng.uniform(-1.0, 1.0, size=(24, 5)) * 3e38).astype(np.float32)
    model = GMML()
    with pytest.raises(ValueError, match="overflow in float32 when the learned map is applied"):
        model.fit(X, rng.integers(0, 3, 24))
    assert not hasattr(model, "components_")
