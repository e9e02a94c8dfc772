"""Embedders of the user's own that write down what they were asked."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.features.fakes import pictures

_names = itertools.count()


@dataclass
class Own:
    """A module in the current directory with one function, and the log that it writes."""

    name: str
    log: Path

    def seen(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


LENGTHS = "np.array([[len(t), ord(t[0]), int(t[1:])] for t in batch], dtype=float)"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Make an embedder from the expression that it returns; `batch` is its argument."""
    monkeypatch.chdir(tmp_path)

    def make(returns: str = LENGTHS, before: str = "pass", after: str = "") -> Own:
        module, log = f"own_embedder_{next(_names)}", tmp_path / "seen.txt"
        Path(f"{module}.py").write_text(
            "import numpy as np, os, signal\n"
            "def embed(batch):\n"
            f"    {before}\n"
            f"    with open({str(log)!r}, 'a') as log:\n"
            "        log.writelines(f'{item}\\n' for item in batch)\n"
            f"    return {returns}\n"
            f"{after}\n"
        )
        return Own(f"{module}:embed", log)

    return make


@pytest.fixture
def images():
    """Three small pictures of different sizes."""
    items = pictures(3)
    return [items[row] for row in range(3)]
