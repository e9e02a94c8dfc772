"""Rows b and c: the unsplit fit against one product, and as rows and classes grow."""

from functools import partial

import numpy as np
from kspr.core.noise import symmetric

from _common import NOISE_RATE, Check, Data, Row
from _setting import Setting, plain, slower

__all__ = ["row_b", "row_c"]


def row_b(setting: Setting) -> Row:
    """Time the unsplit fit against one X'X, the least that a second-order method must do."""
    X, y = setting.data.X, setting.data.y
    timings = setting.clock.alternate(
        2 * setting.repeats,
        product=lambda: X.T @ X,
        fit=partial(setting.unsplit().fit, X, y),
    )
    checks = [Check.at_most("times one X'X", slower(timings, "fit", "product"), 12)]
    raw = {name: plain(found) for name, found in timings.items()}
    return Row("b", "unsplit, 64 dimensions", checks, raw)


def row_c(setting: Setting) -> Row:
    """Grow the rows eightfold, and the classes tenfold."""
    data, X = setting.data, setting.data.X
    rng = np.random.default_rng(setting.seed)
    y_fine = symmetric(finer_classes(data), NOISE_RATE, setting.seed)
    large, y_large = tiled(X, 8, rng), np.tile(data.y, 8)
    timings = setting.clock.alternate(
        setting.repeats,
        base=partial(setting.unsplit().fit, X, data.y),
        rows=partial(setting.unsplit().fit, large, y_large),
        classes=partial(setting.unsplit().fit, X, y_fine),
    )
    checks = [
        Check.at_most("8 x the rows: times slower", slower(timings, "rows", "base"), 9),
        Check.at_most("100 classes: times slower", slower(timings, "classes", "base"), 4),
    ]
    raw = {name: plain(found) for name, found in timings.items()}
    return Row("c", "growth, unsplit, 64 dimensions", checks, raw)


def tiled(X: np.ndarray, times: int, rng: np.random.Generator) -> np.ndarray:
    """Return `X` several times over, jittered so that no two rows are equal."""
    jitter = np.float32(0.05 * X[:1000].std())
    large = np.empty((times * len(X), X.shape[1]), dtype=X.dtype)
    for part in np.split(large, times):
        rng.standard_normal(out=part, dtype=np.float32)
        part *= jitter
        part += X
    return large


def finer_classes(data: Data) -> np.ndarray:
    """Cut every class into ten by the order of its leading feature."""
    fine = np.empty_like(data.y_true)
    for c in np.unique(data.y_true):
        members = np.flatnonzero(data.y_true == c)
        rank = np.argsort(np.argsort(data.X[members, 0]))
        fine[members] = 10 * c + 10 * rank // len(members)
    return fine
