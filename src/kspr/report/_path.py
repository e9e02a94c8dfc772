"""The solution path of one small piece: Fig. 2 of the paper, on the user's own data."""

from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.collections import LineCollection

from kspr._figures import ACCENT, KEPT, canvas, style, to_svg
from kspr.core.arrays import to_numpy
from kspr.core.regression import gamma_path
from kspr.report._facts import label_codes
from kspr.selectors.feature_rows import as_features
from kspr.selectors.selection import Selection

__all__ = ["path_figure", "path_rows", "solve_path"]

MAX_CLASSES = 10
ROWS_PER_CLASS = 12
STEPS = 40


def path_figure(selection: Selection, features: Any) -> Markup:
    """Draw how the mean shifts of a small piece grow as the penalty falls."""
    rows = path_rows(selection)
    lams, norms = solve_path(selection, features, rows)
    kept = selection.clean_mask[rows]
    with style():
        figure, axes = canvas(390, 260)
        for mask, colour, alpha in ((kept, KEPT, 0.55), (~kept, ACCENT, 0.75)):
            lines = [_visible(lams, norm) for norm in norms[:, mask].T]
            axes.add_collection(
                LineCollection(lines, colors=colour, linewidths=0.9, alpha=alpha, capstyle="round")
            )
        axes.set_xlim(lams.max(), 0)
        axes.set_ylim(0, 1.03 * norms.max(initial=1e-9))
        axes.set_xlabel("penalty λ, falling")
        axes.set_ylabel("size of the mean shift")
        return to_svg(figure, "path", "Solution path of a small piece: suspects enter first")


def path_rows(selection: Selection) -> np.ndarray:
    """Return a small balanced piece: the classes with most suspects, over all selection times."""
    codes = label_codes(selection, selection.label)
    suspects = np.bincount(codes[~selection.clean_mask], minlength=len(selection.classes))
    chosen = np.argsort(-suspects, kind="stable")[:MAX_CLASSES]
    picked = []
    for k in chosen.tolist():
        rows = np.flatnonzero(codes == k)
        rows = rows[np.argsort(selection.selection_time[rows], kind="stable")]
        take = np.linspace(0, len(rows) - 1, min(ROWS_PER_CLASS, len(rows)))
        picked.append(rows[np.unique(take.astype(int))])
    return np.sort(np.concatenate(picked))


def solve_path(
    selection: Selection, features: Any, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels, falling, and the norm of every row's mean shift at each of them."""
    if hasattr(features, "to_numpy"):
        features = features.to_numpy()
    X = to_numpy(as_features(features).take(rows)).astype(np.float64)
    classes, labels = np.unique(label_codes(selection, selection.label[rows]), return_inverse=True)
    X = X - X.mean(axis=0)
    left, scale, _ = np.linalg.svd(X, full_matrices=False)
    X = (left * scale)[:, : len(classes)]
    Y = np.eye(len(classes))[labels]
    # Residuals of one-hot rows seldom exceed sqrt(2); the empty beginning is cut off below.
    lams = np.linspace(1.4, 0.02, STEPS)
    norms = np.linalg.norm(gamma_path(X, Y, lams, intercept=True, tol=1e-5), axis=2)
    first = max(0, int(np.argmax(norms.max(axis=1) > 0)) - 1)
    return lams[first:], norms[first:]


def _visible(lams: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Return the points of a line from where it leaves zero."""
    first = max(0, int(np.argmax(norm > 0)) - 1)
    return np.column_stack([lams[first:], norm[first:]])
