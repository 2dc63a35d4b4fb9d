"""
Find photographs of the same thing, whatever the light
======================================================

Here are 320 pieces of eight photographs (they come with scikit-learn and scikit-image), each under
light of a random colour. GIST describes their strokes and textures, a histogram their colours. Both
together find pieces with the same tint. We want pieces that **show** the same, and say so by 3000
comparisons: "piece a is more like b than like c".
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from sklearn.datasets import load_sample_images
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from mdaml import Euclidean, MDaML
from mdaml.datasets import make_triplets
from mdaml.features import gist, lab_histogram

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 12}])

photos = [*load_sample_images().images, data.astronaut(), data.chelsea(), data.coffee()]
photos += [data.rocket(), data.hubble_deep_field(), data.immunohistochemistry()]
subject, pieces, rng = np.repeat(np.arange(8), 40), [], np.random.default_rng(0)
for photo in subject:
    row, column = (rng.integers(n - 128) for n in photos[photo].shape[:2])
    piece = photos[photo][row : row + 128, column : column + 128]
    pieces.append((piece * rng.uniform(0.4, 1, size=3)).astype("uint8"))

# %%
# 102 numbers describe a piece. We compare half of the pieces; the others are the collection.
texture = gist(pieces, size=64, boundary=16, n_blocks=2, n_orientations=(6, 6, 6), n_jobs=2)
X = np.hstack([texture, lab_histogram(pieces, n_jobs=2)])
X = StandardScaler().fit(X[::2]).transform(X)
X, X_new, pieces, subject_new = X[::2], X[1::2], pieces[1::2], subject[1::2]
T, _ = make_triplets(X, subject[::2], n_triplets=3000, random_state=0)
model = MDaML(random_state=0).fit(X, triplets=T)

# %%
# The titles count over all 160 searches. Drawn are four that gained much: on the left the piece
# searched for, then the five nearest ones. Red frames mark mistakes.
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, metric, name in zip(axes, (Euclidean().fit(X), model), ("Before", "Learned"), strict=True):
    Z = metric.transform(X_new)
    found = NearestNeighbors(n_neighbors=5).fit(Z).kneighbors(return_distance=False)
    right = subject_new[found] == subject_new[:, None]
    for row, query in enumerate([4, 28, 92, 115]):
        for column, n in enumerate([query, *found[query]]):
            x = column + 0.2 * (column > 0)
            ax.imshow(pieces[n], extent=(x, x + 0.94, row + 0.94, row))
            if subject_new[n] != subject_new[query]:
                frame = {"fill": False, "edgecolor": "red", "linewidth": 4}
                ax.add_patch(plt.Rectangle((x + 0.03, row + 0.03), 0.88, 0.88, **frame))
    ax.set(xlim=(0, 6.2), ylim=(4, 0), xticks=[], yticks=[], frame_on=False)
    ax.set_title(f"{name}: {right.mean():.0%} of what is found is right")
