"""``inception_resnet_v2``: the paper's network for WebVision (Szegedy et al., 2017).

Layers have the names under which ImageNet weights are published (timm, pretrainedmodels).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kspr.models.network import Network, NetworkRequest, assemble, image_channels

__all__ = ["inception_resnet_v2"]

_SMALLEST = 75
"""Smallest side in pixels; below it the last stage would have no position left."""
_FEATURES = 1536


def inception_resnet_v2(request: NetworkRequest) -> Network:
    """Return the network, with 1536 features."""
    body = _Body(image_channels(request, at_least=_SMALLEST))
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


class _Body(nn.Sequential):
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
