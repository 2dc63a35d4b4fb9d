"""
Short vectors: two numbers instead of 180
=========================================

A learned map can also make vectors shorter, which saves memory and time in a search index. With
``n_components=r`` :class:`~mdaml.MDaML` learns a map to ``r`` numbers directly.

The data are 2000 pieces of DNA with 180 features. Some contain a place where a coding part ends
(``ei``) or begins (``ie``), the others neither (``n``). Most features say nothing about that.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from mdaml import LFDA, MDaML
from mdaml.datasets import load_dataset

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

dna = load_dataset("dna")
X, y = dna.data, dna.target
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)


def accuracy(Z_train, Z_test):
    """Share of test points whose class three nearest neighbours find."""
    return KNeighborsClassifier(3).fit(Z_train, y_train).score(Z_test, y_test)


# %%
# Three maps to the same number of components: the directions of most variance (PCA, which does not
# know the classes), local Fisher discriminant analysis (:class:`~mdaml.LFDA`), and MDaML. On the
# right, the map of MDaML to two components. LFDA is a little better up to eight, then it falls.
ranks = [1, 2, 4, 8, 16, 32]
makers = {
    "MDaML": lambda r: MDaML(n_components=r, random_state=0),
    "LFDA": lambda r: LFDA(n_components=r),
    "PCA": lambda r: PCA(r, random_state=0),
}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
for (name, make), marker in zip(makers.items(), "osD", strict=True):
    maps = [make(r).fit(X_train, y_train) for r in ranks]
    scores = [accuracy(f.transform(X_train), f.transform(X_test)) for f in maps]
    line = left.plot(ranks, scores, f"{marker}-", linewidth=2)[0]
    left.text(36, scores[-1], name, color=line.get_color(), va="center", weight="bold")
left.axhline(accuracy(X_train, X_test), color="0.4", linestyle="--")
left.text(4, accuracy(X_train, X_test) - 0.02, "all 180 features", color="0.3", va="center")
left.set(xscale="log", xticks=ranks, xticklabels=ranks, xlabel="components", xlim=(0.9, 80))
left.set(title="Two components beat 180 features", ylabel="3-NN accuracy, test points")
left.minorticks_off()
Z = MDaML(n_components=2, random_state=0).fit(X_train, y_train).transform(X_test)
for k, marker in enumerate("o^s"):
    points = Z[y_test == k]
    right.scatter(*points.T, s=14, marker=marker, alpha=0.6)
    right.text(*np.median(points, axis=0), dna.target_names[k], bbox={"facecolor": "white"})
right.set(title="New pieces of DNA in two components", xticks=[], yticks=[])
