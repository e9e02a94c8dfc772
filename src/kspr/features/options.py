"""How images and texts become features. Imports nothing heavy: the command line's help shows it."""

from dataclasses import dataclass

__all__ = ["AS_SHIPPED", "EmbedSettings"]


@dataclass(frozen=True)
class EmbedSettings:
    """How images and texts become features."""

    embedder: str | None = None
    """An embedder's name; None for the one that comes with kspr."""
    batch_size: int = 64
    device: str = "auto"
    half: bool = False
    """Compute and store in half precision."""
    image_size: int | None = None
    """Pixels to which images are scaled; None for the embedder's own."""
    strict: bool = False
    """Fail on the first item that cannot be read, instead of leaving such items out."""


AS_SHIPPED = EmbedSettings()
"""The embedder that comes with kspr, with its own settings."""
