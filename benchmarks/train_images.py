"""Train whole networks on real CIFAR-10 images: a subset, on which plain training memorises.

    python benchmarks/train_images.py             # measure what is missing, two cells at a time
    python benchmarks/train_images.py --cells "plain, Sym. 40 %;default, Sym. 40 %"
    python benchmarks/train_images.py --list      # the cells and whether they are there
    python benchmarks/train_images.py --page      # only write the page from what was measured

Each cell (method, noise) is a line of benchmarks/results/train_images.jsonl with all its epochs; a
run that is interrupted goes on with the next cell, and inside a cell from its last epoch. Features
are pre-trained by SimSiam once, without labels, and shared by all cells. The page is
docs/training-images.md.
"""

import argparse
import json
import os
import shutil
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

from _cells import run_cells
from _common import ROOT, machine
from kspr.core.noise import asymmetric_cifar10, symmetric
from kspr.models.build import build_network
from kspr.models.network import Network
from kspr.sources.options import ReadOptions
from kspr.sources.readers import read
from kspr.train import Trained, TrainSettings, fit
from kspr.train.inputs import Images, image_inputs
from kspr.train.run_folder import read_tensors, write_tensors
from kspr.train.simsiam.pretrain import SimSiamSettings, pretrain

IMAGES = ROOT.parent / "shared" / "data" / "cifar10"
RESULTS = ROOT / "benchmarks" / "results" / "train_images.jsonl"
WORK = ROOT / ".benchmarks" / "train_images"
PAGE = ROOT / "docs" / "training-images.md"
N_TRAIN, N_TEST, EPOCHS, WARMUP, PRETRAIN, SEED = 4000, 2000, 20, 3, 15, 0
NOISES = {"Sym. 40 %": ("sym", 0.4), "Sym. 80 %": ("sym", 0.8), "Asy. 40 %": ("asy", 0.4)}
BARE = {"guard": False, "selector": "paper", "warmup_epochs": 0}

METHODS: dict[str, dict[str, Any]] = {
    "plain": {"guard": False, "select_every": 0, "warmup_epochs": EPOCHS},
    "SPR": {**BARE, "selector": "spr", "selection": {"reduction": 10}},
    "paper": BARE,
    "default": {
        "selector": "default",
        "selection": {"q": 0.1, "cut": "pooled"},
        "warmup_epochs": WARMUP,
    },
}
"""Changes to the settings; `paper` is the bare procedure, `default` is ours with its guard."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "paper - Self": BARE,
    "paper - Semi": {**BARE, "mix_probability": 0.0},
}
"""The paper's last table, at Sym. 40 %; "- EMA" is the accuracy of the weights of `paper`."""
CELLS = [(method, noise) for noise in NOISES for method in METHODS]
CELLS += [(method, "Sym. 40 %") for method in ABLATIONS]


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    parts: list[np.ndarray] = []
    for name, n in (("train", N_TRAIN), ("test", N_TEST)):
        stored = WORK / f"{name}.npz"
        if not stored.exists():
            records = read(IMAGES / f"{name}.parquet", ReadOptions())
            images, _, _ = image_inputs(records.items, 32)
            stored.parent.mkdir(parents=True, exist_ok=True)
            np.savez(stored, X=images.take(torch.arange(n)).numpy(), y=records.label[:n])
        with np.load(stored) as held:
            parts += [held["X"], held["y"].astype(np.int64)]
    return parts[0], parts[1], parts[2], parts[3]


def settings(**changes: Any) -> TrainSettings:
    common = {
        "network": "resnet_small",
        "epochs": EPOCHS,
        "pretrain_epochs": 0,
        # Smaller batches and no augmentation: so few images are hardly memorised otherwise, and
        # there is nothing to guard.
        "batch_size": 64,
        "padding": 0,
        "flip": False,
        "learning_rate": 0.05,
        "seed": SEED,
    }
    return TrainSettings.from_preset("cifar10", **{**common, **changes})


def fresh() -> Network:
    return build_network("resnet_small", 10, in_shape=(3, 32, 32), seed=SEED)


def pretrained(X: np.ndarray) -> Network:
    """Return features that SimSiam found; computed once, and gone on with after an interruption."""
    network, path = fresh(), WORK / "simsiam.pt"
    stored = read_tensors(path) if path.exists() else {"epoch": 0, "state": None}
    done = stored["epoch"]

    def keep(state: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        write_tensors(path, {"epoch": done, "state": state})

    chosen = SimSiamSettings(epochs=PRETRAIN, batch_size=256, width=256, bottleneck=64)
    pretrain(network, Images(X), chosen, seed=SEED, on_epoch=keep, state=stored["state"])
    return network


def measure(method: str, noise: str) -> dict[str, Any]:
    """Return one cell; called in a process of its own."""
    torch.set_num_threads(1)
    X, truth, X_test, y_test = load()
    kind, rate = NOISES[noise]
    y = symmetric(truth, rate, SEED) if kind == "sym" else asymmetric_cifar10(truth, rate, SEED)
    network = fresh() if method.endswith("- Self") else pretrained(X)
    out = WORK / f"{method} {noise}".replace(" ", "-").replace("%", "").replace(".", "")
    start = time.perf_counter()
    trained = fit(
        X,
        y,
        settings=settings(**{**METHODS, **ABLATIONS}[method]),
        network=network,
        truth=truth,
        test=(X_test, y_test),
        out=out,
        resume=(out / "train.json").exists(),
    )
    record = {
        "method": method,
        "noise": noise,
        "seed": SEED,
        "accuracy": trained.test_accuracy,
        "model_choice": f"{trained.model_choice} of epoch {trained.epoch}",
        "memorised": _memorised(trained, X, y, truth),
        "seconds": round(time.perf_counter() - start, 1),
        "epochs": trained.history,
        "machine": machine(1),
    }
    shutil.rmtree(out)
    return record


def _memorised(trained: Trained, X: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of wrong labels that the network repeats."""
    wrong = y != truth
    return float((trained.predict(X[wrong]) == y[wrong]).mean())


def measured() -> dict[tuple[str, str], dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    records = map(json.loads, RESULTS.read_text().splitlines())
    return {(record["method"], record["noise"]): record for record in records}


def run(cells: list[tuple[str, str]], workers: int) -> None:
    cells = [cell for cell in cells if cell not in measured()]
    if any("Self" not in method for method, _ in cells):
        pretrained(load()[0])  # once, before the processes share it
    run_cells(measure, cells, RESULTS, workers)


def write_page() -> None:
    found = measured()
    rows = [_row(record) for cell in CELLS if (record := found.get(cell))]
    courses = [_course(record) for cell in CELLS if (record := found.get(cell))]
    PAGE.write_text(HEAD.format(rows="\n".join(rows), courses="\n".join(courses), **SIZES))


def _row(record: dict[str, Any]) -> str:
    last = record["epochs"][-1]
    selection = ["-" if last[name] is None else f"{last[name]:.3f}" for name in _SELECTION]
    network = [f"{record['accuracy']:.3f}", f"{last['accuracy']:.3f}"]
    cells = [record["noise"], record["method"], *network, record["model_choice"]]
    return "| " + " | ".join([*cells, f"{record['memorised']:.2f}", *selection]) + " |"


def _course(record: dict[str, Any]) -> str:
    """Return FSR / recall / F1 / q at a few epochs."""
    chosen = [line for line in record["epochs"] if line["epoch"] in SHOWN]
    cells = []
    for line in chosen:
        values = [line[name] for name in _SELECTION]
        cells.append(" / ".join("-" if value is None else f"{value:.2f}" for value in values))
    return f"| {record['noise']} | {record['method']} | " + " | ".join(cells) + " |"


_SELECTION = ("fsr", "recall", "f1", "q_reached")
SHOWN = (1, 5, 10, 15, EPOCHS)
SIZES = {
    "shown": " | ".join(map(str, SHOWN)),
    "n": N_TRAIN,
    "test": N_TEST,
    "epochs": EPOCHS,
    "pretrain": PRETRAIN,
    "warmup": WARMUP,
    "seed": SEED,
}
HEAD = """# What training whole networks reaches

{n:,} real CIFAR-10 images of 32 pixels, {test:,} to test on, `resnet_small`, {epochs} epochs,
{pretrain} epochs of SimSiam before (but for "- Self"), one seed ({seed}). Made by
`make bench-train-images` from `benchmarks/results/train_images.jsonl`. `SPR` and `paper` are bare,
as in the paper; `default` is our selector at q = 0.1 with the guard, after {warmup} epochs on the
labels as they are. "- EMA" is the column "weights".
"Memorised" is the share of wrong labels that the network repeats.

| noise | method | accuracy | weights | model choice | memorised | FSR | recall | F1 | q |
|---|---|---|---|---|---|---|---|---|---|
{rows}

## Along the epochs

FSR / recall / F1 / q reached, after a few epochs.

| noise | method | {shown} |
|---|---|---|---|---|---|---|
{courses}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    parser.add_argument("--list", action="store_true", help="show the cells, measure nothing")
    parser.add_argument("--cells", help="'method, noise' separated by semicolons")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.list:
        for cell in CELLS:
            print("done   " if cell in measured() else "missing", *cell)
        return
    if not given.page:
        if not (IMAGES / "train.parquet").exists():
            parser.exit(2, f"The shared images are needed and not at {IMAGES}.\n")
        chosen = CELLS
        if given.cells:
            wanted = [tuple(part.strip().split(", ")) for part in given.cells.split(";")]
            chosen = [cell for cell in CELLS if cell in wanted]
        run(chosen, given.workers)
    write_page()
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
