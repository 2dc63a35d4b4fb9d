"""
How many modes? Ask comparisons that were held out
==================================================

The number of modes has to be chosen, and often there are no labels to choose it by. But there are
comparisons, and some of them can be kept away from learning: a good metric agrees with those too.
:class:`~mdaml.model_selection.MetricSearchCV` does this in turn for every third of them.

The points of this example have no groups at all, and 15 % of the answers are wrong. We learn by the
objective of the paper, ``anchor=0``: by default ``MDaML`` takes one mode for comparisons.
"""

import matplotlib.pyplot as plt
import numpy as np

from mdaml import MDaML
from mdaml.datasets import make_triplets
from mdaml.model_selection import MetricSearchCV

plt.style.use("seaborn-v0_8-colorblind")

X = np.random.default_rng(0).normal(size=(600, 8))
hidden = np.eye(8)[:4]  # whoever answers looks at four of the eight features
T, _ = make_triplets(X, n_triplets=4000, components=hidden, wrong=0.15, random_state=0)

# %%
# The weight of the comparisons that does the same for K modes grows like the cube of K, so that
# each number of modes comes with weights of its own.
modes, weights = [1, 2, 3, 5, 8, 12], [30, 300]
grid = [{"n_modes": [K], "triplet_weight": [w * K**3]} for w in weights for K in modes]
search = MetricSearchCV(MDaML(anchor=0.0), grid, cv=3, warm_start=False, random_state=0)
search.fit(X, triplets=T)

# %%
# Was the choice right? In real life you could not tell. Here we can have as many right answers as
# we like, and try all candidates on them.
T_right, _ = make_triplets(X, n_triplets=4000, components=hidden, random_state=1)
results = search.cv_results_
options = {"anchor": 0.0, "random_state": 0}
models = [MDaML(**options, **params).fit(X, triplets=T) for params in results["params"]]
right = np.array([model.score_triplets(X, T_right) for model in models])

fig, axes = plt.subplots(1, 2, figsize=(8, 4.4), sharex=True, layout="constrained")
held_out, deviation = results["mean_test_score"], results["std_test_score"]
for k, (weight, marker) in enumerate(zip(weights, "os", strict=True)):
    rows = slice(k * len(modes), (k + 1) * len(modes))
    axes[0].errorbar(modes, held_out[rows], deviation[rows], fmt=f"{marker}-", capsize=3)
    axes[1].plot(modes, right[rows], f"{marker}-", label=f"weight {weight} K³")
chosen = search.best_index_
for ax, scores in zip(axes, (held_out, right), strict=True):
    ring = {"markersize": 16, "markerfacecolor": "none", "color": "black", "linestyle": "none"}
    ax.plot(modes[chosen % len(modes)], scores[chosen], "o", **ring, label="chosen")
    ax.set(xlabel="number of modes, K", xticks=modes)
axes[0].set(title="Held-out answers want few modes", ylabel="answers that hold")
axes[1].set(title="The truth says the same", ylabel="right answers that hold")
axes[1].legend(frameon=False)

# %%
# One and two modes are alike within the bars, which are deviations over the three folds. Many modes
# do harm here: they explain some wrong answers away, and right ones with them.
