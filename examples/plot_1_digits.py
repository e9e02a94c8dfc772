"""
Find wrong labels among handwritten digits
==========================================

The digits that ship with scikit-learn are 1,797 images of 8 x 8 pixels. We replace 20 % of their
labels by another digit, select the labels that can be trusted, and look at the suspects.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR, selection_quality
from kspr.noise import symmetric

X, y_true = load_digits(return_X_y=True)
y = symmetric(y_true, rate=0.2, seed=0)
selection = KnockoffsSPR(q=0.05).fit(X, y).selection_
print(selection.summary())

# %%
# Here the truth is known, so the selection can be compared with it: the share of wrong labels among
# the kept ones (FSR), and the share of right labels that are kept (recall).

quality = selection_quality(selection.clean_mask, y == y_true)
print(f"asked for 5.0 % wrong among the kept, got {quality.fsr:.1%}")
print(f"kept {quality.recall:.1%} of the right labels")

# %%
# ``suspect_indices`` lists the rows that are not kept, the most suspicious first, and
# ``suggested_label`` has the class that fits best.

worst = selection.suspect_indices[:24]
found = (y[worst] != y_true[worst]).sum()
right = (selection.suggested_label[worst] == y_true[worst]).sum()
print(
    f"of the first {len(worst)} suspects, {found} labels are wrong; {right} suggestions are right"
)

figure, axes = plt.subplots(3, 8, figsize=(9, 4.4), layout="constrained")
for row, ax in zip(worst, axes.flat, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"label {y[row]}\nbetter {selection.suggested_label[row]}", fontsize=9)
    ax.axis("off")
plt.show()
