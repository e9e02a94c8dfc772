"""Train whole networks on so few CIFAR-10 images that plain training memorises wrong labels.

    python benchmarks/train_images.py             # measure what is missing, two trials at a time
    python benchmarks/train_images.py --trials "plain, Sym. 40 %, 0;default, Sym. 40 %, 1"
    python benchmarks/train_images.py --list      # list the trials, and whether they are done

A trial (method, noise, seed) is a line of benchmarks/results/train_images.jsonl with all its
epochs; a run that was interrupted continues with the missing ones, and a trial from its last epoch.
Images and pre-training by SimSiam, which uses no labels, are the same in all trials; noise and
training differ with the seed. The page is docs/training-images.md.
"""

import argparse
import os
import shutil
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

from _common import SHARED, WORK, Bench, Store, arguments, either, markdown_table
from _data import memorised
from kspr.models.build import build_network
from kspr.models.network import Network
from kspr.noise import asymmetric_cifar10, symmetric
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.train import TrainSettings, fit
from kspr.train.inputs import ImagePipeline, Images, image_inputs
from kspr.train.run_folder import read_tensors, write_tensors
from kspr.train.unlabelled import Pretraining, SimSiamSettings

IMAGES = SHARED / "cifar10"
TRIALS = Store("train_images")
KEPT = WORK / "train_images"
N_TRAIN, N_TEST, EPOCHS, PRETRAIN = either((4000, 2000, 20, 15), (100, 20, 2, 1))
SEEDS = (0, 1)
NOISES = {"Sym. 40 %": ("sym", 0.4), "Sym. 80 %": ("sym", 0.8), "Asy. 40 %": ("asy", 0.4)}
BARE = {"guard": False, "selector": "paper"}

METHODS: dict[str, dict[str, Any]] = {
    "plain": {"guard": False, "select_every": 0, "warmup_epochs": EPOCHS},
    "SPR": {**BARE, "selector": "spr", "selection": {"reduction": 10}},
    "paper": BARE,
    "own features": {
        "selector": "default",
        "selection": {"q": 0.1, "cut": "pooled"},
        "select_on": "network",
        "warmup_epochs": 3,
    },
    "default": {},
}
"""Changes to the settings; `paper` has no guard, the last two are ours with the guard."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "paper - Self": BARE,
    "paper - Semi": {**BARE, "mix_probability": 0.0},
}
"""The paper's last table, at Sym. 40 %; "- EMA" is the accuracy of the weights of `paper`."""
REPEATED = ("plain", "SPR", "paper", "default")
"""Methods that are run with every seed; the others with the first one only."""
PLANNED = [
    (method, noise, seed)
    for seed in SEEDS
    for noise in NOISES
    for method in METHODS
    if method in REPEATED or seed == SEEDS[0]
]
PLANNED += [(method, "Sym. 40 %", SEEDS[0]) for method in ABLATIONS]
PLANNED = either(PLANNED, [("plain", "Sym. 40 %", 0), ("default", "Sym. 40 %", 0)])


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    parts: list[np.ndarray] = []
    for name, n in (("train", N_TRAIN), ("test", N_TEST)):
        stored = KEPT / f"{name}.npz"
        if not stored.exists():
            records = open_source(IMAGES / f"{name}.parquet", ReadOptions())
            images, _, _ = image_inputs(records.items, 32)
            stored.parent.mkdir(parents=True, exist_ok=True)
            np.savez(stored, X=images.take(torch.arange(n)).numpy(), y=records.label[:n])
        with np.load(stored) as held:
            parts += [held["X"], held["y"].astype(np.int64)]
    return parts[0], parts[1], parts[2], parts[3]


def settings(seed: int, **changes: Any) -> TrainSettings:
    common = {
        "network": "resnet_small",
        "epochs": EPOCHS,
        "pretrain_epochs": 0,
        # Without smaller batches and with augmentation, the network hardly memorises wrong labels,
        # and the guard would have nothing to do.
        "batch_size": 64,
        "padding": 0,
        "flip": False,
        "learning_rate": 0.05,
        "seed": seed,
    }
    return TrainSettings.from_preset("cifar10", **{**common, **changes})


def fresh() -> Network:
    return build_network("resnet_small", 10, in_shape=(3, 32, 32), seed=SEEDS[0])


def pretrained(X: np.ndarray) -> Network:
    """Return a network pre-trained by SimSiam; computed once, and continued if interrupted."""
    network, path = fresh(), KEPT / "simsiam-normalised.pt"
    chosen = SimSiamSettings(epochs=PRETRAIN, batch_size=256, width=256, bottleneck=64)
    seen = ImagePipeline(settings(SEEDS[0]), X.shape[1]).plain_view
    training = Pretraining(network, Images(X), chosen, SEEDS[0], seen)
    if path.exists():
        training.load(read_tensors(path)["state"])
    training.run(lambda state: write_tensors(path, {"state": state}))
    return network


def measured(method: str, noise: str, seed: int) -> dict[str, Any]:
    """Run one trial; called in a process of its own."""
    torch.set_num_threads(1)
    X, truth, X_test, y_test = load()
    kind, rate = NOISES[noise]
    y = (symmetric if kind == "sym" else asymmetric_cifar10)(truth, rate, seed)
    network = fresh() if method.endswith("- Self") else pretrained(X)
    out = KEPT / f"{method} {noise} {seed}".replace(" ", "-").replace("%", "").replace(".", "")
    start = time.perf_counter()
    trained = fit(
        X,
        y,
        settings=settings(seed, **{**METHODS, **ABLATIONS}[method]),
        network=network,
        truth=truth,
        test=(X_test, y_test),
        out=out,
        resume=(out / "train.json").exists(),
    )
    trial = {
        "method": method,
        "noise": noise,
        "seed": seed,
        "accuracy": trained.test_accuracy,
        "model_choice": f"{trained.model_choice} of epoch {trained.epoch}",
        "memorised": memorised(trained, X, y, truth),
        "seconds": round(time.perf_counter() - start, 1),
        "epochs": trained.history,
    }
    shutil.rmtree(out)
    return trial


def stored() -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(t["method"], t["noise"], t["seed"]): t for t in TRIALS.trials()}


def measure(chosen: argparse.Namespace) -> None:
    found, wanted = stored(), [part.strip() for part in (chosen.trials or "").split(";")]
    planned = [k for k in PLANNED if not chosen.trials or ", ".join(map(str, k)) in wanted]
    if chosen.list:
        for key in PLANNED:
            print("done   " if key in found else "missing", *key)
        return
    missing = [key for key in planned if key not in found]
    if any("Self" not in method for method, *_ in missing):
        # Here, so that the processes find it ready and do not each compute it.
        pretrained(load()[0])
    TRIALS.run(measured, missing, chosen.workers)


def shown() -> dict[str, str]:
    found = stored()
    trials = [found[key] for key in PLANNED if key in found]
    error = max((t["accuracy"] * (1 - t["accuracy"]) / N_TEST) ** 0.5 for t in trials)
    said = (
        f"The standard error of an accuracy is up to {error:.3f}: differences of that size say "
        "nothing. Test accuracy, the mean over the seeds that were run, and each of them:"
    )
    means = markdown_table(["method", *NOISES], [_means(trials, method) for method in REPEATED])
    courses = ["noise", "method", "seed", *map(str, SHOWN)]
    return {
        "accuracy": f"{said}\n\n{means}",
        "trials": markdown_table(COLUMNS, map(_row, trials)),
        "epochs": markdown_table(courses, map(_course, trials)),
    }


def _means(trials: list[dict[str, Any]], method: str) -> list[str]:
    """Return the mean accuracy of a method under each noise, and that of each seed."""
    cells = []
    for noise in NOISES:
        own = [t["accuracy"] for t in trials if (t["method"], t["noise"]) == (method, noise)]
        each = ", ".join(f"{accuracy:.3f}" for accuracy in own)
        cells.append(f"{np.mean(own):.3f} ({each})" if own else "-")
    return [method, *cells]


def _row(trial: dict[str, Any]) -> list[str]:
    last = trial["epochs"][-1]
    selection = _texts(last, 3)
    network = [f"{trial['accuracy']:.3f}", f"{last['accuracy']:.3f}", trial["model_choice"]]
    memory = f"{trial['memorised']:.2f}"
    return [trial["noise"], trial["method"], str(trial["seed"]), *network, memory, *selection]


def _course(trial: dict[str, Any]) -> list[str]:
    """Return FSR / recall / F1 / q at a few epochs."""
    chosen = [line for line in trial["epochs"] if line["epoch"] in SHOWN]
    cells = [" / ".join(_texts(line, 2)) for line in chosen]
    return [trial["noise"], trial["method"], str(trial["seed"]), *cells]


def _texts(line: dict[str, Any], digits: int) -> list[str]:
    """Return FSR, recall, F1 and q of an epoch; dashes for what there is none of."""
    # Of no kept label, no share is wrong: a rate of 0 would look like a success.
    unknown = ("fsr", "f1") if line["recall"] == 0 else ()
    values = [None if name in unknown else line[name] for name in _SELECTION]
    return ["-" if value is None else f"{value:.{digits}f}" for value in values]


_SELECTION = ("fsr", "recall", "f1", "q_reached")
SHOWN = (1, 5, 10, 15, EPOCHS)
COLUMNS = (
    "noise",
    "method",
    "seed",
    "accuracy",
    "weights",
    "final network",
    "memorised",
    "FSR",
    "recall",
    "F1",
    "q",
)
BENCH = Bench(
    "make bench-train-images",
    "training-images.md",
    (TRIALS,),
    shown,
    measure,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/train", "src/kspr/models"),
)

if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--list", action="store_true", help="list the trials, measure nothing")
    parser.add_argument("--trials", help="'method, noise, seed' separated by semicolons")
    parser.add_argument("--workers", type=int, default=2)
    BENCH.run(parser)
