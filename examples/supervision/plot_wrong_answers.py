"""
Wrong answers, and how an audit finds them
==========================================

People who compare things make mistakes. Here someone compares 400 handwritten digits (they come
with scikit-learn): "image a is more like b than like c" if a and b show the same digit. One answer
in ten of 6000 is the wrong way round, and nobody tells the model which.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from mdaml import MDaML, audit
from mdaml.datasets import make_triplets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

digits = load_digits()
images = digits.images[:400]
X = PCA(20).fit_transform(digits.data / 16)[:400]
T, is_wrong = make_triplets(X, digits.target[:400], n_triplets=6000, wrong=0.1, random_state=0)

# %%
# The audit gives every answer a *suspicion*, the probability that it is wrong: high where the
# learned distance clearly says the opposite.
model = MDaML(random_state=0).fit(X, triplets=T)
suspicion = audit(model, X, triplets=T)["suspicion"].to_numpy()
order = np.argsort(-suspicion)
found = np.cumsum(is_wrong[order]) / is_wrong.sum()
first = is_wrong[order[:600]].mean()

# %%
# If you check answers in the order of their suspicion, how many mistakes do you find? On the right
# the most suspicious ones: the left image is said to be more like the middle one than the last.
fig, (ax, pictures) = plt.subplots(
    1, 2, figsize=(10, 4.6), width_ratios=(1.5, 1), layout="constrained"
)
checked = np.arange(1, 6001) / 6000
ax.plot(checked, found, color="C0", linewidth=3)
ax.plot([0, 1], [0, 1], "--", color="0.5")
ax.text(0.2, 0.86, "in the order of suspicion", color="C0", weight="bold")
ax.text(0.52, 0.42, "in random order", color="0.4")
ax.set(title=f"Check 10% of the answers: find {found[599]:.0%} of the mistakes")
ax.set(xlabel="answers checked", ylabel="mistakes found")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter("{x:.0%}")
rows = [np.hstack([np.pad(images[n], ((1, 1), (1, 5))) for n in T[t]]) for t in order[:5]]
pictures.imshow(np.vstack(rows), cmap="gray_r")
pictures.set(
    title=f"The most suspicious\n({is_wrong[order[:5]].sum()} of 5 are wrong)",
    xticks=[5, 19, 33],
    yticks=[],
)
pictures.set_xticklabels(["this", "more like", "than"])
plt.sca(ax)
