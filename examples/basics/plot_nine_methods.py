"""
Nine methods on real tables
===========================

All methods of the library are used alike: ``fit(X, y)``, then ``transform(X)``. Here they learn
from the classes of four small tables, with their default parameters. The number is the accuracy of
three nearest neighbours on rows that were not learned from: the mean of three splits.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mdaml import DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML
from mdaml.datasets import load_dataset

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])
# Not all converge within their default number of steps, and are good enough all the same.
warnings.filterwarnings("ignore", category=ConvergenceWarning)

names = ["autompg", "balance", "vehicle", "wine"]
# shrinkage=0: learn in any case, as the others do, instead of only if it helps beyond chance.
ours = MDaML(shrinkage=0, random_state=0)
methods = [Euclidean(), ours, LMNN(), GMML(), LFDA(), KISSME()]
methods += [DMLMJ(random_state=0), DMLeig(), DMLdc()]
splits = ShuffleSplit(3, test_size=0.3, random_state=0)


def accuracy(method, X, y):
    """Mean accuracy of three nearest neighbours after the method, in percent."""
    model = make_pipeline(StandardScaler(), clone(method), KNeighborsClassifier(3))
    return 100 * cross_val_score(model, X, y, cv=splits).mean()


# %%
# Purple is better than Euclidean distance on the same table, orange is worse.
tables = [load_dataset(name, return_X_y=True) for name in names[:3]]
tables.append(load_wine(return_X_y=True))
scores = np.array([[accuracy(method, *table) for table in tables] for method in methods])

gain = scores - scores[0]
order = np.argsort(-gain.mean(axis=1))
fig, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
ax.imshow(gain[order], cmap="PuOr", vmin=-28, vmax=28, aspect="auto")
for (i, j), score in np.ndenumerate(scores[order]):
    best = round(score) == round(scores[:, j].max())
    ax.text(j, i, f"{score:.0f}", ha="center", va="center", weight="bold" if best else "normal")
ax.set_xticks(range(len(names)), names)
ax.set_yticks(range(len(methods)), [type(methods[n]).__name__ for n in order])
ax.set_title("3-NN accuracy in percent (bold: best)")
