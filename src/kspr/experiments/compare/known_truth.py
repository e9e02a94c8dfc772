"""Data whose true labels are known, and what a method makes of it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from kspr.core.arrays import to_numpy
from kspr.core.labels import Labels, same_label, truly_clean
from kspr.core.metrics import selection_quality
from kspr.core.reduction import fit_pca
from kspr.errors import InputError, KsprError
from kspr.experiments.compare.comparison import ORACLE, Trial
from kspr.experiments.compare.peers import Judged, Peer, Shared, charge
from kspr.selectors import KnockoffsSPR
from kspr.selectors.class_columns import read_probabilities
from kspr.selectors.feature_rows import Features
from kspr.selectors.validation import check_features, read_labels

__all__ = ["KnownTruth"]

_FEWEST = 5
"""Smallest class that five-fold cross-validation can split."""


class KnownTruth:
    """Features, given and true labels, test rows: measures any method on them."""

    def __init__(
        self,
        X: Any,
        y: Any,
        y_true: Any,
        test: Any,
        dimensions: int,
        probabilities: Any = None,
        classes: Any = None,
    ) -> None:
        self.probabilities: np.ndarray | None = None
        if probabilities is not None:
            self.probabilities, _ = read_probabilities(probabilities, y, classes, 1)
        # Methods that take features are not asked without them.
        features = check_features(KnockoffsSPR(), self.probabilities if X is None else X)
        self.labels = read_labels(y, features.shape[0], 1)
        if self.probabilities is None:
            _check_sizes(self.labels)
        self.right = truly_clean(self.labels.values, _truth(y_true, features.shape[0]))
        if not self.right.any():
            raise InputError(
                "y and y_true differ in every row; check that both list the same rows in one order."
            )
        self.wrong = float(1 - self.right.mean())
        prepare = _preparation(features, dimensions)
        self.X = prepare(features)
        self._test = None
        if test is not None:
            other = check_features(KnockoffsSPR(), test[0])
            if other.shape[1] != features.shape[1]:
                raise InputError(
                    f"The test set has {other.shape[1]} features but X has {features.shape[1]}."
                )
            self._test = prepare(other), _truth(test[1], other.shape[0], "The test set", "labels")
        # Only where labels are right enters the measures, so the true labels themselves need not.
        given = (self.X, self.labels.values, self.probabilities, self._test, self.right)
        self.fingerprint = str(joblib.hash(given))

    def measure(self, name: str, method: Peer | None, shared: Shared, seed: int) -> Trial:
        """Run a method and compare its answer with the true labels; None means a reference."""
        if method is None:
            return self._reference(name)
        _warm_up(method)
        try:
            charged = charge(shared, lambda: method.judge(shared, seed=seed))
        # Errors of this package name the way out already.
        except KsprError:
            raise
        except ValueError as error:
            raise InputError(f"{name} cannot judge these data: {error}") from error
        return self._trial(name, charged.answer, charged.seconds, charged.growth, told=charged.told)

    def _reference(self, name: str) -> Trial:
        """Return the trial of keeping all labels, or exactly the right ones."""
        kept = self.right if name == ORACLE else np.ones_like(self.right)
        return self._trial(name, Judged(kept, np.zeros(len(kept))), 0.0, None)

    def _trial(
        self, name: str, judged: Judged, seconds: float, memory: int | None, *, told: bool = False
    ) -> Trial:
        kept, rate = np.asarray(judged.clean, dtype=bool), judged.noise_rate
        # AUROC needs wrong labels to find and more than one value to rank by.
        ranked = self.wrong > 0 and np.ptp(judged.suspicion) > 0
        return Trial(
            method=name,
            n_kept=int(kept.sum()),
            **asdict(selection_quality(kept, self.right)),
            auroc=float(roc_auc_score(~self.right, judged.suspicion)) if ranked else None,
            noise_rate=rate,
            noise_rate_error=None if rate is None else rate - self.wrong,
            seconds=round(seconds, 4),
            memory=memory,
            accuracy=self._accuracy(kept),
            told=told,
        )

    def _accuracy(self, kept: np.ndarray) -> float | None:
        """Return the test accuracy of a logistic regression that is trained on the kept rows."""
        if self._test is None or not kept.any():
            return None
        X, known = self._test
        codes = self.labels.codes[kept]
        # A logistic regression needs two classes; with one, every prediction is that class.
        if np.ptp(codes) == 0:
            predicted = np.full(len(known), codes[0])
        else:
            predicted = LogisticRegression(max_iter=200).fit(self.X[kept], codes).predict(X)
        return float(np.mean(same_label(self.labels.classes[predicted], known)))


def _preparation(features: Features, dimensions: int) -> Callable[[Features], np.ndarray]:
    """Return PCA and scaling, fitted on the training rows, for them and for the test rows."""
    pca = None
    if features.shape[1] > dimensions:
        pca = fit_pca(
            lambda: (block[None] for block in features.blocks()),
            dimensions,
            # Not the seed of the methods: all seeds are compared on the same features.
            rng=np.random.default_rng(0),
        )

    def reduced(rows: Features) -> np.ndarray:
        blocks = (b if pca is None else pca.transform(b[None])[0] for b in rows.blocks())
        return np.concatenate([to_numpy(block) for block in blocks])

    X = reduced(features)
    mean = X.mean(axis=0)
    # One scale for all columns keeps distances in proportion, which neighbours depend on.
    scale = max(float(np.sqrt(np.mean((X - mean) ** 2))), 1e-12)
    return lambda rows: np.asarray((reduced(rows) - mean) / scale)


def _check_sizes(labels: Labels) -> None:
    sizes = np.bincount(labels.codes)
    rarest = int(sizes.argmin())
    if sizes[rarest] < _FEWEST:
        raise InputError(
            f"Class {labels.classes.tolist()[rarest]!r} is too small for a comparison: it has "
            f"{sizes[rarest]} of the {_FEWEST} samples that five-fold cross-validation needs. "
            "Merge the class with another, or leave it out."
        )


def _truth(values: Any, n: int, where: str = "X", what: str = "true labels") -> np.ndarray:
    found = np.asarray(values)
    if found.ndim != 1 or len(found) != n:
        raise InputError(f"{where} has {n} rows but the {what} have the shape {found.shape}.")
    return found


def _warm_up(method: Peer) -> None:
    """Run a method on tiny data, so that imports on first use do not count as its seconds."""
    y = np.arange(60) % 3
    # Three separate classes of 20 rows: five folds and all methods can work with them.
    X = np.random.default_rng(0).standard_normal((60, 4)) + 3 * np.eye(3, 4)[y]
    # An error here will come again on the real data, with a message.
    with suppress(Exception):
        method.judge(Shared(X.astype(np.float32), y, known_rate=0.1), seed=0)
