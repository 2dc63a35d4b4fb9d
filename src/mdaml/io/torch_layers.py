"""Layers of torch that exported models are made of; imported where torch is needed only."""

from typing import Any

import torch

from mdaml.io.preparation import Preparation


class Columns(torch.nn.Module):
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

    def read(self, table: Any) -> torch.Tensor:
        """Return numbers as they are, categories by their place, -1 for others, NaN for gaps."""
        return torch.tensor(self._known.read(table), dtype=self.fills.dtype)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the features."""
        X = torch.where(torch.isnan(X), self.fills, X)
        parts = list[torch.Tensor]()
        for n, places in enumerate(self.places):
            column = X[:, n : n + 1]
            known = torch.tensor(places, dtype=X.dtype, device=X.device)
            parts.append((column == known).to(X.dtype) if places else column)
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
