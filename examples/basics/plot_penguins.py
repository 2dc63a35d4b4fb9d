"""
Missing values and categories: penguins
=======================================

A table as you find it: 344 penguins of three species, with text in two columns and gaps in others
(Palmer Station LTER, CC0, from the package ``palmerpenguins``). We want a distance under which
penguins of the same **sex** are close. Nobody names the sex. All we have is 2000 comparisons:
"penguin a is more like b than like c".
"""

import matplotlib.pyplot as plt
import numpy as np
from palmerpenguins import load_penguins
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mdaml import Euclidean, MDaML
from mdaml.datasets import make_triplets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

birds = load_penguins().dropna(subset="sex")
male, table = (birds["sex"] == "male").to_numpy(), birds.drop(columns=["sex", "year"])
table.iloc[::9, 5] = np.nan  # more gaps: every ninth penguin was not weighed

# %%
# Fill gaps with the median, scale the numbers, and turn categories into columns of zeros and ones.
# This is ordinary scikit-learn; the metric comes after it.
numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
prepare = make_column_transformer(
    (numbers, make_column_selector(dtype_include="number")),
    (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")),
)
half = np.random.default_rng(0).permutation(len(table)) % 2 == 0
X_train, X_test = prepare.fit_transform(table[half]), prepare.transform(table[~half])
T, _ = make_triplets(X_train, male[half].astype(int), n_triplets=2000, random_state=0)
T_test, _ = make_triplets(X_test, male[~half].astype(int), n_triplets=5000, random_state=1)
model = MDaML(random_state=0).fit(X_train, triplets=T)

# %%
# The other half of the penguins, along the two directions in which they differ most. Before, the
# species are far apart and the sexes mixed. After, one direction is the sex, within every species.
fig, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
metrics = {"Before": Euclidean().fit(X_train), "After": model}
for ax, (name, metric) in zip(axes, metrics.items(), strict=True):
    Z = PCA(2).fit(metric.transform(X_train)).transform(metric.transform(X_test))
    for sex, marker, color in ((True, "^", "C0"), (False, "o", "C2")):
        ax.scatter(*Z[male[~half] == sex].T, s=36, marker=marker, color=color, alpha=0.7)
    shown = birds["species"] if name == "Before" else birds["sex"]
    for value, rows in shown[~half].reset_index(drop=True).groupby(shown[~half].to_numpy()):
        x, y = np.median(Z[rows.index], axis=0)
        ax.text(x, y, value, ha="center", bbox={"facecolor": "white", "alpha": 0.85})
    holds = metric.score_triplets(X_test, T_test)
    ax.set(title=f"{name}: {holds:.0%} of new comparisons hold", xticks=[], yticks=[])
axes[0].legend(axes[0].collections, ["male", "female"], loc="upper left")
