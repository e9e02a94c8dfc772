"""The paper's Alg. 1 on one piece, step by step with scikit-learn: the yardstick of row a.

It is what a careful reader would write first: explicit matrices, one solver call per path,
one loop per formula. Nothing of `kspr` is used, so that agreement with it means something.

Two properties follow from scikit-learn's path, which knows lam at 100 levels only:
selection times are tied wherever rows enter at the same level, and a row whose label and
knockoff enter together has ``W = 0`` and cannot be selected.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import enet_path

__all__ = ["Grid", "select_piece"]

LEVELS = [step / 50 for step in range(1, 26)]
"""The paper's q: 0.02 in steps of 0.02 to 0.5."""


@dataclass(frozen=True)
class Grid:
    """The levels of the path: as many as scikit-learn and glmnet take, and as far down."""

    size: int = 100
    eps: float = 1e-3


def select_piece(
    X: np.ndarray, y: np.ndarray, half: np.ndarray, n_classes: int, grid: Grid | None = None
) -> np.ndarray:
    """Return which rows of a piece are clean (Alg. 2, lines 4 to 7).

    `half` is 0 for the rows of sub-piece A and 1 for those of B.
    """
    grid = grid or Grid()
    X = PCA(n_classes, random_state=0).fit_transform(X).astype(np.float64)
    clean = np.zeros(len(y), dtype=bool)
    for first, second in ((0, 1), (1, 0)):
        fit, judge = half == first, half == second
        beta = estimate_beta(X[fit], y[fit], n_classes, grid)
        W = statistics(X[judge], y[judge], beta, grid)
        clean[judge] = clean_set(W, y[judge], n_classes)
    return clean


def estimate_beta(X: np.ndarray, y: np.ndarray, n_classes: int, grid: Grid) -> np.ndarray:
    """Fit the half of each class that SPR keeps (step i)."""
    Y = np.eye(n_classes)[y]
    Z = spr_times(X, Y, grid)
    kept: list[int] = []
    for c in range(n_classes):
        members = np.flatnonzero(y == c)
        quota = int(np.ceil(0.5 * len(members)))
        kept.extend(members[np.argsort(Z[members], kind="stable")][:quota])
    return np.asarray(np.linalg.lstsq(X[kept], Y[kept])[0])


def spr_times(X: np.ndarray, Y: np.ndarray, grid: Grid) -> np.ndarray:
    """Solve Eq. spr: beta is projected away by ``I - H``, gamma is a group lasso."""
    H = X @ np.linalg.pinv(X.T @ X) @ X.T
    X_tilde = np.eye(len(X)) - H
    Y_tilde = X_tilde @ Y
    return path_times(X_tilde, Y_tilde, levels(X_tilde.T @ Y_tilde, grid))


def statistics(X: np.ndarray, y: np.ndarray, beta: np.ndarray, grid: Grid) -> np.ndarray:
    """Set each label against the most confident other one (step ii, and Eq. W)."""
    n_classes = beta.shape[1]
    fitted = X @ beta
    own, others = np.eye(n_classes)[y], fitted.copy()
    others[np.arange(len(y)), y] = -np.inf
    swapped = np.eye(n_classes)[others.argmax(axis=1)]
    residual, residual_tilde = own - fitted, swapped - fitted
    # Z and Z~ are compared with each other, so both paths have to stop at the same levels.
    lams = levels(np.concatenate([residual, residual_tilde]), grid)
    identity = np.eye(len(X))
    Z = path_times(identity, residual, lams)
    Z_tilde = path_times(identity, residual_tilde, lams)
    return np.asarray(Z * np.sign(Z - Z_tilde))


def levels(moments: np.ndarray, grid: Grid) -> np.ndarray:
    """Return descending levels of lam, from the one at which no row is selected yet."""
    top = np.linalg.norm(moments, axis=1).max()
    return np.geomspace(top, top * grid.eps, grid.size)


def path_times(X: np.ndarray, Y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    """Return the first lam at which each row of gamma is not zero; 0 if there is none."""
    # scikit-learn divides the squared loss by the number of rows.
    _, gamma, _ = enet_path(X, Y, l1_ratio=1.0, alphas=lams / len(X))
    selected = (gamma != 0).any(axis=0)
    return np.where(selected.any(axis=1), lams[selected.argmax(axis=1)], 0.0)


def clean_set(W: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Raise q class by class until Eq. T has an answer (Alg. 1, lines 4 to 8)."""
    clean = np.zeros(len(y), dtype=bool)
    for c in range(n_classes):
        members = np.flatnonzero(y == c)
        W_c = W[members]
        for q in LEVELS:
            T = cutoff(W_c, q)
            if T > 0:
                break
        kept = (W_c >= -T) & (W_c < 0) if T > 0 else best_half(W_c)
        clean[members] = kept
    return clean


def cutoff(W: np.ndarray, q: float) -> float:
    """Return T of Eq. T, trying the magnitudes from the largest down."""
    values = W.tolist()
    for t in sorted({abs(w) for w in values if w != 0}, reverse=True):
        behind = sum(0 < w <= t for w in values)
        ahead = sum(-t <= w < 0 for w in values)
        if (1 + behind) / max(ahead, 1) <= q:
            return t
    return 0.0


def best_half(W: np.ndarray) -> np.ndarray:
    """Return the half that is most likely clean: small negative W first, large positive last."""
    order = np.lexsort((np.abs(W), W >= 0))
    kept = np.zeros(len(W), dtype=bool)
    kept[order[: (len(W) + 1) // 2]] = True
    return kept
