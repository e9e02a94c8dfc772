"""Transition matrices to test with."""

import numpy as np

__all__ = ["drawn_anchors"]


def drawn_anchors(rng: np.random.Generator, matrix: np.ndarray, each: int) -> np.ndarray:
    return np.stack([rng.multinomial(each, row) for row in matrix]).astype(float)
