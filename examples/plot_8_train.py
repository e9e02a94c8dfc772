"""
Train a network on labels that are partly wrong
===============================================

``kspr.train.fit`` selects and trains in turns. A guard trains a second network on all given
labels, and the run ends with that one if it is ahead on held-out rows. Needs ``torch``:
``pip install 'knockoffs-spr[train]'``.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kspr.noise import symmetric
from kspr.train import TrainSettings, fit

X, y = load_digits(return_X_y=True)
X_train, X_test, truth, y_test = train_test_split(X / 16, y, test_size=500, random_state=0)
y_train = symmetric(truth, rate=0.4, seed=0)

settings = TrainSettings.from_preset("cpu", epochs=12, seed=0)
trained = fit(X_train, y_train, settings=settings, truth=truth, test=(X_test, y_test))
print(f"accuracy on right test labels: {trained.test_accuracy:.3f}")
print(f"network: {trained.model_choice} of epoch {trained.epoch}")

# %%
# The history has both networks, so a run also tells what plain training would have given.

last = trained.history[-1]
print(f"plain training ends at {last['reference_accuracy_average']:.3f}")

epochs = [line["epoch"] for line in trained.history]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(epochs, [line["accuracy_average"] for line in trained.history], label="with selection")
left.plot(
    epochs,
    [line["reference_accuracy_average"] for line in trained.history],
    color="0.6",
    label="labels as they are",
)
left.set(xlabel="epoch", ylabel="accuracy on right test labels", ylim=(0, 1))
left.legend(loc="lower right")
for name in ("kept", "fsr", "recall"):
    right.plot(epochs, [line[name] for line in trained.history], label=name)
right.set(xlabel="epoch", ylabel="of the selection", ylim=(0, 1))
right.legend(loc="center right")
plt.show()
