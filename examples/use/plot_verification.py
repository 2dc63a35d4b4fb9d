"""
The same or not? Letters it knows, and letters it does not
==========================================================

**Verification** asks of two things whether they are of one kind: two photographs of one person, two
offers of one product. The answer is yes if their distance is below a threshold. Here the things are
images of letters in twenty fonts, described by 16 numbers, and two images are the same if they show
the same letter. The metric learns from letters A to M. It never sees N to Z.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from mdaml import KISSME, Constraints, Euclidean, MDaML, PairVerifier
from mdaml.datasets import load_dataset

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

X, y = load_dataset("letter", return_X_y=True)
X, y = X[:6000], y[:6000]
known = y < 13  # A to M
train = known & (np.arange(len(X)) < 3000)
X = StandardScaler().fit(X[train]).transform(X)

# %%
# A metric should learn from the kind of question it will be asked: pairs of images, half of them
# the same. From labels MDaML would look at nearest neighbours only, and be wrong more often here.
supervision = Constraints.from_labels(y[train], kind="pairs", n=20_000, random_state=1)
models = [Euclidean(), KISSME(), MDaML(random_state=0)]
for model in models:
    model.fit(X[train], constraints=supervision)

# %%
# :class:`~mdaml.PairVerifier` sets the threshold on pairs of images that the metric has not seen,
# half of them the same. Its curve shows all thresholds at once: how many of the same are accepted,
# at the price of how many others. The dot is where both kinds of error are equally frequent.
parts = {"Known letters, new images": known & ~train, "Letters it has never seen": ~known}
fig, axes = plt.subplots(1, 2, figsize=(9, 5), sharey=True, layout="constrained")
for ax, (title, part) in zip(axes, parts.items(), strict=True):
    asked = Constraints.from_labels(y[part], kind="pairs", n=10_000, random_state=0)
    pairs = asked.pairs, asked.pair_labels
    for model, style in zip(models, ("--", "-.", "-"), strict=True):
        verifier = PairVerifier(model).fit(X[part], *pairs)
        false, true, _ = verifier.roc_curve(X[part], *pairs)
        rate = verifier.equal_error_rate_
        line = ax.plot(
            false, true, style, linewidth=2, label=f"{type(model).__name__}: {rate:.0%} errors"
        )[0]
        ax.plot(rate, 1 - rate, "o", color=line.get_color())
    ax.plot([0, 1], [0, 1], ":", color="0.5", label="chance")
    ax.set(title=title, xlabel="different, but accepted", aspect="equal")
    ax.legend(frameon=False, loc="lower right", fontsize=11)
axes[0].set_ylabel("the same, and accepted")

# %%
# MDaML and KISSME are about equal, and KISSME, a closed formula, is faster. Only part of what was
# learned carries over to new letters: try your metric on kinds that it does not know.
