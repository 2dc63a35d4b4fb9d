"""Samples and comparisons as tensors on a device, samples in single precision."""

from mdaml.stores.torch.store import TorchStore

__all__ = ["TorchStore"]
