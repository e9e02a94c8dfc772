"""
Beside a nearest-neighbour filter
=================================

A common filter keeps a label that is the most frequent one among its nearest neighbours. It has no
error rate to set: what it gives follows from the noise. Digits suit it well, because their classes
are separate groups; the picture shows what each method gives as the noise grows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from kspr import KnockoffsSPR, selection_quality
from kspr.noise import circular

X, y_true = load_digits(return_X_y=True)
near = NearestNeighbors(n_neighbors=21).fit(X).kneighbors(return_distance=False)[:, :20]


def neighbours_keep(y):
    """Return True where no other label is more frequent among the 20 nearest rows."""
    votes = np.stack([(y[near] == label).sum(axis=1) for label in range(10)], axis=1)
    return votes[np.arange(len(y)), y] == votes.max(axis=1)


rates = (0.1, 0.2, 0.3, 0.4, 0.45)
fsr = {"neighbours": [], "kspr, q = 0.1": []}
recall = {"neighbours": [], "kspr, q = 0.1": []}
for rate in rates:
    y = circular(y_true, rate, seed=0)
    masks = {
        "neighbours": neighbours_keep(y),
        "kspr, q = 0.1": KnockoffsSPR(q=0.1, cut="pooled").fit(X, y).selection_.clean_mask,
    }
    for name, mask in masks.items():
        quality = selection_quality(mask, y == y_true)
        fsr[name].append(quality.fsr)
        recall[name].append(quality.recall)
        print(f"{rate:.0%} wrong, {name:>13}: FSR {quality.fsr:.3f}, recall {quality.recall:.3f}")

# %%

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, values, title in zip(
    axes, (fsr, recall), ("wrong among the kept", "right labels kept"), strict=True
):
    for name, line in values.items():
        ax.plot(rates, line, "o-", label=name)
    ax.set(xlabel="share of wrong labels (each digit becomes the next)", ylabel=title)
axes[0].axhline(0.1, color="k", linestyle=":", label="q")
axes[0].legend()
plt.show()
