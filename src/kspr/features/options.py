"""How items become features. Imports nothing heavy: the command line's help shows it."""

from dataclasses import dataclass

__all__ = ["AS_SHIPPED", "EmbedSettings"]


@dataclass(frozen=True)
class EmbedSettings:
    """How images, texts and sounds become features."""

    embedder: str | None = None
    """An embedder's name. [default: the one that comes with kspr]"""
    batch_size: int = 64
    """Items to embed at a time."""
    device: str = "auto"
    """Where the embedder runs, such as `cpu` or `cuda:1`; `auto` takes a GPU if there is one."""
    half: bool = False
    """Compute and store in half precision."""
    image_size: int | None = None
    """Pixels to which images are scaled. [default: the embedder's own]"""
    flips: bool = False
    """Average the features of each image and its mirror image: better, at twice the time."""
    strict: bool = False
    """Fail on the first item that cannot be read, instead of leaving such items out."""


AS_SHIPPED = EmbedSettings()
"""The embedder that comes with kspr, with its own settings."""
