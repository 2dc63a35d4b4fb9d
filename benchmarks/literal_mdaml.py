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


def update_metric(M, X, centers, weights, triplets, differences, options):
    """Eq. 7 in M by pymanopt; returns M and the value of Eq. 7."""
    anchors, similar, _ = triplets.T
    E = weights ** options["eta"]
    by_mode = [E[anchors, k] * E[similar, k] for k in range(E.shape[1])]
    make = tidy_functions if options["tidy"] else printed_functions
    value, gradient = make(X, centers, E, by_mode, differences, options)
    manifold = SymmetricPositiveDefinite(X.shape[1])
    problem = pymanopt.Problem(
        manifold,
        pymanopt.function.numpy(manifold)(value),
        euclidean_gradient=pymanopt.function.numpy(manifold)(gradient),
    )
    # pymanopt counts the starting point as an iteration.
    optimizer = ConjugateGradient(max_iterations=options["n_inner"] + 1, verbosity=0)
    result = optimizer.run(problem, initial_point=M)
    return result.point, float(result.cost)


def printed_functions(X, centers, E, by_mode, differences, options):
    """Eq. 7 and Eq. 15 as printed: sums over modes outside, over samples or triplets inside."""
    (N, K), (near, far) = E.shape, differences
    push, ridge = options["triplet_weight"] / (K * len(near)), options["ridge"]

    def value(M):
        losses = smooth_hinge(squared_lengths(far, M) - squared_lengths(near, M))
        total = ridge / 2 * np.sum(M * M)
        for k in range(K):
            total += E[:, k] @ squared_lengths(X - centers[k], M) / (N * K)
            total += push * by_mode[k] @ losses
        return total

    def gradient(M):
        slopes = smooth_hinge_slope(squared_lengths(far, M) - squared_lengths(near, M))
        total = ridge * M
        for k in range(K):
            from_center = X - centers[k]
            weighed = (by_mode[k] * slopes)[:, None]
            total = total + from_center.T @ (E[:, k, None] * from_center) / (N * K)
            total = total + push * (far.T @ (weighed * far) - near.T @ (weighed * near))
        return total

    return value, gradient


def tidy_functions(X, centers, E, by_mode, differences, options):
    """The same after two observations: one weight per triplet, one scatter matrix for all modes."""
    (N, K), (near, far) = E.shape, differences
    ridge = options["ridge"]
    omega = options["triplet_weight"] / (K * len(near)) * np.sum(by_mode, axis=0)
    crossed = (E.T @ X).T @ centers
    scatter = (X * E.sum(axis=1)[:, None]).T @ X - crossed - crossed.T
    scatter = (scatter + (centers * E.sum(axis=0)[:, None]).T @ centers) / (N * K)

    def value(M):
        delta = squared_lengths(far, M) - squared_lengths(near, M)
        return np.sum(scatter * M) + omega @ smooth_hinge(delta) + ridge / 2 * np.sum(M * M)

    def gradient(M):
        delta = squared_lengths(far, M) - squared_lengths(near, M)
        slopes = (omega * smooth_hinge_slope(delta))[:, None]
        return scatter + far.T @ (slopes * far) - near.T @ (slopes * near) + ridge * M

    return value, gradient


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
    tidy=False,
    callback=None,
):
    """Algorithm 2 of the paper: centres, weights, metric, in turn, from M = I.

    Returns M, centers, weights and the objective after each outer iteration. ``callback``, if
    given, is called as ``callback(iteration, M, centers, weights, value)`` after each of them.
    ``tidy`` takes the sums over modes out of the M-step, which the paper does not.
    """
    options = {
        "eta": eta,
        "triplet_weight": triplet_weight,
        "ridge": ridge,
        "n_inner": n_inner,
        "tidy": tidy,
    }
    anchors, similar, dissimilar = triplets.T
    near, far = X[anchors] - X[similar], X[anchors] - X[dissimilar]
    partners = partners_of_samples(triplets, len(X))
    M, weights, history = np.eye(X.shape[1]), weights0, []
    for iteration in range(n_outer):
        centers = update_centers(X, weights, eta)
        losses = smooth_hinge(squared_lengths(far, M) - squared_lengths(near, M))
        weights = update_weights(M, centers, weights, X, losses, partners, eta, triplet_weight)
        M, value = update_metric(M, X, centers, weights, triplets, (near, far), options)
        history.append(value)
        if callback is not None:
            callback(iteration, M, centers, weights, value)
    return M, centers, weights, history
