"""Embedders: images or texts in, one row of features each out; one family a file."""

from kspr.data.embedders._embedder import Embedder, Kind
from kspr.data.embedders._load import NAMES, embedder_identity, load_embedder

__all__ = ["NAMES", "Embedder", "Kind", "embedder_identity", "load_embedder"]
