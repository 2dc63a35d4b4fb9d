"""Seven baseline metric learners in plain loops: slow, short, sharing no code with the library.

``X`` is (n, d), ``y`` (n,), ``M`` (d, d); ``pairs`` is a list of (i, j). Neighbours are Euclidean
unless a metric is given, never the sample itself, ties by index, and as many as there are if fewer
than ``k``. ``A_ij`` is (x_i − x_j)(x_i − x_j)ᵀ.
"""

import numpy as np
from scipy.linalg import fractional_matrix_power, sqrtm


def e8():
    """Return X and y of the worked example: eight points in the plane, two classes, no ties."""
    first = [[0.0, 0.0], [0.5, 1.2], [1.1, 0.2], [0.3, 2.1]]
    second = [[2.0, 0.6], [2.7, 1.7], [3.4, 0.1], [2.2, 3.2]]
    return np.array(first + second), np.array([0, 0, 0, 0, 1, 1, 1, 1])


# Shared


def outer_product(X, i, j):
    """A_ij."""
    return np.outer(X[i] - X[j], X[i] - X[j])


def sq_dist(M, X, i, j):
    """d_M²(x_i, x_j)."""
    return float((X[i] - X[j]) @ M @ (X[i] - X[j]))


def labelled_pairs(y):
    """All pairs i < j: those of one class, then the others."""
    similar, dissimilar = [], []
    for i in range(len(y)):
        for j in range(i + 1, len(y)):
            (similar if y[i] == y[j] else dissimilar).append((i, j))
    return similar, dissimilar


def pair_scatter(X, pairs, weights=None):
    """Σ_p w_p A_p; all weights 1 by default."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for p, (i, j) in enumerate(pairs):
        total += (1.0 if weights is None else weights[p]) * outer_product(X, i, j)
    return total


def pair_covariance(X, pairs, weights=None):
    """The mean Σ_p w_p A_p / Σ_p w_p; not centred."""
    return pair_scatter(X, pairs, weights) / (len(pairs) if weights is None else sum(weights))


def add_ridge(A, reg):
    """A + reg (tr A / d) I."""
    return A + reg * np.trace(A) / len(A) * np.eye(len(A))


def nearest(X, i, candidates, k):
    """Return the k nearest of the candidates to x_i, nearest first."""
    identity = np.eye(X.shape[1])
    return sorted(candidates, key=lambda j: (sq_dist(identity, X, i, j), j))[:k]


def same_class(y, i):
    """Return the other samples of the class of i."""
    return [j for j in range(len(y)) if j != i and y[j] == y[i]]


def other_class(y, i):
    """Return the samples of the other classes."""
    return [j for j in range(len(y)) if y[j] != y[i]]


def inverse_root(A):
    """A^−½, symmetric."""
    return np.linalg.inv(np.real(sqrtm(A)))


def generalized_eigen(A, B):
    """Return λ, largest first, and columns v of A v = λ B v with vᵀBv = 1, by whitening with B."""
    root = inverse_root(B)
    whitened = root @ A @ root
    eigenvalues, vectors = np.linalg.eigh((whitened + whitened.T) / 2)
    return eigenvalues[::-1], (root @ vectors)[:, ::-1]


# GMML


def gmml(S, D, t):
    """S⁻¹ ♯_t D as S⁻¹ (S D)^t."""
    M = np.linalg.inv(S) @ np.real(fractional_matrix_power(S @ D, t))
    return (M + M.T) / 2


def gmml_objective(M, S, D):
    """tr(M S) + tr(M⁻¹ D), least at t = ½."""
    return float(np.trace(M @ S) + np.trace(np.linalg.inv(M) @ D))


def gmml_prior(S, D, prior, prior_weight):
    """S + λA₀⁻¹ and D + λA₀, which take the places of S and D."""
    return S + prior_weight * np.linalg.inv(prior), D + prior_weight * prior


def gmml_original_ridge(S, D, ridge=1e-6):
    """S + λI and D + λI if either is nearly singular, S and D otherwise: the authors' rule."""
    if min(1 / np.linalg.cond(S, 1), 1 / np.linalg.cond(D, 1)) < 1e-9:
        return S + ridge * np.eye(len(S)), D + ridge * np.eye(len(D))
    return S, D


# KISSME


def kissme_raw(S, D, weight=1.0):
    """S⁻¹ − λD⁻¹ for the covariances (means) of similar and dissimilar differences."""
    return np.linalg.inv(S) - weight * np.linalg.inv(D)


def clip_psd(M):
    """Negative eigenvalues to 0: the nearest positive semi-definite matrix."""
    total = np.zeros_like(M)
    for eigenvalue, v in zip(*eigenpairs(M), strict=True):
        total += max(eigenvalue, 0.0) * np.outer(v, v)
    return total


def lift_psd(M):
    """Eigenvalues up to 1e-10 to 1e-6, unless M is positive definite: the authors' projection."""
    pairs = list(zip(*eigenpairs(M), strict=True))
    if pairs[0][0] > 0:
        return M
    total = np.zeros_like(M)
    for eigenvalue, v in pairs:
        total += (1e-6 if eigenvalue <= 1e-10 else eigenvalue) * np.outer(v, v)
    return total


def eigenpairs(M):
    """Return eigenvalues, smallest first, and unit eigenvectors as rows."""
    eigenvalues, vectors = np.linalg.eigh((M + M.T) / 2)
    return eigenvalues, vectors.T


# DML-eig


def dml_eig_whitened(X, dissimilar, X_S):
    """X̃_τ = X_S^−½ A_τ X_S^−½ for all dissimilar pairs τ."""
    root = inverse_root(X_S)
    return [root @ outer_product(X, i, j) @ root for i, j in dissimilar]


def dml_eig_values(Z, whitened):
    """⟨X̃_τ, Z⟩ for all τ; equal to d_M² of the pair under the metric of Z."""
    return [float(np.trace(A @ Z)) for A in whitened]


def dml_eig_metric(Z, X_S):
    """X_S^−½ Z X_S^−½."""
    root = inverse_root(X_S)
    return root @ Z @ root


def f_mu(Z, whitened, mu, counts=None):
    """−μ ln Σ_τ c_τ exp(−⟨X̃_τ, Z⟩/μ), the smoothed minimum; all counts 1 by default."""
    values = dml_eig_values(Z, whitened)
    total = 0.0
    for p, value in enumerate(values):  # the least value is taken out to avoid underflow
        total += (1 if counts is None else counts[p]) * np.exp(-(value - min(values)) / mu)
    return float(min(values) - mu * np.log(total))


def f_mu_gradient(Z, whitened, mu, counts=None):
    """Σ_τ u_τ X̃_τ with u the softmax of −⟨X̃_τ, Z⟩/μ."""
    values = dml_eig_values(Z, whitened)
    total, gradient = 0.0, np.zeros_like(Z)
    for p, value in enumerate(values):
        u = (1 if counts is None else counts[p]) * np.exp(-(value - min(values)) / mu)
        gradient += u * whitened[p]
        total += u
    return gradient / total


def f_mu_gap(Z, whitened, mu, counts=None):
    """λ_max(∇f) − ⟨∇f, Z⟩, which bounds max f_μ − f_μ(Z) from above."""
    gradient = f_mu_gradient(Z, whitened, mu, counts)
    return float(np.linalg.eigvalsh(gradient)[-1] - np.trace(gradient @ Z))


def frank_wolfe(whitened, mu, n_steps, counts=None):
    """Return Z after each of the steps α_t = 2/(t + 1), t = 1, 2, …, from I/d."""
    d = len(whitened[0])
    Z, path = np.eye(d) / d, []
    for t in range(1, n_steps + 1):
        v = eigenpairs(f_mu_gradient(Z, whitened, mu, counts))[1][-1]
        Z = (1 - 2 / (t + 1)) * Z + 2 / (t + 1) * np.outer(v, v)
        path.append(Z)
    return path


# DMLMJ


def dmlmj_neighbors(X, y, k, k2=None):
    """Lists of the k nearest same-class and the k2 (default k) nearest other-class samples."""
    hits = [nearest(X, i, same_class(y, i), k) for i in range(len(X))]
    misses = [nearest(X, i, other_class(y, i), k if k2 is None else k2) for i in range(len(X))]
    return hits, misses


def neighbor_pairs(neighbors):
    """All (i, j) with j in the list of i."""
    return [(i, j) for i in range(len(neighbors)) for j in neighbors[i]]


def dmlmj_scatters(X, y, k, k2=None):
    """Σ_P and Σ_N, means over the differences to same-class and other-class neighbours."""
    hits, misses = dmlmj_neighbors(X, y, k, k2)
    return pair_covariance(X, neighbor_pairs(hits)), pair_covariance(X, neighbor_pairs(misses))


def dmlmj_original_ridge(A, alpha=1e-3):
    """(1 − α)A + αI if |det A| < 1e-10, A otherwise: the authors' rule."""
    if abs(np.linalg.det(A)) < 1e-10:
        return (1 - alpha) * A + alpha * np.eye(len(A))
    return A


def dmlmj_directions(sigma_p, sigma_n):
    """Return λ, scores λ + 1/λ and columns v of Σ_N v = λ Σ_P v, vᵀΣ_P v = 1, best score first.

    Ties of the scores go to the larger λ, then to the lower index.
    """
    eigenvalues, V = generalized_eigen(sigma_n, sigma_p)
    floor = len(V) * np.finfo(float).eps * max(eigenvalues)
    eigenvalues = np.array([max(value, floor) for value in eigenvalues])
    scores = np.array([value + 1 / value for value in eigenvalues])
    order = sorted(range(len(V)), key=lambda a: (-scores[a], -eigenvalues[a], a))
    return eigenvalues[order], scores[order], V[:, order]


def dmlmj(X, y, k, m, *, k2=None, reg=0.0):
    """M = Σ v vᵀ over the m directions of the best scores."""
    sigma_p, sigma_n = dmlmj_scatters(X, y, k, k2)
    V = dmlmj_directions(add_ridge(sigma_p, reg), add_ridge(sigma_n, reg))[2]
    return V[:, :m] @ V[:, :m].T


# LFDA


def lfda_affinities(X, y, k):
    """a_ij = exp(−‖x_i − x_j‖²/(σ_iσ_j)) inside classes; 0 across, and where a scale is 0.

    σ_i is the distance to the k-th neighbour in the class; a class of one has no affinity.
    """
    n, identity = len(X), np.eye(X.shape[1])
    sigma = np.zeros(n)
    for i in range(n):
        neighbors = nearest(X, i, same_class(y, i), k)
        if neighbors:
            sigma[i] = np.sqrt(sq_dist(identity, X, i, neighbors[-1]))
    a = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if y[i] == y[j] and sigma[i] * sigma[j] > 0:
                a[i, j] = np.exp(-sq_dist(identity, X, i, j) / (sigma[i] * sigma[j]))
    return a


def lfda_weights(a, y):
    """W^w and W^b, (n, n), from the affinities."""
    n = len(y)
    within, between = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        n_c = np.sum(y == y[i])
        for j in range(n):
            if y[i] == y[j]:
                within[i, j] = a[i, j] / n_c
                between[i, j] = a[i, j] * (1 / n - 1 / n_c)
            else:
                between[i, j] = 1 / n
    return within, between


def weighted_scatter(X, W):
    """½ Σ_ij W_ij A_ij."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for i in range(len(X)):
        for j in range(len(X)):
            total += 0.5 * W[i, j] * outer_product(X, i, j)
    return total


def lfda_scatters(X, y, k):
    """S_w and S_b."""
    within, between = lfda_weights(lfda_affinities(X, y, k), y)
    return weighted_scatter(X, within), weighted_scatter(X, between)


def lfda(X, y, k, r, embedding, *, reg=0.0):
    """M of the r largest λ of S_b v = λ S_w v, vᵀS_w v = 1, and of the embedding:

    Σ λ v vᵀ (weighted), Σ v vᵀ (plain) or the orthogonal projector on the v (orthonormalized).
    """
    S_w, S_b = lfda_scatters(X, y, k)
    eigenvalues, V = generalized_eigen(S_b, add_ridge(S_w, reg))
    eigenvalues, V = eigenvalues[:r], V[:, :r]
    if embedding == "weighted":
        return V @ np.diag([max(value, 0.0) for value in eigenvalues]) @ V.T
    if embedding == "plain":
        return V @ V.T
    if embedding == "orthonormalized":
        return V @ np.linalg.inv(V.T @ V) @ V.T
    raise ValueError(embedding)


# LMNN


def lmnn_targets(X, y, k):
    """Return the list of target neighbours of every sample; empty in a class of one."""
    return [nearest(X, i, same_class(y, i), k) for i in range(len(X))]


def lmnn_triplets(y, targets):
    """All (i, j, l) with j a target of i and l of another class."""
    return [(i, j, other) for i, j in neighbor_pairs(targets) for other in other_class(y, i)]


def lmnn_objective(M, X, y, targets, push_weight):
    """Return ε = (1 − μ) pull + μ push, pull, push and the number of active triplets."""
    pull, push, n_active = 0.0, 0.0, 0
    for i, j in neighbor_pairs(targets):
        pull += sq_dist(M, X, i, j)
    for i, j, other in lmnn_triplets(y, targets):
        hinge = 1 + sq_dist(M, X, i, j) - sq_dist(M, X, i, other)
        if hinge > 0:
            push += hinge
            n_active += 1
    return (1 - push_weight) * pull + push_weight * push, pull, push, n_active


def lmnn_subgradient(M, X, y, targets, push_weight):
    """(1 − μ) Σ A_ij + μ Σ_active (A_ij − A_il)."""
    total = (1 - push_weight) * pair_scatter(X, neighbor_pairs(targets))
    for i, j, other in lmnn_triplets(y, targets):
        if 1 + sq_dist(M, X, i, j) - sq_dist(M, X, i, other) > 0:
            total += push_weight * (outer_product(X, i, j) - outer_product(X, i, other))
    return total


# DML-dc


def hits_and_misses(M, X, y):
    """Return p, q and the indices of the hits and of the misses, all under M.

    p_i is the distance, not squared, to the nearest sample of the same class, q_i to that of the
    others. A sample alone in its class has p = nan and hit −1.
    """
    n = len(X)
    p, q = np.full(n, np.nan), np.full(n, np.nan)
    hits, misses = np.full(n, -1), np.full(n, -1)
    for i in range(n):
        for candidates, distance, index in (
            (same_class(y, i), p, hits),
            (other_class(y, i), q, misses),
        ):
            for j in candidates:
                d_ij = np.sqrt(max(sq_dist(M, X, i, j), 0.0))
                if index[i] == -1 or d_ij < distance[i]:
                    distance[i], index[i] = d_ij, j
    return p, q, hits, misses


def dmldc_objective(M, X, y, trace_weight, s):
    """F = λ tr M + (1/n) Σ_i min(1 − s, max(0, 1 − q_i + p_i)) over the samples with a hit."""
    p, q, hits, _ = hits_and_misses(M, X, y)
    total = 0.0
    for i in range(len(X)):
        if hits[i] >= 0:
            total += min(1 - s, max(0.0, 1 - q[i] + p[i]))
    return trace_weight * np.trace(M) + total / len(X)


def dmldc_parts(M, X, y, trace_weight, s):
    """Return the convex G = λ tr M + (1/n) Σ max(−p, 1 − q) and H = (1/n) Σ max(−p, s − q)."""
    p, q, hits, _ = hits_and_misses(M, X, y)
    G, H = 0.0, 0.0
    for i in range(len(X)):
        if hits[i] >= 0:
            G += max(-p[i], 1 - q[i])
            H += max(-p[i], s - q[i])
    return trace_weight * np.trace(M) + G / len(X), H / len(X)


def dmldc_subgradients(M, X, y, trace_weight, s):
    """Return subgradients of G and of H: −A/(2d) of the hit or of the miss that attains the max.

    The hit on ties; nothing where d ≤ 1e-6.
    """
    p, q, hits, misses = hits_and_misses(M, X, y)
    parts = []
    for offset in (1, s):
        total = np.zeros_like(M, dtype=float)
        for i in range(len(X)):
            if hits[i] < 0:
                continue
            d_ij, j = (p[i], hits[i]) if -p[i] >= offset - q[i] else (q[i], misses[i])
            if d_ij > 1e-6:
                total -= outer_product(X, i, j) / (2 * d_ij)
        parts.append(total / len(X))
    return trace_weight * np.eye(len(M)) + parts[0], parts[1]
