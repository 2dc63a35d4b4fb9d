"""
Adapt sentence embeddings to your questions
===========================================

Customers of a bank ask the same thing in many words. An encoder turns each sentence into a vector,
and a search finds the nearest question that has been answered before. The encoder was not made for
a bank: to it "a top-up that failed" is close to "a top-up by card". Pairs of sentences that mean
the same adapt it by one matrix. The vectors in the index stay as they are.

The sentences are part of banking77 (Casanueva et al. 2020, CC BY 4.0): 15 for each of 77 intents
are in the index, 5 of each are asked.
"""

import matplotlib.pyplot as plt
import numpy as np

from mdaml.datasets import load_banking77
from mdaml.retrieval import QueryAdapter, retrieval_scores

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

bank = load_banking77()
index, asked = bank.data[~bank.is_test], bank.data[bank.is_test]
intent, sought = bank.target[~bank.is_test], bank.target[bank.is_test]

# %%
# Two sentences of the index are a pair if they have the same intent. The adapter tries how far to
# move on sentences that it holds out, and would return the vectors as they are if nothing helped.
pairs = np.argwhere(intent[:, None] == intent)
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
adapter = QueryAdapter(random_state=0).fit(index, index, pairs)
scores = retrieval_scores(adapter, asked, index, np.argwhere(sought[:, None] == intent))

# %%
# Above, what the search finds for 385 new questions; the lines are 95 % intervals of the gain.
# Below, a question whose first answer was wrong before.
found = [(Q @ index.T).argmax(axis=1) for Q in (asked, adapter.transform_queries(asked))]
helped = np.flatnonzero((intent[found[0]] != sought) & (intent[found[1]] == sought))[2]
old, new = (np.array(bank.texts)[~bank.is_test][hits[helped]] for hits in found)

measures = {
    "ndcg@10": "nDCG@10",
    "precision@5": "right of\nfirst five",
    "hit_rate@1": "first is\nright",
}
fig, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
for row, name in enumerate(measures):
    before, after = scores.base[name], scores.scores[name]
    ax.plot(before + np.array(scores.interval[name]), [row, row], color="black", linewidth=2)
    ax.annotate(
        "", (after, row), (before, row), arrowprops={"arrowstyle": "->", "lw": 3, "color": "C0"}
    )
    ax.plot(before, row, "o", color="0.5", markersize=12)
    ax.text(before, row + 0.17, f"{before:.0%}", ha="right", color="0.3")
    ax.text(after, row + 0.17, f"{after:.0%}", ha="left", color="C0", weight="bold")
ax.set_yticks(range(3), measures.values())
ax.set(ylim=(-0.5, 2.6), xmargin=0.12, title="One matrix learned: search of 385 questions")
ax.xaxis.set_major_formatter("{x:.0%}")
question = np.array(bank.texts)[bank.is_test][helped]
fig.supxlabel(f"“{question}”\nbefore: {old}\nafter: {new}", fontsize=11, x=0.02, ha="left")
