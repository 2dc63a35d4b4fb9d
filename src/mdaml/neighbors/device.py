"""Neighbours of the same and of other classes, searched on a device.

Inner products say which few groups of samples may hold the nearest ones: as many groups as
neighbours are wanted, since each of these is in a group whose least distance is no greater than the
last one's. The distances of their members are then computed by differences, so that rounding of the
products hardly matters. On a GPU the products are in half precision if that finds the neighbours of
a few samples as well as single precision does. All pairs are compared if they are few enough.
Otherwise samples are sorted into cells around centres, and each is compared with those of the
cells nearest to its own: of so many cells that a sample of exact searches finds the wanted share of
the true neighbours there.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module, util
from types import ModuleType
from typing import TypeAlias

import numpy as np
import torch
from torch.nn.functional import pad

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.pairs import pair_sq_dists as host_sq_dists

MAX_BLOCK = 2**25  # entries of the largest temporary array of a pass over pairs
_BLOCK = 2**28  # values of a search at a time
_MOST_QUERIES = 2**14  # at a time
_SPARE = 4  # more than are wanted, to be ordered by exact distances
_PLACE, _MOST_MEMBERS = 128, 64  # every 128th sample is in the same group, at most 64 of them
_MANY_GROUPS = 4096  # fewer only if there are few samples: members are compared once more
_MOST_PRODUCTS = {True: 1e15, False: 1e12}  # of pairs and features, with and without Triton
_ENOUGH = 0.995  # share of the neighbours that products of half precision must find
_CELL = 1000  # samples of a cell, about
_N_STEPS = 10  # of k-means, on
_N_TAUGHT = 100  # samples for each centre
_N_TRIED = 1000  # samples whose neighbours are searched in single precision among all


def nearest_places(
    Y: torch.Tensor, bounds: IntArray, wanted: tuple[int, int], recall: float = 0.95
) -> tuple[IntArray, IntArray]:
    """Return the nearest places of each place in its class, and outside; -1 where there are fewer.

    ``Y`` holds the samples in the order of the places. Of each kind at least this share is found.
    """
    of = torch.tensor(bounds[:, 0], device=Y.device).int()
    found, cells = [], None
    for same, n_nearest in ((True, wanted[0]), (False, wanted[1])):
        size = (bounds[:, 1] - bounds[:, 0]).astype(float) if same else np.full(len(Y), len(Y))
        search = DeviceSearch(Y, of, bounds, same, n_nearest)
        if float(size.sum()) * Y.shape[1] <= _MOST_PRODUCTS[_fused(Y) is not None]:
            places = search.exact()
        else:
            cells = make_cells(Y) if cells is None else cells
            places = search.in_cells(cells, recall)
        found.append(places.cpu().numpy())
    return found[0], found[1]


def nearest(
    Z: FloatArray, bounds: IntArray, _rows: IntArray, n_nearest: int, *, same: bool, device: str
) -> tuple[IntArray, FloatArray]:
    """Do what :func:`mdaml.kernels.neighbors.nearest` does, on a device, for few enough pairs.

    Which are near is decided in single precision, ties go to the lower place, whatever its row.
    """
    Y = torch.tensor(Z, device=device).float()
    of = torch.tensor(bounds[:, 0], device=device).int()
    found = DeviceSearch(Y, of, bounds, same, n_nearest).exact().cpu().numpy()
    pairs_found = np.column_stack([np.repeat(np.arange(len(Z)), n_nearest), found.ravel()])
    sq_dists = host_sq_dists(Z, np.maximum(pairs_found, 0)).reshape(found.shape)
    return found, np.where(found >= 0, sq_dists, np.inf)


@dataclass(frozen=True)
class Gallery:
    """Queries and the rows among which their nearest are searched, under any number of metrics."""

    rows: torch.Tensor  # (n_queries + n_rows, d) the queries first
    n_queries: int

    @classmethod
    def on(cls, queries: FloatArray, gallery: FloatArray, device: str) -> "Gallery":
        """Copy queries and gallery to a device, less the mean of the gallery."""
        mean = gallery.mean(axis=0)
        rows = np.concatenate([queries - mean, gallery - mean], dtype=np.float32)
        return cls(torch.tensor(rows, device=device), len(queries))

    def nearest(self, n_nearest: int, F: FloatArray | None = None) -> IntArray:
        """Return the nearest rows of each query under the metric of F, ties to the earlier row."""
        n, device = self.n_queries, self.rows.device
        Y = self.rows if F is None else self.rows @ torch.tensor(F).to(self.rows)
        # Two classes, of which each looks in the other one.
        bounds = np.repeat([[0, n], [n, len(Y)]], [n, len(Y) - n], axis=0)
        of = torch.tensor(bounds[:, 0], device=device).int()
        search = DeviceSearch(Y, of, bounds, False, min(n_nearest, len(Y) - n))
        everyone = torch.arange(n, device=device)
        return search.among(everyone, slice(n, None)).cpu().numpy() - n


# Samples around centres: (n,) samples by cell, (n_cells + 1,) where in this order each cell begins,
# (n,) cell of each sample, (n_cells, n_cells) cells by distance from each, the nearest first.
CenterCells: TypeAlias = tuple[torch.Tensor, IntArray, torch.Tensor, torch.Tensor]


def make_cells(Y: torch.Tensor) -> CenterCells:
    """Sort samples into cells by k-means, the centres found on a part of them."""
    n_cells = max(len(Y) // _CELL, 1)
    rng = torch.Generator().manual_seed(0)
    some = torch.randperm(len(Y), generator=rng)[: n_cells * _N_TAUGHT].to(Y.device)
    taught = Y[some]
    centers = taught[:n_cells].clone()
    for _ in range(_N_STEPS):
        own = _own_cells(taught, centers)
        sums = torch.zeros_like(centers).index_add_(0, own, taught)
        counts = torch.bincount(own, minlength=n_cells)[:, None]
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers)
    of = _own_cells(Y, centers)
    order = torch.argsort(of, stable=True)
    counts = torch.bincount(of, minlength=n_cells).cpu().numpy()
    ranks = torch.cdist(centers, centers).argsort(dim=1)
    return order, np.concatenate([[0], np.cumsum(counts)]), of, ranks


@dataclass(frozen=True)
class _Points:
    """Samples as the products take them."""

    rows: torch.Tensor  # (n, r), perhaps in half precision
    half_norms: torch.Tensor  # (n,) of these
    of: torch.Tensor  # (n,)

    def __getitem__(self, some: slice | torch.Tensor) -> "_Points":
        return _Points(self.rows[some], self.half_norms[some], self.of[some])

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class DeviceSearch:
    """The nearest samples of the own class, but oneself, or of all others."""

    Y: torch.Tensor  # (n, r)
    of: torch.Tensor  # (n,)
    bounds: IntArray  # (n, 2) of the class of each sample
    same: bool
    wanted: int

    def exact(self) -> torch.Tensor:
        """Look at all pairs; within classes in blocks of samples that lie side by side."""
        n, found = len(self.Y), []
        everyone = torch.arange(n, device=self.Y.device)
        for begin in range(0, n, _MOST_QUERIES):
            end = min(begin + _MOST_QUERIES, n)
            first, last = 0, n
            if self.same:
                first, last = self.bounds[begin, 0], self.bounds[end - 1, 1]
            found.append(self.among(everyone[begin:end], slice(first, last)))
        return torch.cat(found)

    def in_cells(self, cells: CenterCells, recall: float) -> torch.Tensor:
        """Look at pairs within the nearest cells; where these hold too few, at all."""
        n_cells = self._cells_needed(cells, recall)
        found = torch.full((len(self.Y), self.wanted), -1, device=self.Y.device)
        order, starts, _, ranks = cells
        nearest_cells = ranks[:, :n_cells].tolist()
        for cell, ranges in enumerate(nearest_cells):
            own = order[starts[cell] : starts[cell + 1]]
            if len(own):
                parts = [order[starts[c] : starts[c + 1]] for c in ranges]
                found[own] = self.among(own, torch.cat(parts))
        size = self.bounds[:, 1] - self.bounds[:, 0]
        others = torch.tensor(size - 1 if self.same else len(self.Y) - size).to(self.of)
        short = (found >= 0).sum(dim=1) < others.clamp(max=self.wanted)
        if short.any():
            found[short] = self.among(torch.nonzero(short)[:, 0], slice(None))
        return found

    def _cells_needed(self, cells: CenterCells, recall: float) -> int:
        """Return how many cells hold this share of the true neighbours of some samples."""
        (tried, true), (_, _, of, ranks) = self._tried, cells
        places = torch.argsort(ranks, dim=1)  # of each cell, seen from each
        at = places[of[tried][:, None], of[true.clamp(min=0)]]
        at = at[true >= 0].float()
        return 1 + int(torch.quantile(at, recall, interpolation="higher")) if len(at) else 1

    @cached_property
    def _points(self) -> _Points:
        """The samples in half precision, if that finds the neighbours of some of them."""
        if _fused(self.Y) is None:
            return self._single
        largest = self.Y.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
        half = _as_points((self.Y / 2.0 ** torch.ceil(torch.log2(largest))).half(), self.of)
        tried, true = self._tried
        ours = self.among(tried, slice(None), half)
        hits = (ours[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)
        return half if hits.sum() >= _ENOUGH * (true >= 0).sum() else self._single

    @cached_property
    def _single(self) -> _Points:
        return _as_points(self.Y, self.of)

    @cached_property
    def _tried(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Some samples, and their neighbours by products in single precision."""
        rng = torch.Generator().manual_seed(1)  # not those that the cells were begun with
        tried = torch.randperm(len(self.Y), generator=rng)[:_N_TRIED].to(self.Y.device)
        return tried, self.among(tried, slice(None), self._single)

    def among(
        self, queries: torch.Tensor, candidates: slice | torch.Tensor, points: _Points | None = None
    ) -> torch.Tensor:
        """Return the nearest of some candidates, a slice or places, to each of some samples."""
        points = self._points if points is None else points
        there = points[candidates]
        size = min(max(len(there) // _MANY_GROUPS, 1), _MOST_MEMBERS)
        n_groups = _PLACE * -(-len(there) // (_PLACE * size))
        n_kept = min(self.wanted + self.same + _SPARE, n_groups)
        members = torch.arange(size, device=self.Y.device) * _PLACE
        n_values = max(n_groups, 4 * n_kept * size) if _fused(self.Y) else len(there)
        at_once = max(_BLOCK // n_values, 1)
        found = []
        for some in queries.split(min(at_once, _MOST_QUERIES)):
            least = group_minima(points[some], there, self.same, size)
            groups = least.topk(n_kept, dim=1, largest=False, sorted=False).indices
            firsts = groups // _PLACE * (_PLACE * size) + groups % _PLACE
            kept = (firsts[:, :, None] + members).flatten(1)
            usable = kept < len(there)
            kept = kept.clamp(max=len(there) - 1)
            if isinstance(candidates, slice):
                kept += candidates.start or 0
            else:
                kept = candidates[kept]
            found.append(self._ordered(some, kept, usable))
        return torch.cat(found)

    def _ordered(
        self, queries: torch.Tensor, kept: torch.Tensor, usable: torch.Tensor
    ) -> torch.Tensor:
        """Return the nearest of few candidates by distances computed from differences."""
        alike = self.of[kept] == self.of[queries][:, None]
        usable &= (alike == self.same) & (kept != queries[:, None])
        both = torch.stack([queries[:, None].expand_as(kept), kept], dim=2).view(-1, 2)
        ones = torch.ones((1, self.Y.shape[1]), device=self.Y.device, dtype=self.Y.dtype)
        dists = pair_sq_dists(self.Y, both, ones)[0].view(kept.shape)
        dists = dists.masked_fill(~usable, torch.inf)
        n_best = min(self.wanted + _SPARE, kept.shape[1])
        best = dists.topk(n_best, dim=1, largest=False, sorted=False).indices
        # Of equal distances the lower place comes first.
        places, order = kept.gather(1, best).sort(dim=1)
        values, by_value = dists.gather(1, best.gather(1, order)).sort(dim=1, stable=True)
        places = torch.where(values < torch.inf, places.gather(1, by_value), -1)
        missing = max(self.wanted - n_best, 0)
        return pad(places[:, : self.wanted], (0, missing), value=-1)


def _as_points(rows: torch.Tensor, of: torch.Tensor) -> _Points:
    return _Points(rows, 0.5 * rows.float().square().sum(dim=1), of)


def has_gpu() -> bool:
    """Return whether torch finds a GPU."""
    return bool(torch.cuda.is_available())


@cache
def load_triton(name: str) -> ModuleType | None:
    """Return a module of kernels in Triton, or None where Triton is absent."""
    if util.find_spec("triton") is None:
        return None
    return import_module(f"mdaml.kernels.{name}")


def triton_pairs(Y: torch.Tensor) -> ModuleType | None:
    """Return the passes over pairs in Triton, if they can work on Y, or None."""
    return load_triton("triton_pairs") if Y.is_cuda and Y.dtype == torch.float32 else None


def pair_sq_dists(Y: torch.Tensor, pairs: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """``sum_c scales[s, c] (y_ic - y_jc)**2`` for every row s of scales and every pair, (S, P)."""
    fused = triton_pairs(Y)
    if fused is not None and len(scales) in (1, 4):
        return fused.pair_sq_dists(Y, pairs, scales)
    out = Y.new_empty((len(scales), len(pairs)))
    for begin, end in blocks(len(pairs), Y.shape[1]):
        i, j = pairs[begin:end].T
        difference = Y.index_select(0, i) - Y.index_select(0, j)
        out[:, begin:end] = scales @ difference.square_().T
    return out


def blocks(n: int, width: int) -> list[tuple[int, int]]:
    """Cut n items, each of some entries, so that a block has at most ``MAX_BLOCK`` entries."""
    step = block_length(width)
    return [(begin, min(begin + step, n)) for begin in range(0, n, step)]


def block_length(width: int) -> int:
    """Return how many items of some entries make a block."""
    return max(MAX_BLOCK // max(width, 1), 1)


def _fused(Y: torch.Tensor) -> ModuleType | None:
    """Return the search in Triton, if it can work on Y, or None."""
    can = Y.is_cuda and Y.dtype in (torch.float16, torch.float32)
    return load_triton("triton_neighbors") if can else None


def group_minima(queries: _Points, candidates: _Points, same: bool, size: int) -> torch.Tensor:
    """Return half of the least squared distance to each group of candidates, less what all share.

    The candidates are cut into slabs of ``size`` tiles of 128; a group is those at the same place
    of the tiles of a slab. Only candidates of the own class count, or only those of others.
    """
    fused = _fused(queries.rows)
    if fused is not None:
        return fused.group_minima(
            queries.rows,
            candidates.rows,
            candidates.half_norms,
            queries.of,
            candidates.of,
            same=same,
            size=size,
            place=_PLACE,
        )
    dists = torch.addmm(candidates.half_norms[None], queries.rows, candidates.rows.T, alpha=-1.0)
    alike = queries.of[:, None] == candidates.of[None]
    dists.masked_fill_(~alike if same else alike, torch.inf)
    dists = pad(dists, (0, -len(candidates) % (_PLACE * size)), value=torch.inf)
    return dists.view(len(queries), -1, size, _PLACE).amin(dim=2).flatten(1)


def _own_cells(Y: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Return the nearest centre of each sample, up to rounding."""
    half = 0.5 * (centers * centers).sum(dim=1)
    parts = Y.split(max(_BLOCK // len(centers), 1))
    return torch.cat([(half - some @ centers.T).argmin(dim=1) for some in parts])
