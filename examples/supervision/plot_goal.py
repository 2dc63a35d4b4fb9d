"""
Say what the metric is for: comparisons or neighbours
=====================================================

The same answers can serve two purposes. **Comparisons**: agree with what people would say of other
items. **Neighbours**: search, classify, cluster. A metric that is best for the one is not best for
the other, so :class:`~mdaml.MDaML` takes a ``goal``. The default, from comparisons: comparisons.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from mdaml import Euclidean, MDaML
from mdaml.datasets import load_dataset, make_triplets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

tables = {name: load_dataset(name, return_X_y=True) for name in ("autompg", "balance", "vehicle")}
tables["wine"] = load_wine(return_X_y=True)
models = {
    "Euclidean": Euclidean(),
    'goal="comparisons"': MDaML(goal="comparisons", random_state=0),
    'goal="neighbors"': MDaML(goal="neighbors", random_state=0),
}


def scores(model, X, y):
    """Learn from 2000 comparisons of half of the rows; score the other half in both ways."""
    half = np.random.default_rng(0).permutation(len(X)) % 2 == 0
    X = StandardScaler().fit(X[half]).transform(X)
    T, _ = make_triplets(X[half], y[half], n_triplets=2000, random_state=0)
    T_new, _ = make_triplets(X[~half], y[~half], n_triplets=5000, random_state=1)
    model.fit(X[half], triplets=T)
    Z = model.transform(X)
    accuracy = KNeighborsClassifier(3).fit(Z[half], y[half]).score(Z[~half], y[~half])
    return model.score_triplets(X[~half], T_new), accuracy


# %%
# The labels are only used to draw comparisons, and to see how good the neighbours are.
found = np.array([[scores(m, *table) for m in models.values()] for table in tables.values()])

fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
titles = "New comparisons that hold", "Right classes by 3 neighbours"
for ax, values, title in zip(axes, np.moveaxis(found, 2, 0), titles, strict=True):
    ax.hlines(list(tables), values.min(axis=1), values.max(axis=1), color="0.8", lw=3, zorder=0)
    for k, name in enumerate(models):
        look = {"s": 90, "marker": "osD"[k], "color": ("0.45", "C0", "C2")[k], "label": name}
        ax.scatter(values[:, k], list(tables), **look)
    ax.set_title(title)
    ax.xaxis.set_major_formatter("{x:.0%}")
axes[0].set_ylim(-0.5, 4.6)
axes[0].legend(loc="upper left", fontsize=11)
plt.sca(axes[0])
