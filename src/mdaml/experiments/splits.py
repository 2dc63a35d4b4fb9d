"""The data of a trial: samples, split, scaling and triplets.

Everything follows from the names of data sets and the numbers of trials, so that jobs can run
anywhere and in any order.
"""

import zlib
from functools import cache

import numpy as np
import sklearn.datasets
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints import sample_triplets
from mdaml.datasets import list_datasets, load_dataset
from mdaml.experiments.config import CONFIG, CONFIRMATION, IMAGES

# Training samples and labels, test samples and labels, triplets of the training samples.
TrialData = tuple[FloatArray, IntArray, FloatArray, IntArray, IntArray]


def load_split(dataset: str, trial: int) -> TrialData:
    """Return the data of a trial, scaled, with the triplets that all methods share."""
    X, y, X_test, y_test = split(dataset, trial)
    samples, held_out = prepared(dataset, X, X_test)
    return samples, y, held_out, y_test, shared_triplets(dataset, y, trial)


def load_folds(dataset: str, n_folds: int) -> list[TrialData]:
    """Return the folds of a cross-validation on the training part of the first trial."""
    X, y, _, _ = split(dataset, 0)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed_of(dataset, 0) % 2**32)
    parts = []
    for fold, (train, valid) in enumerate(folds.split(X, y)):
        samples, held_out = prepared(dataset, X[train], X[valid])
        triplets = shared_triplets(dataset, y[train], trial=1000 + fold)
        parts.append((samples, y[train], held_out, y[valid], triplets))
    return parts


def split(dataset: str, trial: int) -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
    """Return training samples and labels, test samples and labels of a random split."""
    X, y = load_samples(dataset)
    shares = CONFIG["datasets"]["test_share"]
    kind = next(kind for kind in shares if dataset in CONFIG["datasets"][kind])
    share, seed = shares[kind], seed_of(dataset, trial) % 2**32
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=share, random_state=seed)
    return X_train, y_train, X_test, y_test


def prepared(dataset: str, X: FloatArray, X_test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both parts, standardised or reduced by a transform fitted to the first.

    The principal components of image features keep their scale: standardising them would amplify
    the last ones, which are mostly noise.
    """
    step = StandardScaler()
    if dataset in IMAGES:
        step = PCA(min(CONFIG["datasets"]["n_principal_components"], *X.shape), random_state=0)
    return np.ascontiguousarray(step.fit_transform(X)), np.ascontiguousarray(step.transform(X_test))


def shared_triplets(dataset: str, y: IntArray, trial: int) -> IntArray:
    """Return the random triplets of a split, the same for all methods that learn from them."""
    protocol = CONFIG["protocol"]
    seed = seed_of(dataset, trial, "triplets")
    return sample_triplets(y, protocol["n_similar"], protocol["n_dissimilar"], random_state=seed)


def seed_of(*words: str | int) -> int:
    """Return a seed that depends only on the words, so that the order of jobs does not matter."""
    text = "/".join(map(str, (CONFIG["protocol"]["seed"], *words)))
    return zlib.crc32(text.encode())


@cache
def load_samples(dataset: str) -> tuple[FloatArray, IntArray]:
    """Return samples and labels of a data set, reduced to the size in the paper; loaded once."""
    if dataset in CONFIRMATION:
        X, y = getattr(sklearn.datasets, f"load_{dataset}")(return_X_y=True)
        return X[:, X.std(axis=0) > 0], y
    X, y = load_dataset(dataset, return_X_y=True)
    n_rows = CONFIG["datasets"]["max_rows"].get(dataset)
    if n_rows is not None:
        rows = np.random.default_rng(seed_of(dataset, "rows")).permutation(len(X))[:n_rows]
        X, y = X[rows], y[rows]
    return X, y


@cache
def sizes(dataset: str) -> tuple[int, int]:
    """Return the approximate number of samples and features, to estimate the work."""
    if dataset in CONFIRMATION:
        n, d = load_samples(dataset)[0].shape
        return n, d
    record = next(record for record in list_datasets() if record.name == dataset)
    n = CONFIG["datasets"]["max_rows"].get(dataset, record.n_samples)
    return n, min(record.n_features, 200)
