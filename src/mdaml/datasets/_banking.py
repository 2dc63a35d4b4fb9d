"""Questions of bank customers with their embeddings, a part of banking77."""

import hashlib
import io
from importlib.resources import files

import numpy as np
from sklearn.utils import Bunch

_SHA256 = "417c0f82bfbc50bddd9d79bc38971596d3d38f0863a92a17a23644583a2229c3"


def load_banking77() -> Bunch:
    """Load 1540 questions of bank customers about 77 intents, with their embeddings.

    A part of banking77 [1]_, licence CC BY 4.0: of each intent 15 questions of the training part
    and 5 of the test part, drawn at random; texts are unchanged. Embeddings are those of the
    encoder all-MiniLM-L6-v2, of length one, kept in half precision.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` float32 of shape (1540, 384), ``target`` int64 with intent ``target_names[c]``,
        ``texts`` a list of str, ``is_test`` bool of shape (1540,), ``source`` and ``licence``.

    See Also
    --------
    mdaml.retrieval.QueryAdapter : Adapts such embeddings.

    References
    ----------
    .. [1] I. Casanueva, T. Temčinas, D. Gerz, M. Henderson, I. Vulić, "Efficient Intent Detection
       with Dual Sentence Encoders", NLP for ConvAI 2020.

    Examples
    --------
    >>> from mdaml.datasets import load_banking77
    >>> bank = load_banking77()
    >>> bank.data.shape, bank.target_names[bank.target[0]]
    ((1540, 384), 'Refund_not_showing_up')
    >>> bank.texts[-1]
    'The see the rate applied to my transaction was wrong at the atm.'
    """
    packed = (files("mdaml.datasets") / "data" / "banking77.npz").read_bytes()
    if hashlib.sha256(packed).hexdigest() != _SHA256:
        raise ValueError("banking77.npz is damaged or another version. Install mdaml again.")
    arrays = np.load(io.BytesIO(packed), allow_pickle=False)
    return Bunch(
        data=arrays["vectors"].astype(np.float32),
        target=arrays["target"].astype(np.int64),
        target_names=arrays["names"].tobytes().decode().split("\n"),
        texts=arrays["texts"].tobytes().decode().split("\n"),
        is_test=arrays["is_test"],
        source="https://github.com/PolyAI-LDN/task-specific-datasets",
        licence="CC BY 4.0; Casanueva et al. 2020; a part of it, with embeddings added",
    )
