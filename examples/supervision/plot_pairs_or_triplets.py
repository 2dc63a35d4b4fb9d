"""
Should you ask for pairs or for triplets?
=========================================

There are two ways to ask people about likeness. **Pairs**: "are a and b alike, yes or no?"
**Triplets**: "is a more like b or more like c?" A pair makes everyone draw a line: how alike is
alike? A triplet does not.

All people here judge by the same hidden distance, which uses five of eight features. In the first
panel they also agree on the line for pairs; in the second everyone has a line of their own.
"""

import matplotlib.pyplot as plt
import numpy as np

from mdaml import KISSME, MDaML
from mdaml.datasets import make_triplets

plt.style.use("seaborn-v0_8-colorblind")

hidden = np.diag([1, 1, 1, 0.7, 0.5, 0, 0, 0])
n_answers = [50, 100, 200, 400, 800]
names = ["MDaML, triplets", "MDaML, pairs", "KISSME, pairs"]


def agreement(n, spread, seed):
    """Learn from n answers in three ways; score by 4000 comparisons that were not asked."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 8))
    T, _ = make_triplets(X, n_triplets=n, components=hidden, random_state=seed)
    T_new, _ = make_triplets(X, n_triplets=4000, components=hidden, random_state=100 + seed)
    pairs = np.array([rng.choice(300, size=2, replace=False) for _ in range(n)])
    distance = np.linalg.norm((X[pairs[:, 0]] - X[pairs[:, 1]]) @ hidden, axis=1)
    line = np.median(distance) * np.exp(spread * rng.normal(size=n))
    said = {"pairs": pairs, "pair_labels": np.where(distance < line, 1, -1)}
    models = MDaML(1).fit(X, triplets=T), MDaML(1).fit(X, **said), KISSME().fit(X, **said)
    return [model.score_triplets(X, T_new) for model in models]


# %%
# Lines are means of five repetitions with new points and questions, bands one standard deviation.
fig, axes = plt.subplots(1, 2, figsize=(8, 4.4), sharey=True, layout="constrained")
titles = {0.0: "One line for all: pairs do as well", 0.4: "Everyone's own line: ask triplets"}
for ax, (spread, title) in zip(axes, titles.items(), strict=True):
    scores = np.array([[agreement(n, spread, i) for n in n_answers] for i in range(5)])
    mean, deviation = scores.mean(axis=0), scores.std(axis=0)
    for k, (name, marker) in enumerate(zip(names, "osD", strict=True)):
        ax.plot(n_answers, mean[:, k], f"{marker}-", label=name)
        low, high = mean[:, k] - deviation[:, k], mean[:, k] + deviation[:, k]
        ax.fill_between(n_answers, low, high, alpha=0.15)
    ax.set(xscale="log", title=title, xlabel="answers", xticks=n_answers, xticklabels=n_answers)
    ax.minorticks_off()
axes[0].set(ylabel="unasked comparisons that hold")
axes[0].legend(frameon=False, loc="lower right")

# %%
# Pairs are a good question where "alike" has a clear meaning: the same person, the same product.
# Where it is a matter of degree, the same number of triplets teaches more.
