"""Layers of torch that exported models are made of; imported where torch is needed only."""

import numpy as np
import torch

from mdaml._typing import Matrix
from mdaml.io.places import PlacesMap
from mdaml.io.preparation import Preparation


class TableColumns(torch.nn.Module):
    """Make features of the columns of a table: fill empty cells, and tell categories apart.

    The input has one number for each cell, as :meth:`read` returns it.
    """

    fills: torch.Tensor

    def __init__(self, known: Preparation, fills: torch.Tensor) -> None:
        super().__init__()
        self._known = known
        self.places = [
            list(known.find_places(name)) if name in known.categories else []
            for name in known.columns
        ]
        self.register_buffer("fills", fills)

    def read(self, table: Matrix) -> torch.Tensor:
        """Return numbers as they are, categories by their place, -1 for others, NaN for gaps."""
        return torch.tensor(self._known.read(table), dtype=self.fills.dtype)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the features."""
        X = torch.where(torch.isnan(X), self.fills, X)
        parts = list[torch.Tensor]()
        for n, places in enumerate(self.places):
            column = X[:, n : n + 1]
            known = torch.tensor(places, dtype=X.dtype, device=X.device)
            # A gap that nothing is known for stays one: NaN - NaN is NaN.
            indicators = (column == known).to(X.dtype) + (column - column)
            parts.append(indicators if places else column)
        return torch.cat(parts, dim=1)


class RowNorm(torch.nn.Module):
    """Divide every row by its norm; rows of zeros stay so."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.power = {"l1": 1.0, "l2": 2.0, "max": float("inf")}[norm]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rows at length one."""
        tiny = torch.finfo(X.dtype).tiny
        return torch.nn.functional.normalize(X, p=self.power, dim=-1, eps=tiny)


class Places(torch.nn.Module):
    """``[x, g(u(k(x)))] L^T`` of rows ``x = X A^T + a``; see :mod:`mdaml.io.places`."""

    def __init__(self, steps: PlacesMap, precision: np.dtype[np.floating]) -> None:
        super().__init__()
        self.widths = steps.landmarks.width, steps.modes.width
        parts = {"A": steps.A, "a": steps.a, "U": steps.U, "L": steps.L}
        for name, of in (("landmarks", steps.landmarks), ("modes", steps.modes)):
            parts[f"{name}_middle"] = of.centers.mean(axis=0)
            parts[name] = of.centers - parts[f"{name}_middle"]
        for name, value in parts.items():
            self.register_buffer(name, torch.tensor(np.ascontiguousarray(value, precision)))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rows in the learned space."""
        x = X @ self.A.T + self.a
        near = _closeness(x - self.landmarks_middle, self.landmarks, self.widths[0])
        g = _closeness(near @ self.U.T - self.modes_middle, self.modes, self.widths[1])
        return torch.cat([x, g], dim=-1) @ self.L.T


def _closeness(rows: torch.Tensor, centers: torch.Tensor, width: float) -> torch.Tensor:
    squares = rows.square().sum(-1, keepdim=True) + centers.square().sum(-1)
    return torch.exp((squares - 2.0 * rows @ centers.T).clamp(min=0.0) / -width)
