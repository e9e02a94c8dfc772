"""Items in memory, some of which cannot be read; and `embed` by the name of an embedder."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from kspr.errors import UnreadableItemError
from kspr.features import embedders, embedding
from kspr.sources.options import EmbedSettings


@dataclass
class Texts:
    texts: list[str]
    broken: tuple[int, ...] = ()
    kind: Literal["image", "text"] = "text"

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: int) -> str:
        if row in self.broken:
            raise UnreadableItemError(f"text {row} is in no encoding")
        return self.texts[row]

    def content(self) -> Iterator[bytes]:
        return (text.encode() for text in self.texts)


@dataclass
class Pictures:
    pixels: list[np.ndarray]
    broken: tuple[int, ...] = ()
    kind: Literal["image", "text"] = "image"

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> Image.Image:
        if row in self.broken:
            raise UnreadableItemError(f"image {row} is truncated")
        return Image.fromarray(self.pixels[row])

    def content(self) -> Iterator[bytes]:
        return (pixels.tobytes() for pixels in self.pixels)


def texts(n: int, **options) -> Texts:
    return Texts([f"t{i}" for i in range(n)], **options)


def pictures(n: int, side: int = 24, **options) -> Pictures:
    rng = np.random.default_rng(0)
    sizes = [(side + i % 5, side + i % 3, 3) for i in range(n)]
    return Pictures([rng.integers(0, 256, size, dtype=np.uint8) for size in sizes], **options)


def embed(items: Any, name: str | None, folder: Path, **how: Any) -> embedding.Embedded:
    """Embed by the embedder called `name`, with settings and other arguments by their names."""
    chosen = {
        field.name: how.pop(field.name) for field in fields(EmbedSettings) if field.name in how
    }
    return embedding.embed(items, EmbedSettings(name, **chosen), folder, **how)


def load_embedder(name: str | None, kind: Any, *, rows: int = 0, **how: Any) -> embedders.Embedder:
    """Return the embedder called `name`, with settings by their names."""
    return embedders.load_embedder(EmbedSettings(name, **how), kind, rows)


def embedder_identity(name: str | None, kind: Any, **how: Any) -> dict[str, Any]:
    """Return what determines the features by the embedder called `name`."""
    return embedders.embedder_identity(EmbedSettings(name, **how), kind)
