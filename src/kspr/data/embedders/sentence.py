"""``st:NAME``: a model of sentence-transformers, from its hub or from a local folder."""

from pathlib import Path
from typing import Any

import numpy as np

from kspr.data.embedders._embedder import Embedder, Request
from kspr.data.embedders._packages import check_source, local_state, require
from kspr.data.embedders._torch import Runner, pick_device, torch_for
from kspr.data.embedders.huggingface import quiet
from kspr.errors import InputError

__all__ = ["identity", "load"]


def identity(rest: str, image_size: int | None) -> dict[str, Any]:  # noqa: ARG001 - one shape for all
    """Return the state of a local folder."""
    return {"image_size": None, "origin": local_state(Path(rest))}


def load(name: str, rest: str, request: Request) -> Embedder:
    """Return the model with the pooling that its authors chose."""
    package = require("sentence_transformers", f"The embedder {name}", "sentence-transformers")
    torch = torch_for(name)
    runner = Runner(torch, pick_device(torch, request.device), request.half)
    check_source(name, rest)
    try:
        with quiet():
            model = package.SentenceTransformer(rest, device=runner.device, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} cannot be loaded by sentence-transformers: {reason}") from error

    def encode(texts: list[str]) -> Any:
        return model.encode(
            texts, batch_size=len(texts), convert_to_tensor=True, show_progress_bar=False
        )

    def compute(texts: list[str]) -> np.ndarray:
        return runner(encode, texts)

    return Embedder(name, "text", compute)
