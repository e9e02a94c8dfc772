"""Texts as tokens: by a tokenizer of transformers, or by its file alone.

transformers imports torch, which takes longer than a thousand texts do. A tokenizer whose file is
at hand needs neither.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kspr._packages import require

__all__ = ["FileTokens", "ModelTokens", "Tokens"]


class Tokens(Protocol):
    """Turns texts into lists of numbers, and several of these into arrays."""

    def cut(self, texts: list[str]) -> dict[str, list[Any]]:
        """Return the tokens of each text under ``input_ids``, and what else the model takes."""
        ...

    def pad(self, tokens: dict[str, list[Any]]) -> dict[str, np.ndarray]:
        """Return the tokens of some texts as arrays, filled up to the length of the longest."""
        ...


class ModelTokens:
    """The tokens of a tokenizer of transformers, at most `limit` of a text."""

    def __init__(self, tokenizer: Any, limit: int) -> None:
        if tokenizer.pad_token is None:
            # Decoders have no padding token; the mask hides whichever is used.
            tokenizer.pad_token = tokenizer.eos_token
        self._tokenizer, self._limit = tokenizer, limit

    def cut(self, texts: list[str]) -> dict[str, list[Any]]:
        """Return the tokens of each text."""
        return dict(self._tokenizer(texts, truncation=True, max_length=self._limit))

    def pad(self, tokens: dict[str, list[Any]]) -> dict[str, np.ndarray]:
        """Return arrays, filled up on the side that the tokenizer has chosen."""
        return dict(self._tokenizer.pad(tokens, return_tensors="np"))


class FileTokens:
    """The tokens of a ``tokenizer.json`` of a BERT model, at most `limit` of a text.

    Such a model takes ids, a mask and types; all of them are filled up by zeros at the end.
    """

    def __init__(self, path: Path, limit: int, purpose: str) -> None:
        tokenizers = require("tokenizers", purpose, "'knockoffs-spr[text]'")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.enable_truncation(limit)
        # The file may ask for a length of its own; pieces are filled up below.
        self._tokenizer.no_padding()

    def cut(self, texts: list[str]) -> dict[str, list[Any]]:
        """Return the tokens of each text."""
        found = self._tokenizer.encode_batch(texts)
        return {
            "input_ids": [text.ids for text in found],
            "token_type_ids": [text.type_ids for text in found],
            "attention_mask": [text.attention_mask for text in found],
        }

    def pad(self, tokens: dict[str, list[Any]]) -> dict[str, np.ndarray]:
        """Return arrays, filled up by zeros at the end."""
        return {name: _filled(lists) for name, lists in tokens.items()}


def _filled(lists: Sequence[Sequence[int]]) -> np.ndarray:
    filled = np.zeros((len(lists), max(map(len, lists))), dtype=np.int64)
    for row, values in zip(filled, lists, strict=True):
        row[: len(values)] = values
    return filled
