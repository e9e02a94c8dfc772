"""What stronger image embedders gain and cost, on CIFAR-10: `python benchmarks/embedders.py`.

For each network and input size, without and with both flips averaged: the accuracy of a linear
probe (ridge regression, five folds), the recall of the best cut at FSR 0.05 under 40 % symmetric
noise, and images per second of processor time. Trials are stored one by one; a second call runs
what is missing.
"""

import io
import time
from itertools import product

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image, ImageOps
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _common import SHARED, Bench, Store, either, markdown_table
from kspr import KnockoffsSPR
from kspr.features.embedders import load_embedder
from kspr.noise import symmetric
from kspr.sources.options import EmbedSettings

TRIALS = Store("embedders")
IMAGES, SEEDS, FSR = either(4000, 60), 2, 0.05
ALL_CASES = [
    *product(["efficientnet-lite0"], [96, 128, 192]),
    *product(["efficientnet-lite2", "efficientnet-lite1"], [128, 192]),
    ("efficientnet-lite0", 224),
]
CASES = either(ALL_CASES, [("efficientnet-lite0", 32)])
ALL = either(1_000_000, IMAGES)
"""A number of rows for which networks are exported."""


def cifar10() -> tuple[list[Image.Image], np.ndarray]:
    table = pq.read_table(SHARED / "cifar10" / "train.parquet").slice(0, IMAGES)
    stored = [Image.open(io.BytesIO(row["bytes"])) for row in table["img"].to_pylist()]
    return [image.convert("RGB") for image in stored], table["label"].to_numpy()


def features(name: str, size: int, images: list[Image.Image]) -> tuple[np.ndarray, float]:
    """Return the features, and the processor's seconds of the network per image."""
    embedder = load_embedder(EmbedSettings(name, device="cpu", image_size=size), "image", ALL)
    prepared = [embedder.prepare(image) for image in images]
    embedder.begin(prepared[:64]).wait()
    start = time.process_time()
    blocks = [embedder.begin(prepared[i : i + 64]).wait() for i in range(0, len(prepared), 64)]
    return np.concatenate(blocks), (time.process_time() - start) / len(images)


def probe_accuracy(X: np.ndarray, y: np.ndarray) -> float:
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=1000, solver="cholesky"))
    return float(cross_val_score(model, X, y, cv=5).mean())


def best_cut_recall(X: np.ndarray, y_true: np.ndarray, seed: int) -> float:
    """Return the largest share of right labels that a cut of the ranking keeps within `FSR`."""
    y = symmetric(y_true, 0.4, seed=seed)
    selection = KnockoffsSPR(q=FSR, random_state=seed).fit(X, y).selection_
    right = (y == y_true)[np.argsort(selection.q_value, kind="stable")]
    kept = np.arange(1, len(y) + 1)
    within = np.cumsum(~right) / kept <= FSR
    return float(np.cumsum(right)[within].max(initial=0) / right.sum())


def measured(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    recalls = [best_cut_recall(X, y, seed) for seed in range(SEEDS)]
    return {
        "probe": round(probe_accuracy(X, y), 4),
        "best_cut_recall": round(float(np.mean(recalls)), 4),
        "recall_sd": round(float(np.std(recalls, ddof=1)), 4),
    }


def measure() -> None:
    torch.set_num_threads(1)
    images, y = cifar10()
    mirrored = [ImageOps.mirror(image) for image in images]
    stored = TRIALS.done("embedder", "size")
    for name, size in CASES:
        if (name, size) in stored:
            continue
        X, seconds = features(name, size, images)
        X_mirrored, _ = features(name, size, mirrored)
        for flips, Z in ((False, X), (True, (X + X_mirrored) / 2)):
            about = {"embedder": name, "size": size, "flips": flips, "images": IMAGES}
            speed = {"images_per_cpu_second": round(1 / seconds / (1 + flips), 1)}
            TRIALS.add(about | measured(Z, y) | speed)
            print(about, flush=True)


def shown() -> str:
    """Return the trials as a table."""
    head = ["network", "pixels", "flips", "linear probe", "best-cut recall", "images a second"]
    trials = sorted(TRIALS.trials(), key=lambda t: (t["embedder"], t["size"], t["flips"]))
    rows = [
        [
            trial["embedder"],
            str(trial["size"]),
            "both" if trial["flips"] else "-",
            f"{trial['probe']:.3f}",
            f"{trial['best_cut_recall']:.3f}",
            f"{trial['images_per_cpu_second']:.0f}",
        ]
        for trial in trials
    ]
    return markdown_table(head, rows)


BENCH = Bench(
    "python benchmarks/embedders.py",
    "speed.md",
    (TRIALS,),
    shown,
    lambda _: measure(),
    files=("src/kspr/features", "src/kspr/models", "src/kspr/core", "src/kspr/selectors"),
)

if __name__ == "__main__":
    BENCH.run(__doc__)
