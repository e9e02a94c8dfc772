"""
Which q?
========

One fit answers for every error rate. ``curve()`` lists what each level would keep, so you can look
before you choose, and ``at(q)`` moves to a level without fitting again.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR, selection_quality
from kspr.noise import symmetric

X, y_true = load_digits(return_X_y=True)
y = symmetric(y_true, rate=0.4, seed=0)
selection = KnockoffsSPR(cut="pooled").fit(X, y).selection_
curve = selection.curve()
print(curve)

# %%
# No level in mind? The level with the greatest estimated F1 weighs a wrong label that is kept and a
# right label that is lost alike. ``KnockoffsSPR(level="f1", cut="pooled")`` uses it directly.

print(f"greatest estimated F1 at q = {curve.best_f1_level:.3f}")

# %%
# A larger q keeps more labels, and more of them are wrong. The truth is known here, so the picture
# also shows what each level really gives.

levels = np.linspace(0.01, 0.4, 40)
real = [selection_quality(selection.at(q).clean_mask, y == y_true) for q in levels]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(curve.q, curve.share_kept, color="C0")
left.axhline(0.6, color="0.6", linestyle=":", label="share of right labels")
left.axvline(curve.best_f1_level, color="C1", linestyle="--", label="greatest estimated F1")
left.set(
    xlabel="q: error rate asked for", ylabel="share of labels kept", xlim=(0, 0.4), ylim=(0, 1)
)
left.legend(loc="lower right")
right.plot(levels, [quality.fsr for quality in real], color="C3", label="wrong among the kept")
right.plot([0, 0.4], [0, 0.4], color="0.6", linestyle=":", label="asked = real")
right.set(xlabel="q: error rate asked for", ylabel="real error rate", xlim=(0, 0.4), ylim=(0, 0.45))
right.legend(loc="upper left")
plt.show()

for q in (0.05, 0.1, 0.2):
    quality = selection_quality(selection.at(q).clean_mask, y == y_true)
    print(f"q = {q}: {quality.fsr:.3f} wrong among the kept, recall {quality.recall:.3f}")
