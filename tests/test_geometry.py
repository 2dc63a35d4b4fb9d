"""The moving frame against square roots and exponentials of matrices."""

import literal
import numpy as np
import pytest

from mdaml.solver.geometry import geodesic, gradient_in_frame, multiples

STEPS = [-1.0, 0.0, 0.3, 1.0, 2.5]


@pytest.fixture
def frame_and_vectors():
    """An invertible factor that is neither symmetric nor triangular, and two tangent vectors."""
    rng = np.random.default_rng(0)
    F = np.eye(5) + 0.3 * rng.normal(size=(5, 5))
    return F, *(literal.symmetric_part(h) for h in 0.5 * rng.normal(size=(2, 5, 5)))


def assert_close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("t", STEPS)
def test_frames_of_a_geodesic_are_factors_of_the_exponential_map(frame_and_vectors, t):
    F, h, _ = frame_and_vectors
    new = geodesic(F, h).frame(t)
    assert_close(new @ new.T, literal.exp_map(F @ F.T, t * F @ h @ F.T))


def test_geodesic_starts_at_its_point(frame_and_vectors):
    F, h, _ = frame_and_vectors
    start = geodesic(F, h).frame(0.0)
    assert_close(start @ start.T, F @ F.T, 1e-14)


@pytest.mark.parametrize("t", STEPS)
def test_rotation_of_the_frame_is_parallel_transport(frame_and_vectors, t):
    F, h, other = frame_and_vectors
    line = geodesic(F, h)
    new = line.frame(t)
    expected = literal.parallel_transport(F @ F.T, new @ new.T, F @ other @ F.T)
    assert_close(new @ line.transport(other) @ new.T, expected)


def test_direction_of_a_geodesic_is_diagonal_in_its_frames(frame_and_vectors):
    F, h, _ = frame_and_vectors
    line = geodesic(F, h)
    assert_close(line.transport(h), np.diag(line.rates), 1e-14)


def test_transport_preserves_inner_products(frame_and_vectors):
    F, h, other = frame_and_vectors
    line = geodesic(F, h + other)
    carried = np.vdot(line.transport(h), line.transport(other))
    assert carried == pytest.approx(np.vdot(h, other), rel=1e-13)


def test_frobenius_product_in_a_frame_is_the_affine_invariant_metric(frame_and_vectors):
    F, h, other = frame_and_vectors
    expected = literal.inner_product(F @ F.T, F @ h @ F.T, F @ other @ F.T)
    assert np.vdot(h, other) == pytest.approx(expected, rel=1e-10)


def test_gradient_in_a_frame_is_the_riemannian_gradient(frame_and_vectors):
    F, _, _ = frame_and_vectors
    egrad = np.random.default_rng(2).normal(size=F.shape)  # not symmetric
    h = gradient_in_frame(F, egrad)
    assert_close(h, h.T, 1e-14)
    assert_close(F @ h @ F.T, literal.riemannian_gradient(F @ F.T, egrad), 1e-13)


@pytest.mark.parametrize("t", STEPS)
def test_multiples_of_a_metric_are_a_geodesic_along_itself(frame_and_vectors, t):
    F, _, _ = frame_and_vectors
    M, new = F @ F.T, multiples(F).frame(t)
    assert_close(new @ new.T, np.exp(t) * M, 1e-14)
    assert_close(new @ new.T, literal.exp_map(M, t * M))


def test_extreme_eigenvalues_stay_finite_and_positive():
    rng = np.random.default_rng(3)
    Q, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    F = np.logspace(-12, 12, 5)[:, None] * Q
    line = geodesic(F, literal.symmetric_part(rng.normal(size=(5, 5))))
    for t in (-4.0, 1.0, 4.0):
        new = line.frame(t)
        assert np.all(np.isfinite(new))
        assert np.all(np.linalg.norm(new, axis=1) > 0)  # x^T M x of the unit vectors
        sign, log_det = np.linalg.slogdet(new)
        assert sign != 0
        # det M grows by the sum of the rates, however ill-conditioned M is.
        assert log_det == pytest.approx(
            np.linalg.slogdet(F)[1] + t / 2 * line.rates.sum(), abs=1e-8
        )
