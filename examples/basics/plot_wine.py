"""
What makes two wines alike?
===========================

A learned distance can be read. Here are 178 Italian wines of three grapes, each described by 13
chemical measurements (they come with scikit-learn). From 1000 comparisons "wine a is more like b
than like c" a metric learns which measurements matter, and which do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from mdaml import Euclidean, MDaML
from mdaml.datasets import make_triplets
from mdaml.inspection import feature_relevance

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

wine = load_wine(as_frame=True)
X, grape = (
    wine.data.rename(columns=lambda name: name.split("/")[0].replace("_", " ")),
    wine.target.to_numpy(),
)
X = StandardScaler().set_output(transform="pandas").fit_transform(X)
seen = np.random.default_rng(0).permutation(len(X)) % 2 == 0
T, _ = make_triplets(X[seen], grape[seen], n_triplets=1000, random_state=0)
T_new, _ = make_triplets(X[~seen], grape[~seen], n_triplets=4000, random_state=1)

# %%
# :func:`~mdaml.inspection.feature_relevance` splits the mean squared distance of two wines into the
# shares of the features. Euclidean distance gives each the same share: 1 of 13. A share below zero
# takes back what a correlated feature counts too much: most phenols of a wine are flavanoids.
model = MDaML(random_state=0).fit(X[seen], triplets=T)
share = feature_relevance(model, X[seen]).sort_values()
before, after = (m.score_triplets(X[~seen], T_new) for m in (Euclidean().fit(X), model))

# %%
# The map on the right shows wines that the metric has not seen.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
left.barh(share.index, share, color=["C0" if s > 1 / 13 else "0.75" for s in share])
for row, s in enumerate(share):
    left.text(max(s, 0) + 0.005, row, f"{s:.0%}".replace("-0%", "0%"), va="center")
left.axvline(1 / 13, color="black", linestyle="--", zorder=0)
left.text(0.09, 2, "dashed: the same\nfor every feature\n(Euclidean)", va="center")
left.set(title=f"{np.sum(share > 1 / 13)} of 13 measurements matter", xticks=[], xlim=(-0.09, 0.32))
left.spines[["top", "right", "bottom"]].set_visible(False)
Z = PCA(2).fit(model.transform(X[seen])).transform(model.transform(X[~seen]))
for k, marker in enumerate("os^"):
    points = Z[grape[~seen] == k]
    right.scatter(*points.T, s=40, marker=marker, color=f"C{k}", alpha=0.7)
    box = {"facecolor": "white", "alpha": 0.85}
    right.text(*np.median(points, axis=0), f"grape {k + 1}", ha="center", bbox=box)
right.set(title=f"New comparisons that hold: {before:.0%} → {after:.0%}")
right.set(xticks=[], yticks=[])
