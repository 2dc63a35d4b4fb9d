"""
Each person has a metric of their own
=====================================

What is alike to one person is not to another. Thirty people compare 392 cars of the bundled Auto
MPG table: some think of what a car costs to run, some of how it drives, some of its age. Nobody
tells which. The cars are real; the people are simulated, so that we know what they think of.

:class:`~mdaml.people.PersonalMetrics` learns one metric for everybody and one for each person.
Whoever answered little keeps nearly that of everybody.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from mdaml.datasets import load_dataset, make_triplets
from mdaml.inspection import feature_relevance
from mdaml.people import PersonalMetrics

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

features = ["mpg", "cylinders", "displacement", "horsepower", "weight", "acceleration", "year"]
X = StandardScaler().fit_transform(load_dataset("autompg").data)
cares_for = [["mpg", "weight"], ["horsepower", "acceleration"], ["year"]]

# %%
# Every person answers 100 questions, one in ten wrongly, and 300 more that only serve as a test.
answers, tests = [], []
for person in range(30):
    taste = np.eye(7)[[features.index(name) for name in cares_for[person // 10]]]
    drawn = {"components": taste, "random_state": person}
    answers.append(make_triplets(X, n_triplets=100, wrong=0.1, **drawn)[0])
    tests.append(make_triplets(X, n_triplets=400, **drawn)[0][100:])
who = np.repeat(np.arange(30), 100)
model = PersonalMetrics(n_directions=7).fit(X, triplets=np.concatenate(answers), who=who)

# %%
# Left: how much of each person's distance comes from each feature. Right: agreement with answers
# that the model has not seen.
share = np.array([feature_relevance(model.metric_for(person), X) for person in range(30)])
for_all = np.array([model.score_triplets(X, T) for T in tests])
own = np.array([model.score_triplets(X, T, who=np.repeat(n, 300)) for n, T in enumerate(tests)])

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
left.imshow(share, cmap="Blues", aspect="auto", vmin=0, vmax=0.6)
left.set_xticks(range(7), features, rotation=40, ha="right")
left.set_yticks([4.5, 14.5, 24.5], ["running\ncosts", "driving", "age"])
left.hlines([9.5, 19.5], -0.5, 6.5, color="black")
left.set(title="What each of 30 people looks at")
for k, (marker, name) in enumerate(zip("os^", ("running costs", "driving", "age"), strict=True)):
    people = slice(10 * k, 10 * k + 10)
    right.plot(for_all[people], own[people], marker, ms=9, color=f"C{k}", label=name)
right.axline((0.7, 0.7), slope=1, linestyle="--", color="0.5")
right.text(0.7, 0.73, "no gain", color="0.4")
right.set(title=f"Agreement: {for_all.mean():.0%} → {own.mean():.0%}")
right.set(ylim=(0.6, 1), xlabel="one metric for everybody", ylabel="a metric for each person")
right.legend(loc="lower right", fontsize=11)
