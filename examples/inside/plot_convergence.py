"""
How fast it converges, and how much of it is needed
===================================================

:class:`~mdaml.MDaML` repeats three steps: move the **centres** of the modes, set the **weights** of
the points in them, improve the **metric**. Each step lowers one number, the objective, or leaves it
as it is. A fit keeps it in ``history_``.

Does a lower objective mean a better metric? Half of the data, silhouettes of vehicles, will tell.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from mdaml import Euclidean, MDaML
from mdaml.datasets import load_dataset, make_triplets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])
# Fits are cut short on purpose below, which is usually worth a warning.
warnings.filterwarnings("ignore", category=ConvergenceWarning)

X, y = load_dataset("vehicle", return_X_y=True)
seen = np.random.default_rng(0).permutation(len(X)) < len(X) // 2
X = StandardScaler().fit(X[seen]).transform(X)
T, _ = make_triplets(X[seen], y[seen], n_triplets=20_000, random_state=0)
T_new, _ = make_triplets(X[~seen], y[~seen], n_triplets=20_000, random_state=1)

# %%
# The same start and the same comparisons, stopped after one round, two rounds, and so on. ``tol=0``
# never stops by itself.
rounds = [1, 2, 3, 4, 6, 8, 10, 15, 20, 80]
fits = {n: MDaML(max_iter=n, tol=0, random_state=0).fit(X[seen], triplets=T) for n in rounds}

# %%
# Left: how far the objective is above the end of 80 rounds. Right: the comparisons that hold.
rounds.pop()  # the last one is only there to compare with
excess = fits[20].history_[1:] - fits[80].history_[-1]
known = [fits[n].score_triplets(X[seen], T) for n in rounds]
new = [fits[n].score_triplets(X[~seen], T_new) for n in rounds]

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, layout="constrained")
places = np.arange(1, len(excess) + 1) / 3
left.plot(places, excess, color="0.6", linewidth=1)
for k, (step, marker) in enumerate({"centres": "o", "weights": "s", "metric": "D"}.items()):
    left.plot(places[k::3], excess[k::3], marker, color=f"C{k}", markersize=4, label=step)
left.set(title="The objective never rises", xlabel="round", ylabel="objective, above its end")
left.set_yscale("log")
left.legend(title="after the step of", frameon=False)
right.plot(rounds, known, "o-", rounds, new, "s-", linewidth=2)
right.text(20, known[-1] + 0.01, "learned from", color="C0", ha="right", weight="bold")
right.text(20, new[-1] - 0.025, "of unseen vehicles", color="C1", ha="right", weight="bold")
euclidean = Euclidean().fit(X).score_triplets(X[~seen], T_new)
right.axhline(euclidean, color="0.4", linestyle="--")
right.text(20, euclidean + 0.01, "of unseen vehicles, Euclidean distance", color="0.3", ha="right")
right.set(title="Four rounds are enough here", xlabel="round", ylabel="comparisons that hold")
right.set(xticks=range(0, 21, 4), ylim=(0.58, 0.9))
