"""
Modes: penguins of one sex come in three kinds
==============================================

Who compares penguins by **sex** says that a male Adelie is like a male Gentoo. Yet the two look
quite different: a class has several **modes**, here the three species. :class:`~mdaml.MDaML` looks
for modes while it learns, and gives every comparison a **self-weight**: near 1 if its similar pair
lies in one mode, near 0 if it joins two. For ``goal="neighbors"`` only the former need to hold.

The comparisons are about the sex. Nobody tells the model that there are species.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from palmerpenguins import load_penguins
from sklearn.preprocessing import StandardScaler

from mdaml import PRESETS, MDaML, audit
from mdaml.datasets import make_triplets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

birds = load_penguins().dropna()
X = StandardScaler().fit_transform(birds.iloc[:, 2:6])  # bill length and depth, flipper, mass
male, species = (birds["sex"] == "male").to_numpy().astype(int), birds["species"].to_numpy()
T, _ = make_triplets(X, male, n_triplets=4000, random_state=0)

# %%
# Three modes, and an anchor that keeps the metric near Euclidean distance. The answers are used as
# they are, without looking for groups that they follow.
goal = replace(PRESETS["neighbors"], find_groups=False)
model = MDaML(3, goal=goal, anchor=0.1, random_state=0).fit(X, triplets=T)
mode = model.weights_.argmax(axis=1)
weight = audit(model, X, triplets=T)["self_weight"].to_numpy()
within = species[T[:, 0]] == species[T[:, 1]]

# %%
# Colours are the modes that were found, labels the species that nobody named.
fig, (right, left) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
bins = np.linspace(0, 1, 11)
right.hist([weight[within], weight[~within]], bins, color=["C0", "C2"])
right.text(0.97, 0.8, "pairs of one species", color="C0", transform=right.transAxes, ha="right")
right.text(0.2, 0.9, "pairs of two species", color="C2", transform=right.transAxes)
right.set(title="Self-weights tell them apart", xlabel="self-weight", ylabel="comparisons")
for k, marker in enumerate("os^"):
    shown = birds[mode == k]
    left.scatter(shown.bill_length_mm, shown.flipper_length_mm, s=30, marker=marker, alpha=0.7)
for name, group in birds.groupby("species"):
    place = group[["bill_length_mm", "flipper_length_mm"]].median()
    left.text(*place, name, ha="center", bbox={"facecolor": "white", "alpha": 0.85})
agree = sum(np.bincount(mode[species == name]).max() for name in np.unique(species)) / len(X)
left.set(title=f"The modes found are the species ({agree:.0%})")
left.set(xlabel="length of the bill, mm", ylabel="length of the flipper, mm")
