"""Which groups of candidates may hold the nearest ones, on a GPU, in Triton.

The twin of the function of the same name in :mod:`mdaml.neighbors.device`. Products are never
written: a program goes over tiles of candidates and keeps the least value at each place of a tile.
"""

import torch
import triton
import triton.language as tl

_RESIDENT = {torch.float16: 128, torch.float32: 32}  # features of queries that are loaded once
_CHUNK = {torch.float16: 64, torch.float32: 32}  # features at a time, if there are more


def group_minima(queries, candidates, half_norms, of_queries, of_candidates, *, same, size, place):
    """Return the least ``half_norm - q.c`` of each group of candidates, (n, groups)."""
    n, d = queries.shape
    chunk = max(triton.next_power_of_2(d), 16)
    # On an H200 10^6 candidates of 128 features took 402 Tflop/s so, of 768 features 462.
    n_rows, n_warps, n_stages = 64, 4, 3
    if chunk > _RESIDENT[queries.dtype]:
        chunk, n_rows, n_warps, n_stages = _CHUNK[queries.dtype], 128, 8, 4
    n_slabs = triton.cdiv(len(candidates), place * size)
    n_blocks = triton.cdiv(n, n_rows)
    out = torch.empty((n, place * n_slabs), dtype=torch.float32, device=queries.device)
    _group_minima[(n_blocks * n_slabs,)](
        queries,
        candidates,
        half_norms,
        of_queries,
        of_candidates,
        out,
        n,
        len(candidates),
        d,
        n_blocks,
        n_slabs,
        size,
        SAME=same,
        QUERIES=n_rows,
        PLACE=place,
        CHUNK=chunk,
        N_CHUNKS=triton.cdiv(d, chunk),
        PRECISION="tf32" if queries.dtype == torch.float16 else "tf32x3",
        num_warps=n_warps,
        num_stages=n_stages,
    )
    return out


@triton.jit
def _group_minima(
    queries,
    candidates,
    half_norms,
    of_queries,
    of_candidates,
    out,
    n_queries,
    n_candidates,
    d,
    n_blocks,
    n_slabs,
    size,
    SAME: tl.constexpr,
    QUERIES: tl.constexpr,
    PLACE: tl.constexpr,
    CHUNK: tl.constexpr,
    N_CHUNKS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # All blocks of queries go over one slab of candidates before the next: it stays in the cache.
    q = (tl.program_id(0) % n_blocks) * QUERIES + tl.arange(0, QUERIES)
    slab = tl.program_id(0) // n_blocks
    real = q < n_queries
    from_q = tl.minimum(q, n_queries - 1).to(tl.int64)[:, None] * d
    class_q = tl.load(of_queries + q, mask=real, other=-1)
    k = tl.arange(0, CHUNK)
    if N_CHUNKS == 1:
        a = tl.load(queries + from_q + k[None, :], mask=(k < d)[None, :], other=0.0)
    least = tl.full([QUERIES, PLACE], float("inf"), dtype=tl.float32)
    products = tl.zeros([QUERIES, PLACE], dtype=tl.float32)
    for step in range(0, size * N_CHUNKS):
        c = (slab * size + step // N_CHUNKS) * PLACE + tl.arange(0, PLACE)
        from_c = tl.minimum(c, n_candidates - 1).to(tl.int64)[None, :] * d
        if N_CHUNKS == 1:
            b = tl.load(candidates + from_c + k[:, None], mask=(k < d)[:, None], other=0.0)
            products = tl.dot(a, b, input_precision=PRECISION)
        else:
            at = (step % N_CHUNKS) * CHUNK + k
            a = tl.load(queries + from_q + at[None, :], mask=(at < d)[None, :], other=0.0)
            b = tl.load(candidates + from_c + at[:, None], mask=(at < d)[:, None], other=0.0)
            products = tl.dot(a, b, products, input_precision=PRECISION)
        if step % N_CHUNKS == N_CHUNKS - 1:
            halves = tl.load(half_norms + c, mask=c < n_candidates, other=float("inf"))
            class_c = tl.load(of_candidates + c, mask=c < n_candidates, other=-2)
            wanted = (class_q[:, None] == class_c[None, :]) == SAME
            values = tl.where(wanted, halves[None, :] - products, float("inf"))
            least = tl.minimum(least, values)
            if N_CHUNKS > 1:
                products = tl.zeros([QUERIES, PLACE], dtype=tl.float32)
    at = q.to(tl.int64)[:, None] * (n_slabs * PLACE) + slab * PLACE
    tl.store(out + at + tl.arange(0, PLACE)[None, :], least, mask=real[:, None])
