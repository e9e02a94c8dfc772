"""
What q means
============

You ask for an error rate q: the share of wrong labels among the kept ones. This picture shows what
you get, on handwritten digits of which 20 % are mislabelled in two different ways.

- **By class**: how a label goes wrong depends on the true class only.
- **Half of them by difficulty**: half of the wrong labels are as above; the other half are the rows
  that are hardest to tell, mislabelled as the class they look like. The features say that these
  labels are right, so no estimate from features can count them: checked rows can.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import scale

from kspr import KnockoffsSPR, selection_quality
from kspr.noise import symmetric

X, y_true = load_digits(return_X_y=True)
levels = np.array([0.02, 0.05, 0.1, 0.15, 0.2])

chance = cross_val_predict(
    LogisticRegression(C=0.01, max_iter=200), scale(X), y_true, method="predict_proba"
)
rival = np.where(np.arange(10) == y_true[:, None], -1, chance).argmax(axis=1)
rows = np.arange(len(X))
hardest = np.argsort(chance[rows, y_true] - chance[rows, rival])[: len(X) // 2]


def by_class(seed):
    """Return labels of which 20 % are any other class."""
    return symmetric(y_true, rate=0.2, seed=seed)


def half_by_difficulty(seed):
    """Return labels: 10 % are any other class, 10 % are hard rows as the class they look like."""
    y = symmetric(y_true, rate=0.1, seed=seed)
    right = hardest[y[hardest] == y_true[hardest]]
    wrong = np.random.default_rng(seed).choice(right, len(X) // 10, replace=False)
    y[wrong] = rival[wrong]
    return y


def real_rates(mislabel):
    """Return the real error rate at every level, for five draws of wrong labels."""
    rates = []
    for seed in range(5):
        y = mislabel(seed)
        selection = KnockoffsSPR(cut="pooled", random_state=seed).fit(X, y).selection_
        masks = [selection.at(q).clean_mask for q in levels]
        rates.append([selection_quality(mask, y == y_true).fsr for mask in masks])
    return np.array(rates)


found = {"by class": real_rates(by_class), "half by difficulty": real_rates(half_by_difficulty)}
for name, rates in found.items():
    for q, mean in zip(levels, rates.mean(axis=0), strict=True):
        print(f"labels wrong {name}: asked for {q:.0%}, got {mean:.1%}")

# %%
# Each dot is one draw; the line is the mean. On the dotted line you get what you asked for; above
# it, more of the kept labels are wrong.

figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
for colour, shift, (name, rates) in zip(
    ("C0", "C3"), (-0.0012, 0.0012), found.items(), strict=True
):
    ax.plot(levels, rates.mean(axis=0), color=colour, label=f"labels wrong {name}")
    ax.plot(np.tile(levels + shift, len(rates)), rates.ravel(), "o", color=colour, alpha=0.25)
ax.plot([0, 0.21], [0, 0.21], color="k", linestyle=":", label="what was asked for")
ax.set(xlabel="q: the error rate you ask for", ylabel="the error rate you get", xlim=(0, 0.21))
ax.set_ylim(0, None)
ax.legend(loc="upper left", frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
