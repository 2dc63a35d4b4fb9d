"""DML-eig against its worked example, its literal twin, a convex solver and its symmetries."""

import warnings

import convex
import literal_baselines as lit
import numpy as np
import pytest
import scipy.linalg
from scipy.stats import ortho_group
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from mdaml import DMLeig
from mdaml.constraints import sample_triplets
from mdaml.constraints.comparisons import PairSet
from mdaml.datasets import load_dataset
from mdaml.estimators.dml_eig import (
    SmoothedMinimum,
    maximise,
    project_on_simplex,
    projected_root,
    search,
    whitened,
)

X8, Y8 = lit.e8()
SIMILAR, DISSIMILAR = lit.labelled_pairs(Y8)
N_SIMILAR, N_DISSIMILAR = 12, 16
S8 = lit.pair_covariance(X8, SIMILAR)


def as_arguments(similar, dissimilar):
    """Pairs as fit takes them."""
    return {
        "pairs": np.array([*similar, *dissimilar]),
        "pair_labels": np.repeat([1, -1], [len(similar), len(dissimilar)]),
    }


E8 = as_arguments(SIMILAR, DISSIMILAR)


def smoothed_minimum(X, similar, dissimilar, mu, root=None):
    """The problem in coordinates of any root of the inverse scatter; Cholesky's by default."""
    if root is None:
        R = np.linalg.cholesky(lit.pair_covariance(X, similar)).T
        root = np.linalg.inv(R)
    return SmoothedMinimum(X @ root, PairSet.from_pairs(np.array(dissimilar), len(X)), mu)


def random_pairs(seed, n=14, d=4, n_pairs=20):
    """Samples with d features and lists of pairs, some of them twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1)
    pairs = [tuple(rng.choice(n, 2, replace=False)) for _ in range(2 * n_pairs)]
    return X - X.mean(axis=0), pairs[:n_pairs], pairs[n_pairs:]


def squared_distances(model, X, pairs):
    M = model.get_mahalanobis_matrix()
    return np.array([lit.sq_dist(M, X, i, j) for i, j in pairs])


def assert_close(M, wanted, rtol):
    np.testing.assert_allclose(M, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


def assert_pinned(M, printed):
    """Compare with [m11, m12, m22] on the scale of the sum over similar pairs."""
    np.testing.assert_allclose(M[[0, 0, 1], [0, 1, 1]] / N_SIMILAR, printed, rtol=1e-5, atol=2e-6)


class TestWorkedExample:
    """The methods notes sum over pairs: mu and M there are a twelfth of those here."""

    @pytest.mark.parametrize(
        ("mu_sum", "f"), [(1.0, -2.347317), (0.1, 0.000505376), (0.01, 0.0774356)]
    )
    def test_objective_at_the_start(self, mu_sum, f):
        problem = smoothed_minimum(X8, SIMILAR, DISSIMILAR, N_SIMILAR * mu_sum)
        as_sum = problem.start().level[0] / N_SIMILAR - mu_sum * np.log(N_DISSIMILAR)
        assert as_sum == pytest.approx(f, rel=1e-5, abs=2e-6)

    def test_gradient_at_the_start(self):
        symmetric = lit.inverse_root(S8)
        problem = smoothed_minimum(X8, SIMILAR, DISSIMILAR, 1.2, symmetric)
        assert_pinned(problem.start().gradient, [0.302665, 0.044744, 0.036103])

    def test_first_target_is_that_of_frank_and_wolfe(self):
        symmetric = lit.inverse_root(S8)
        problem = smoothed_minimum(X8, SIMILAR, DISSIMILAR, 1.2, symmetric)
        V = symmetric @ projected_root(problem.start().Z + 1e8 * problem.start().gradient)
        assert_pinned(V @ V.T, [0.159668, 0.030389, 0.005784])

    def test_smoothed_optimum(self):
        model = DMLeig(1.2, tol=1e-10, reg=0.0).fit(X8, **E8)
        assert_pinned(model.get_mahalanobis_matrix(), [0.159730, 0.030062, 0.005658])
        problem = smoothed_minimum(X8, SIMILAR, DISSIMILAR, 1.2)
        point, _, _ = maximise(problem, max_iter=model.n_iter_, tol=1e-10)
        f = point.level[0] / N_SIMILAR - 0.1 * np.log(N_DISSIMILAR)
        assert f == pytest.approx(0.112625464, abs=1e-9)

    def test_unsmoothed_optimum(self):
        model = DMLeig(1e-4, tol=1e-5, reg=0.0).fit(X8, **E8)
        assert model.history_[-1] / N_SIMILAR == pytest.approx(0.154875868, rel=1e-4)
        np.testing.assert_allclose(
            model.get_mahalanobis_matrix()[[0, 0, 1], [0, 1, 1]] / N_SIMILAR,
            [0.155082, 0.038512, 0.009564],
            rtol=1e-2,
        )

    def test_full_rank_by_hand(self):
        X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
        similar, dissimilar = [(0, 1), (0, 2)], [(0, 3), (0, 4)]
        model = DMLeig(0.5, reg=0.0).fit(X, **as_arguments(similar, dissimilar))
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), np.eye(2), atol=1e-12)
        assert model.n_iter_ == 0
        assert model.gap_ == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(model.history_, [4.0])
        start = smoothed_minimum(X, similar, dissimilar, 0.5).start()
        assert start.level[0] == pytest.approx(4.0)  # 2 (2 - mu ln 2) + 2 mu ln 2
        np.testing.assert_allclose(start.gradient, 4 * np.eye(2), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mu", [0.05, 1.0, 20.0])
class TestLiteralTwin:
    def case(self, seed, mu):
        """A problem in coordinates of the symmetric root, its twin and a point on the way."""
        X, similar, dissimilar = random_pairs(seed)
        X_S = lit.pair_covariance(X, similar)
        problem = smoothed_minimum(X, similar, dissimilar, mu, lit.inverse_root(X_S))
        return (
            problem,
            lit.dml_eig_whitened(X, dissimilar, X_S),
            maximise(problem, max_iter=4, tol=0.0)[0],
        )

    def test_value_gradient_and_gap(self, seed, mu):
        problem, apart, point = self.case(seed, mu)
        for at in (problem.start(), point):
            f = at.level[0] - mu * np.log(len(apart))
            assert f == pytest.approx(lit.f_mu(at.Z, apart, mu), rel=1e-12)
            assert_close(at.gradient, lit.f_mu_gradient(at.Z, apart, mu), 1e-12)
            assert at.gap == pytest.approx(lit.f_mu_gap(at.Z, apart, mu), rel=1e-9, abs=1e-12)

    def test_gradient_by_finite_differences(self, seed, mu):
        problem, _, point = self.case(seed, mu)
        direction = np.random.default_rng(seed).normal(size=point.Z.shape)
        direction += direction.T
        difference = problem.X[problem.given.pairs[:, 0]] - problem.X[problem.given.pairs[:, 1]]
        change = np.sum(difference @ direction * difference, axis=1)
        h = 1e-5
        ahead, behind = (problem.level(point.sq_dists + sign * h * change) for sign in (1, -1))
        slope = (ahead[0] - behind[0]) / (2 * h)
        assert slope == pytest.approx(np.vdot(point.gradient, direction), rel=1e-6)

    def test_no_lower_than_the_steps_of_the_paper(self, seed, mu):
        problem, apart, _ = self.case(seed, mu)
        ours = maximise(problem, max_iter=20, tol=0.0)[0].level[0] - mu * np.log(len(apart))
        assert ours >= lit.f_mu(lit.frank_wolfe(apart, mu, 20)[-1], apart, mu) - 1e-12


@pytest.mark.parametrize("seed", range(3))
class TestConvexSolver:
    @pytest.mark.parametrize("mu", [0.1, 3.0])
    def test_reaches_the_smoothed_optimum_and_the_gap_bounds_the_rest(self, seed, mu):
        X, similar, dissimilar = random_pairs(seed)
        n = len(similar)
        wanted, M = convex.dml_eig_smoothed_optimum(X, similar, dissimilar, mu / n)
        optimum = n * wanted + mu * np.log(len(dissimilar))
        problem = smoothed_minimum(X, similar, dissimilar, mu)
        for max_iter in range(1, 12):
            point, _, _ = maximise(problem, max_iter=max_iter, tol=0.0)
            assert optimum - point.level[0] <= point.gap + 1e-7 * optimum
        model = DMLeig(mu, tol=1e-7, reg=0.0, max_iter=2000).fit(
            X, **as_arguments(similar, dissimilar)
        )
        a = squared_distances(model, X, dissimilar)
        reached = -mu * np.log(np.mean(np.exp(-a / mu)))
        assert reached == pytest.approx(optimum, rel=1e-6)
        assert_close(model.get_mahalanobis_matrix(), n * M, 1e-2)

    def test_small_mu_reaches_the_unsmoothed_optimum(self, seed):
        X, similar, dissimilar = random_pairs(seed, n=12, d=3, n_pairs=15)
        wanted, _ = convex.dml_eig_optimum(X, similar, dissimilar)
        model = DMLeig(1e-3, reg=0.0, tol=1e-4, max_iter=5000).fit(
            X, **as_arguments(similar, dissimilar)
        )
        reached = model.history_[-1] / len(similar)
        assert reached <= wanted * (1 + 1e-6)
        assert reached == pytest.approx(wanted, rel=2e-2)


class TestSolver:
    @pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 100.0])
    def test_smoothed_objective_never_falls(self, mu):
        X, y = load_dataset("vehicle", return_X_y=True)
        X = StandardScaler().fit_transform(X)
        triplets = sample_triplets(y, 3, 3, random_state=0)
        similar, dissimilar = (PairSet.from_pairs(triplets[:, [0, n]], len(X)) for n in (1, 2))
        R = np.linalg.cholesky(lit.pair_covariance(X, similar.pairs, similar.counts)).T
        smoothed = []

        class Watched(SmoothedMinimum):
            def point(self, Z, a, level):
                smoothed.append(level[0])
                return super().point(Z, a, level)

        problem = Watched(whitened(X, R), dissimilar, mu)
        _, _, history = maximise(problem, max_iter=100, tol=1e-12)
        assert np.all(np.diff(smoothed) > 0)
        assert len(smoothed) == len(history) > 3

    def test_points_on_the_way_are_feasible(self):
        problem = smoothed_minimum(*random_pairs(0), 0.1)
        for max_iter in (1, 2, 5, 20):
            Z = maximise(problem, max_iter=max_iter, tol=0.0)[0].Z
            assert np.trace(Z) == pytest.approx(1.0, abs=1e-12)
            assert np.linalg.eigvalsh(Z)[0] >= -1e-14
            np.testing.assert_array_equal(Z, Z.T)

    def test_without_tolerance_it_ends_where_rounding_ends_it(self):
        problem = smoothed_minimum(*random_pairs(1), 1.0)
        point, status, history = maximise(problem, max_iter=10_000, tol=0.0)
        assert status in ("stalled", "converged")
        assert point.gap < 1e-6
        assert len(history) < 1000

    @pytest.mark.parametrize("mu", [1e-6, 1e-2, 1.0, 1e3])
    @pytest.mark.parametrize("seed", range(5))
    def test_search_finds_the_best_step(self, mu, seed):
        rng = np.random.default_rng(seed)
        problem = SmoothedMinimum(
            np.eye(30), PairSet.from_pairs(np.column_stack([range(29), range(1, 30)]), 30), mu
        )
        a, change = rng.uniform(1, 2, 29), rng.normal(1.0, 3.0, 29)
        start = problem.level(a)
        change = change if start[1] @ change > 0 else -change
        steps = np.linspace(0, 1, 2001)
        best = max(problem.level(a + step * change)[0] for step in steps)
        share, level = search(problem, a, change, start)
        assert 0 < share <= 1
        assert level[0] == problem.level(a + share * change)[0]
        assert level[0] - start[0] >= 0.9 * (best - start[0]) > 0

    @pytest.mark.parametrize("rise", [-1.0, 0.0, 1e-30])
    def test_search_finds_nothing_where_the_way_leads_down_or_too_little_up(self, rise):
        problem = smoothed_minimum(*random_pairs(0), 0.1)
        point = problem.start()
        change = np.full_like(point.sq_dists, rise)
        assert search(problem, point.sq_dists, change, point.level) is None

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e8])
    def test_projection_on_the_simplex_is_the_nearest_point(self, scale):
        rng = np.random.default_rng(0)
        w = np.sort(scale * rng.normal(size=7))
        p = project_on_simplex(w)
        assert p.sum() == pytest.approx(1.0, abs=1e-14)
        assert p.min() >= 0
        for other in rng.dirichlet(np.ones(7), 50):  # variational inequality
            assert (w - p) @ (other - p) <= 1e-9 * scale


@pytest.fixture(scope="module")
def vehicle():
    X, y = load_dataset("vehicle", return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_history_and_gap_follow_from_the_fitted_metric(mu):
    X, similar, dissimilar = random_pairs(3, n=40, d=6, n_pairs=60)
    model = DMLeig(mu, reg=0.0).fit(X, **as_arguments(similar, dissimilar))
    assert model.history_.shape == (model.n_iter_ + 1,)
    assert squared_distances(model, X, similar).mean() == pytest.approx(1.0)
    a = squared_distances(model, X, dissimilar)
    assert model.history_[-1] == pytest.approx(a.min())
    u = np.exp(-a / mu) / np.sum(np.exp(-a / mu))
    slope = scipy.linalg.eigh(
        lit.pair_scatter(X, dissimilar, u), lit.pair_covariance(X, similar), eigvals_only=True
    )[-1]
    assert model.gap_ == pytest.approx(slope - u @ a, rel=1e-6)
    assert model.gap_ <= 1e-3 * max(1.0, -mu * np.log(np.mean(np.exp(-a / mu))))


def test_start_of_the_history_is_the_whitened_euclidean_distance():
    X, similar, dissimilar = random_pairs(4)
    model = DMLeig(reg=0.0).fit(X, **as_arguments(similar, dissimilar))
    start = np.linalg.inv(lit.pair_covariance(X, similar)) / X.shape[1]
    assert model.history_[0] == pytest.approx(
        min(lit.sq_dist(start, X, i, j) for i, j in dissimilar)
    )


@pytest.mark.parametrize("name", ["vehicle", "segment"])
@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0])
def test_default_fit_converges_on_bundled_data(name, mu):
    X, y = load_dataset(name, return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = DMLeig(mu, random_state=0).fit(X[::2], y[::2])  # a warning would be an error
    assert model.n_iter_ < 100


def test_rank_is_that_of_the_solution(vehicle):
    model = DMLeig(1.0, tol=1e-6, random_state=0).fit(*vehicle)
    rank, d = model.components_.shape
    assert 1 < rank < d == 18
    assert model.transform(vehicle[0]).shape == (len(vehicle[0]), rank)
    assert np.linalg.matrix_rank(model.get_mahalanobis_matrix()) == rank


class TestSymmetries:
    options = {"mu": 0.5, "tol": 1e-5, "reg": 0.0}  # noqa: RUF012

    def case(self, seed):
        X, similar, dissimilar = random_pairs(seed, n=30, d=5, n_pairs=50)
        return X, as_arguments(similar, dissimilar)

    def fit(self, X, given):
        return DMLeig(**self.options).fit(X, **given).get_mahalanobis_matrix()

    @pytest.mark.parametrize("seed", range(3))
    def test_any_invertible_map(self, seed):
        X, given = self.case(seed)
        B = np.random.default_rng(seed).normal(size=(5, 5)) + 3 * np.eye(5)
        assert_close(B.T @ self.fit(X @ B.T, given) @ B, self.fit(X, given), 1e-8)

    def test_rotation_with_a_ridge(self):
        X, given = self.case(0)
        Q = ortho_group.rvs(5, random_state=0)
        fits = [DMLeig(reg=0.1).fit(A, **given).get_mahalanobis_matrix() for A in (X, X @ Q.T)]
        assert_close(Q.T @ fits[1] @ Q, fits[0], 1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_large_mu_gives_rank_one_along_the_top_eigenvector(seed):
    X, similar, dissimilar = random_pairs(seed)
    model = DMLeig(1e5, tol=1e-9, reg=0.0).fit(X, **as_arguments(similar, dissimilar))
    root = lit.inverse_root(lit.pair_covariance(X, similar))
    v = root @ lit.eigenpairs(root @ lit.pair_covariance(X, dissimilar) @ root)[1][-1]
    assert_close(model.get_mahalanobis_matrix(), np.outer(v, v), 1e-3)


def test_repeated_pairs_count():
    X, similar, dissimilar = random_pairs(5)
    similar, dissimilar = similar + similar[:3] * 2, dissimilar + dissimilar[:2] * 4
    model = DMLeig(0.3, tol=1e-7, reg=0.0).fit(X, **as_arguments(similar, dissimilar))
    _, M = convex.dml_eig_smoothed_optimum(X, similar, dissimilar, 0.3 / len(similar))
    assert_close(model.get_mahalanobis_matrix(), len(similar) * M, 1e-3)


class TestSupervision:
    def test_labels_are_the_triplets_drawn_from_them(self, vehicle):
        X, y = vehicle
        seed = np.random.RandomState(3).randint(2**31 - 1)
        triplets = sample_triplets(y, 3, 2, pairing="zip", random_state=seed)
        by_labels = DMLeig(n_similar=3, n_dissimilar=2, random_state=3).fit(X, y)
        np.testing.assert_array_equal(
            by_labels.components_, DMLeig().fit(X, triplets=triplets).components_
        )


class TestDegenerate:
    def fit(self, X, similar, dissimilar, **options):
        return DMLeig(**options).fit(X, **as_arguments(similar, dissimilar))

    def test_dissimilar_pair_of_identical_samples_is_left_out_with_a_warning(self):
        dissimilar = DISSIMILAR + DISSIMILAR[:3] * 4
        wanted = self.fit(X8, SIMILAR, dissimilar, mu=3.0, reg=0.0).get_mahalanobis_matrix()
        X = np.vstack([X8, X8[4]])
        with pytest.warns(UserWarning, match=r"1 of 17 dissimilar pairs .* rows 4 and 8") as caught:
            model = self.fit(X, SIMILAR, [*dissimilar, (4, 8), (8, 4)], mu=3.0, reg=0.0)
        assert [warning.filename for warning in caught] == [__file__]
        assert_close(model.get_mahalanobis_matrix(), wanted, 1e-10)
        assert model.history_[-1] > 0

    def test_only_dissimilar_pairs_of_identical_samples_are_refused(self):
        with pytest.raises(ValueError, match="all dissimilar pairs name identical samples"):
            self.fit(np.vstack([X8, X8[4]]), SIMILAR, [(4, 8)])

    def test_fewer_similar_pairs_than_features_concentrates_where_they_do_not_differ(self):
        X, similar, dissimilar = random_pairs(3, n=20, d=6)
        with pytest.warns(UserWarning, match="concentrates in directions .* raise reg") as caught:
            model = self.fit(X, similar[:3], dissimilar, mu=1e4)
        assert [warning.filename for warning in caught] == [__file__]
        assert squared_distances(model, X, similar[:3]).mean() < 1e-3
        self.fit(X, similar[:3], dissimilar, reg=10.0)  # without the warning: the advice helps

    def test_fewer_samples_than_features_is_noticed_however_many_pairs_there_are(self):
        X, y = np.random.default_rng(0).normal(size=(30, 50)), np.arange(30) % 3
        with pytest.warns(UserWarning, match="concentrates in directions"):
            DMLeig(1e6, random_state=0).fit(X, y)

    def test_singular_scatter_of_similar_pairs_without_ridge_is_refused(self):
        X, similar, dissimilar = random_pairs(0, n=20, d=6)
        with pytest.raises(ValueError, match=r"similar pairs is singular.* Use reg > 0"):
            self.fit(X, similar[:3], dissimilar, reg=0.0)

    def test_similar_pairs_that_do_not_differ_at_all_are_refused(self):
        X = np.vstack([X8, X8])
        with pytest.raises(ValueError, match="needs a similar pair of samples that differ"):
            self.fit(X, [(0, 8), (1, 9)], DISSIMILAR)

    def test_dependent_features_do_no_harm(self, vehicle):
        X, y = vehicle
        doubled = np.hstack([X, X[:, :5], np.zeros((len(X), 1))])
        model = DMLeig(random_state=0).fit(doubled, y)  # no warning: dissimilar pairs agree, too
        plain = DMLeig(random_state=0).fit(X, y)
        assert model.history_[-1] == pytest.approx(plain.history_[-1], rel=0.05)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"mu": 0.0}, ValueError, r"DMLeig\(mu=...\) must be a finite number greater than 0"),
            ({"mu": -1.0}, ValueError, "greater than 0, got -1.0"),
            ({"mu": np.inf}, ValueError, "finite"),
            ({"max_iter": 0}, ValueError, "max_iter"),
            ({"tol": -1e-3}, ValueError, "tol"),
            ({"reg": -1e-3}, ValueError, "reg"),
            ({"n_similar": 0}, ValueError, "n_similar"),
            ({"n_dissimilar": 1.5}, TypeError, "n_dissimilar"),
            ({"callback": "print"}, TypeError, "callback=...\\) must be callable"),
        ],
    )
    def test_parameters_are_checked(self, options, error, message):
        with pytest.raises(error, match=message):
            DMLeig(**options).fit(X8, Y8)

    def test_one_feature_has_one_metric(self):
        model = DMLeig(reg=0.0).fit(X8[:, :1], Y8)
        assert model.components_.shape == (1, 1)
        assert model.n_iter_ == 0


class TestIteration:
    def test_too_few_iterations_are_reported_with_the_gap(self, vehicle):
        with pytest.warns(ConvergenceWarning, match="Increase max_iter or mu") as caught:
            model = DMLeig(max_iter=3, random_state=0).fit(*vehicle)
        assert [warning.filename for warning in caught] == [__file__]
        assert f"{model.gap_:.2g} below its maximum" in str(caught[0].message)
        assert model.n_iter_ == 3

    def test_convergence_in_the_last_iteration_is_no_reason_to_warn(self, vehicle):
        n_iter = DMLeig(random_state=0).fit(*vehicle).n_iter_
        assert DMLeig(max_iter=n_iter, random_state=0).fit(*vehicle).n_iter_ == n_iter

    def test_many_features(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 400)
        X = rng.normal(size=(400, 320))
        X[:, :3] += 2 * np.eye(3)[y]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = DMLeig(10.0, reg=0.1, random_state=0).fit(X, y)
        M = model.get_mahalanobis_matrix()
        assert M[:3, :3].trace() > 0.2 * M.trace()
