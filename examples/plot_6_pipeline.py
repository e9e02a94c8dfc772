"""
Did cleaning help? A pipeline
=============================

``KnockoffsSPR`` is a step of an imbalanced-learn pipeline: it drops rows in ``fit`` and nothing in
``predict``. So cross-validation cleans the training folds only. The score below is against right
labels that no step has seen; never clean a test set and then report accuracy on it.
"""

import matplotlib.pyplot as plt
import numpy as np
from imblearn.pipeline import make_pipeline
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kspr import KnockoffsSPR
from kspr.noise import symmetric

DATA = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
MODELS = {
    "5 neighbours": KNeighborsClassifier(5),
    "decision tree": DecisionTreeClassifier(random_state=0),
}


def accuracy(model, X, y, y_true):
    """Return the accuracy on right labels, trained on noisy ones, over five folds."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = []
    for train, test in folds.split(X, y_true):
        scores.append((model.fit(X[train], y[train]).predict(X[test]) == y_true[test]).mean())
    return float(np.mean(scores))


results = {}
for name, load in DATA.items():
    X, y_true = load(return_X_y=True)
    y = symmetric(y_true, rate=0.3, seed=0)
    for kind, model in MODELS.items():
        clean = KnockoffsSPR(level="f1", cut="pooled")
        before = accuracy(make_pipeline(StandardScaler(), model), X, y, y_true)
        after = accuracy(make_pipeline(StandardScaler(), clean, model), X, y, y_true)
        results[f"{name}\n{kind}"] = (before, after)
        print(f"{name:>13}, {kind:<13}: {before:.3f} on all labels, {after:.3f} on the kept ones")

# %%

before, after = zip(*results.values(), strict=True)
place = np.arange(len(results))
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
ax.bar(place - 0.2, before, 0.38, color="0.7", label="all labels, 30 % wrong")
ax.bar(place + 0.2, after, 0.38, color="C0", label="kept labels")
ax.set(ylabel="accuracy on right labels", ylim=(0.4, 1.1), xticks=place)
ax.set_xticklabels(results, fontsize=8)
ax.legend(loc="upper center", ncols=2, frameon=False)
plt.show()
