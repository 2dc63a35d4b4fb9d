"""All methods of the comparison behind one call: ``found = METHODS[name].fit(data)``.

This file is read in every environment, so each function imports what it needs by itself. ``data``
has X and either y or triplets. What is found is a matrix that maps samples, or a function that
does. All are used with their defaults, unless a comment says otherwise.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Method:
    """A method, the environment it lives in, and the supervision it takes."""

    environment: str
    fit: Callable
    kinds: tuple[str, ...] = ("labels",)
    ours: bool = False


def mdaml(name, **options):
    """One of our estimators."""

    def fit(data):
        import mdaml

        model = getattr(mdaml, name)(**options)
        if data.triplets is None:
            return model.fit(data.X, data.y).components_
        return model.fit(data.X, triplets=data.triplets).components_

    return fit


def local_mdaml(data):
    """The one of our estimators that is no linear map."""
    from mdaml import LocalMDaML

    model = LocalMDaML(random_state=0)
    if data.triplets is None:
        return model.fit(data.X, data.y).transform
    return model.fit(data.X, triplets=data.triplets).transform


def metric_learn(name, **options):
    """An estimator of metric-learn that takes labels."""

    def fit(data):
        import metric_learn

        return getattr(metric_learn, name)(**options).fit(data.X, data.y).components_

    return fit


def scml_of_triplets(data):
    from metric_learn import SCML

    return SCML(preprocessor=data.X, random_state=0).fit(data.triplets).components_


def lsml_of_quadruplets(data):
    """The triplet (a, b, c) is the quadruplet (a, b, a, c)."""
    from metric_learn import LSML

    return LSML(preprocessor=data.X).fit(data.triplets[:, [0, 1, 0, 2]]).components_


def sklearn_nca(data):
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    return NeighborhoodComponentsAnalysis(random_state=0).fit(data.X, data.y).components_


def mlpack_lmnn(data):
    """Three neighbours and L-BFGS: on digits AMSGrad, the default, is slower, no more accurate."""
    import mlpack

    found = mlpack.lmnn(
        input_=data.X, labels=data.y.astype(np.intp), k=3, optimizer="lbfgs", seed=1
    )
    return np.asarray(found["output"])


def literal(data):
    """The paper, transcribed: ten modes, 5 x 10 iterations; from labels, 10 x 10 partners."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from literal_mdaml import fit_literal

    from mdaml.constraints import sample_triplets
    from mdaml.stores.memory import MemoryStore

    triplets = data.triplets
    if triplets is None:
        triplets = sample_triplets(data.y, 10, 10, random_state=0)
    start = MemoryStore.of(data.X).mixture_weights(10, 3.0, np.random.RandomState(0)).weights
    options = {"eta": 3.0, "triplet_weight": 300.0 * 10**3, "ridge": 1e-4}
    M, *_ = fit_literal(data.X, triplets, start, n_outer=5, n_inner=10, **options)
    return np.linalg.cholesky(M).T


# A library of losses: the loop around them is the user's. On vehicle this rate does better than
# 1e-3.
EPOCHS, MARGIN, RATE = 20, 1.0, 1e-2


def linear_layer(data):
    """A linear layer that starts at the identity, Adam, the triplet loss without normalisation.

    Normalised to the sphere, the default, a linear map is no longer a Mahalanobis distance.
    """
    import torch
    from pytorch_metric_learning import distances, losses

    torch.manual_seed(0)
    X = torch.as_tensor(data.X, dtype=torch.float32)
    layer = torch.nn.Linear(X.shape[1], X.shape[1], bias=False)
    torch.nn.init.eye_(layer.weight)
    optimizer = torch.optim.Adam(layer.parameters(), lr=RATE)
    plain = distances.LpDistance(normalize_embeddings=False)
    loss = losses.TripletMarginLoss(margin=MARGIN, distance=plain)
    batches = label_batches if data.triplets is None else triplet_batches
    for _ in range(EPOCHS):
        for rows, labels, chosen in batches(data, torch):
            optimizer.zero_grad()
            loss(layer(X[rows]), labels, chosen).backward()
            optimizer.step()
    return layer.weight.detach().numpy().astype(np.float64)


def label_batches(data, torch):
    """64 random samples at a time, with all triplets that their labels make."""
    y = torch.as_tensor(data.y)
    for rows in torch.randperm(len(y)).split(64):
        yield rows, y[rows], None


def triplet_batches(data, torch):
    """256 random triplets at a time, as places in the list of the samples they name."""
    triplets = torch.as_tensor(data.triplets, dtype=torch.int64)
    for chosen in torch.randperm(len(triplets)).split(256):
        rows, places = torch.unique(triplets[chosen], return_inverse=True)
        yield rows, None, tuple(places.T)


def network(data):
    """The small network of the study of places, which stops by comparisons of held-out points."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
    from network import Network

    return Network(0).fit(data.X, triplets=data.triplets).transform


# On vehicle better than fewer epochs or larger batches.
NCA_EPOCHS, NCA_BATCH = 200, 128


def modern_nca(data):
    """Linear ModernNCA: neighbourhood components by mini-batches of soft neighbours.

    For each sample of a batch the probability of its own class among random candidates, half of
    all samples, by ``softmax(-distance)``, itself left out; AdamW with the rate and decay of the
    authors' code. The layer starts at the identity, as the one above.
    """
    import torch

    torch.manual_seed(0)
    X = torch.as_tensor(data.X, dtype=torch.float32)
    y = torch.as_tensor(np.unique(data.y, return_inverse=True)[1])
    layer = torch.nn.Linear(X.shape[1], X.shape[1], bias=False)
    torch.nn.init.eye_(layer.weight)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=RATE, weight_decay=2e-4)
    for _ in range(NCA_EPOCHS):
        for rows in torch.randperm(len(X)).split(NCA_BATCH):
            others = torch.randperm(len(X))[: max(len(X) // 2, 2)]
            candidates = torch.unique(torch.cat([rows, others]))
            logits = -torch.cdist(layer(X[rows]), layer(X[candidates]))
            logits = logits.masked_fill(rows[:, None] == candidates, -torch.inf)
            own = y[rows, None] == y[candidates]
            alike = torch.logsumexp(logits.masked_fill(~own, -torch.inf), dim=1)
            lost = torch.logsumexp(logits, dim=1) - alike
            optimizer.zero_grad()
            lost[torch.isfinite(lost)].mean().backward()
            optimizer.step()
    return layer.weight.detach().numpy().astype(np.float64)


BOTH = ("labels", "triplets")
METHODS = {
    "Euclidean": Method("mdaml", mdaml("Euclidean"), BOTH),
    "MDaML": Method("mdaml", mdaml("MDaML", random_state=0), BOTH, ours=True),
    "MDaMLCV": Method("mdaml", mdaml("MDaMLCV", random_state=0), BOTH, ours=True),
    "LocalMDaML": Method("mdaml", local_mdaml, BOTH, ours=True),
    "LMNN": Method("mdaml", mdaml("LMNN"), ours=True),
    "GMML": Method("mdaml", mdaml("GMML"), BOTH, ours=True),
    "KISSME": Method("mdaml", mdaml("KISSME"), BOTH, ours=True),
    "literal MDaML": Method("mdaml", literal, BOTH),
    "sklearn NCA": Method("mdaml", sklearn_nca),
    "metric-learn LMNN": Method("metric-learn", metric_learn("LMNN", random_state=0)),
    "metric-learn NCA": Method("metric-learn", metric_learn("NCA", random_state=0)),
    "metric-learn LFDA": Method("metric-learn", metric_learn("LFDA")),
    "metric-learn ITML": Method("metric-learn", metric_learn("ITML_Supervised", random_state=0)),
    "metric-learn LSML": Method("metric-learn", metric_learn("LSML_Supervised", random_state=0)),
    "metric-learn SCML": Method("metric-learn", metric_learn("SCML_Supervised", random_state=0)),
    "SCML of triplets": Method("metric-learn", scml_of_triplets, ("triplets",)),
    "LSML of quadruplets": Method("metric-learn", lsml_of_quadruplets, ("triplets",)),
    "mlpack LMNN": Method("mlpack", mlpack_lmnn),
    "PML linear layer": Method("torch", linear_layer, BOTH),
    "linear ModernNCA": Method("torch", modern_nca),
    "network": Method("torch", network, ("triplets",)),
}
# Libraries that each environment loads before anything is timed.
MODULES = {
    "mdaml": ("mdaml", "sklearn.neighbors", "pymanopt"),
    "metric-learn": ("metric_learn",),
    "mlpack": ("mlpack",),
    "torch": ("torch", "pytorch_metric_learning.losses"),
}
