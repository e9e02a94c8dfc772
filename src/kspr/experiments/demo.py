"""A demonstration: select among handwritten digits of which 40 % have a wrong label."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from sklearn.datasets import load_digits

from kspr._files import staged, write_parquet
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.noise import symmetric
from kspr.runs.select import select_source
from kspr.selectors import KnockoffsSPR, Selection
from kspr.sources.options import AS_SHIPPED, ReadOptions

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
    run: Path
    picture: Path


def run_demo(folder: Path, q: float, seed: int) -> DemoResult:
    """Corrupt the digits, select, and write the data, the run and a picture to `folder`."""
    digits = load_digits()
    y_true = digits.target
    y = symmetric(y_true, NOISE_RATE, seed)
    # Pixels of these digits are whole numbers from 0 to 16.
    images = digits.images / 16.0
    # With the pictures, so that the run can be reported and reviewed as a user's own.
    source = folder / "digits.parquet"
    pixels = {f"pixel_{k}": digits.data[:, k].astype(np.float32) for k in range(64)}
    columns = {"image": [_png(image) for image in images], "label": y, **pixels}
    write_parquet(source, pa.table(columns))
    run = select_source(
        source,
        folder / "run",
        KnockoffsSPR(q=q, random_state=seed),
        options=ReadOptions(features="pixel_*"),
        settings=AS_SHIPPED,
        command=("kspr", "demo"),
        # A demo is repeated, with another q for example: the folder is its own.
        overwrite=True,
    )
    selection = run.selection
    right = y == y_true
    wrong_suspects = ~selection.clean_mask & ~right
    suggested = selection.suggested_label == y_true
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
        run=run.folder,
        picture=picture,
    )


def _png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(((1 - image) * 255).astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def _draw(images: np.ndarray) -> Image.Image:
    """Return the images side by side, eight in a row, enlarged."""
    # Dark on light, with a grey frame to tell neighbours apart.
    framed = np.pad(1 - images, ((0, 0), (1, 1), (1, 1)), constant_values=0.8)
    rows = [np.hstack(list(framed[start : start + 8])) for start in range(0, len(framed), 8)]
    sheet = (np.vstack(rows) * 255).astype(np.uint8)
    size = (sheet.shape[1] * _SCALE, sheet.shape[0] * _SCALE)
    return Image.fromarray(sheet).resize(size, Image.Resampling.NEAREST)
