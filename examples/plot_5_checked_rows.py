"""
Rows that a person has checked
==============================

People mistake what is hard to tell, so their errors depend on the features. No method can learn
that from labels and features alone, and the error rate of the default is passed. Rows drawn at
random and checked by a person settle it: ``selection.draw_checks(100)``, then
``selection.with_checks(rows, true_labels)``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import scale

from kspr import KnockoffsSPR, selection_quality

X, y_true = load_digits(return_X_y=True)
Q = 0.1


# %%
# Mislabel the rows that a classifier finds hardest, as the class it confuses them with: a fifth of
# the rows, drawn among the hardest half.

chance = cross_val_predict(
    LogisticRegression(C=0.01, max_iter=200), scale(X), y_true, method="predict_proba"
)
rival = np.where(np.arange(10) == y_true[:, None], -1, chance).argmax(axis=1)
margin = chance[np.arange(len(X)), y_true] - chance[np.arange(len(X)), rival]
hardest = np.argsort(margin)[: len(X) // 2]

without, checked = [], []
for seed in range(10):
    rng = np.random.default_rng(seed)
    y = y_true.copy()
    wrong = rng.choice(hardest, len(X) // 5, replace=False)
    y[wrong] = rival[wrong]
    plain = KnockoffsSPR(q=Q, random_state=seed).fit(X, y).selection_
    rows = plain.draw_checks(100, seed=seed)  # what the person looks at
    sure = plain.with_checks(rows, y_true[rows], seed=seed)
    without.append(selection_quality(plain.clean_mask, y == y_true))
    checked.append(selection_quality(sure.clean_mask, y == y_true))

for name, found in (("from labels alone", without), ("with 100 checked rows", checked)):
    fsr = np.mean([quality.fsr for quality in found])
    recall = np.mean([quality.recall for quality in found])
    print(f"{name}: asked for {Q:.0%}, got {fsr:.1%} on average, recall {recall:.0%}")

# %%
# The price is recall. Nothing was fitted again: the checked rows move the cut.

print(sure.assumption)

names = ["labels alone", "100 checked rows"]
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
for height, found in enumerate((without, checked)):
    ax.plot([quality.fsr for quality in found], np.full(10, height), "o", alpha=0.6)
ax.axvline(Q, color="k", linestyle=":")
ax.text(Q, 1.4, " q", va="center")
ax.set(xlabel="wrong labels among the kept, ten draws", ylim=(-0.6, 1.6), xlim=(0, None))
ax.set_yticks([0, 1], names)
plt.show()
