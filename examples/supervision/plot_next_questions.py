"""
Which question to ask next
==========================

Answers cost time, so it pays to ask well. :func:`~mdaml.suggest_queries` proposes comparisons whose
answer the learned distance cannot foresee and that differ from one another. We start with 30 random
questions and add 30 at a time, five times: proposed ones in one case, random ones in the other.
"""

import matplotlib.pyplot as plt
import numpy as np

from mdaml import MDaML, suggest_queries
from mdaml.datasets import make_triplets

plt.style.use("seaborn-v0_8-colorblind")

hidden = np.eye(8)[:4]  # whoever answers looks at four of eight features
n_answers = np.arange(30, 181, 30)


def answer(X, T):
    """Put the nearer of two points in the middle column, under the hidden distance."""
    a, b, c = (X[T] @ hidden.T).swapaxes(0, 1)
    swap = np.linalg.norm(a - b, axis=1) > np.linalg.norm(a - c, axis=1)
    return np.where(swap[:, None], T[:, [0, 2, 1]], T)


def learn(seed, suggest):
    """Ask and fit in turn; return the share of 4000 other comparisons that hold, each time."""
    X = np.random.default_rng(seed).normal(size=(150, 8))
    drawn, _ = make_triplets(X, n_triplets=4180, components=hidden, random_state=seed)
    asked, scores = drawn[:30], []
    for n in n_answers:
        model = MDaML().fit(X, triplets=asked)
        scores.append(model.score_triplets(X, drawn[180:]))
        queries = suggest_queries(model, X, 30, random_state=0) if suggest else drawn[n : n + 30]
        asked = np.concatenate([asked, answer(X, queries)])
    return scores


# %%
# Eight repetitions with points of their own, the same for both ways. Pale lines are single ones.
proposed, random = (np.array([learn(seed, way) for seed in range(8)]) for way in (True, False))

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.4), sharex=True, layout="constrained")
for name, scores, color in (("proposed", proposed, "C0"), ("random", random, "C2")):
    left.plot(n_answers, scores.T, color=color, alpha=0.25, linewidth=1)
    left.plot(n_answers, scores.mean(axis=0), "o-", color=color, label=f"{name} questions")
left.set(title="Good questions save answers", ylabel="unasked comparisons that hold")
left.legend(frameon=False, loc="lower right")
gain = proposed - random
right.plot(n_answers, gain.T, color="0.7")
right.plot(n_answers, gain.mean(axis=0), "o-", label="mean")
right.axhline(0, color="black", linewidth=0.8)
right.set(title=f"They help in {np.sum(gain[:, -1] > 0)} of 8 repetitions", ylabel="gain")
right.legend(frameon=False, loc="upper left")
right.set_xticks(n_answers)
fig.supxlabel("answers", fontsize="medium")
