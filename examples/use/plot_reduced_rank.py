"""
Fewer numbers for each point
============================

A learned map can also make vectors shorter, which saves memory and time in a search index. With
``n_components=r`` :class:`~mdaml.MDaML` learns a map to ``r`` numbers directly.

The data are 2000 pieces of DNA with 180 features. Some contain a place where a coding part ends
(``ei``) or begins (``ie``), the others neither (``n``). Most features say nothing about that.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from mdaml import LFDA, MDaML
from mdaml.datasets import load_dataset

plt.style.use("seaborn-v0_8-colorblind")

dna = load_dataset("dna")
X, y = dna.data, dna.target
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)


def accuracy(Z_train, Z_test):
    """Share of test points whose class three nearest neighbours find."""
    return KNeighborsClassifier(3).fit(Z_train, y_train).score(Z_test, y_test)


# %%
# Three maps to the same number of components: the directions of most variance (PCA, which does not
# know the classes), local Fisher discriminant analysis (:class:`~mdaml.LFDA`), and MDaML. On the
# right, the map of MDaML to two components, drawn for points it did not learn from.
ranks = [1, 2, 4, 8, 16, 32]
makers = {
    "MDaML": lambda r: MDaML(n_components=r, random_state=0),
    "LFDA": lambda r: LFDA(n_components=r),
    "PCA": lambda r: PCA(r, random_state=0),
}
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.4), layout="constrained")
for (name, make), marker in zip(makers.items(), "osD", strict=True):
    maps = [make(r).fit(X_train, y_train) for r in ranks]
    scores = [accuracy(f.transform(X_train), f.transform(X_test)) for f in maps]
    left.plot(ranks, scores, f"{marker}-", label=name)
left.axhline(accuracy(X_train, X_test), color="0.4", linestyle="--", label="all 180 features")
left.set(xscale="log", xticks=ranks, xticklabels=ranks, xlabel="components")
left.set(title="Two components beat 180 features", ylabel="3-NN accuracy, test points")
left.minorticks_off()
left.legend(frameon=False, loc="lower right")
Z = MDaML(n_components=2, random_state=0).fit(X_train, y_train).transform(X_test)
for k, marker in enumerate("o^s"):
    right.scatter(*Z[y_test == k].T, s=12, marker=marker, alpha=0.6, label=dna.target_names[k])
right.set(title="Test points in two components", xlabel="first", ylabel="second")
right.legend()

# %%
# LFDA does a little better up to eight components. With more, MDaML stays where it is and LFDA
# falls.
