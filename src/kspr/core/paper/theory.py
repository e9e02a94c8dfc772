"""The conditions of Theorem 1, computed for data whose truth is known.

With H = Q Q' the projection on the columns of X, the design of Theorem 1 is
I - H. Its blocks on a support S are ``I - Q_S Q_S'``, whose inverse is known through the
(p x p) matrix ``I - Q_S' Q_S``: nothing here is n x n.
"""

import math
from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import row_blocks

__all__ = ["RecoveryConditions", "irrepresentable_values", "recovery_conditions"]


@dataclass(frozen=True)
class RecoveryConditions:
    """C1 to C3 of Theorem 1, with the constants that they are made of."""

    c_min: float
    """C1: smallest eigenvalue of the design's Gram matrix on the noisy entries."""
    eta: float
    """C2: one minus the largest irrepresentable value of a clean entry."""
    lam: float
    """Smallest penalty level that the theorem allows for this sigma, n and c."""
    gamma_min: float
    """C3: smallest noisy entry of the true mean shift ..."""
    gamma_needed: float
    """... and what it must exceed."""

    @property
    def c1(self) -> bool:
        """Whether the noisy entries are identifiable."""
        return self.c_min > 0

    @property
    def c2(self) -> bool:
        """Whether no clean entry can be mimicked by noisy ones."""
        return self.c1 and self.eta > 0

    @property
    def c3(self) -> bool:
        """Whether every error is large enough to be seen."""
        return self.c2 and self.gamma_min > self.gamma_needed


def irrepresentable_values(X: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """Return ``|(D_S' D_S)^-1 D_S' D_j|_1`` for every clean sample j, D the design I - H.

    `noisy` marks S. Values below 1 mean that the sample is not mimicked by the noisy ones;
    infinite ones that the noisy samples are not identifiable at all (C1 fails).
    """
    Q = _orthonormal(X.astype(np.float64))
    return _values(Q[noisy], Q[~noisy])


def recovery_conditions(X: np.ndarray, gamma: np.ndarray, sigma: float) -> RecoveryConditions:
    """Check C1 to C3 for the true mean shifts `gamma` ``(n, c)`` and noise level `sigma`.

    For labels that are known to be wrong, `gamma` is ``one_hot(y) - one_hot(y_true)``.
    """
    Q, gamma = _orthonormal(X.astype(np.float64)), gamma.astype(np.float64)
    n, c = gamma.shape
    # Squared norms of the columns of I - H: mu in Theorem 1 is the largest of a clean entry.
    left_over = 1 - np.sum(Q * Q, axis=1)
    c_min, worst, pull, mu = 1.0, 0.0, 0.0, 0.0
    # The design is block diagonal over the columns of gamma: each class has its own support.
    for k in range(c):
        noisy = gamma[:, k] != 0
        Q_S, Q_rest = Q[noisy], Q[~noisy]
        if Q_rest.shape[0]:
            mu = max(mu, float(np.max(left_over[~noisy])))
        if Q_S.shape[0]:
            c_min = min(c_min, _smallest_eigenvalue(Q_S))
            if Q_rest.shape[0]:
                worst = max(worst, float(np.max(_values(Q_S, Q_rest))))
            pull = max(pull, _largest_pull(Q_S, np.sign(gamma[:, k][noisy])))
    eta = 1 - worst
    lam = 2 * sigma * math.sqrt(mu * math.log(c * n)) / eta if eta > 0 else math.inf
    usable = c_min > 0 and eta > 0 and mu > 0
    # h(lam, eta, X, gamma) of C3.
    needed = lam * (eta / math.sqrt(c_min * mu) + pull) if usable else math.inf
    errors = np.abs(gamma[gamma != 0])
    smallest = float(np.min(errors)) if errors.shape[0] else math.inf
    return RecoveryConditions(c_min, eta, lam, smallest, needed)


def _orthonormal(X: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the columns of `X`."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    # The limit that numpy.linalg.matrix_rank takes: columns of X may be dependent.
    return U[:, s > s[0] * max(X.shape) * float(np.finfo(s.dtype).eps)]


def _smallest_eigenvalue(Q_S: np.ndarray) -> float:
    """Return the smallest eigenvalue of ``I - Q_S Q_S'``; rounding error counts as 0."""
    if Q_S.shape[1] == 0:
        return 1.0
    # Q_S' Q_S has the same largest eigenvalue as Q_S Q_S', and is only p x p.
    value = 1 - float(np.linalg.eigvalsh(Q_S.T @ Q_S)[-1])
    return value if value > 1e-12 else 0.0


def _inner(Q_S: np.ndarray) -> np.ndarray:
    """Return ``(I - Q_S' Q_S)^-1``, through which the inverse of ``I - Q_S Q_S'`` is known."""
    eye = np.eye(Q_S.shape[1], dtype=Q_S.dtype)
    return np.linalg.inv(eye - Q_S.T @ Q_S)


def _values(Q_S: np.ndarray, Q_rest: np.ndarray) -> np.ndarray:
    """Return the 1-norms of ``(D_S' D_S)^-1 D_S' D_j`` for the rows of `Q_rest`."""
    values = np.zeros(Q_rest.shape[0], dtype=Q_S.dtype)
    if Q_S.shape[0] == 0 or Q_rest.shape[0] == 0:
        return values
    if _smallest_eigenvalue(Q_S) == 0.0:
        return values + np.inf
    # D_S' D_j is minus Q_S q_j, and inv(I - Q_S Q_S') Q_S = Q_S inv(I - Q_S' Q_S).
    mapped = _inner(Q_S) @ Q_rest.T
    for rows in row_blocks(Q_S.shape[0], Q_rest.shape[0]):
        values = values + np.sum(np.abs(Q_S[rows] @ mapped), axis=0)
    return values


def _largest_pull(Q_S: np.ndarray, signs: np.ndarray) -> float:
    """Return ``|(D_S' D_S)^-1 sign|_inf``: how far lam can draw a noisy entry to zero."""
    if _smallest_eigenvalue(Q_S) == 0.0:
        return math.inf
    # Woodbury: inv(I - Q_S Q_S') = I + Q_S inv(I - Q_S' Q_S) Q_S'.
    return float(np.max(np.abs(signs + Q_S @ (_inner(Q_S) @ (Q_S.T @ signs)))))
