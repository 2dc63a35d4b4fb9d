"""Optima of the convex problems of the baselines, by the interior-point solver Clarabel.

They share no code with the library or with ``literal_baselines``. A symmetric matrix M is packed as
the solver wants it: upper triangle, column by column, off-diagonal entries times √2, so that
``pack(A) @ pack(M)`` is ⟨A, M⟩. For a few dozen samples: the problems are stored densely.
"""

import clarabel
import numpy as np
from scipy.sparse import csc_array


def pack(A):
    """Return the vector of a symmetric matrix."""
    return np.array(
        [A[p, q] * (1 if p == q else np.sqrt(2)) for q in range(len(A)) for p in range(q + 1)]
    )


def unpack(vector, d):
    """Return the (d, d) matrix whose vector is given."""
    M = np.zeros((d, d))
    entries = iter(vector)
    for q in range(d):
        for p in range(q + 1):
            M[p, q] = M[q, p] = next(entries) / (1 if p == q else np.sqrt(2))
    return M


def packed_outer(X, i, j):
    """pack(A_ij)."""
    return pack(np.outer(X[i] - X[j], X[i] - X[j]))


def minimise(cost, *conditions):
    """Return the minimum of cost·x and x, where rows·x + offset lies in the cone of each condition.

    A condition is (cone, rows, offset). Relative accuracy 1e-10, at worst 1e-6.
    """
    rows = np.vstack([rows for _, rows, _ in conditions])
    offset = np.concatenate([np.broadcast_to(b, len(rows)) for _, rows, b in conditions])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for tolerance in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, tolerance, 1e-10)
        setattr(settings, f"reduced_{tolerance}", 1e-6)  # where rounding stops it: AlmostSolved
    solution = clarabel.DefaultSolver(
        csc_array((len(cost), len(cost))),
        np.asarray(cost, dtype=float),
        csc_array(-rows),
        np.asarray(offset, dtype=float),
        [cone for cone, _, _ in conditions],
        settings,
    ).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise RuntimeError(f"Clarabel ended with {solution.status}.")
    return solution.obj_val, np.array(solution.x)


def selectors(*sizes):
    """Return one matrix per size that picks that block of the variables."""
    return np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1])


def lmnn_optimum(X, y, targets, push_weight):
    """Return (value, M) of min over M ⪰ 0 of (1 − μ) pull + μ push.

    Variables: M and one slack ξ ≥ 0, ξ ≥ 1 + ⟨A_ij − A_il, M⟩ per target pair and impostor.
    """
    d, pull, gaps = X.shape[1], 0, []
    for i in range(len(X)):
        for j in targets[i]:
            near = packed_outer(X, i, j)
            pull = pull + near
            gaps += [near - packed_outer(X, i, r) for r in range(len(X)) if y[r] != y[i]]
    M, slack = selectors(len(pull), len(gaps))
    value, x = minimise(
        (1 - push_weight) * pull @ M + push_weight * slack.sum(axis=0),
        (clarabel.PSDTriangleConeT(d), M, 0),
        (clarabel.NonnegativeConeT(len(gaps)), slack, 0),
        (clarabel.NonnegativeConeT(len(gaps)), slack - np.array(gaps) @ M, -1),
    )
    return value, unpack(M @ x, d)


def dml_eig_optimum(X, similar, dissimilar):
    """Return (value, M) of max over M ⪰ 0 of min_D d_M², subject to Σ_S d_M² ≤ 1.

    Variables: |S| M, which keeps them near 1, and |S| times the minimum.
    """
    d, n = X.shape[1], len(similar)
    mean = sum(packed_outer(X, i, j) for i, j in similar) / n
    apart = np.array([packed_outer(X, i, j) for i, j in dissimilar])
    M, least = selectors(len(mean), 1)
    value, x = minimise(
        -least[0],
        (clarabel.PSDTriangleConeT(d), M, 0),
        (clarabel.NonnegativeConeT(len(apart)), apart @ M - least, 0),
        (clarabel.NonnegativeConeT(1), -mean[None] @ M, 1),
    )
    return -value / n, unpack(M @ x, d) / n


def dml_eig_smoothed_optimum(X, similar, dissimilar, mu):
    """Return (value, M) of max over M ⪰ 0, Σ_S d_M² = 1, of f_μ = −μ ln Σ_D exp(−d_M²/μ).

    Variables: |S| M, |S| times the value f, and e ≥ exp((f − d_M²)/μ) per pair with Σ e ≤ 1.
    """
    d, n = X.shape[1], len(similar)
    mean = sum(packed_outer(X, i, j) for i, j in similar) / n
    M, f, e = selectors(len(mean), 1, len(dissimilar))
    exponentials = []
    for (i, j), bound in zip(dissimilar, e, strict=True):
        exponent = (f[0] - packed_outer(X, i, j) @ M) / (n * mu)
        rows = np.array([exponent, np.zeros_like(bound), bound])
        exponentials.append((clarabel.ExponentialConeT(), rows, [0, 1, 0]))
    value, x = minimise(
        -f[0],
        (clarabel.PSDTriangleConeT(d), M, 0),
        (clarabel.ZeroConeT(1), mean[None] @ M, -1),
        (clarabel.NonnegativeConeT(1), -e.sum(axis=0)[None], 1),
        *exponentials,
    )
    return -value / n, unpack(M @ x, d) / n


def dmldc_step(X, y, U, trace_weight):
    """Return (value, M) of min over M ⪰ 0 of G(M) − ⟨M, U⟩, one exact step of DML-dc.

    Variables: M, distances r_ij ≤ √⟨A_ij, M⟩, and z_i ≥ −r_ij for hits, z_i ≥ 1 − r_il for misses.
    """
    n, d = X.shape
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    anchors = [i for i in range(n) if np.sum(y == y[i]) > 1]
    M, r, z = selectors(d * (d + 1) // 2, len(pairs), len(anchors))
    distance, roots = {}, []
    for (i, j), root in zip(pairs, r, strict=True):
        distance[i, j] = distance[j, i] = root
        square = packed_outer(X, i, j) @ M
        # root² ≤ square as ‖(2 root, 1 − square)‖ ≤ 1 + square
        rows = np.array([square, 2 * root, -square])
        roots.append((clarabel.SecondOrderConeT(3), rows, [1, 0, 1]))
    rows, offset = [], []
    for i, bound in zip(anchors, z, strict=True):
        for j in range(n):
            if j != i:
                rows.append(bound + distance[i, j])
                offset.append(0 if y[j] == y[i] else -1)
    value, x = minimise(
        pack(trace_weight * np.eye(d) - U) @ M + z.sum(axis=0) / n,
        (clarabel.PSDTriangleConeT(d), M, 0),
        (clarabel.NonnegativeConeT(len(rows)), np.array(rows), offset),
        *roots,
    )
    return value, unpack(M @ x, d)
