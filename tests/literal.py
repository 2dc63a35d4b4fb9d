"""The MDaML paper in plain loops: slow, short, and sharing no code with the library.

``M`` is (d, d), ``centers`` (K, d), ``weights`` (N, K), ``X`` (N, d) and ``triplets`` (T, 3) with
rows (anchor i, similar j, dissimilar r). ``eta`` is η, ``triplet_weight`` λ₁ and ``ridge`` λ₂.
"""

import numpy as np
from scipy.linalg import eigh, expm, sqrtm


def smooth_hinge(x):
    """ℓ(x), Eq. 8."""
    if x >= 1:
        return 0.0
    if x <= 0:
        return 0.5 - x
    return 0.5 * (1 - x) ** 2


def smooth_hinge_slope(x):
    """ℓ'(x), the derivative of Eq. 8 as given below Eq. 15."""
    if x >= 1:
        return 0.0
    if x <= 0:
        return -1.0
    return x - 1


def sq_dist(M, a, b):
    """Squared Mahalanobis distance (a − b)ᵀ M (a − b), Eq. 1."""
    return float((a - b) @ M @ (a - b))


def margin(M, X, triplet):
    """δ_ijr = d²(i, r) − d²(i, j), the argument of ℓ in Eq. 6."""
    i, j, r = triplet
    return sq_dist(M, X[i], X[r]) - sq_dist(M, X[i], X[j])


def importance(weights, triplet, eta, floor=0.0):
    """ω = Σ_k w_ik^η w_jk^η, the weight of one triplet in Eq. 7; above a floor, φ + (1 − φ) ω."""
    i, j, _ = triplet
    total = 0.0
    for k in range(weights.shape[1]):
        total += weights[i, k] ** eta * weights[j, k] ** eta
    return floor + (1 - floor) * total


def objective_terms(M, centers, weights, X, triplets, *, eta, triplet_weight, ridge):
    """Return the clustering, triplet and ridge terms of Eq. 7."""
    N, K, T = len(X), len(centers), len(triplets)
    clustering = 0.0
    for i in range(N):
        for k in range(K):
            clustering += weights[i, k] ** eta * sq_dist(M, X[i], centers[k])
    triplet = 0.0
    for t in triplets:
        triplet += importance(weights, t, eta) * smooth_hinge(margin(M, X, t))
    squares = 0.0
    for entry in M.ravel():
        squares += entry**2
    return clustering / (N * K), triplet_weight / (K * T) * triplet, ridge / 2 * squares


def objective(M, centers, weights, X, triplets, *, eta, triplet_weight, ridge):
    """Eq. 7."""
    return sum(
        objective_terms(
            M, centers, weights, X, triplets, eta=eta, triplet_weight=triplet_weight, ridge=ridge
        )
    )


def scatter(centers, weights, X, *, eta):
    """∇₁ of Eq. 15, the constant matrix A₁ of the clustering term."""
    N, K = weights.shape
    total = np.zeros((X.shape[1], X.shape[1]))
    for i in range(N):
        for k in range(K):
            gap = X[i] - centers[k]
            total += weights[i, k] ** eta * np.outer(gap, gap)
    return total / (N * K)


def triplet_scatter(slopes, weights, X, triplets, *, eta):
    """∇₂ of Eq. 15 with ``slopes[t]`` in the place of ℓ'(δ_t)."""
    K, T = weights.shape[1], len(triplets)
    total = np.zeros((X.shape[1], X.shape[1]))
    for slope, (i, j, r) in zip(slopes, triplets, strict=True):
        A_ij = np.outer(X[i] - X[j], X[i] - X[j])
        A_ir = np.outer(X[i] - X[r], X[i] - X[r])
        total += importance(weights, (i, j, r), eta) * slope * (A_ir - A_ij)
    return total / (K * T)


def gradient(M, centers, weights, X, triplets, *, eta, triplet_weight, ridge):
    """Euclidean gradient of Eq. 7 in M, Eq. 15."""
    slopes = [smooth_hinge_slope(margin(M, X, t)) for t in triplets]
    return (
        scatter(centers, weights, X, eta=eta)
        + triplet_weight * triplet_scatter(slopes, weights, X, triplets, eta=eta)
        + ridge * M
    )


def update_centers(X, weights, eta):
    """Eq. 10, the minimiser of Eq. 9."""
    centers = np.zeros((weights.shape[1], X.shape[1]))
    for k in range(weights.shape[1]):
        total = 0.0
        for i in range(len(X)):
            centers[k] += weights[i, k] ** eta * X[i]
            total += weights[i, k] ** eta
        centers[k] /= total
    return centers


def weight_costs(i, M, centers, weights, X, triplets, *, eta, triplet_weight):
    """F_ik for all k, below Eq. 11; i counts as anchor and as similar sample, not otherwise."""
    N, T = len(X), len(triplets)
    F = np.zeros(len(centers))
    for k in range(len(centers)):
        losses = 0.0
        for anchor, similar, dissimilar in triplets:
            loss = smooth_hinge(margin(M, X, (anchor, similar, dissimilar)))
            if anchor == i:
                losses += weights[similar, k] ** eta * loss
            if similar == i:
                losses += weights[anchor, k] ** eta * loss
        F[k] = sq_dist(M, X[i], centers[k]) / N + triplet_weight / T * losses
    return F


def weights_from_costs(F, eta):
    """Eq. 14 for one sample; its limit where F_ik = 0: those k share the weight equally."""
    if np.any(F == 0):
        return (F == 0) / np.sum(F == 0)
    w = (F.min() / F) ** (1 / (eta - 1))  # the common factor min F cancels and avoids overflow
    return w / w.sum()


def update_weights(M, centers, weights, X, triplets, *, eta, triplet_weight, order=None):
    """Eq. 14, one sample after another (Gauss–Seidel), each seeing the new weights before it."""
    weights = weights.copy()
    for i in range(len(X)) if order is None else order:
        F = weight_costs(
            i, M, centers, weights, X, triplets, eta=eta, triplet_weight=triplet_weight
        )
        weights[i] = weights_from_costs(F, eta)
    return weights


def update_weights_simultaneously(M, centers, weights, X, triplets, *, eta, triplet_weight):
    """Eq. 14 for all samples from the same old weights (Jacobi); may raise the objective."""
    new = np.zeros_like(weights)
    for i in range(len(X)):
        F = weight_costs(
            i, M, centers, weights, X, triplets, eta=eta, triplet_weight=triplet_weight
        )
        new[i] = weights_from_costs(F, eta)
    return new


# Comparisons of any two pairs: rows (near i, near j, far r, far s) and weights v_t. A triplet
# (i, j, r) is the comparison (i, j, i, r) of weight 1, and these are then the equations above.


def comparison_margin(M, X, comparison):
    """d²(r, s) − d²(i, j)."""
    i, j, r, s = comparison
    return sq_dist(M, X[r], X[s]) - sq_dist(M, X[i], X[j])


def comparison_objective(
    M, centers, weights, X, comparisons, v, *, eta, triplet_weight, ridge, floor=0.0
):
    """Eq. 7 with the triplet term λ₁/(K Σ v) Σ_t v_t ω_t ℓ(δ_t), ω_t of the near pair."""
    N, K = len(X), len(centers)
    clustering = 0.0
    for i in range(N):
        for k in range(K):
            clustering += weights[i, k] ** eta * sq_dist(M, X[i], centers[k])
    loss, total = 0.0, 0.0
    for comparison, weight in zip(comparisons, v, strict=True):
        omega = importance(weights, comparison[:3], eta, floor)
        loss += weight * omega * smooth_hinge(comparison_margin(M, X, comparison))
        total += weight
    return clustering / (N * K) + triplet_weight / (K * total) * loss + ridge / 2 * np.sum(M * M)


def comparison_gradient(
    M, centers, weights, X, comparisons, v, *, eta, triplet_weight, ridge, floor=0.0
):
    """Euclidean gradient of :func:`comparison_objective` in M."""
    K = len(centers)
    push, total = np.zeros_like(M), 0.0
    for (i, j, r, s), weight in zip(comparisons, v, strict=True):
        slope = smooth_hinge_slope(comparison_margin(M, X, (i, j, r, s)))
        A_near = np.outer(X[i] - X[j], X[i] - X[j])
        A_far = np.outer(X[r] - X[s], X[r] - X[s])
        push += weight * importance(weights, (i, j, r), eta, floor) * slope * (A_far - A_near)
        total += weight
    return scatter(centers, weights, X, eta=eta) + triplet_weight / (K * total) * push + ridge * M


def update_weights_by_comparisons(
    M, centers, weights, X, comparisons, v, *, eta, triplet_weight, order, floor=0.0
):
    """Eq. 14, one sample after another; a sample counts as either member of a near pair.

    Above a floor φ a weight decides about the share 1 − φ of the losses.
    """
    weights, total = weights.copy(), sum(v)
    for i in order:
        F = np.zeros(len(centers))
        for k in range(len(centers)):
            losses = 0.0
            for comparison, weight in zip(comparisons, v, strict=True):
                loss = weight * smooth_hinge(comparison_margin(M, X, comparison))
                for member, partner in (comparison[:2], comparison[1::-1]):
                    if member == i:
                        losses += (1 - floor) * weights[partner, k] ** eta * loss
            F[k] = sq_dist(M, X[i], centers[k]) / len(X) + triplet_weight / total * losses
        weights[i] = weights_from_costs(F, eta)
    return weights


# Held at a metric A: strength times the divergence is added to Eq. 7.


def divergence(M, A):
    """Σ (e − log e − 1) over the eigenvalues e of M relative to A, those that are not zero.

    Of full rank it is tr(A⁻¹M) − log det(A⁻¹M) − d.
    """
    total = 0.0
    for e in eigh(M, A, eigvals_only=True)[-np.linalg.matrix_rank(M) :]:
        total += e - np.log(e) - 1
    return total


def divergence_gradient(M, A):
    """Euclidean gradient of :func:`divergence` among the metrics of the rank of M.

    Of full rank it is A⁻¹ − M⁻¹.
    """
    values, vectors = eigh(M, A)  # vectorsᵀ A vectors = 1
    total = np.linalg.inv(A)
    for k in range(len(M) - np.linalg.matrix_rank(M), len(M)):
        total -= np.outer(vectors[:, k], vectors[:, k]) / values[k]
    return total


def symmetric_part(A):
    """Half the sum of a matrix and its transpose."""
    return 0.5 * (A + A.T)


def riemannian_gradient(M, egrad):
    """M ½(G + Gᵀ) M, Eq. 3."""
    return M @ (0.5 * (egrad + egrad.T)) @ M


def inner_product(M, xi, zeta):
    """tr(M⁻¹ ξ M⁻¹ ζ), the affine-invariant metric named above Eq. 2."""
    inverse = np.linalg.inv(M)
    return float(np.trace(inverse @ xi @ inverse @ zeta))


def exp_map(M, xi):
    """M^½ expm(M^−½ ξ M^−½) M^½, Eq. 4."""
    root = np.real(sqrtm(M))
    inverse_root = np.linalg.inv(root)
    return root @ expm(inverse_root @ xi @ inverse_root) @ root


def parallel_transport(M, M_new, xi):
    """τ of Algorithm 1: E ξ Eᵀ with E = (M_new M⁻¹)^½, along the geodesic from M to M_new."""
    E = np.real(sqrtm(M_new @ np.linalg.inv(M)))
    return E @ xi @ E.T


def critical_triplet_weight(centers, weights, X, triplets, *, eta):
    """λ₁* = 1/λ_max(B, A₁): M = 0 minimises Eq. 7 in M iff λ₁ ≤ λ₁* (A₁ positive definite).

    At M = 0 every margin is 0 and ℓ'(0) = −1, so Eq. 15 is A₁ − λ₁B there.
    """
    A1 = scatter(centers, weights, X, eta=eta)
    B = triplet_scatter([1.0] * len(triplets), weights, X, triplets, eta=eta)
    largest = eigh(B, A1, eigvals_only=True)[-1]
    return 1 / largest if largest > 0 else np.inf
