"""The data of the comparison: splits, scaling, triplets; the same for every method."""

import os
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from mdaml.constraints import sample_triplets
from mdaml.datasets import load_dataset

SETS = (
    "osr",  # the large ones first, so that two lanes of work end together
    "caltech20",
    "pubfig",
    "letter",
    "waveform",
    "spambase",
    "dna",
    "digits",
    "segment",
    "german",
    "vehicle",
    "balance",
    "autompg",
    "sonar",
)
IN_DATA_FOLDER = ("osr", "caltech20", "pubfig")  # left out where MDAML_DATA is not set
# Small or noisy ones take more splits, or two test samples decide.
MORE_SPLITS = {"german": 10, "sonar": 10}
KINDS = ("labels", "triplets")
PER_SAMPLE = 10  # triplets


def count_splits(name, wanted=None):
    """Random splits of a data set: as many as are wanted, otherwise two, or ten of a small one."""
    return MORE_SPLITS.get(name, 2) if wanted is None else wanted


def is_there(name):
    """Whether a data set is bundled, or in the data folder."""
    return name not in IN_DATA_FOLDER or "MDAML_DATA" in os.environ


@dataclass(frozen=True)
class Problem:
    """One split of a data set: what methods may see, and what they are judged by."""

    X: np.ndarray
    y: np.ndarray
    triplets: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    triplets_test: np.ndarray

    @classmethod
    def of(cls, name, split):
        """Random 70 % of a set (of 5000 rows at most), standardised; ten triplets a sample.

        The held-out triplets are of held-out samples only.
        """
        if name == "digits":
            X, y = load_digits(return_X_y=True)
        else:
            X, y = load_dataset(name, return_X_y=True)
        rows = np.random.default_rng(split).permutation(len(X))[:5000]
        n_train = int(0.7 * len(rows))
        train, test = rows[:n_train], rows[n_train:]
        X = X[:, X[train].std(axis=0) > 0]
        scaler = StandardScaler().fit(X[train])
        return cls(
            scaler.transform(X[train]),
            y[train],
            draw_triplets(y[train], split),
            scaler.transform(X[test]),
            y[test],
            draw_triplets(y[test], 1000 + split),
        )

    def write(self, kind, path):
        """Write what a method may see: samples, and labels or triplets, not both."""
        given = {"y": self.y} if kind == "labels" else {"triplets": self.triplets}
        np.savez(path, X=self.X, **given)

    def judge(self, known, new):
        """3-NN accuracy and share of triplets that hold, of held-out samples, both as mapped."""
        accuracy = KNeighborsClassifier(3).fit(known, self.y).score(new, self.y_test)
        return float(accuracy), share_satisfied(new, self.triplets_test)


def draw_triplets(y, seed):
    """Ten triplets of distinct random partners for every sample."""
    return sample_triplets(y, PER_SAMPLE, PER_SAMPLE, pairing="zip", random_state=seed)


def share_satisfied(Y, triplets):
    """Share of the triplets whose first partner is the nearer one."""
    anchor, similar, other = (Y[rows] for rows in triplets.T)
    near, far = (np.sum((anchor - others) ** 2, axis=1) for others in (similar, other))
    return float(np.mean(near < far))
