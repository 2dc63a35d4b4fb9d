"""What a metric is linear in: the features, or features and memberships in modes."""

from mdaml.basis.modes import Basis, Gates, find_basis

__all__ = ["Basis", "Gates", "find_basis"]
