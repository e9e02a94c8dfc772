"""The paper's networks and a small one: ``resnet_small``, ``cifar_resnet18``, ``resnet50`` and
``inception_resnet_v2`` (Szegedy et al., 2017).

Layers have the names and shapes under which ImageNet weights are published (torchvision; for
Inception timm and pretrainedmodels).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kspr.models.network import Network, NetworkRequest, assemble, image_channels

__all__ = ["cifar_resnet18", "inception_resnet_v2", "resnet50", "resnet_small"]

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
