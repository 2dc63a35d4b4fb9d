"""
Ask people well: half as many answers
=====================================

``mdaml ask cars.csv`` shows a page where people compare your items, and learns while they answer.
In a notebook, :class:`~mdaml.ask.Interview` asks in a cell. Both choose what to ask with
:func:`~mdaml.suggest_queries`: comparisons that the current metric cannot foresee. Does that help?

The items are 392 real cars (Auto MPG). The person is simulated, and looks at consumption,
horsepower and year.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from mdaml import MDaML, suggest_queries
from mdaml.datasets import load_dataset, make_triplets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])
# Expected: the first answers may say nothing new.
warnings.filterwarnings("ignore", message="The learned distance agrees")

X = StandardScaler().fit_transform(load_dataset("autompg").data)
opinion, n_answers = np.eye(7)[[0, 3, 6]], np.arange(30, 181, 30)


def answer(T):
    """Put the car that is more like the first one in the middle column."""
    a, b, c = (X[T] @ opinion.T).swapaxes(0, 1)
    swap = ((a - b) ** 2).sum(axis=1) > ((a - c) ** 2).sum(axis=1)
    return np.where(swap[:, None], T[:, [0, 2, 1]], T)


def interview(seed, suggest):
    """Ask 30 questions at a time; return the agreement with 4000 others after each time."""
    drawn, _ = make_triplets(X, n_triplets=4180, components=opinion, random_state=seed)
    asked, scores = drawn[:30], []
    for n in n_answers:
        model = MDaML(anchor=1.0).fit(X, triplets=asked)
        scores.append(model.score_triplets(X, drawn[180:]))
        queries = suggest_queries(model, X, 30, random_state=0) if suggest else drawn[n : n + 30]
        asked = np.concatenate([asked, answer(queries)])
    return scores


# %%
# The first 30 questions are the same. Thick lines are means of four interviews, pale ones single.
scores = np.array([[interview(n, suggest) for n in range(4)] for suggest in (True, False)])
chosen, random = scores.mean(axis=1)
enough = n_answers[np.argmax(chosen >= random[-1])]
fig, ax = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
for k, (name, style) in enumerate({"chosen questions": "C0o-", "random questions": "C2s-"}.items()):
    ax.plot(n_answers, scores[k].T, style[:2], alpha=0.2)
    ax.plot(n_answers, scores[k].mean(axis=0), style, linewidth=3)
    ax.text(120, (0.98, 0.9)[k], name, color=style[:2], weight="bold", ha="center")
ax.set(title=f"{enough} chosen questions teach as much as 180 random ones", xlabel="answers")
ax.set(ylabel="agreement with the person", xticks=n_answers, ylim=(0.85, 1))
