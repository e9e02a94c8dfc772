"""`build_network`: a network from its name; the registry of names, and the package's networks.

Those of the paper are ``cifar_resnet18``, ``resnet50`` and ``inception_resnet_v2`` (Szegedy et al.,
2017). Layers have the names and shapes under which ImageNet weights are published (torchvision; for
Inception timm and pretrainedmodels). Packages of other networks (``hf:NAME``, ``timm:NAME``,
``torchvision:NAME``) are imported when a network of theirs is built.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kspr._packages import require
from kspr.errors import InputError
from kspr.models.network import (
    Network,
    NetworkRequest,
    assemble,
    image_channels,
    last_linear,
    seeded,
    wrapped,
)
from kspr.models.weights import fill, first_line, from_pretrained

_SMALL_WIDTH = 32
_HALVED_FROM = 24
"""Side in pixels from which `resnet_small` halves images in its stem."""


def resnet_small(request: NetworkRequest) -> Network:
    """Return a network that CPUs can train: three stages of one block each, 128 features."""
    channels = image_channels(request)
    stem = _HALVING_STEM if min(request.in_shape[1:]) >= _HALVED_FROM else _CIFAR_STEM
    body = _ResidualBody(_Block, (1, 1, 1), channels, _SMALL_WIDTH, stem)
    return assemble(body, body.n_features, request)


def cifar_resnet18(request: NetworkRequest) -> Network:
    """Return the paper's network for CIFAR: a ResNet-18 with 512 features."""
    body = _ResidualBody(_Block, (2, 2, 2, 2), image_channels(request), 64, _CIFAR_STEM)
    # torchvision calls the classifier fc; common code for CIFAR calls it linear.
    return assemble(body, body.n_features, request, published_heads=("fc", "linear"))


def resnet50(request: NetworkRequest) -> Network:
    """Return the paper's network for Clothing1M: a ResNet-50 with 2048 features."""
    body = _ResidualBody(_Bottleneck, (3, 4, 6, 3), image_channels(request), 64, _IMAGENET_STEM)
    return assemble(body, body.n_features, request, published_heads=("fc",))


def _conv(n_in: int, n_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    # No bias: batch normalisation follows everywhere, and would subtract it again.
    return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)


class _Block(nn.Module):
    """Convolutions whose output is added to the input of the block."""

    expansion = 1
    """Channels of the output, in multiples of the width."""
    kernels: tuple[int, ...] = (3, 3)
    strided = 1
    """Number of the convolution that has the stride."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        n_out = width * self.expansion
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or n_in != n_out:
            # The input can be added to the output only in the output's shape.
            self.downsample = nn.Sequential(_conv(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out))
        last = len(self.kernels)
        for number, kernel in enumerate(self.kernels, 1):
            channels = n_out if number == last else width
            conv = _conv(n_in, channels, kernel, stride if number == self.strided else 1)
            self.add_module(f"conv{number}", conv)
            self.add_module(f"bn{number}", nn.BatchNorm2d(channels))
            n_in = channels

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x
        for number in range(1, len(self.kernels) + 1):
            y = self.get_submodule(f"conv{number}")(y if number == 1 else self.relu(y))
            y = self.get_submodule(f"bn{number}")(y)
        kept = x if self.downsample is None else self.downsample(x)
        y = self.relu(y + kept)
        return y


class _Bottleneck(_Block):
    """1 x 1, 3 x 3 and 1 x 1 convolutions; the second has the stride, as published weights need."""

    expansion = 4
    kernels = (1, 3, 1)
    strided = 2


_Stem = tuple[int, int, bool]
"""Kernel and stride of the first convolution, and whether a pooling follows."""
_CIFAR_STEM, _HALVING_STEM, _IMAGENET_STEM = (3, 1, False), (3, 2, False), (7, 2, True)


def _stage(block: type[_Block], n_in: int, width: int, depth: int, stride: int) -> nn.Module:
    first = block(n_in, width, stride)
    others = (block(width * block.expansion, width, 1) for _ in range(depth - 1))
    return nn.Sequential(first, *others)


class _ResidualBody(nn.Module):
    """Map images to features: a stem, stages that halve the sides, the mean over positions."""

    def __init__(
        self, block: type[_Block], depths: Sequence[int], channels: int, width: int, stem: _Stem
    ) -> None:
        super().__init__()
        kernel, stride, pooled = stem
        self.conv1 = _conv(channels, width, kernel, stride)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if pooled else nn.Identity()
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        n_in = width
        # Names, not a ModuleList: published weights call the stages layer1, layer2 and so on.
        self._stages = [f"layer{number}" for number in range(1, len(depths) + 1)]
        for stage, (name, depth) in enumerate(zip(self._stages, depths, strict=True)):
            # Channels double where sides are halved, as in He et al.
            stage_width = width * 2**stage
            self.add_module(name, _stage(block, n_in, stage_width, depth, 1 if stage == 0 else 2))
            n_in = stage_width * block.expansion
        self.n_features = n_in
        for part in self.modules():
            # As He et al. do; torch's default is another distribution.
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return one row of features per image."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for name in self._stages:
            x = self.get_submodule(name)(x)
        return x.mean((2, 3))


_SMALLEST = 75
"""Smallest side in pixels; below it the last stage would have no position left."""
_FEATURES = 1536


def inception_resnet_v2(request: NetworkRequest) -> Network:
    """Return the network, with 1536 features."""
    body = _InceptionBody(image_channels(request, at_least=_SMALLEST))
    return assemble(body, _FEATURES, request, published_heads=("classif", "last_linear"))


Kernel = int | tuple[int, int]
Step = tuple[int, Kernel] | tuple[int, Kernel, int]
"""Channels out, kernel, and the stride of a convolution that shrinks its input."""


class _Conv(nn.Module):
    """Convolution, batch normalisation and ReLU; with a stride of None the size stays the same."""

    def __init__(self, n_in: int, n_out: int, kernel: Kernel, stride: int | None = None) -> None:
        super().__init__()
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (0, 0) if stride is not None else (sides[0] // 2, sides[1] // 2)
        self.conv = nn.Conv2d(n_in, n_out, sides, stride or 1, padding, bias=False)
        # TensorFlow's epsilon: the published weights were trained with it.
        self.bn = nn.BatchNorm2d(n_out, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn(self.conv(x)).relu_()
        return y


def _branch(n_in: int, *steps: Step) -> nn.Module:
    convs = []
    for step in steps:
        convs.append(_Conv(n_in, *step))
        n_in = step[0]
    # In the published names a branch of a single convolution has no number.
    return convs[0] if len(convs) == 1 else nn.Sequential(*convs)


class _Mixed(nn.Module):
    """Parallel branches whose maps are stacked."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self._branches = [f"branch{number}" for number in range(len(branches))]
        for name, branch in zip(self._branches, branches, strict=True):
            self.add_module(name, branch)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.get_submodule(name)(x) for name in self._branches], 1)


class _Residual(_Mixed):
    """Parallel branches whose stacked maps are scaled and added to the input."""

    def __init__(
        self, n_in: int, branches: Sequence[Sequence[Step]], scale: float, *, rectified: bool = True
    ) -> None:
        super().__init__(*(_branch(n_in, *steps) for steps in branches))
        # With a bias, unlike all others: no normalisation follows.
        self.conv2d = nn.Conv2d(sum(steps[-1][0] for steps in branches), n_in, 1)
        self._scale, self._rectified = scale, rectified

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv2d(super().forward(x)) * self._scale + x
        return y.relu_() if self._rectified else y


_BLOCK_35 = (((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3)))
_BLOCK_17 = (((192, 1),), ((128, 1), (160, (1, 7)), (192, (7, 1))))
_BLOCK_8 = (((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1))))


def _mixed_5b() -> nn.Module:
    # TensorFlow leaves the padding out of its means; torch's default counts it.
    pooled = nn.Sequential(
        nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), _Conv(192, 64, 1)
    )
    return _Mixed(
        _branch(192, (96, 1)),
        _branch(192, (48, 1), (64, 5)),
        _branch(192, (64, 1), (96, 3), (96, 3)),
        pooled,
    )


def _mixed_6a() -> nn.Module:
    return _Mixed(
        _branch(320, (384, 3, 2)),
        _branch(320, (256, 1), (256, 3), (384, 3, 2)),
        nn.MaxPool2d(3, 2),
    )


def _mixed_7a() -> nn.Module:
    return _Mixed(
        _branch(1088, (256, 1), (384, 3, 2)),
        _branch(1088, (256, 1), (288, 3, 2)),
        _branch(1088, (256, 1), (288, 3), (320, 3, 2)),
        nn.MaxPool2d(3, 2),
    )


class _InceptionBody(nn.Sequential):
    """Map images to features of shape (n, 1536)."""

    def __init__(self, n_in: int) -> None:
        super().__init__()
        parts = {
            "conv2d_1a": _Conv(n_in, 32, 3, 2),
            "conv2d_2a": _Conv(32, 32, 3, 1),
            "conv2d_2b": _Conv(32, 64, 3),
            "maxpool_3a": nn.MaxPool2d(3, 2),
            "conv2d_3b": _Conv(64, 80, 1),
            "conv2d_4a": _Conv(80, 192, 3, 1),
            "maxpool_5a": nn.MaxPool2d(3, 2),
            "mixed_5b": _mixed_5b(),
            # Residuals are scaled down because training such wide blocks is unstable otherwise.
            "repeat": nn.Sequential(*(_Residual(320, _BLOCK_35, 0.17) for _ in range(10))),
            "mixed_6a": _mixed_6a(),
            "repeat_1": nn.Sequential(*(_Residual(1088, _BLOCK_17, 0.10) for _ in range(20))),
            "mixed_7a": _mixed_7a(),
            "repeat_2": nn.Sequential(*(_Residual(2080, _BLOCK_8, 0.20) for _ in range(9))),
            "block8": _Residual(2080, _BLOCK_8, 1.0, rectified=False),
            "conv2d_7b": _Conv(2080, _FEATURES, 1),
        }
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        for part in self:
            x = part(x)
        return x.mean((2, 3))


_MLP_WIDTH = 512


def mlp(request: NetworkRequest) -> Network:
    """Return a network for embeddings: one hidden layer of 512 units and a classifier."""
    body = nn.Sequential(
        # No bias: the normalisation that follows would subtract it again.
        nn.Linear(_dimensions(request), _MLP_WIDTH, bias=False),
        # Embeddings come in any scale; this makes the learning rate mean the same for all.
        nn.BatchNorm1d(_MLP_WIDTH),
        nn.ReLU(inplace=True),
    )
    return assemble(body, _MLP_WIDTH, request)


def linear(request: NetworkRequest) -> Network:
    """Return a classifier without a hidden layer: logistic regression on the embeddings."""
    return assemble(nn.Identity(), _dimensions(request), request)


def _dimensions(request: NetworkRequest) -> int:
    """Return the size of the vectors; raise if samples are none."""
    if len(request.in_shape) != 1:
        raise InputError(
            f"{request.name} takes vectors, in_shape=(dimensions,), got {request.in_shape}. For "
            "images choose 'resnet_small'."
        )
    return request.in_shape[0]


def huggingface_network(request: NetworkRequest) -> Network:
    """Return an image classifier of the Hugging Face hub or of a local folder.

    It has its own weights; its classifier is new if the number of classes differs.
    """
    require("transformers", f"The network {request.name}", "transformers")
    if request.weights is not None:
        raise InputError(
            f"weights must be left out for {request.name}, which has its own, got "
            f"{request.weights}. For another set, name its folder: hf:FOLDER."
        )
    model = from_pretrained(
        request.name,
        "AutoModelForImageClassification",
        request.library_name,
        num_labels=request.n_classes,
        # Without it a classifier for another number of classes is an error.
        ignore_mismatched_sizes=True,
    )
    return wrapped(model, request)


def timm_network(request: NetworkRequest) -> Network:
    """Return a model of timm; ``weights="pretrained"`` downloads published weights."""
    timm = require("timm", f"The network {request.name}", "timm")
    model = create_timm(
        timm,
        request.name,
        request.library_name,
        request.in_shape[1:],
        pretrained=request.weights == "pretrained",
        num_classes=request.n_classes,
        in_chans=request.in_shape[0],
    )
    if request.weights not in (None, "pretrained"):
        # `head` may differ in size: the file can be for other classes.
        fill(model, request.weights, head=last_linear(model, request.in_shape))
    return wrapped(model, request)


def create_timm(
    timm: Any,
    name: str,
    model_name: str,
    image_size: int | tuple[int, ...] | None,
    **options: Any,
) -> nn.Module:
    """Return the model `model_name` of timm, for images of `image_size` pixels if that is given.

    `name` is the user's name for it, for messages.
    """
    # Transformers need the size of images; convolutional networks do not accept it.
    sized = {} if image_size is None else {"img_size": image_size}
    try:
        try:
            model: nn.Module = timm.create_model(model_name, **sized, **options)
        except TypeError:
            model = timm.create_model(model_name, **options)
        return model
    except (RuntimeError, OSError, ValueError) as error:
        raise InputError(f"{name} cannot be loaded by timm: {first_line(error)}") from error


def torchvision_network(request: NetworkRequest) -> Network:
    """Return a classifier of torchvision; ``weights="pretrained"`` downloads published weights."""
    models = require("torchvision.models", f"The network {request.name}", "torchvision")
    pretrained = request.weights == "pretrained"
    model = create_torchvision(models, request.name, request.library_name, pretrained=pretrained)
    # Found by running it: torchvision names its last layer fc, classifier or head.
    head = last_linear(model, request.in_shape)
    _set_classes(model, head, request.n_classes)
    if request.weights is not None and not pretrained:
        fill(model, request.weights, head=head)
    return wrapped(model, request)


def create_torchvision(models: Any, name: str, model_name: str, *, pretrained: bool) -> nn.Module:
    """Return the model `model_name` of ``torchvision.models``; `name` is for messages."""
    try:
        model: nn.Module = models.get_model(model_name, weights="DEFAULT" if pretrained else None)
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"{name} cannot be loaded by torchvision: {first_line(error)}") from error
    return model


def _set_classes(model: nn.Module, head: str, n_classes: int) -> None:
    """Replace the last layer unless it has `n_classes` outputs; published models have 1000."""
    parent, _, leaf = head.rpartition(".")
    old = model.get_submodule(head)
    if isinstance(old, nn.Linear) and old.out_features != n_classes:
        setattr(model.get_submodule(parent), leaf, nn.Linear(old.in_features, n_classes))


_NETWORKS: dict[str, Callable[[NetworkRequest], Network]] = {
    "mlp": mlp,
    "linear": linear,
    "resnet_small": resnet_small,
    "cifar_resnet18": cifar_resnet18,
    "resnet50": resnet50,
    "inception_resnet_v2": inception_resnet_v2,
    "hf:NAME": huggingface_network,
    "timm:NAME": timm_network,
    "torchvision:NAME": torchvision_network,
}
"""What users write, and the function that builds it; NAME stands for a name of that library."""

NAMES = tuple(_NETWORKS)


def build_network(
    name: str,
    n_classes: int,
    *,
    in_shape: Sequence[int],
    weights: str | Path | None = None,
    feature_layer: str | None = None,
    seed: int = 0,
) -> Network:
    """Return the network called `name`, on the CPU.

    Parameters
    ----------
    name
        One of `NAMES`.
    n_classes
        Number of logits per sample, at least 2.
    in_shape
        Shape of one sample: (channels, height, width), or (dimensions,) for ``mlp``.
    weights
        File of weights, or ``"pretrained"`` for those that timm or torchvision publish. The
        classifier is kept if it has `n_classes` outputs; otherwise it gets random weights.
    feature_layer
        Layer whose output is the features; None for the input of the classifier.
    seed
        Seed of the random initial weights. The state of torch's generators does not change.

    Examples
    --------
    >>> network = build_network("mlp", 3, in_shape=(8,))
    >>> network.n_features, network.n_classes
    (512, 3)
    """
    prefix, colon, rest = name.partition(":")
    key = f"{prefix}:NAME" if colon else name
    if key not in _NETWORKS or (colon and not rest):
        raise InputError(f"There is no network {name!r}. Choose from {', '.join(NAMES)}.")
    request = NetworkRequest(name, rest, n_classes, tuple(in_shape), weights, feature_layer)
    # Initial weights are drawn from torch's default generator.
    with seeded(seed):
        return _NETWORKS[key](request)
