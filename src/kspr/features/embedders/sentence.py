"""``st:NAME``: a model of sentence-transformers, from its hub or from a local folder."""

from pathlib import Path
from typing import Any

import numpy as np

from kspr._packages import require
from kspr.errors import InputError
from kspr.features.embedders._torch import Runner, torch_for
from kspr.features.embedders.embedder import Embedder, Request
from kspr.models.device import pick_device
from kspr.models.huggingface import quiet
from kspr.models.weights import check_source, local_state

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
