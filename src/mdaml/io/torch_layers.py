"""Layers of torch that exported models are made of; imported where torch is needed only."""

import torch


class RowNorm(torch.nn.Module):
    """Divide every row by its norm; rows of zeros stay so."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.power = {"l1": 1.0, "l2": 2.0, "max": float("inf")}[norm]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rows at length one."""
        tiny = torch.finfo(X.dtype).tiny
        return torch.nn.functional.normalize(X, p=self.power, dim=-1, eps=tiny)
