"""Independent solvers of the M-step: Eq. 7 in M at fixed centres and weights.

They share no code with the library. Arguments are shaped as in ``literal``.
"""

import sys

import numpy as np

# Pymanopt imports every library that it could work with; it works with NumPy here.
if "torch" not in sys.modules:
    sys.modules["torch"] = None
import pymanopt
from pymanopt.manifolds import SymmetricPositiveDefinite
from pymanopt.optimizers import ConjugateGradient

if sys.modules["torch"] is None:
    del sys.modules["torch"]


def m_step_functions(X, triplets, centers, weights, *, eta, triplet_weight, ridge):
    """Return M → value and M → Euclidean gradient of Eq. 7, vectorised over triplets."""
    N, K = weights.shape
    i, j, r = np.asarray(triplets).T
    similar, dissimilar = X[i] - X[j], X[i] - X[r]
    E = weights**eta
    scale = triplet_weight / (K * len(i)) * (E[i] * E[j]).sum(axis=1)
    gaps = X[:, None, :] - centers[None, :, :]
    A1 = np.einsum("ik,ikp,ikq->pq", E, gaps, gaps) / (N * K)

    def margins(M):
        far = np.einsum("tp,pq,tq->t", dissimilar, M, dissimilar, optimize=True)
        near = np.einsum("tp,pq,tq->t", similar, M, similar, optimize=True)
        return far - near

    def value(M):
        delta = margins(M)
        losses = np.where(delta <= 0, 0.5 - delta, 0.5 * np.maximum(1 - delta, 0) ** 2)
        return np.sum(A1 * M) + scale @ losses + ridge / 2 * np.sum(M * M)

    def egrad(M):
        slopes = scale * np.clip(margins(M) - 1, -1, 0)
        far = dissimilar.T @ (slopes[:, None] * dissimilar)
        near = similar.T @ (slopes[:, None] * similar)
        return A1 + far - near + ridge * M

    return value, egrad


def pymanopt_m_step(X, triplets, centers, weights, M0, *, eta, triplet_weight, ridge, n_iterations):
    """Return (objective values from M0 on, final M) of pymanopt's conjugate gradients, defaults."""
    value, egrad = m_step_functions(
        X, triplets, centers, weights, eta=eta, triplet_weight=triplet_weight, ridge=ridge
    )
    manifold = SymmetricPositiveDefinite(X.shape[1])
    problem = pymanopt.Problem(
        manifold,
        pymanopt.function.numpy(manifold)(value),
        euclidean_gradient=pymanopt.function.numpy(manifold)(egrad),
    )
    # pymanopt counts the starting point as an iteration.
    optimizer = ConjugateGradient(max_iterations=n_iterations + 1, verbosity=0, log_verbosity=1)
    # A rejected last step leaves pymanopt with β = 0/0, which it then does not use.
    with np.errstate(invalid="ignore"):
        result = optimizer.run(problem, initial_point=np.array(M0, dtype=float))
    return [float(cost) for cost in result.log["iterations"]["cost"]], result.point


def manopt_cg(
    X,
    triplets,
    centers,
    weights,
    M0,
    *,
    eta,
    triplet_weight,
    ridge,
    n_iterations,
    max_evaluations=10,
):
    """Return (objective values from M0 on, final M) of Manopt's default conjugate gradients.

    Retraction M + ξ + ½ξM⁻¹ξ, identity transport, Hestenes–Stiefel β clipped at 0, adaptive
    Armijo search. pymanopt allows one evaluation more in a line search (``max_evaluations=11``).
    """
    value_at, egrad_at = m_step_functions(
        X, triplets, centers, weights, eta=eta, triplet_weight=triplet_weight, ridge=ridge
    )

    def rgrad_at(M):
        G = M @ egrad_at(M) @ M
        return (G + G.T) / 2

    def inner(M, xi, zeta):
        return np.sum(np.linalg.solve(M, xi) * np.linalg.solve(M, zeta).T)

    def retract(M, xi):
        new = M + xi + xi @ np.linalg.solve(M, xi) / 2
        return (new + new.T) / 2

    M = np.array(M0, dtype=float)
    value, grad = value_at(M), rgrad_at(M)
    values = [float(value)]
    direction = -grad
    first_step = 1 / np.sqrt(inner(M, direction, direction))
    for _ in range(n_iterations):
        if np.sqrt(inner(M, grad, grad)) < 1e-6:
            break
        slope = inner(M, grad, direction)
        if slope >= 0:
            direction = -grad
            slope = -inner(M, grad, grad)

        step = first_step
        for evaluations in range(1, max_evaluations + 1):
            if evaluations > 1:
                step = step / 2
            new_M = retract(M, step * direction)
            new_value = value_at(new_M)
            if new_value <= value + 0.5 * step * slope:
                break
        if new_value > value:
            break
        first_step = step if evaluations == 2 else 2 * step
        length = step * np.sqrt(inner(M, direction, direction))

        new_grad = rgrad_at(new_M)
        change = new_grad - grad
        curvature = inner(new_M, change, direction)
        beta = max(0.0, inner(new_M, new_grad, change) / curvature) if curvature else 0.0
        direction = -new_grad + beta * direction
        M, value, grad = new_M, new_value, new_grad
        values.append(float(value))
        if length < 1e-10:
            break
    return values, M


def project_psd(A):
    """Nearest positive semi-definite matrix in the Frobenius norm."""
    eigenvalues, vectors = np.linalg.eigh((A + A.T) / 2)
    return (vectors * np.maximum(eigenvalues, 0)) @ vectors.T


def projected_fista(X, triplets, centers, weights, M0, *, eta, triplet_weight, ridge, n_iterations):
    """Return (value, M), the minimum over the positive semi-definite cone.

    Accelerated projected gradient, step 1/L with L doubled until the quadratic model bounds the
    value, momentum dropped when it points uphill (and L halved, to be found anew).
    """
    value_at, egrad_at = m_step_functions(
        X, triplets, centers, weights, eta=eta, triplet_weight=triplet_weight, ridge=ridge
    )
    M = project_psd(np.asarray(M0, dtype=float))
    best = value_at(M), M
    Y, momentum, L = M, 1.0, 1e-3
    for _ in range(n_iterations):
        value_Y, G = value_at(Y), egrad_at(Y)
        while True:
            new_M = project_psd(Y - G / L)
            step = new_M - Y
            new_value = value_at(new_M)
            model = value_Y + np.sum(G * step) + L / 2 * np.sum(step * step)
            if new_value <= model + 1e-15 * abs(value_Y):  # the last term: rounding
                break
            L *= 2
        if new_value < best[0]:
            best = new_value, new_M
        if np.sum((Y - new_M) * (new_M - M)) > 0:
            Y, momentum, L = new_M, 1.0, L / 2
        else:
            next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            Y = new_M + (momentum - 1) / next_momentum * (new_M - M)
            momentum = next_momentum
        M = new_M
    return float(best[0]), best[1]


def optimality_gap(M, X, triplets, centers, weights, *, eta, triplet_weight, ridge):
    """Bound value(M) − minimum from above, by strong convexity with modulus ``ridge`` > 0.

    value(Z) ≥ value(M) + ⟨G, Z − M⟩ + ridge/2 ‖Z − M‖², whose minimum over the cone is explicit.
    """
    _, egrad_at = m_step_functions(
        X, triplets, centers, weights, eta=eta, triplet_weight=triplet_weight, ridge=ridge
    )
    G = egrad_at(M)
    step = project_psd(M - G / ridge) - M
    return float(-np.sum(G * step) - ridge / 2 * np.sum(step * step))
