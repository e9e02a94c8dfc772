"""What the paper does to a piece before anything else."""

import numpy as np

__all__ = ["principal"]


def principal(X: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the leading principal components of the rows."""
    left, scale, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return np.asarray((left * scale)[:, :dimensions])
