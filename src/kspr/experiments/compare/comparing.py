"""Compare methods on the same features and labels, where the true labels are known."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from kspr._packages import version
from kspr._progress import Progress, ProgressMode
from kspr.core.labels import Labels, same_label, truly_clean
from kspr.core.metrics import selection_quality
from kspr.core.reduction import fit_pca
from kspr.errors import InputError, KsprError, check_seed
from kspr.experiments.compare.comparison import ORACLE, REFERENCES, Comparison, Trial, TrialLog
from kspr.experiments.compare.peers import PEERS, Judged, Peer, Shared, charge, import_needs
from kspr.features.loading import load, load_test
from kspr.selectors import KnockoffsSPR
from kspr.selectors.base import versions
from kspr.selectors.look import look
from kspr.selectors.options import DEFAULT_Q
from kspr.selectors.parts import HostFeatures
from kspr.selectors.probability import read_probabilities
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_rate,
    read_features,
    read_labels,
)
from kspr.sources.joining import join_label_file
from kspr.sources.options import EmbedSettings, ReadOptions
from kspr.sources.readers.file_checks import listed

_FEWEST = 5
"""Smallest class that five-fold cross-validation can split."""


def compare(
    X: Any,
    y: Any,
    y_true: Any,
    methods: Sequence[str] | Mapping[str, Peer] | None = None,
    *,
    probabilities: Any = None,
    classes: Any = None,
    q: float = DEFAULT_Q,
    test: tuple[Any, Any] | None = None,
    seed: int = 0,
    dimensions: int = 128,
    trials: Path | None = None,
    progress: ProgressMode = "auto",
) -> Comparison:
    """Measure how well methods find wrong labels, all on the same features.

    Features with more than `dimensions` columns are first reduced to that many principal
    components, centred and scaled; this counts for no method's seconds.

    Seconds are those of the method alone. What several methods use (cross-validated probabilities,
    neighbours) is computed once and added to the seconds of each of them. Memory is the growth of
    this process's resident memory at its peak (``VmHWM`` on Linux), shared results included.

    Parameters
    ----------
    X, y, y_true
        Features, given labels, true labels. Without features (None), `probabilities` are needed,
        and only the methods are compared that take them.
    methods
        Names from `PEERS`, all of them if None; or a mapping from names to your own methods.
    probabilities, classes
        Class probabilities of your own model, as for `ProbabilitySelector.fit`: one set for all
        methods that take them. If None, those of a cross-validated logistic regression.
    q
        Error rate for the methods that take one.
    test
        Features and true labels of other rows. A logistic regression is trained on what each
        method keeps, on all rows and on the rows with right labels, and tested on these.
    seed
        Seed of every method.
    dimensions
        Largest number of features.
    trials
        JSON file of finished trials, to continue an interrupted comparison: a method that
        it holds for the same data and settings is not measured again.
    progress
        True, False, or ``"auto"``: a bar on a terminal after two seconds.
    """
    check_rate("q", q)
    check_seed(seed)
    check_count("dimensions", dimensions, 1)
    if X is None and probabilities is None:
        raise InputError("compare needs features, or the probabilities of a model, and got none.")
    if X is None and test is not None:
        raise InputError("A test set goes with features, and X is None. Leave out either.")
    chosen = _chosen(methods, features=X is not None)
    # A missing package must be reported now, not after an hour of measuring other methods.
    import_needs(list(chosen.items()))
    data = KnownTruth(X, y, y_true, test, dimensions, probabilities, classes)
    shared = Shared(
        data.X,
        data.labels.codes,
        len(data.labels.classes),
        q=q,
        known_rate=data.wrong,
        probabilities=data.probabilities,
    )
    log = TrialLog(trials, f"{data.fingerprint} {q} {seed} {dimensions} {versions()}")
    # Without a test set, the references only repeat the share of wrong labels.
    entries: dict[str, Peer | None] = {} if test is None else dict.fromkeys(REFERENCES)
    measured = []
    with Progress(progress, "Comparing", len(entries) + len(chosen)) as bar:
        for name, method in (entries | chosen).items():
            key = log.key(name, method)
            trial = log.find(key)
            if trial is None:
                trial = data.measure(name, method, shared, seed)
                log.add(key, trial)
            measured.append(trial)
            bar.advance()
    return Comparison(
        n=len(data.right),
        n_features=data.X.shape[1],
        n_classes=shared.n_classes,
        wrong=data.wrong,
        q=q,
        seed=seed,
        trials=tuple(measured),
        versions=versions() | ({"cleanlab": found} if (found := version("cleanlab")) else {}),
    )


def _chosen(
    methods: Sequence[str] | Mapping[str, Peer] | None, *, features: bool
) -> dict[str, Peer]:
    if isinstance(methods, Mapping):
        return dict(methods)
    # A string is a sequence too, of letters.
    if isinstance(methods, str):
        methods = (methods,)
    able = {n: p for n, p in PEERS.items() if features or getattr(p, "by_probabilities", False)}
    if methods is not None and not methods:
        raise InputError(f"methods is empty; name some of {', '.join(PEERS)}.")
    for name in methods or ():
        if check_choice("methods", name, PEERS) not in able:
            raise InputError(
                f"The method {name!r} needs features, and there are only probabilities. These take "
                f"them: {', '.join(able)}."
            )
    return {name: able[name] for name in methods or able}


def compare_source(
    source: Path,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    methods: Sequence[str] | None,
    test: Path | None = None,
    out: Path | None = None,
    **given: Any,
) -> Comparison:
    """Compare methods on the rows of `source`.

    ``options.truth`` names a file of true labels, or a column of the source. `test` is read like
    the source; its true labels are used if it has them, else its labels. Trials go to
    ``trials.json`` in `out`, from which an interrupted comparison continues; all else is `given` to
    `compare`.
    """
    file = options.truth if options.truth is not None and Path(options.truth).is_file() else None
    read = replace(options, truth=None) if file else options
    loaded = load(source, read, settings, labelled=True)
    records, truth = loaded.records, loaded.truth
    if file:
        about = (records.row_id, records.named, records.source, options.id)
        joined = join_label_file(Path(file), "truth", *about)
        if joined.missing.size:
            few = listed(records.row_id[joined.missing].tolist(), 5)
            raise InputError(f"{file} has no true label for the rows {few} of {records.source}.")
        # Items that cannot be read are left out of the features, but not of the file.
        truth = joined.label[loaded.row]
    if truth is None:
        raise InputError(
            f"{source} has no true labels. Pass a file or a column of them with --truth."
        )
    # Test rows are embedded as these were, whatever they look like.
    settings = replace(settings, embedder=loaded.embedder or settings.embedder)
    return compare(
        loaded.features,
        loaded.label,
        truth,
        methods,
        probabilities=loaded.probabilities,
        classes=records.probability_columns or None,
        test=None if test is None else load_test(test, options, settings, records.encoder),
        trials=None if out is None else out / "trials.json",
        **given,
    )


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
        features = _read(self.probabilities if X is None else X)
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
            other = _read(test[0])
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
            kept = self.right if name == ORACLE else np.ones_like(self.right)
            return self._trial(name, Judged(kept, np.zeros(len(kept))), 0.0, None)
        _warm_up(method)
        try:
            charged = charge(shared, lambda: method.judge(shared, seed=seed))
        # Errors of this package name the way out already.
        except KsprError:
            raise
        except ValueError as error:
            raise InputError(f"{name} cannot judge these data: {error}") from error
        return self._trial(name, charged.answer, charged.seconds, charged.growth, told=charged.told)

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


def _read(X: Any) -> HostFeatures:
    features = HostFeatures(read_features(KnockoffsSPR(), X))
    look(features, find_copies=False)  # raises for rows that are not finite
    return features


def _dense(block: Any) -> np.ndarray:
    return np.asarray(block.toarray() if issparse(block) else block)


def _preparation(features: HostFeatures, dimensions: int) -> Callable[[HostFeatures], np.ndarray]:
    """Return PCA and scaling, fitted on the training rows, for them and for the test rows."""
    pca = None
    if features.shape[1] > dimensions:
        pca = fit_pca(
            lambda: (_dense(block)[None] for _, block in features.chosen_blocks(None)),
            dimensions,
            # Not the seed of the methods: all seeds are compared on the same features.
            rng=np.random.default_rng(0),
        )

    def reduced(rows: HostFeatures) -> np.ndarray:
        blocks = (_dense(block) for _, block in rows.chosen_blocks(None))
        return np.concatenate([b if pca is None else pca.transform(b[None])[0] for b in blocks])

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
    truth = np.asarray(values)
    if truth.ndim != 1 or len(truth) != n:
        raise InputError(f"{where} has {n} rows but the {what} have the shape {truth.shape}.")
    return truth


def _warm_up(method: Peer) -> None:
    """Run a method on tiny data, so that imports on first use do not count as its seconds."""
    y = np.arange(60) % 3
    # Three separate classes of 20 rows: five folds and all methods can work with them.
    X = np.random.default_rng(0).standard_normal((60, 4)) + 3 * np.eye(3, 4)[y]
    # An error here will come again on the real data, with a message.
    with suppress(Exception):
        method.judge(Shared(X.astype(np.float32), y, known_rate=0.1), seed=0)
