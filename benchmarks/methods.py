"""All nine methods beside scikit-learn's NCA, and the closed forms beside their bare products.

methods  Seconds of a default fit and 3-NN accuracy on held-out rows, one split, nothing tuned.
closed   Seconds of each closed form over those of the products and decompositions it cannot avoid.
"""

import time
import warnings
from functools import partial

import numpy as np
import scipy.linalg
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from mdaml import DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML
from mdaml.datasets import load_dataset
from mdaml.kernels.products import one_blas_thread, transposed_times

SETS = [
    "sonar",
    "autompg",
    "balance",
    "vehicle",
    "german",
    "segment",
    "digits",
    "dna",
    "spambase",
    "letter",
]
METHODS = {
    "Euclidean": Euclidean,
    "GMML": GMML,
    "KISSME": KISSME,
    "DMLeig": lambda: DMLeig(random_state=0),
    "DMLMJ": lambda: DMLMJ(random_state=0),
    "LFDA": LFDA,
    "LMNN": LMNN,
    "DMLdc": DMLdc,
    "MDaML": lambda: MDaML(random_state=0),
    "NCA": lambda: NeighborhoodComponentsAnalysis(random_state=0),
}


def split(name):
    """Standardised rows and labels of a random 70 % of a set (of 5000 rows of letter), the rest."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        X, y = load_dataset(name, return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:5000]
    X, y = X[rows], y[rows]
    n_train = int(0.7 * len(X))
    X = X[:, X[:n_train].std(axis=0) > 0]
    scaler = StandardScaler().fit(X[:n_train])
    X = scaler.transform(X)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def methods():
    print("\nSeconds of a default fit (first line) and 3-NN accuracy in % (second line)\n")
    print(f"{'set':9s} {'N':>5s} {'d':>4s} " + " ".join(f"{name:>9s}" for name in METHODS))
    X, y, _, _ = split("sonar")
    with warnings.catch_warnings():
        # Default fits are what is measured, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for make in METHODS.values():
            make().fit(X, y)  # compile
        return [methods_on(name) for name in SETS]


def methods_on(name):
    X, y, X_test, y_test = split(name)
    row = {"set": name, "n_samples": len(X), "n_features": X.shape[1]}
    for method, make in METHODS.items():
        times = []
        while len(times) < 5 and sum(times) < 2:
            start = time.perf_counter()
            model = make().fit(X, y)
            times.append(time.perf_counter() - start)
        knn = KNeighborsClassifier(3).fit(model.transform(X), y)
        accuracy = knn.score(model.transform(X_test), y_test)
        row[method] = {"seconds": float(np.median(times)), "accuracy": accuracy}
    cells = " ".join(f"{row[method]['seconds']:9.4f}" for method in METHODS)
    print(f"{name:9s} {len(X):5d} {X.shape[1]:4d} {cells}")
    cells = " ".join(f"{100 * row[method]['accuracy']:9.1f}" for method in METHODS)
    print(f"{'':20s} {cells}", flush=True)
    return row


def closed_forms():
    print("\nClosed forms: seconds of a fit over seconds of its bare products and decompositions\n")
    rows = []
    with one_blas_thread():  # as in a fit
        for name in ["segment", "dna", "spambase", "letter"]:
            X, y, _, _ = split(name)
            row = {"set": name, "n_samples": len(X), "n_features": X.shape[1]}
            for method, (make, bare) in CLOSED.items():
                fit = partial(make().fit, X, y)
                fit_seconds, bare_seconds = alternating(fit, bare(X, y), 15)
                row[method] = {"seconds": fit_seconds, "bare_seconds": bare_seconds}
            cells = "   ".join(
                f"{method} {1e3 * row[method]['seconds']:.1f} ms, "
                f"{row[method]['seconds'] / row[method]['bare_seconds']:.2f}x"
                for method in CLOSED
            )
            print(f"{name:9s} {cells}", flush=True)
            rows.append(row)
    return rows


def alternating(first, second, repeats):
    """Best times of two functions called in turn, so that a slow spell hits both."""
    times = np.empty((repeats, 2))
    for n in range(repeats):
        for which, function in enumerate((first, second)):
            start = time.perf_counter()
            function()
            times[n, which] = time.perf_counter() - start
    return times.min(axis=0).tolist()


def bare_pairs(X, _):
    """Two products of X with itself and two decompositions."""
    A = X.T @ X + np.eye(X.shape[1])

    def run():
        transposed_times(X, X)
        transposed_times(X, X)
        scipy.linalg.eigh(A, A)
        scipy.linalg.eigh(A)

    return run


def bare_mean(X, _):
    """As before, with the one decomposition by singular values that GMML orders its axes by."""
    A = X.T @ X + np.eye(X.shape[1])

    def run():
        transposed_times(X, X)
        transposed_times(X, X)
        R = scipy.linalg.cholesky(A)
        scipy.linalg.eigh(R @ A @ R.T)
        np.linalg.svd(R)

    return run


def bare_neighbors(X, _):
    """All inner products of samples, two scatters and a generalised eigenproblem."""
    A = X.T @ X + np.eye(X.shape[1])
    blocks = [X[begin : begin + 512] for begin in range(0, len(X), 512)]

    def run():
        for block in blocks:
            block @ X.T
        transposed_times(X, X)
        transposed_times(X, X)
        scipy.linalg.eigh(A, A)

    return run


def bare_affinities(X, y):
    """Inner products inside classes, the exponentials, their products with X; an eigenproblem."""
    A = X.T @ X + np.eye(X.shape[1])
    classes = [X[y == label] for label in np.unique(y)]

    def run():
        for members in classes:
            members @ members.T  # for the scales
            affinity = np.exp(-np.square(members @ members.T))
            affinity @ members
        transposed_times(X, X)
        transposed_times(X, X)
        scipy.linalg.eigh(A, A)

    return run


CLOSED = {
    "GMML": (GMML, bare_mean),
    "KISSME": (KISSME, bare_pairs),
    "DMLMJ": (lambda: DMLMJ(n_components=5), bare_neighbors),
    "LFDA": (LFDA, bare_affinities),
}
