"""The baselines in loops against the worked example of the methods notes and their identities."""

from itertools import combinations

import convex
import literal_baselines as lit
import numpy as np
import pytest
from scipy.linalg import eigh, fractional_matrix_power

X8, Y8 = lit.e8()
SIMILAR, DISSIMILAR = lit.labelled_pairs(Y8)
S8, D8 = lit.pair_scatter(X8, SIMILAR), lit.pair_scatter(X8, DISSIMILAR)
S_MEAN, D_MEAN = S8 / 12, D8 / 16
WHITENED = lit.dml_eig_whitened(X8, DISSIMILAR, S8)
I2 = np.eye(2)
STRETCHED = np.diag([2.0, 0.5])
TWO_NEAREST = [(2, 1), (3, 2), (0, 1), (1, 2), (5, 6), (4, 7), (4, 5), (5, 4)]
TWO_NEAREST_OTHER = [(4, 5), (4, 5), (4, 5), (7, 4), (2, 1), (2, 1), (2, 1), (3, 1)]


def symmetric(m11, m12, m22):
    return np.array([[m11, m12], [m12, m22]])


def assert_pinned(actual, printed, *, atol=2e-6, rtol=1e-5):
    """Compare with numbers, or a symmetric 2×2 matrix with [m11, m12, m22]."""
    actual = np.asarray(actual)
    if actual.shape == (2, 2):
        assert actual[0, 1] == pytest.approx(actual[1, 0], abs=1e-12)
        actual = actual[[0, 0, 1], [0, 1, 1]]
    np.testing.assert_allclose(actual, printed, rtol=rtol, atol=atol)


def assert_same(actual, expected, tolerance=1e-10):
    """Equal up to rounding, relative to the largest entry."""
    scale = max(1e-300, np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def random_classes(seed, sizes=(7, 6, 5), d=3):
    """Return X and y of overlapping classes, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(y), d)) * np.arange(1, d + 1) + y[:, None], y


def random_spd(seed, d=3):
    root = np.random.default_rng(seed).normal(size=(d, d))
    return root @ root.T + 0.3 * np.eye(d)


def covariances(X, y):
    similar, dissimilar = lit.labelled_pairs(y)
    return lit.pair_covariance(X, similar), lit.pair_covariance(X, dissimilar)


def smoothed_problem(X, y):
    """Return X_S as a mean and the whitened dissimilar pairs."""
    similar, dissimilar = lit.labelled_pairs(y)
    X_S = lit.pair_covariance(X, similar)
    return X_S, lit.dml_eig_whitened(X, dissimilar, X_S)


def numerical_gradient(f, M, h=1e-5):
    gradient = np.zeros_like(M)
    for p, q in np.ndindex(M.shape):
        step = np.zeros_like(M)
        step[p, q] = h
        gradient[p, q] = (f(M + step) - f(M - step)) / (2 * h)
    return gradient


# Pairs


def test_scatters_of_the_example():
    assert_pinned(S8, [7.26, -5.85, 33.95])
    assert_pinned(D8, [77.82, 11.79, 38.36])


def test_weighted_pair_scatter_is_a_graph_laplacian_and_ignores_translation():
    rng = np.random.default_rng(0)
    X, _ = random_classes(0)
    pairs, w = rng.integers(0, len(X), size=(40, 2)), rng.uniform(size=40)
    B = np.zeros((len(X), len(X)))
    for weight, (i, j) in zip(w, pairs, strict=True):
        B[i, j] += weight
    laplacian = np.diag(B.sum(axis=0) + B.sum(axis=1)) - B - B.T
    assert_same(lit.pair_scatter(X, pairs, w), X.T @ laplacian @ X, 1e-13)
    assert_same(lit.pair_scatter(X + 5, pairs, w), X.T @ laplacian @ X, 1e-13)
    assert_same(lit.pair_covariance(X, pairs, w), X.T @ laplacian @ X / w.sum(), 1e-13)


def test_ridge_is_relative_to_the_mean_eigenvalue():
    eigenvalues = np.linalg.eigvalsh(lit.add_ridge(S8, 0.1))
    assert_same(eigenvalues, np.linalg.eigvalsh(S8) + 0.1 * np.trace(S8) / 2)


def test_neighbors_at_one_distance_come_by_index():
    X = np.array([[0.0], [-1.0], [1.0], [2.0], [-0.5], [0.5]])
    assert lit.nearest(X, 0, [5, 4, 3, 2, 1], 3) == [4, 5, 1]


def test_generalized_eigenvectors_are_those_of_the_product_with_the_inverse():
    A, B = random_spd(0) - 2 * np.eye(3), random_spd(1)
    values, V = lit.generalized_eigen(A, B)
    assert_same(values, np.sort(np.linalg.eigvals(np.linalg.inv(B) @ A))[::-1])
    assert_same(V.T @ B @ V, np.eye(3))
    assert_same(np.linalg.inv(B) @ A @ V, V * values)


# Linear maps


def dml_eig_metric(X, y):
    X_S, whitened = smoothed_problem(X, y)
    return lit.dml_eig_metric(lit.frank_wolfe(whitened, 0.5, 5)[-1], X_S)


@pytest.mark.parametrize(
    "metric",
    [lambda X, y: lit.kissme_raw(*covariances(X, y), 0.7), dml_eig_metric],
    ids=["unclipped kissme", "dml-eig"],
)
def test_metric_is_equivariant_under_linear_maps(metric):
    X, y = random_classes(4)
    B = np.random.default_rng(4).normal(size=(3, 3))
    assert_same(B.T @ metric(X @ B.T, y) @ B, metric(X, y), 1e-8)


# GMML


@pytest.mark.parametrize(
    ("S", "D", "t", "M"),
    [
        (S8, D8, 0, [0.159949, 0.027561, 0.034204]),
        (S8, D8, 0.25, [0.751117, 0.126769, 0.196265]),
        (S8, D8, 0.5, [3.527454, 0.579565, 1.133327]),
        (S8, D8, 0.75, [16.567338, 2.628372, 6.579086]),
        (S8, D8, 1, [77.82, 11.79, 38.36]),
        (S_MEAN, D_MEAN, 0.5, [3.054865, 0.501918, 0.981490]),
        (*lit.gmml_prior(S8, D8, I2, 0.1), 0.3, [1.012183, 0.169540, 0.277794]),
        (
            *lit.gmml_prior(S8, D8, symmetric(2, 0.5, 1), 0.1),
            0.5,
            [3.517754, 0.578835, 1.132872],
        ),
    ],
)
def test_gmml_of_the_example(S, D, t, M):
    assert_pinned(lit.gmml(S, D, t), M)


def test_gmml_objective_of_the_example():
    assert_pinned(lit.gmml_objective(lit.gmml(S8, D8, 0.5), S8, D8), 114.609700)


def affine_invariant_distance(A, B):
    return np.linalg.norm(np.log(eigh(B, A, eigvals_only=True)))


@pytest.mark.parametrize("t", [0.1, 0.5, 0.8])
def test_gmml_identities(t):
    S, D = random_spd(5), random_spd(6)
    M = lit.gmml(S, D, t)
    root = fractional_matrix_power(S, 0.5)
    inner = fractional_matrix_power(root @ D @ root, t)
    assert_same(M, np.linalg.inv(root) @ inner @ np.linalg.inv(root))
    assert_same(np.linalg.inv(M), lit.gmml(np.linalg.inv(S), np.linalg.inv(D), t))
    assert_same(lit.gmml(3 * S, 7 * D, t), 3 ** (t - 1) * 7**t * M)
    assert_same(lit.gmml(np.linalg.inv(D), np.linalg.inv(S), 1 - t), M)
    whole = affine_invariant_distance(np.linalg.inv(S), D)
    assert affine_invariant_distance(np.linalg.inv(S), M) == pytest.approx(t * whole)
    assert affine_invariant_distance(M, D) == pytest.approx((1 - t) * whole)


def test_gmml_at_one_half_solves_the_riccati_equation_and_minimises_the_objective():
    S, D = random_spd(5), random_spd(6)
    M = lit.gmml(S, D, 0.5)
    assert_same(M @ S @ M, D)
    least = lit.gmml_objective(M, S, D)
    rng = np.random.default_rng(7)
    for _ in range(20):
        step = rng.normal(size=(3, 3))
        assert lit.gmml_objective(M + 1e-3 * (step + step.T), S, D) > least


@pytest.mark.parametrize(("smallest", "regularised"), [(1e-10, True), (1e-8, False)])
def test_original_gmml_ridge_acts_on_both_scatters_if_one_is_nearly_singular(smallest, regularised):
    singular = np.diag([1.0, smallest])
    for S, D in ((singular, S8), (S8, singular)):
        new_S, new_D = lit.gmml_original_ridge(S, D)
        assert_same(new_S, S + regularised * 1e-6 * I2, 1e-14)
        assert_same(new_D, D + regularised * 1e-6 * I2, 1e-14)


# KISSME


def test_kissme_of_the_example():
    raw = lit.kissme_raw(S_MEAN, D_MEAN)
    assert_pinned(S_MEAN, [0.605, -0.4875, 2.829167])
    assert_pinned(D_MEAN, [4.86375, 0.736875, 2.3975])
    assert_pinned(raw, [1.703750, 0.397014, -0.027021])
    assert_pinned(np.linalg.eigvalsh(raw), [-0.113745, 1.790473])
    assert_pinned(lit.clip_psd(raw), [1.708930, 0.373299, 0.081543])
    assert_pinned(lit.lift_psd(raw), [1.708930, 0.373298, 0.081544])


def test_clipping_in_the_generalised_basis_would_give_another_metric():
    gamma, V = lit.generalized_eigen(D_MEAN, S_MEAN)
    assert_pinned(gamma, [10.056928, 0.75])
    wrong = V @ np.diag(np.maximum(1 - 1 / gamma, 0)) @ V.T
    assert_pinned(wrong, [1.710447, 0.370225, 0.080135])


def test_kissme_of_the_nearest_pairs_needs_no_clipping():
    pairs = lit.neighbor_pairs(TWO_NEAREST)
    assert len(pairs) == 16
    raw = lit.kissme_raw(lit.pair_covariance(X8, pairs), D_MEAN)
    assert_pinned(raw, [1.484259, 0.333035, 0.232086])
    assert np.linalg.eigvalsh(raw)[0] > 0
    assert_same(lit.clip_psd(raw), raw)
    assert_same(lit.lift_psd(raw), raw)


@pytest.mark.parametrize("weight", [0.2, 1, 3])
def test_kissme_is_diagonal_in_the_generalised_basis(weight):
    S, D = covariances(*random_classes(8))
    gamma, V = lit.generalized_eigen(D, S)
    raw = lit.kissme_raw(S, D, weight)
    assert_same(raw, V @ np.diag(1 - weight / gamma) @ V.T)
    assert np.sum(np.linalg.eigvalsh(raw) < 0) == np.sum(gamma < weight)


def test_clipping_is_the_projection_on_the_cone():
    M = random_spd(9) - 2 * np.eye(3)
    clipped = lit.clip_psd(M)
    removed = M - clipped
    assert np.linalg.eigvalsh(M)[0] < 0
    assert np.linalg.eigvalsh(clipped)[0] >= -1e-12
    assert np.linalg.eigvalsh(removed)[-1] <= 1e-12
    assert np.sum(clipped * removed) == pytest.approx(0, abs=1e-12)


# DMLMJ


def test_neighbors_of_the_example():
    hits, misses = lit.dmlmj_neighbors(X8, Y8, 2)
    assert [tuple(row) for row in hits] == TWO_NEAREST
    assert [tuple(row) for row in misses] == TWO_NEAREST_OTHER


@pytest.mark.parametrize(
    ("k", "eigenvalues", "scores", "M1", "M2"),
    [
        (
            2,
            [6.932992, 0.572619],
            [7.077230, 2.318982],
            [1.651840, 0.430433, 0.112161],
            [1.699903, 0.266756, 0.669558],
        ),
        (
            5,
            [10.056928, 0.75],
            [10.056928 + 1 / 10.056928, 0.75 + 1 / 0.75],
            [1.899302, 0.411102, 0.088983],
            [1.919394, 0.330735, 0.410451],
        ),
    ],
)
def test_dmlmj_of_the_example(k, eigenvalues, scores, M1, M2):
    found = lit.dmlmj_directions(*lit.dmlmj_scatters(X8, Y8, k))
    assert_pinned(found[0], eigenvalues)
    assert_pinned(found[1], scores)
    assert_pinned(lit.dmlmj(X8, Y8, k, 1), M1)
    assert_pinned(lit.dmlmj(X8, Y8, k, 2), M2)


def test_dmlmj_scatters_of_the_example():
    sigma_p, sigma_n = lit.dmlmj_scatters(X8, Y8, 2)
    assert_pinned(sigma_p, [0.6275, -0.25, 1.593125])
    assert_pinned(sigma_n, [3.681875, 0.8325, 1.19875])


def test_dmlmj_with_all_directions_forgets_the_negatives():
    X, y = random_classes(10)
    sigma_p, _ = lit.dmlmj_scatters(X, y, 3)
    assert_same(lit.dmlmj(X, y, 3, 3), np.linalg.inv(sigma_p))
    assert_same(lit.dmlmj(X, y, 3, 3, k2=1), np.linalg.inv(sigma_p))


def jeffrey_divergence(A, sigma_p, sigma_n):
    P, N = A @ sigma_p @ A.T, A @ sigma_n @ A.T
    return np.trace(np.linalg.solve(P, N) + np.linalg.solve(N, P)) / 2 - len(A)


@pytest.mark.parametrize("m", [1, 2])
def test_dmlmj_directions_maximise_the_jeffrey_divergence(m):
    sigma_p, sigma_n = random_spd(11), random_spd(12)
    eigenvalues, scores, V = lit.dmlmj_directions(sigma_p, sigma_n)
    assert_same(V.T @ sigma_p @ V, np.eye(3))
    assert_same(sigma_n @ V, sigma_p @ V @ np.diag(eigenvalues))
    best = jeffrey_divergence(V[:, :m].T, sigma_p, sigma_n)
    assert best == pytest.approx(scores[:m].sum() / 2 - m)
    rng = np.random.default_rng(13)
    others = [V[:, list(columns)].T for columns in combinations(range(3), m)]
    for A in others + [rng.normal(size=(m, 3)) for _ in range(50)]:
        assert jeffrey_divergence(A, sigma_p, sigma_n) <= best + 1e-10


def test_dmlmj_ridge_acts_on_both_scatters():
    X, y = random_classes(10)
    sigma_p, sigma_n = (lit.add_ridge(A, 0.1) for A in lit.dmlmj_scatters(X, y, 3))
    eigenvalues, V = eigh(sigma_n, sigma_p)
    v = V[:, np.argmax(eigenvalues + 1 / eigenvalues)]
    assert_same(lit.dmlmj(X, y, 3, 1, reg=0.1), np.outer(v, v))


def test_dmlmj_ranks_a_direction_without_negative_spread_first():
    eigenvalues, scores, V = lit.dmlmj_directions(I2, np.diag([4.0, 0.0]))
    assert_same(np.abs(V[:, 0]), np.array([0.0, 1.0]))
    assert eigenvalues[0] == 2 * np.finfo(float).eps * 4
    assert scores[0] > scores[1]


@pytest.mark.parametrize(("size", "regularised"), [(0.9e-5, True), (1.1e-5, False)])
def test_original_dmlmj_ridge_looks_at_the_determinant(size, regularised):
    A = size * I2
    expected = 0.999 * A + 0.001 * I2 if regularised else A
    assert_same(lit.dmlmj_original_ridge(A), expected, 1e-14)


# LFDA


def test_lfda_affinities_of_the_example():
    a = lit.lfda_affinities(X8, Y8, 2)
    first = [0.328000, 0.438449, 0.186543, 0.367879, 0.702189, 0.170714]
    second = [0.485177, 0.426890, 0.173060, 0.331365, 0.545344, 0.088357]
    assert_pinned(a[:4, :4][np.triu_indices(4, 1)], first)
    assert_pinned(a[4:, 4:][np.triu_indices(4, 1)], second)
    assert_same(a, a.T)
    assert not a[:4, 4:].any()


@pytest.mark.parametrize(
    ("k", "S_w", "S_b", "eigenvalues"),
    [
        (
            2,
            [0.601599, -0.284973, 1.913385],
            [9.426701, 1.616237, 3.838308],
            [18.149241, 1.728870],
        ),
        (
            7,
            [1.105643, -0.659970, 3.904861],
            [9.174678, 1.803735, 2.842570],
            [10.068042, 0.584054],
        ),
    ],
)
def test_lfda_scatters_of_the_example(k, S_w, S_b, eigenvalues):
    within, between = lit.lfda_scatters(X8, Y8, k)
    assert_pinned(within, S_w)
    assert_pinned(between, S_b)
    assert_pinned(lit.generalized_eigen(between, within)[0], eigenvalues)


@pytest.mark.parametrize(
    ("k", "r", "embedding", "M"),
    [
        (2, 1, "weighted", [31.910430, 7.012946, 1.541233]),
        (2, 2, "weighted", [31.962619, 6.805405, 2.366569]),
        (2, 1, "plain", [1.758224, 0.386404, 0.084920]),
        (2, 2, "plain", [1.788411, 0.266360, 0.562305]),
        (2, 1, "orthonormalized", [0.953927, 0.209644, 0.046073]),
        (2, 2, "orthonormalized", [1, 0, 1]),
        (7, 2, "weighted", [9.983041, 2.275685, 0.670494]),
    ],
)
def test_lfda_of_the_example(k, r, embedding, M):
    assert_pinned(lit.lfda(X8, Y8, k, r, embedding), M)


@pytest.mark.parametrize("reg", [0, 0.1])
def test_lfda_of_full_rank_has_closed_forms_with_the_ridge_on_the_within_scatter_only(reg):
    X, y = random_classes(14)
    S_w, S_b = lit.lfda_scatters(X, y, 3)
    inverse = np.linalg.inv(lit.add_ridge(S_w, reg))
    assert np.linalg.eigvalsh(S_b)[0] > 0
    assert_same(lit.lfda(X, y, 3, 3, "weighted", reg=reg), inverse @ S_b @ inverse)
    assert_same(lit.lfda(X, y, 3, 3, "plain", reg=reg), inverse)
    assert_same(lit.lfda(X, y, 3, 3, "orthonormalized", reg=reg), np.eye(3))


def test_lfda_without_locality_has_the_scatters_of_fisher():
    X, y = random_classes(15)
    within, between = lit.lfda_weights(np.equal.outer(y, y).astype(float), y)
    fisher_within, fisher_between = np.zeros((3, 3)), np.zeros((3, 3))
    for label in np.unique(y):
        Xc = X[y == label]
        mean = Xc.mean(axis=0)
        fisher_within += (Xc - mean).T @ (Xc - mean)
        gap = mean - X.mean(axis=0)
        fisher_between += len(Xc) * np.outer(gap, gap)
    assert_same(lit.weighted_scatter(X, within), fisher_within)
    assert_same(lit.weighted_scatter(X, between), fisher_between)


@pytest.mark.parametrize("sizes", [(7, 6, 5), (1, 2, 9)])
def test_lfda_scatters_have_a_class_wise_form(sizes):
    X, y = random_classes(16, sizes)
    n, a = len(X), lit.lfda_affinities(X, y, 3)
    s = X.sum(axis=0)
    S_w, S_b = np.zeros((3, 3)), -np.outer(s, s) / n
    for label in np.unique(y):
        Xc, ac = X[y == label], a[np.ix_(y == label, y == label)]
        n_c, s_c = len(Xc), Xc.sum(axis=0)
        G = Xc.T @ (np.diag(ac.sum(axis=1)) - ac) @ Xc
        S_w += G / n_c
        S_b += G / n + (1 - n_c / n) * Xc.T @ Xc + np.outer(s_c, s_c) / n
    S_b -= S_w
    assert_same(lit.lfda_scatters(X, y, 3)[0], S_w)
    assert_same(lit.lfda_scatters(X, y, 3)[1], S_b)
    assert np.linalg.eigvalsh(S_w + S_b)[0] >= 0
    assert lit.generalized_eigen(S_b, S_w)[0][-1] >= -1


def test_lfda_gives_no_affinity_to_a_sample_with_k_copies():
    X = np.array([[0.0, 0], [0, 0], [0, 0], [1, 0], [0, 2]])
    y = np.zeros(5)
    assert not lit.lfda_affinities(X, y, 2)[:3].any()
    assert lit.lfda_affinities(X, y, 3)[:3].all()


# DML-eig


@pytest.mark.parametrize(("mu", "value"), [(1, -2.347317), (0.1, 0.000505376), (0.01, 0.0774356)])
def test_smoothed_minimum_of_the_example(mu, value):
    assert_pinned(lit.f_mu(I2 / 2, WHITENED, mu), value, atol=5e-7, rtol=0)


def test_dml_eig_of_the_example():
    assert_pinned(lit.inverse_root(S8), [0.397061, 0.047874, 0.178640])
    gradient = lit.f_mu_gradient(I2 / 2, WHITENED, 0.1)
    assert_pinned(gradient, [0.302665, 0.044744, 0.036103])
    path = lit.frank_wolfe(WHITENED, 0.1, 3)
    values = [lit.f_mu(Z, WHITENED, 0.1) for Z in path]
    assert_pinned(values, [0.112616597, 0.112621150, 0.112623321], atol=1e-9, rtol=0)
    assert_pinned(lit.dml_eig_metric(path[0], S8), [0.159668, 0.030389, 0.005784])


def test_frank_wolfe_of_the_example_reaches_the_smoothed_optimum():
    Z = lit.frank_wolfe(WHITENED, 0.1, 300)[-1]
    assert_pinned(lit.f_mu(Z, WHITENED, 0.1), 0.112625464, atol=2e-9, rtol=0)
    assert_pinned(lit.dml_eig_metric(Z, S8), [0.159730, 0.030062, 0.005658])
    assert 0 <= lit.f_mu_gap(Z, WHITENED, 0.1) < 1e-9


def test_dml_eig_of_the_hand_checkable_case():
    X = np.array([[0.0, 0], [1, 0], [0, 1], [2, 0], [0, 2]])
    similar, dissimilar = [(1, 0), (2, 0)], [(3, 0), (4, 0)]
    X_S = lit.pair_scatter(X, similar)
    whitened = lit.dml_eig_whitened(X, dissimilar, X_S)
    assert_same(X_S, I2)
    for mu in (0.01, 1):
        assert lit.f_mu(I2 / 2, whitened, mu) == pytest.approx(2 - mu * np.log(2))
        assert_same(lit.f_mu_gradient(I2 / 2, whitened, mu), 2 * I2)
        assert lit.f_mu_gap(I2 / 2, whitened, mu) == pytest.approx(0, abs=1e-14)
    value, M = convex.dml_eig_optimum(X, similar, dissimilar)
    assert_pinned(value, 2)
    assert_pinned(M, [0.5, 0, 0.5])


@pytest.mark.parametrize("mu", [0.01, 0.3, 10])
def test_smoothed_minimum_lies_below_the_minimum_by_at_most_mu_times_the_log_of_the_count(mu):
    _, whitened = smoothed_problem(*random_classes(17))
    Z = random_spd(17) / np.trace(random_spd(17))
    least = min(lit.dml_eig_values(Z, whitened))
    assert least - mu * np.log(len(whitened)) <= lit.f_mu(Z, whitened, mu) <= least


def test_smoothed_minimum_counts_duplicates():
    _, whitened = smoothed_problem(*random_classes(18))
    whitened = whitened[:10]
    counts = [1, 2, 3, 1, 1, 4, 1, 1, 2, 1]
    repeated = [A for A, count in zip(whitened, counts, strict=True) for _ in range(count)]
    Z = np.eye(3) / 3
    for function in (lit.f_mu, lit.f_mu_gradient, lit.f_mu_gap):
        assert_same(function(Z, whitened, 0.3, counts), function(Z, repeated, 0.3), 1e-13)


def test_dml_eig_values_are_the_distances_under_the_metric():
    X, y = random_classes(19)
    X_S, whitened = smoothed_problem(X, y)
    M = random_spd(19)
    root = np.linalg.inv(lit.inverse_root(X_S))
    distances = [lit.sq_dist(M, X, i, j) for i, j in lit.labelled_pairs(y)[1]]
    assert_same(lit.dml_eig_values(root @ M @ root, whitened), np.array(distances))
    assert_same(lit.dml_eig_metric(root @ M @ root, X_S), M)


def test_any_square_root_whitens_to_the_same_metric():
    X, y = random_classes(20)
    X_S, _ = smoothed_problem(X, y)
    inverse = np.linalg.inv(np.linalg.cholesky(X_S))
    whitened = [inverse @ lit.outer_product(X, *p) @ inverse.T for p in lit.labelled_pairs(y)[1]]
    Z = lit.frank_wolfe(whitened, 0.5, 5)[-1]
    assert_same(inverse.T @ Z @ inverse, dml_eig_metric(X, y))


def test_smoothing_on_the_mean_scale_is_that_on_the_sum_scale_divided_by_the_number_of_pairs():
    X_S, whitened = smoothed_problem(X8, Y8)
    for Z, Z_sum in zip(
        lit.frank_wolfe(whitened, 1.2, 3), lit.frank_wolfe(WHITENED, 0.1, 3), strict=True
    ):
        assert lit.f_mu(Z, whitened, 1.2) == pytest.approx(12 * lit.f_mu(Z_sum, WHITENED, 0.1))
        assert_same(lit.dml_eig_metric(Z, X_S), 12 * lit.dml_eig_metric(Z_sum, S8))


def test_heavy_smoothing_gives_the_top_eigenvector_of_the_whitened_scatter():
    X, y = random_classes(21)
    _, whitened = smoothed_problem(X, y)
    v = eigh(sum(whitened))[1][:, -1]
    assert_same(lit.frank_wolfe(whitened, 1e9, 4)[-1], np.outer(v, v), 1e-6)


def test_frank_wolfe_keeps_the_trace_and_adds_at_most_one_to_the_rank():
    _, whitened = smoothed_problem(*random_classes(22))
    for t, Z in enumerate(lit.frank_wolfe(whitened, 0.1, 3), start=1):
        assert np.trace(Z) == pytest.approx(1)
        assert np.linalg.matrix_rank(Z, tol=1e-10) <= t


# LMNN


def test_targets_of_the_example():
    assert lit.lmnn_targets(X8, Y8, 1) == [[2], [3], [0], [1], [5], [4], [4], [5]]
    assert [tuple(row) for row in lit.lmnn_targets(X8, Y8, 2)] == TWO_NEAREST


@pytest.mark.parametrize(
    ("k", "M", "total", "pull", "push", "n_active"),
    [
        (1, I2, 7.705, 12.31, 3.10, 3),
        (1, STRETCHED, 8.6575, 14.69, 2.625, 2),
        (2, I2, 23.645, 35.53, 11.76, 10),
        (2, STRETCHED, 19.84, 32.825, 6.855, 5),
    ],
)
def test_lmnn_objective_of_the_example(k, M, total, pull, push, n_active):
    terms = lit.lmnn_objective(M, X8, Y8, lit.lmnn_targets(X8, Y8, k), 0.5)
    assert_pinned(terms[:3], [total, pull, push])
    assert terms[3] == n_active


@pytest.mark.parametrize(
    ("k", "gradient"), [(1, [2.005, 1.055, 4.2]), (2, [-1.435, -5.455, 20.08])]
)
def test_lmnn_subgradient_of_the_example(k, gradient):
    targets = lit.lmnn_targets(X8, Y8, k)
    assert_pinned(lit.lmnn_subgradient(I2, X8, Y8, targets, 0.5), gradient)


def test_lmnn_gradient_in_the_map_is_twice_the_map_times_that_in_the_metric():
    X, y = random_classes(23)
    targets = lit.lmnn_targets(X, y, 2)
    L = np.random.default_rng(23).normal(size=(2, 3)) / 2
    gradient = 2 * L @ lit.lmnn_subgradient(L.T @ L, X, y, targets, 0.3)
    found = numerical_gradient(lambda L: lit.lmnn_objective(L.T @ L, X, y, targets, 0.3)[0], L)
    assert_same(found, gradient, 1e-7)


# DML-dc


def test_hits_and_misses_of_the_example():
    p, q, hits, misses = lit.hits_and_misses(I2, X8, Y8)
    near = [1.118034, 0.921954, 1.118034, 0.921954, 1.303840, 1.303840, 1.486607, 1.581139]
    far = [2.088061, 1.615549, 0.984886, 2.195450, 0.984886, 2.193171, 2.302173, 2.195450]
    assert_pinned(p, near)
    assert_pinned(q, far)
    assert hits.tolist() == [row[0] for row in TWO_NEAREST]
    assert misses.tolist() == [row[0] for row in TWO_NEAREST_OTHER]


@pytest.mark.parametrize(
    ("M", "s", "value"),
    [(I2, -1, 0.633659), (I2, 0, 0.577146), (STRETCHED, -1, 0.469478), (STRETCHED, 0, 0.469478)],
)
def test_dmldc_objective_of_the_example(M, s, value):
    assert_pinned(lit.dmldc_objective(M, X8, Y8, 0.1, s), value)


def test_dmldc_parts_of_the_example():
    G, H = lit.dmldc_parts(I2, X8, Y8, 0.1, -1)
    assert_pinned([G - 0.2, H], [-0.785766, -1.219425])
    dG, dH = lit.dmldc_subgradients(I2, X8, Y8, 0.1, -1)
    assert_pinned(dG - 0.1 * I2, [-0.631626, -0.156237, -0.198757])
    assert_pinned(dH, [-0.279967, -0.014937, -0.329746])


@pytest.mark.parametrize("s", [-1, 0, 0.5])
@pytest.mark.parametrize("sizes", [(7, 6, 5), (1, 2, 9)])
def test_dmldc_objective_is_the_difference_of_its_parts(s, sizes):
    X, y = random_classes(24, sizes)
    for seed in range(5):
        M = random_spd(seed) / 5
        G, H = lit.dmldc_parts(M, X, y, 0.1, s)
        assert lit.dmldc_objective(M, X, y, 0.1, s) == pytest.approx(G - H, rel=1e-12)


def test_dmldc_subgradient_leaves_out_distances_of_zero():
    X = np.array([[0.0, 0], [0, 0], [3, 0], [0, 2]])
    y = np.array([0, 1, 0, 1])
    dG, _ = lit.dmldc_subgradients(I2, X, y, 0, -1)
    # Samples 0 and 1 coincide and are each other's misses; for 2 and 3, as far from the one as from
    # the other, the miss attains the maximum.
    expected = -(lit.outer_product(X, 2, 1) / 6 + lit.outer_product(X, 3, 0) / 4) / 4
    assert_same(dG, expected)


# Gradients and convexity


def lmnn_case(X, y):
    targets = lit.lmnn_targets(X, y, 2)
    return (
        lambda M: lit.lmnn_objective(M, X, y, targets, 0.3)[0],
        lambda M: lit.lmnn_subgradient(M, X, y, targets, 0.3),
    )


def dmldc_case(part, s):
    return lambda X, y: (
        lambda M: lit.dmldc_parts(M, X, y, 0.1, s)[part],
        lambda M: lit.dmldc_subgradients(M, X, y, 0.1, s)[part],
    )


def minus_f_mu_case(mu):
    def case(X, y):
        _, whitened = smoothed_problem(X, y)
        return (
            lambda Z: -lit.f_mu(Z, whitened, mu),
            lambda Z: -lit.f_mu_gradient(Z, whitened, mu),
        )

    return case


CONVEX = {
    "lmnn": lmnn_case,
    "dml-dc G": dmldc_case(0, -1),
    "dml-dc H": dmldc_case(1, -1),
    "dml-dc H, s = 0": dmldc_case(1, 0),
    "minus f_mu": minus_f_mu_case(0.3),
    "minus f_mu, sharper": minus_f_mu_case(0.02),
}


@pytest.mark.parametrize("case", CONVEX.values(), ids=CONVEX)
@pytest.mark.parametrize("sizes", [(5, 4, 4), (1, 2, 7)])
def test_gradient_is_the_derivative(case, sizes):
    value, gradient = case(*random_classes(25, sizes))
    M = random_spd(25) / 10
    assert_same(gradient(M), gradient(M).T, 1e-12)
    assert_same(numerical_gradient(value, M, h=1e-6), gradient(M), 1e-6)


@pytest.mark.parametrize("case", CONVEX.values(), ids=CONVEX)
def test_function_lies_above_its_tangents(case):
    value, gradient = case(*random_classes(26, (5, 4, 4)))
    points = [random_spd(seed) / 10 for seed in range(5)]
    for M in points:
        for N in points:
            assert value(N) >= value(M) + np.sum(gradient(M) * (N - M)) - 1e-10


# Small classes


def test_classes_smaller_than_the_neighborhood_cap_their_own_neighbors_only():
    X, y = random_classes(27, (1, 2, 6))
    sizes = np.array([1, 2, 6])[y]
    targets = lit.lmnn_targets(X, y, 3)
    hits, misses = lit.dmlmj_neighbors(X, y, 3)
    assert [len(row) for row in targets] == np.minimum(3, sizes - 1).tolist()
    assert hits == targets
    assert [len(row) for row in misses] == [3] * 9
    assert [len(row) for row in lit.dmlmj_neighbors(X, y, 3, 7)[1]] == (9 - sizes).clip(
        0, 7
    ).tolist()
    a = lit.lfda_affinities(X, y, 3)
    for label in (1, 2):
        own = y == label
        assert_same(a[np.ix_(own, own)], lit.lfda_affinities(X[own], y[own], 3))


def test_class_of_one_counts_only_against_the_others():
    X, y = random_classes(28, (1, 4, 6))
    alone, rest = np.flatnonzero(y == 0)[0], y != 0
    assert lit.lmnn_targets(X, y, 3)[alone] == []
    assert not lit.lfda_affinities(X, y, 3)[alone].any()
    assert_same(lit.lfda_scatters(X, y, 3)[0], lit.lfda_scatters(X[rest], y[rest], 3)[0])
    sigma_p, sigma_n = lit.dmlmj_scatters(X, y, 3)
    assert_same(sigma_p, lit.dmlmj_scatters(X[rest], y[rest], 3)[0])
    assert np.abs(sigma_n - lit.dmlmj_scatters(X[rest], y[rest], 3)[1]).max() > 1e-3
    p, q, hits, _ = lit.hits_and_misses(np.eye(3), X, y)
    assert np.flatnonzero(hits < 0).tolist() == np.flatnonzero(np.isnan(p)).tolist() == [alone]
    assert np.isfinite(q).all()


# The convex solver


@pytest.mark.parametrize(
    ("k", "value", "M"),
    [(1, 2.918790, [0.480797, 0.036708, 0.086371]), (2, 5.882779, [0.500473, 0.070536, 0.009941])],
)
def test_lmnn_optimum_of_the_example(k, value, M):
    found, M_found = convex.lmnn_optimum(X8, Y8, lit.lmnn_targets(X8, Y8, k), 0.5)
    assert_pinned(found, value)
    assert_pinned(M_found, M)


def test_dml_eig_optimum_of_the_example_has_rank_one():
    value, M = convex.dml_eig_optimum(X8, SIMILAR, DISSIMILAR)
    assert_pinned(value, 0.154875868, atol=1e-8, rtol=0)
    assert_pinned(M, [0.155082, 0.038512, 0.009564])
    assert np.linalg.eigvalsh(M)[0] == pytest.approx(0, abs=1e-7)


def test_smoothed_dml_eig_optimum_of_the_example():
    value, M = convex.dml_eig_smoothed_optimum(X8, SIMILAR, DISSIMILAR, 0.1)
    assert_pinned(value, 0.112625464, atol=1e-9, rtol=0)
    assert_pinned(M, [0.159730, 0.030062, 0.005658])


def test_packing_keeps_inner_products():
    A, B = random_spd(29, 4), random_spd(30, 4)
    assert convex.pack(A) @ convex.pack(B) == pytest.approx(np.sum(A * B))
    assert_same(convex.unpack(convex.pack(A), 4), A)


def nearby_psd(M, seed, n=30):
    """Return matrices of the cone at several distances from M."""
    rng = np.random.default_rng(seed)
    for scale in np.geomspace(1e-3, 1, n):
        step = rng.normal(size=M.shape)
        yield lit.clip_psd(M + scale * np.linalg.norm(M) * (step + step.T))


@pytest.mark.parametrize("push_weight", [0.3, 0.8])
@pytest.mark.parametrize("sizes", [(6, 5, 4), (1, 2, 8)])
def test_lmnn_optimum_is_attained_and_least(push_weight, sizes):
    X, y = random_classes(31, sizes)
    targets = lit.lmnn_targets(X, y, 2)
    value, M = convex.lmnn_optimum(X, y, targets, push_weight)
    assert lit.lmnn_objective(M, X, y, targets, push_weight)[0] == pytest.approx(value, rel=1e-6)
    assert np.linalg.eigvalsh(M)[0] >= -1e-8
    for other in nearby_psd(M, 31):
        assert lit.lmnn_objective(other, X, y, targets, push_weight)[0] >= value * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_dml_eig_optimum_is_attained_and_bounded_by_the_smoothed_ones(seed):
    X, y = random_classes(seed)
    similar, dissimilar = lit.labelled_pairs(y)
    X_S = lit.pair_scatter(X, similar)
    value, M = convex.dml_eig_optimum(X, similar, dissimilar)
    assert np.sum(X_S * M) == pytest.approx(1, rel=1e-6)
    assert min(lit.sq_dist(M, X, i, j) for i, j in dissimilar) == pytest.approx(value, rel=1e-5)

    mu = 0.1 / len(similar)
    smoothed, M = convex.dml_eig_smoothed_optimum(X, similar, dissimilar, mu)
    whitened = lit.dml_eig_whitened(X, dissimilar, X_S)
    root = np.linalg.inv(lit.inverse_root(X_S))
    Z = root @ M @ root
    assert lit.f_mu(Z, whitened, mu) == pytest.approx(smoothed, abs=1e-6 * mu)
    assert lit.f_mu_gap(Z, whitened, mu) <= 1e-4 * mu
    assert smoothed <= value <= smoothed + mu * np.log(len(dissimilar))
    assert lit.f_mu(lit.frank_wolfe(whitened, mu, 20)[-1], whitened, mu) <= smoothed


@pytest.mark.parametrize("sizes", [(5, 4), (1, 2, 7)])
def test_dmldc_step_is_attained_and_least(sizes):
    X, y = random_classes(32, sizes, d=2)
    U = lit.dmldc_subgradients(I2, X, y, 0.1, -1)[1]
    value, M = convex.dmldc_step(X, y, U, 0.1)

    def surrogate(M):
        return lit.dmldc_parts(M, X, y, 0.1, -1)[0] - np.sum(M * U)

    assert surrogate(M) == pytest.approx(value, abs=1e-7)
    for other in [I2, *nearby_psd(M, 32)]:
        assert surrogate(other) >= value - 1e-7


def test_exact_dmldc_steps_lower_the_objective_of_the_example_to_the_value_of_a_good_solver():
    M, values = I2, []
    for _ in range(9):
        values.append(lit.dmldc_objective(M, X8, Y8, 0.1, -1))
        M = convex.dmldc_step(X8, Y8, lit.dmldc_subgradients(M, X8, Y8, 0.1, -1)[1], 0.1)[1]
    assert np.all(np.diff(values) < 0)
    assert values[-1] <= 0.2315
