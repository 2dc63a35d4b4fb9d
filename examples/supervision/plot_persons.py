"""
Kinds of people
===============

What is alike to one person is not to another. Thirty people compare 392 cars of the bundled Auto
MPG table: some think of what a car costs to run, some of how it drives, a few of its age. Nobody
tells which. The cars are real; the people are simulated, so that we know what they think of.

:class:`~mdaml.people.PersonalMetrics` finds the kinds of people, and learns a metric for each.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from mdaml.datasets import load_dataset, make_triplets
from mdaml.people import PersonalMetrics
from mdaml.plot import plot_kinds

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

features = ["mpg", "cylinders", "displacement", "horsepower", "weight", "acceleration", "year"]
X = pd.DataFrame(StandardScaler().fit_transform(load_dataset("autompg").data), columns=features)
cares_for = [["mpg", "weight"], ["horsepower", "acceleration"], ["year"]]
kind = np.repeat([0, 1, 2], [14, 10, 6])

# %%
# Every person answers 100 questions, one in ten wrongly, and 300 more that only serve as a test.
answers, tests = [], []
for person in range(30):
    taste = np.eye(7)[[features.index(name) for name in cares_for[kind[person]]]]
    drawn = {"components": taste, "random_state": person}
    answers.append(make_triplets(X, n_triplets=100, wrong=0.1, **drawn)[0])
    tests.append(make_triplets(X, n_triplets=400, **drawn)[0][100:])
who = np.repeat(np.arange(30), 100)
model = PersonalMetrics().fit(X, triplets=np.concatenate(answers), who=who)

# %%
# Left: what each kind looks at, with intervals of 95 %. Right: agreement of each person with
# answers that the model has not seen.
for_all = np.array([model.score_triplets(X, T) for T in tests])
own = np.array([model.score_triplets(X, T, who=n) for n, T in enumerate(tests)])

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
plot_kinds(model, X, ax=left)
left.set_title(f"{model.n_kinds_} kinds of people")
looks = {"running costs": ("o", "#0072b2"), "driving": ("s", "#e69f00"), "age": ("^", "#009e73")}
for k, (name, (marker, color)) in enumerate(looks.items()):
    right.plot(for_all[kind == k], own[kind == k], marker, ms=9, color=color, label=name)
right.axline((0.7, 0.7), slope=1, linestyle="--", color="0.5")
right.text(0.72, 0.7, "no gain", color="0.4")
right.set(title=f"Agreement: {for_all.mean():.0%} → {own.mean():.0%}")
right.set(ylim=(0.6, 1), xlabel="one metric for everybody", ylabel="the metric of the kind")
right.legend(loc="lower right", fontsize=11)
