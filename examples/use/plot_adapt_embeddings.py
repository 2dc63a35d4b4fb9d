"""
Embeddings that group by topic, adapted to tone
===============================================

An embedding turns a text into a vector, so that texts about the same thing are close. That may not
be the likeness you need. Say you sort reviews by **tone**, praise or complaint, whatever they are
about. A few hundred comparisons, "this review is more like that one than like the other", adapt the
vectors. The model that made them is not needed.

The reviews are made up of a few words here, and their vectors come from latent semantic analysis.
Vectors of a language model, or of images, are used in the same way.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from mdaml import Euclidean, MDaML
from mdaml.datasets import make_triplets

plt.style.use("seaborn-v0_8-colorblind")

topics = {
    "hotel": "room bed pool towels lobby breakfast view balcony",
    "phone": "screen battery camera charger speaker keys case signal",
    "film": "plot actor scene ending music script dialogue costume",
}
tones = {
    "praise": "lovely great friendly perfect charming superb clean quick",
    "complaint": "awful broken rude terrible useless dirty slow dull",
}
rng = np.random.default_rng(0)
topic, tone = rng.choice(list(topics), 600), rng.choice(list(tones), 600)
reviews = [
    " ".join([*rng.choice(topics[t].split(), 4, replace=False), rng.choice(tones[s].split())])
    for t, s in zip(topic, tone, strict=True)
]
X = TruncatedSVD(30, random_state=0).fit_transform(TfidfVectorizer().fit_transform(reviews))

# %%
# Someone compares half of the reviews by tone, 500 times, and errs one time in ten. The other half
# is new to the model; all comparisons by tone there should hold.
T, _ = make_triplets(X[:300], tone[:300], n_triplets=500, wrong=0.1, random_state=0)
T_new, _ = make_triplets(X[300:], tone[300:], n_triplets=4000, random_state=1)
models = {"Before": Euclidean().fit(X), "After": MDaML(random_state=0).fit(X[:300], triplets=T)}

fig, axes = plt.subplots(1, 2, figsize=(8, 4.8), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    points = PCA(2).fit_transform(model.transform(X[300:]))  # the two widest directions
    for t, marker in zip(topics, "os^", strict=True):
        for s, color in zip(tones, ("C0", "C2"), strict=True):
            these = points[(topic[300:] == t) & (tone[300:] == s)]
            ax.scatter(*these.T, s=22, marker=marker, color=color, alpha=0.6, label=f"{s}, {t}")
    held = model.score_triplets(X[300:], T_new)
    ax.set(title=f"{name}: {held:.0%} of comparisons hold", xticks=[], yticks=[])
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)

# %%
# Before, reviews lie together by topic. After, tone comes first, and topic second.
