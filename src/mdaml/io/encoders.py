"""A matrix as a layer of encoders: safetensors files and folders of sentence-transformers."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mdaml._typing import Array
from mdaml.io.atomic import replace_file


def write_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Array]) -> None:
    """Write matrices to a safetensors file, in single precision.

    The format is the length of a header, the header in JSON, and the numbers; no library is needed.

    Parameters
    ----------
    path : str or path
        The file, replaced only once the new one is complete.
    tensors : mapping of str to array
        Matrices by name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mdaml.io.encoders import write_safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_safetensors(Path(folder, "eye.safetensors"), {"eye": np.eye(2)})
    ...     Path(folder, "eye.safetensors").read_bytes()[-16:].hex()
    '0000803f00000000000000000000803f'
    """
    header: dict[str, object] = {}
    data = bytearray()
    for name, tensor in tensors.items():
        values = np.ascontiguousarray(tensor, dtype="<f4").tobytes()
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # numbers begin at a multiple of eight
    with replace_file(path) as part:
        part.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_dense_module(folder: str | os.PathLike[str], weight: Array) -> None:
    """Write a matrix as a ``Dense`` module of sentence-transformers, without bias or activation.

    Parameters
    ----------
    folder : str or path
        Made if it is not there; ``config.json`` and ``model.safetensors`` in it are replaced.
    weight : array of shape (n_out, n_in)
        The matrix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mdaml.io.encoders import write_dense_module
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_dense_module(folder, np.eye(2))
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['config.json', 'model.safetensors']
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    n_out, n_in = weight.shape
    config = {
        "in_features": n_in,
        "out_features": n_out,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    write_safetensors(target / "model.safetensors", {"linear.weight": weight})
    with replace_file(target / "config.json") as part:
        part.write_text(json.dumps(config), encoding="utf-8")
