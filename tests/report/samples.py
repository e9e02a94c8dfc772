"""Items to show, and a page taken apart, for the tests of the report."""

import json
import re
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from kspr.core.shares import Estimate
from kspr.errors import UnreadableItemError
from kspr.report import TrainingRun
from kspr.runs.verify import Verification
from kspr.selectors.estimates import Estimates

VERIFIED = Verification(
    drawn="all",
    guarantee="mean",
    confidence=0.95,
    q=0.05,
    n_drawn=203,
    n_counted=120,
    n_wrong=4,
    n_cannot_tell=1,
    n_passed_over=3,
    n_other=80,
    n_rows=1797,
    n_kept_before=1100,
    n_checked_before=110,
    n_wrong_before=9,
    fsr_before=9 / 110,
    interval_before=(0.038, 0.15),
    n_kept=1050,
    estimates=Estimates(
        drawn_from="all",
        n_rows=1797,
        n_checked=120,
        noise_rate=Estimate(0.41, 0.33, 0.47),
        recall=Estimate(0.93, 0.9, 0.96),
        fsr=Estimate(0.035, 0.01, 0.083),
        per_class=(),
        noise_rate_elsewhere=None,
    ),
    forecast=((120, 0.58), (240, 0.6)),
)


@dataclass
class Pictures:
    """Small grey images; the rows in `broken` cannot be read."""

    pixels: np.ndarray
    broken: frozenset = field(default_factory=frozenset)
    kind: str = "image"

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> Any:
        if row in self.broken:
            raise UnreadableItemError(f"row {row} is broken")
        return Image.fromarray(self.pixels[row]).convert("RGB")


@dataclass
class Texts:
    words: list
    kind: str = "text"

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, row: int) -> str:
        return self.words[row]


@dataclass(frozen=True)
class Page:
    """A written report, taken apart with as little machinery as will do."""

    source: str

    @property
    def text(self) -> str:
        bare = re.sub(r"<(style|script|svg).*?</\1>", " ", self.source, flags=re.S)
        return self.plain(bare)

    @staticmethod
    def plain(markup: str) -> str:
        words = unescape(re.sub(r"<[^>]+>", " ", markup)).replace("\u202f", " ")
        return " ".join(words.split())

    @property
    def data(self) -> dict[str, Any]:
        """What the cards of all suspects are made of."""
        found = re.search(r'<script type="application/json".*?>(.*?)</script>', self.source, re.S)
        return json.loads(found[1])

    def section(self, name: str) -> str:
        return re.search(rf'<section id="{name}"[^>]*>.*?</section>', self.source, re.S)[0]

    def table(self, name: str, number: int = 0) -> list[list[str]]:
        """Return the body of a table of the section `name`."""
        bodies = re.findall(r"<tbody>(.*?)</tbody>", self.section(name), re.S)
        rows = re.findall(r"<tr.*?</tr>", bodies[number], re.S)
        return [
            [self.plain(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)]
            for row in rows
        ]

    def cards(self, name: str) -> list[str]:
        return re.findall(r'<li class="card".*?</li>', self.section(name), re.S)

    def tiles(self) -> dict[str, tuple[str, str]]:
        found = re.findall(r"<dt>([^<]*)</dt>\s*<dd>(.*?)</dd>\s*<dd class=\"sub\">(.*?)</dd>",
                           self.source, re.S)  # fmt: skip
        return {name: (self.plain(value), self.plain(sub)) for name, value, sub in found}


EPOCHS = [
    {
        "epoch": k,
        "loss": 1.0 / k,
        "reference_loss": 0.9 / k,
        "accuracy": 0.8 + k / 100,
        "accuracy_average": 0.85 + k / 100,
        "held_out": 0.7,
        "kept": 0.9,
        "q_reached": None if k == 2 else 0.1,
        "fsr": 0.09,
        "recall": 0.95,
        "notes": ["most classes are starved"] if k == 2 else [],
        "seconds": 1.5,
    }
    for k in (1, 2, 3)
]
"""Metrics of three epochs, as ``metrics.jsonl`` holds them."""


@dataclass
class StoredRun:
    """A run of `kspr select`, as far as the report of a training asks it."""

    folder: Path
    selection: Any
    shown: Any = None

    def __post_init__(self) -> None:
        self.row = np.arange(len(self.selection))
        self.row_id = self.row.astype(str)

    def items(self) -> Any:
        return self.shown


def training_run(folder, before, after, items, *, source="photos", finished=True) -> TrainingRun:
    """Return a training run of three epochs with these selections."""
    n = 1797 if before is None else len(before)
    result = {
        "model_choice": "cycle average",
        "epoch": 3,
        "test_accuracy": 0.912,
        "held_out": {"cycle average": 0.8},
    }
    return TrainingRun(
        folder,
        about={
            "settings": {
                "input": "embeddings",
                "network": "mlp",
                "epochs": 3,
                "batch_size": 32,
                "learning_rate": 0.05,
                "selection": {"q": 0.1},
                "seed": 0,
            },
            "classes": {"values": list(range(10))},
            "rows": n,
            "items": "image",
            "embed": {"embedder": "efficientnet-lite0"},
            "origin": {"source": source, "command": ["kspr", "train", source, "--out", "run"]},
        },
        history=EPOCHS,
        result=result if finished else None,
        before=None if before is None else StoredRun(folder / "frozen", before, items),
        after=None if after is None else StoredRun(folder / "selection", after, items),
    )
