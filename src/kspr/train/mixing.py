"""Mixtures of clean and rejected samples (Eq. cutmix), for images and for vectors.

Every sample draws its own weight. With one weight for a batch, as CutMix's authors write it,
Beta(0.5, 0.5) would make every other batch nearly all clean or nearly all rejected, and its step
would learn from one side only; the expectation of the loss is the same.
"""

import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.train._draws import beta, whole

__all__ = ["cutmix", "mixup"]


def cutmix(
    a: Tensor,
    target_a: Tensor,
    b: Tensor,
    target_b: Tensor,
    generator: torch.Generator,
    alpha: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Return images of `a` with a box from the same row of `b`, and their soft targets.

    The box is as large as ``1 - lam`` of the image, with lam from Beta(alpha, alpha), its centre is
    anywhere, and what lies outside the image is lost. The weight of `target_a` is the share of
    pixels that are really `a`'s, so mixing never changes how much a pixel counts.
    """
    _check(a, target_a, b, target_b, alpha)
    inside = _boxes(a, generator, alpha)
    mixed = torch.where(inside[:, None], b, a)
    # Counted, not drawn: clipping at the border and whole pixels change the share.
    weight = 1 - inside.float().mean((1, 2))
    return mixed, _blend(target_a, target_b, weight)


def mixup(
    a: Tensor,
    target_a: Tensor,
    b: Tensor,
    target_b: Tensor,
    generator: torch.Generator,
    alpha: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Return ``lam a + (1 - lam) b`` row by row, and the soft targets by the same lam.

    The same as `cutmix` for vectors, which have no pixels to swap; lam is from Beta(alpha, alpha).
    """
    _check(a, target_a, b, target_b, alpha)
    weight = beta(len(a), alpha, generator, a.device)
    return _blend(a, b, weight), _blend(target_a, target_b, weight)


def _boxes(images: Tensor, generator: torch.Generator, alpha: float) -> Tensor:
    """Return (n, h, w) booleans, true inside the box."""
    n, device = len(images), images.device
    side = (1 - beta(n, alpha, generator, device)).sqrt()
    rows, columns = (_spans(side, size, generator) for size in (images.shape[-2], images.shape[-1]))
    return rows[:, :, None] & columns[:, None, :]


def _spans(side: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Return (n, size) booleans: a run of ``side * size`` pixels, cut off at both ends."""
    length = (side * size).long()
    centre = whole(torch.full_like(length, size), generator)
    start = centre - length // 2
    at = torch.arange(size, device=side.device)
    return (at >= start[:, None]) & (at < (start + length)[:, None])


def _blend(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    weight = weight.to(a.dtype).view(-1, *[1] * (a.ndim - 1))
    return weight * a + (1 - weight) * b


def _check(a: Tensor, target_a: Tensor, b: Tensor, target_b: Tensor, alpha: float) -> None:
    if a.shape != b.shape:
        raise InputError(f"a has shape {tuple(a.shape)} but b has {tuple(b.shape)}.")
    for name, target in (("target_a", target_a), ("target_b", target_b)):
        if target.ndim != 2 or len(target) != len(a) or not target.is_floating_point():
            raise InputError(
                f"{name} must be soft targets of shape ({len(a)}, classes), got {target.dtype} of "
                f"shape {tuple(target.shape)}. Turn labels into rows with one_hot(...).float()."
            )
    if not alpha > 0:
        raise InputError(f"alpha must be positive, got {alpha}. The paper takes 0.5.")
