"""`SelectionCallback` in a training loop of one's own: wrong labels in use, and accuracy.

Run: ``python benchmarks/own_loop.py``; it writes benchmarks/results/own_loop.jsonl and the table of
docs/how-to/training-loop.md.
"""

import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn import functional
from torch.utils.data import DataLoader

from _common import SHARED, Bench, Store, either, markdown_table
from _data import Sample, cifar10
from kspr.models.build import build_network
from kspr.noise import symmetric
from kspr.train import CleanSampler, SelectionCallback

COMMAND = "python benchmarks/own_loop.py"
TRIALS = Store("own_loop")
SEEDS, EPOCHS, N_TRAIN = either((0, 1), (0,)), either(15, 3), either(6000, 60)
RATE, Q, FIRST = 0.4, 0.1, 1
"""The network is asked after this epoch, counted from 0, and all later ones."""
METHODS = ("all labels", "selected once", "the network's selections", "the callback")


def digits(seed: int) -> Sample:
    """Two thirds of the digits to train on, the others to test on."""
    X, truth = load_digits(return_X_y=True)
    return _noisy(X[:1200], truth[:1200], (X[1200:], truth[1200:]), seed)


def features(seed: int) -> Sample:
    """Rows of the CIFAR-10 features."""
    data = cifar10()
    return _noisy(data.X[:N_TRAIN], data.y[:N_TRAIN], (data.X_test, data.y_test), seed)


def texts(seed: int) -> Sample:
    """Embeddings of questions to a bank, 77 classes."""
    with np.load(SHARED / "text" / "banking77.npz") as data:
        X, y, train = data["X"].astype(np.float32), data["y"], data["split"] == "train"
    y = np.unique(y, return_inverse=True)[1]
    return _noisy(X[train], y[train], (X[~train], y[~train]), seed)


SETS = either(
    {"digits": digits, "CIFAR-10 features": features, "banking77": texts}, {"digits": digits}
)


def _noisy(X: np.ndarray, y: np.ndarray, test: tuple[np.ndarray, np.ndarray], seed: int) -> Sample:
    scale = X.std()
    return Sample(X / scale, symmetric(y, RATE, seed), y, (test[0] / scale, test[1]))


def measure(data: Sample, method: str, seed: int) -> dict[str, float]:
    """Return the share of wrong labels that the last epoch learns, and the accuracy after it."""
    X, y = torch.from_numpy(np.asarray(data.X, dtype=np.float32)), torch.from_numpy(data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        callback = SelectionCallback(data.y, X, q=Q)
    if method == "all labels":
        callback.clean_mask[:] = True
    network = build_network("mlp", int(y.max()) + 1, in_shape=X.shape[1:], seed=seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        wrong = float((data.y != data.y_true)[callback.clean_mask].mean())
        network.train()
        sampler = CleanSampler(callback, seed=epoch)
        # The network normalises batches: one row alone has no variance.
        for rows in DataLoader(range(len(y)), 64, sampler=sampler, drop_last=True):
            optimizer.zero_grad()
            functional.cross_entropy(network(X[rows]).logits, y[rows]).backward()
            optimizer.step()
        network.eval()
        if epoch >= FIRST and method in METHODS[2:]:
            with torch.no_grad():
                callback.collect(np.arange(len(y)), network(X).features)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if method == "the callback":
                    callback.end_epoch()
                else:
                    fresh = SelectionCallback(data.y, callback.store.features, q=Q)
                    callback.clean_mask = fresh.clean_mask
    X_test, y_test = data.test
    with torch.no_grad():
        found = network(torch.from_numpy(np.asarray(X_test, dtype=np.float32))).logits.argmax(1)
    return {"wrong": wrong, "accuracy": float((found.numpy() == y_test).mean())}


def measure_all() -> None:
    for name, make in SETS.items():
        for seed in SEEDS:
            data = make(seed)
            for method in METHODS:
                trial = {"data": name, "seed": seed, "method": method}
                if (name, seed, method) not in TRIALS.done("data", "seed", "method"):
                    TRIALS.add({**trial, **measure(data, method, seed)})
                    print(*trial.values(), flush=True)


def table() -> str:
    """Return the means over the seeds."""
    trials, rows = TRIALS.trials(), []
    for method in METHODS:
        cells = []
        for name in SETS:
            own = [t for t in trials if (t["data"], t["method"]) == (name, method)]
            means = (np.mean([t[key] for t in own]) for key in ("wrong", "accuracy"))
            cells.append(" / ".join(f"{value:.3f}" for value in means))
        rows.append([method, *cells])
    return markdown_table(["trained on", *SETS], rows)


LOOP = Bench(
    COMMAND,
    "how-to/training-loop.md",
    (TRIALS,),
    table,
    lambda _: measure_all(),
    files=("src/kspr/train/callback.py", "src/kspr/core", "src/kspr/selectors"),
)

if __name__ == "__main__":
    LOOP.run(__doc__)
