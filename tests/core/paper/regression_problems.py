"""Problems to regress on, and an independent solver for them."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, MultiTaskLasso

from kspr.core.paper.selection_times import PENALTIES, Penalty, group

SHAPES = [(30, 3, 4), (40, 6, 3), (25, 2, 2), (60, 10, 5), (50, 4, 1), (35, 8, 6)]
penalties = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["through_0", "intercept"])


def residual_maker(X: np.ndarray, intercept: bool) -> np.ndarray:
    """Return I - H as the dense matrix it is, H the projection on X, or on [1, X]."""
    A = np.column_stack([np.ones(len(X)), X]) if intercept else X
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    U = U[:, s > 1e-10 * s[0]]
    return np.eye(len(X)) - U @ U.T


def solve_densely(D: np.ndarray, Y: np.ndarray, lam: float, penalty: Penalty) -> np.ndarray:
    """Solve ``1/2 |D Y - D gamma|^2 + P(gamma; lam)`` by scikit-learn's coordinate descent.

    Its objective has ``1/(2n)`` before the squares: alpha is lam / n.
    """
    options = {"alpha": lam / len(D), "fit_intercept": False, "tol": 1e-13, "max_iter": 200_000}
    if penalty is group:
        return MultiTaskLasso(**options).fit(D, D @ Y).coef_.T
    return np.column_stack([Lasso(**options).fit(D, D @ y).coef_ for y in Y.T])


def problem(seed: int, n: int, p: int, c: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if kind == "one_hot":
        return X, np.eye(c)[rng.integers(0, c, n)]
    return X, X @ rng.standard_normal((p, c)) + rng.standard_normal((n, c))
