"""Condition C2 of Theorem 1, computed for data whose truth is known.

With H = Q Q' the projection on the columns of X, the design of Theorem 1 is
I - H. Its blocks on a support S are ``I - Q_S Q_S'``, whose inverse is known through the
(p x p) matrix ``I - Q_S' Q_S``: nothing here is n x n.
"""

import numpy as np

from kspr.core.arrays import row_blocks

__all__ = ["irrepresentable_values"]


def irrepresentable_values(X: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """Return ``|(D_S' D_S)^-1 D_S' D_j|_1`` for every clean sample j, D the design I - H.

    `noisy` marks S. Values below 1 mean that the sample is not mimicked by the noisy ones;
    infinite ones that the noisy samples are not identifiable at all (C1 fails).
    """
    U, s, _ = np.linalg.svd(X.astype(np.float64), full_matrices=False)
    # The limit that numpy.linalg.matrix_rank takes: columns of X may be dependent.
    Q = U[:, s > s[0] * max(X.shape) * float(np.finfo(s.dtype).eps)]
    Q_S, Q_rest = Q[noisy], Q[~noisy]
    values = np.zeros(len(Q_rest))
    if not len(Q_S) or not Q.shape[1]:
        return values
    # I - Q_S' Q_S has the smallest eigenvalue of I - Q_S Q_S'; rounding error counts as 0.
    inner = np.eye(Q.shape[1]) - Q_S.T @ Q_S
    if np.linalg.eigvalsh(inner)[0] <= 1e-12:
        return values + np.inf
    # D_S' D_j is minus Q_S q_j, and inv(I - Q_S Q_S') Q_S = Q_S inv(I - Q_S' Q_S).
    mapped = np.linalg.inv(inner) @ Q_rest.T
    for rows in row_blocks(len(Q_S), len(Q_rest)):
        values = values + np.sum(np.abs(Q_S[rows] @ mapped), axis=0)
    return values
