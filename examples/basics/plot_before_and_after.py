"""
Classes of several modes, before and after
==========================================

A class often has more than one **mode**: shoes are boots and sandals. Here each of two classes
consists of two long, thin bands of points, and the bands of the classes alternate. The nearest
points of a point are then often in the band next to its own, which is of the other class.

:class:`~mdaml.MDaML` learns a linear map. After it, ordinary distance fits the classes better.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from mdaml import MDaML
from mdaml.datasets import make_multimodal

plt.style.use("seaborn-v0_8-colorblind")

X, y = make_multimodal(300, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# Learn the map from one half of the points. Nothing is tuned, and the number of modes is not told:
# the default is three, where there are four.
model = MDaML(random_state=0).fit(X_train, y_train)

# %%
# The other half is classified by its three nearest neighbours in the first half, once as the points
# are given and once as the map leaves them. Rings mark those that are classified wrongly.


def draw(ax, train, test, name):
    """Draw the test points by class, a ring around those that 3-NN gets wrong."""
    wrong = KNeighborsClassifier(3).fit(train, y_train).predict(test) != y_test
    for label, marker, color in ((0, "o", "C0"), (1, "s", "C2")):
        points = test[y_test == label].T
        ax.scatter(*points, s=24, marker=marker, color=color, alpha=0.8, label=f"class {label}")
    ring = {"s": 110, "facecolors": "none", "edgecolors": "black", "linewidths": 1.5}
    ax.scatter(*test[wrong].T, **ring, label="wrong neighbours")
    ax.set_title(f"{name}: {wrong.sum()} of {len(test)} wrong")
    ax.set_aspect("equal", adjustable="datalim")


fig, (before, after) = plt.subplots(1, 2, figsize=(8, 4.5), layout="constrained")
draw(before, X_train, X_test, "As given")
draw(after, model.transform(X_train), model.transform(X_test), "Learned distance")
before.set(xlabel="first feature", ylabel="second feature")
after.set(xlabel="what the metric stretches", ylabel="what it shrinks")
fig.legend(*before.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)

# %%
# The map stretches the direction across the bands and shrinks the one along them, so that the four
# bands become four groups. It does not move the two groups of a class together: no linear map
# could, as the other class lies between them. Neighbours within a band are enough.
