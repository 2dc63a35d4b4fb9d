"""
Modes and self-weights, round by round
======================================

:class:`~mdaml.MDaML` groups the points into **modes** while it learns. Every comparison "a is more
like b than like c" has a **self-weight**: near 1 if a and b share a mode, near 0 if they do not.
Comparisons across modes, which no single metric may be able to meet, then count little. This is the
objective of the paper, ``anchor=0``; by default all comparisons count alike.

We watch it on four modes of two classes: once well apart, once close together.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mdaml import MDaML, audit
from mdaml.datasets import make_triplets

plt.style.use("seaborn-v0_8-colorblind")
# We stop after one round, after two and so on, to look inside; usually that is worth a warning.
warnings.filterwarnings("ignore", category=ConvergenceWarning)
# Half of the comparisons join two modes and are given up: few more hold after learning than before.
warnings.filterwarnings("ignore", message="The learned distance agrees")

mode = np.arange(400) % 4  # modes 0 and 2 are one class, 1 and 3 the other
corners = np.array([[0, 0], [1, 1], [2, 0], [3, 1]])[mode]
noise = np.random.default_rng(0).normal(size=(400, 2))
rounds = [1, 2, 3, 5, 10]

# %%
# The model is never told the modes. We use them at the end: similar pairs within a mode should have
# a high self-weight, similar pairs across two modes a low one.
fig, axes = plt.subplots(2, 3, figsize=(9, 5.8), width_ratios=(1, 1, 1.2), layout="constrained")
findings = ("Apart", 4.0, "Apart: the weights differ"), ("Close", 1.5, "Close: less and less")
for row, (name, gap, finding) in zip(axes, findings, strict=True):
    X = noise + gap * corners
    T, _ = make_triplets(X, mode % 2, n_triplets=4000, random_state=0)
    shared = mode[T[:, 0]] == mode[T[:, 1]]
    options = {"anchor": 0.0, "random_state": 0}
    models = [MDaML(4, max_iter=n, **options).fit(X, triplets=T) for n in rounds]
    for ax, n, model in ((row[0], rounds[0], models[0]), (row[1], rounds[-1], models[-1])):
        for k, marker in enumerate("osD^"):
            own = X[model.weights_.argmax(axis=1) == k]
            ax.scatter(*own.T, s=14, marker=marker, color=f"C{k}", alpha=0.7)
        ax.set(title=f"{name}, round {n}", xticks=[], yticks=[])
    weights = np.array([audit(model, X, triplets=T)["self_weight"] for model in models])
    row[2].plot(rounds, weights[:, shared].mean(axis=1), "o-", label="in one mode")
    row[2].plot(rounds, weights[:, ~shared].mean(axis=1), "s--", color="C2", label="across modes")
    row[2].set(title=finding, xlabel="round", ylabel="mean self-weight", ylim=(-0.05, 1.05))
axes[0, 2].legend(title="similar pairs", loc="center right", frameon=False)

# %%
# Apart, comparisons across modes lose their weight in the first round. Within a mode a few points
# change sides later: comparisons that they cannot meet are given up too. Close together, the modes
# say less than the comparisons do, and the two lines approach each other. With 8000 comparisons
# they end at 1 both: no comparison is left out then, and MDaML learns as if there were one mode.
