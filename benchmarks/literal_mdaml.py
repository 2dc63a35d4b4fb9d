"""Baseline of the benchmark: MDaML transcribed from the paper with NumPy and pymanopt."""

import numpy as np
import pymanopt
from pymanopt.manifolds import SymmetricPositiveDefinite
from pymanopt.optimizers import ConjugateGradient


def smooth_hinge(x):
    """Eq. 8."""
    return np.where(x <= 0, 0.5 - x, 0.5 * np.maximum(1 - x, 0) ** 2)


def smooth_hinge_slope(x):
    return np.clip(x - 1, -1, 0)


def squared_lengths(differences, M):
    """Eq. 1 for each row."""
    return np.einsum("ij,ij->i", differences @ M, differences)


def partners_of_samples(triplets, n_samples):
    """For each sample: its triplets as anchor or similar sample, and the other one of the two."""
    anchor, similar, _ = triplets.T
    T = len(triplets)
    sample = np.concatenate([anchor, similar])
    partner = np.concatenate([similar, anchor])
    triplet = np.concatenate([np.arange(T), np.arange(T)])
    by_sample = np.argsort(sample, kind="stable")
    cuts = np.cumsum(np.bincount(sample, minlength=n_samples))[:-1]
    return list(
        zip(np.split(triplet[by_sample], cuts), np.split(partner[by_sample], cuts), strict=True)
    )


def update_centers(X, weights, eta):
    """Eq. 10."""
    E = weights**eta
    return (E.T @ X) / E.sum(axis=0)[:, None]


def update_weights(M, centers, weights, X, losses, partners, eta, triplet_weight):
    """Eq. 14, one sample after another."""
    N, T = len(X), len(losses)
    E = weights**eta
    weights = weights.copy()
    distances = np.stack([squared_lengths(X - c, M) for c in centers], axis=1)
    for i, (triplet, partner) in enumerate(partners):
        F = distances[i] / N + triplet_weight / T * (losses[triplet] @ E[partner])
        zero = F == 0
        w = zero.astype(float) if zero.any() else (F.min() / F) ** (1 / (eta - 1))
        weights[i] = w / w.sum()
        E[i] = weights[i] ** eta
    return weights


def update_metric(M, centers, weights, X, anchors, similar, differences, eta, lambdas, n_inner):
    """Eq. 7 in M by pymanopt; returns M and the value of Eq. 7."""
    N, K = weights.shape
    near, far = differences
    triplet_weight, ridge = lambdas
    E = weights**eta
    omega = triplet_weight / (K * len(near)) * np.einsum("tk,tk->t", E[anchors], E[similar])
    crossed = (E.T @ X).T @ centers
    scatter = (X * E.sum(axis=1)[:, None]).T @ X - crossed - crossed.T
    scatter = (scatter + (centers * E.sum(axis=0)[:, None]).T @ centers) / (N * K)

    manifold = SymmetricPositiveDefinite(X.shape[1])

    @pymanopt.function.numpy(manifold)
    def cost(M):
        delta = squared_lengths(far, M) - squared_lengths(near, M)
        return np.sum(scatter * M) + omega @ smooth_hinge(delta) + ridge / 2 * np.sum(M * M)

    @pymanopt.function.numpy(manifold)
    def euclidean_gradient(M):
        """Eq. 15."""
        delta = squared_lengths(far, M) - squared_lengths(near, M)
        slopes = (omega * smooth_hinge_slope(delta))[:, None]
        return scatter + far.T @ (slopes * far) - near.T @ (slopes * near) + ridge * M

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=euclidean_gradient)
    # pymanopt counts the starting point as an iteration.
    optimizer = ConjugateGradient(max_iterations=n_inner + 1, verbosity=0)
    result = optimizer.run(problem, initial_point=M)
    return result.point, float(result.cost)


def fit_literal(
    X,
    triplets,
    weights0,
    *,
    eta,
    triplet_weight,
    ridge,
    n_outer,
    n_inner,
    callback=None,
):
    """Algorithm 2 of the paper: centres, weights, metric, in turn, from M = I.

    Returns M, centers, weights and the objective after each outer iteration. ``callback``, if
    given, is called as ``callback(iteration, M, centers, weights, value)`` after each of them.
    """
    anchors, similar, dissimilar = triplets.T
    near, far = X[anchors] - X[similar], X[anchors] - X[dissimilar]
    partners = partners_of_samples(triplets, len(X))
    M, weights, history = np.eye(X.shape[1]), weights0, []
    for iteration in range(n_outer):
        centers = update_centers(X, weights, eta)
        losses = smooth_hinge(squared_lengths(far, M) - squared_lengths(near, M))
        weights = update_weights(M, centers, weights, X, losses, partners, eta, triplet_weight)
        M, value = update_metric(
            M,
            centers,
            weights,
            X,
            anchors,
            similar,
            (near, far),
            eta,
            (triplet_weight, ridge),
            n_inner,
        )
        history.append(value)
        if callback is not None:
            callback(iteration, M, centers, weights, value)
    return M, centers, weights, history
