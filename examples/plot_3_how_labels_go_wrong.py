"""
How do the labels go wrong?
===========================

The default control learns by likelihood how labels go wrong. The result is
``selection.noise``: the share of wrong labels, and a matrix that says which class becomes which.
Here every digit has been mislabelled as the next one three times in ten, and the estimate is held
against the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR
from kspr.noise import circular

X, y_true = load_digits(return_X_y=True)
y = circular(y_true, rate=0.3, seed=0)
noise = KnockoffsSPR().fit(X, y).selection_.noise
print(noise)
print(f"truth: {np.mean(y != y_true):.1%}")

# %%
# Rows are true classes, columns are labels. The interval of each entry is in ``noise.low`` and
# ``noise.high``; it covers sampling error only.

real = np.array([[np.mean(y[y_true == a] == b) for b in range(10)] for a in range(10)])
inside = np.mean((noise.low <= real) & (real <= noise.high))
print(f"largest difference of an entry: {np.abs(noise.transition - real).max():.2f}")
print(f"entries whose 95 % interval holds the truth: {inside:.0%}")

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharey=True)
for ax, matrix, title in zip(axes, (noise.transition, real), ("estimated", "true"), strict=True):
    image = ax.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=title, xlabel="label", xticks=range(10), yticks=range(10))
axes[0].set_ylabel("true class")
figure.colorbar(image, ax=axes, label="chance of the label")
plt.show()
