"""
Does the assumption hold on my data?
====================================

``kspr.selfcheck`` flips some labels on purpose, selects again, and counts how many of the flipped
ones are kept. Flips between classes at random are what the default control assumes. Flips of rows
near a class border (``"hard"``) are closer to how people err, and no control assumes them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR, selfcheck

X, y = load_digits(return_X_y=True)
check = selfcheck(
    X, y, KnockoffsSPR(q=0.05), share=0.1, kinds=["symmetric", "pair", "similar", "hard"]
)
print(check)

# %%
# A bar above its mark by more than two standard errors is "not held". A self-check that says
# "held" says so for flips of these kinds. "hard" has no verdict: it shows how far the rate would
# be off. Whether the labels at hand go wrong in these ways can only be told by a person who looks
# at some of them: see the example on checked rows.

names = [kind.kind for kind in check.kinds]
place = np.arange(len(names))
colours = {"held": "C2", "not held": "C3", "cannot tell": "0.6", None: "0.8"}
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.bar(
    place,
    [kind.found for kind in check.kinds],
    yerr=[2 * kind.error for kind in check.kinds],
    color=[colours[kind.verdict] for kind in check.kinds],
    width=0.5,
    capsize=4,
)
ax.hlines([kind.promised for kind in check.kinds], place - 0.35, place + 0.35, color="k")
ax.set(ylabel="wrong labels among the kept", xticks=place)
ax.set_xticklabels([f"{kind.kind}\n{kind.verdict or 'no verdict'}" for kind in check.kinds])
plt.show()
