"""
Wrong answers, and how an audit finds them
==========================================

People who compare things err. Here 4000 comparisons "a is more like b than like c" are answered by
someone who looks at four of eight features, and 15 % of the answers are turned round. Nobody tells
the model which.
"""

import matplotlib.pyplot as plt
import numpy as np

from mdaml import MDaML, audit
from mdaml.datasets import make_triplets
from mdaml.plot import plot_audit

plt.style.use("seaborn-v0_8-colorblind")

X = np.random.default_rng(0).normal(size=(600, 8))
seen_by_people = np.eye(8)[:4]
T, is_wrong = make_triplets(
    X, n_triplets=4000, components=seen_by_people, wrong=0.15, random_state=0
)

# %%
# The points have no groups, so one mode is enough. The audit gives every answer a *suspicion*, the
# probability that it is wrong: high where the learned distance clearly says the opposite.
model = MDaML().fit(X, triplets=T)
frame = audit(model, X, triplets=T)

# %%
# On the left what you would see: suspicion against *slack*, the distance to spare. On the right
# what only we can see, as we turned the answers round ourselves.
suspected = (frame["category"] == "suspected wrong").to_numpy()
found, false_alarms = (suspected & is_wrong).sum(), (suspected & ~is_wrong).sum()

fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 5), layout="constrained")
plot_audit(frame, ax=left)
left.get_legend().remove()  # there is more room below
fig.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False)
left.set_title(f"The audit suspects {suspected.sum()} of {len(T)} answers")
truth = {"right answers": ~is_wrong, "wrong answers": is_wrong}
parts = [frame["suspicion"][which] for which in truth.values()]
right.hist(parts, np.linspace(0, 1, 11), color=["C0", "C2"], label=list(truth))
right.set(yscale="log", xlabel="suspicion", ylabel="answers (logarithmic)")
right.set_title(f"{found} of {is_wrong.sum()} found, {false_alarms} false alarms")
right.legend(loc="upper center", frameon=False)

# %%
# Nearly all wrong answers have a suspicion close to 1. Those that are missed are near ties, where a
# wrong answer does little harm. Look at the suspects, ask again, and fit anew.
