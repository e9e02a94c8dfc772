"""A demonstration: select among handwritten digits of which 40 % have a wrong label."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from kspr._files import staged
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.core.noise import symmetric
from kspr.selectors import KnockoffsSPR, Selection

__all__ = ["DemoResult", "run_demo"]

NOISE_RATE = 0.4
_SHOWN = 24
_SCALE = 8


@dataclass(frozen=True)
class DemoResult:
    """The selection, its quality, and the files that were written."""

    selection: Selection
    y_true: np.ndarray
    images: np.ndarray
    """The digits as 8 x 8 arrays with values in [0, 1]."""
    quality: SelectionQuality
    class_quality: tuple[SelectionQuality, ...]
    suggested_right: float
    """Share of right suggestions among the suspects whose label is wrong."""
    saved: Path
    picture: Path


def run_demo(folder: Path, q: float, seed: int) -> DemoResult:
    """Corrupt the digits, select, save the selection and a picture of suspects to `folder`."""
    digits = load_digits()
    X, y_true = digits.data, digits.target
    y = symmetric(y_true, NOISE_RATE, seed)
    selection = KnockoffsSPR(q=q, random_state=seed).fit(X, y).selection_
    right = y == y_true
    # Pixels of these digits are whole numbers from 0 to 16.
    images = digits.images / 16.0
    wrong_suspects = ~selection.clean_mask & ~right
    suggested = selection.suggested_label == y_true
    # A demo is repeated, with another q for example: the folder is its own.
    saved = selection.save(folder / "selection", overwrite=True)
    picture = folder / "suspects.png"
    with staged(picture) as staging:
        _draw(images[selection.suspect_indices[:_SHOWN]]).save(staging)
    return DemoResult(
        selection=selection,
        y_true=y_true,
        images=images,
        quality=selection_quality(selection.clean_mask, right),
        class_quality=tuple(
            selection_quality(selection.clean_mask[y == k], right[y == k])
            for k in selection.classes
        ),
        suggested_right=float(suggested[wrong_suspects].mean()),
        saved=saved,
        picture=picture,
    )


def _draw(images: np.ndarray) -> Image.Image:
    """Return the images side by side, eight in a row, enlarged."""
    # Dark on light, with a grey frame to tell neighbours apart.
    framed = np.pad(1 - images, ((0, 0), (1, 1), (1, 1)), constant_values=0.8)
    rows = [np.hstack(list(framed[start : start + 8])) for start in range(0, len(framed), 8)]
    sheet = (np.vstack(rows) * 255).astype(np.uint8)
    size = (sheet.shape[1] * _SCALE, sheet.shape[0] * _SCALE)
    return Image.fromarray(sheet).resize(size, Image.Resampling.NEAREST)
