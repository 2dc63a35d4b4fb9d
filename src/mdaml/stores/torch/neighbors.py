"""Neighbours of the same and of other classes, searched on a device.

Blocks of inner products say which few samples may be nearest; their distances are then computed by
differences, so that rounding of the products hardly decides about neighbours. All pairs are looked
at as long as they are few enough. Beyond that samples are sorted into cells around centres, and
each is compared with those of the cells nearest to its own: of so many cells that a sample of
exact searches finds the wanted share of the true neighbours there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from mdaml._typing import IntArray
from mdaml.constraints.labels import Classes

_BLOCK = 2**28  # distances at a time
_SPARE = 4  # more than are wanted, to be ordered by exact distances
_MOST_PAIRS = {True: 1e11, False: 5e9}  # all looked at: within classes no pair is in vain
_CELL = 1000  # samples of a cell, about
_N_STEPS = 10  # of k-means, on
_N_TAUGHT = 100  # samples for each centre
_N_TRIED = 1000  # samples whose neighbours are searched exactly, to see in how many cells they are


def nearest_places(
    Y: torch.Tensor, classes: Classes, n_similar: int, n_dissimilar: int, recall: float = 0.95
) -> tuple[IntArray, IntArray]:
    """Return the nearest places of each place in its class, and outside; -1 where there are fewer.

    ``Y`` holds the samples in the order of the places. Of each kind at least this share is found.
    """
    of = torch.tensor(classes.of, device=Y.device)
    norms = (Y * Y).sum(dim=1)
    found, cells = [], None
    for same, wanted in ((True, n_similar), (False, n_dissimilar)):
        n_pairs = np.square(classes.size.astype(float)).sum() if same else float(len(Y)) ** 2
        search = _Search(Y, norms, of, classes, same, wanted)
        if n_pairs <= _MOST_PAIRS[same]:
            places = search.exact()
        else:
            cells = make_cells(Y) if cells is None else cells
            places = search.in_cells(cells, recall)
        found.append(places.cpu().numpy())
    return found[0], found[1]


@dataclass(frozen=True)
class Cells:
    """Samples around centres."""

    order: torch.Tensor  # (n,) samples by cell
    starts: IntArray  # (n_cells + 1,) where in this order each cell begins
    of: torch.Tensor  # (n,) cell of each sample
    ranks: torch.Tensor  # (n_cells, n_cells) cells by distance from each, the nearest first


def make_cells(Y: torch.Tensor) -> Cells:
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
    return Cells(order, np.concatenate([[0], np.cumsum(counts)]), of, ranks)


@dataclass(frozen=True)
class _Search:
    """The nearest samples of the own class, but oneself, or of all others."""

    Y: torch.Tensor  # (n, r)
    norms: torch.Tensor  # (n,)
    of: torch.Tensor  # (n,)
    classes: Classes
    same: bool
    wanted: int

    def exact(self) -> torch.Tensor:
        """Look at all pairs."""
        everyone = torch.arange(len(self.Y), device=self.Y.device)
        if not self.same:
            return self._among(everyone, everyone)
        bounds = zip(self.classes.first, self.classes.size, strict=True)
        return torch.cat(
            [self._among(*2 * (everyone[first : first + size],)) for first, size in bounds]
        )

    def in_cells(self, cells: Cells, recall: float) -> torch.Tensor:
        """Look at pairs within the nearest cells; where these hold too few, at all."""
        n_cells = self._cells_needed(cells, recall)
        found = torch.full((len(self.Y), self.wanted), -1, device=self.Y.device)
        nearest_cells = cells.ranks[:, :n_cells].tolist()
        for cell, ranges in enumerate(nearest_cells):
            own = cells.order[cells.starts[cell] : cells.starts[cell + 1]]
            if len(own):
                parts = [cells.order[cells.starts[c] : cells.starts[c + 1]] for c in ranges]
                found[own] = self._among(own, torch.cat(parts))
        size = self.classes.size
        others = torch.tensor(size - 1 if self.same else len(self.Y) - size).to(self.of)[self.of]
        short = torch.nonzero((found >= 0).sum(dim=1) < others.clamp(max=self.wanted))[:, 0]
        if len(short):
            found[short] = self._among(short, torch.arange(len(self.Y), device=self.Y.device))
        return found

    def _cells_needed(self, cells: Cells, recall: float) -> int:
        """Return how many cells hold this share of the true neighbours of some samples."""
        rng = torch.Generator().manual_seed(1)  # not those that the cells were begun with
        tried = torch.randperm(len(self.Y), generator=rng)[:_N_TRIED].to(self.Y.device)
        true = self._among(tried, torch.arange(len(self.Y), device=self.Y.device))
        places = torch.argsort(cells.ranks, dim=1)  # of each cell, seen from each
        at = places[cells.of[tried][:, None], cells.of[true.clamp(min=0)]]
        at = at[true >= 0].float()
        return 1 + int(torch.quantile(at, recall, interpolation="higher")) if len(at) else 1

    def _among(self, queries: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """Return the nearest of some candidates to each of some samples."""
        found = []
        for some in _blocks(queries, len(candidates)):
            # Half of the squared distance, less what all candidates of a query have in common.
            dists = torch.addmm(
                0.5 * self.norms[candidates][None], self.Y[some], self.Y[candidates].T, alpha=-1.0
            )
            alike = self.of[some][:, None] == self.of[candidates][None]
            dists.masked_fill_(~alike if self.same else alike, torch.inf)
            n_kept = min(self.wanted + _SPARE, len(candidates))
            values, kept = dists.topk(n_kept, dim=1, largest=False, sorted=False)
            found.append(self._ordered(some, candidates[kept], values < torch.inf))
        return torch.cat(found)

    def _ordered(
        self, queries: torch.Tensor, kept: torch.Tensor, usable: torch.Tensor
    ) -> torch.Tensor:
        """Return the nearest of few candidates by distances computed from differences."""
        exact = ((self.Y[kept] - self.Y[queries][:, None]) ** 2).sum(dim=2)
        exact[~usable | (kept == queries[:, None])] = torch.inf
        values, order = exact.sort(dim=1, stable=True)
        best = torch.where(values < torch.inf, kept.gather(1, order), -1)[:, : self.wanted]
        missing = self.wanted - best.shape[1]
        return torch.nn.functional.pad(best, (0, missing), value=-1) if missing else best


def _own_cells(Y: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Return the nearest centre of each sample, up to rounding."""
    half = 0.5 * (centers * centers).sum(dim=1)
    parts = Y.split(max(_BLOCK // len(centers), 1))
    return torch.cat([(half - some @ centers.T).argmin(dim=1) for some in parts])


def _blocks(queries: torch.Tensor, n_candidates: int) -> Iterator[torch.Tensor]:
    """Cut queries so that their distances to candidates fit."""
    return iter(queries.split(max(_BLOCK // max(n_candidates, 1), 1)))
