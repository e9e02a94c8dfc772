"""Methods side by side on labels whose truth is known."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from kspr._progress import Progress, ProgressMode
from kspr.core.arrays import to_numpy
from kspr.core.labels import Labels, same_label, truly_clean
from kspr.core.metrics import selection_quality
from kspr.core.reduction import fit_pca
from kspr.errors import InputError, KsprError
from kspr.experiments.compare.comparison import ORACLE, REFERENCES, Cell, Comparison
from kspr.experiments.compare.peers import PEERS, Judged, Peer, Shared, charge, import_needs
from kspr.features.loading import Labelled, labelled
from kspr.features.options import EmbedSettings
from kspr.selectors import KnockoffsSPR
from kspr.selectors.manifest import fingerprint, versions
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_features,
    check_rate,
    read_labels,
)
from kspr.sources.options import ReadOptions
from kspr.sources.readers import read_label_file

__all__ = ["compare", "compare_source"]

_FEWEST = 5
"""Rows of a class that five-fold cross-validation needs."""


def compare(
    X: Any,
    y: Any,
    y_true: Any,
    methods: Sequence[str] | Mapping[str, Peer] | None = None,
    *,
    q: float = 0.1,
    test: tuple[Any, Any] | None = None,
    seed: int = 0,
    dimensions: int = 128,
    cells: Path | None = None,
    progress: ProgressMode = "auto",
) -> Comparison:
    """Hold methods against the truth, all on the same features.

    Features with more than `dimensions` columns are reduced to that many principal components
    first, centred and put on one scale, which no method is charged for.

    Seconds are those of one run of the method alone: what methods share (cross-validated
    probabilities, neighbours) is made once and charged to each that uses it. Memory is how far
    the resident memory of this process rises meanwhile (``VmHWM`` of Linux, after freed memory
    was handed back), shared results included.

    Parameters
    ----------
    X, y, y_true
        Features, given labels, true labels.
    methods
        Names from `PEERS`, all of them if None; or a mapping from names to methods of your own.
    q
        The error rate that is asked of methods that take one.
    test
        Features and true labels of other rows. A logistic regression is trained on what each
        method keeps, and on all rows and on the right ones beside it.
    seed
        Seed of every method.
    dimensions
        Largest number of features.
    cells
        A file of JSON lines, one per method. What is there already for the same data is not
        measured again, so that an interrupted comparison goes on where it stopped.
    progress
        True, False, or ``"auto"``: a bar on a terminal when it takes more than two seconds.
    """
    check_rate("q", q)
    check_count("seed", seed, 0)
    check_count("dimensions", dimensions, 1)
    chosen = _chosen(methods)
    import_needs(list(chosen.items()))
    scene = _Scene(X, y, y_true, test, dimensions)
    question = Shared(
        scene.X, scene.labels.codes, len(scene.labels.classes), q=q, known_rate=scene.wrong
    )
    log = _Log(cells, f"{scene.fingerprint} {q} {seed} {dimensions} {versions()}")
    # Without a test set, the references say nothing that `wrong` does not.
    entries: dict[str, Peer | None] = {} if test is None else dict.fromkeys(REFERENCES)
    entries |= chosen
    measured = []
    with Progress(progress, "Comparing", len(entries)) as bar:
        for name, method in entries.items():
            key = log.key(name, method)
            cell = log.find(key)
            if cell is None:
                cell = scene.measure(name, method, question, seed)
                log.add(key, cell)
            measured.append(cell)
            bar.advance()
    return Comparison(
        n=len(scene.right),
        n_features=scene.X.shape[1],
        n_classes=question.n_classes,
        wrong=scene.wrong,
        q=q,
        seed=seed,
        cells=tuple(measured),
        versions=_versions(),
    )


def _chosen(methods: Sequence[str] | Mapping[str, Peer] | None) -> dict[str, Peer]:
    if isinstance(methods, Mapping):
        return dict(methods)
    if isinstance(methods, str):
        methods = (methods,)
    names = list(PEERS) if methods is None else methods
    if not names:
        raise InputError(f"methods is empty; name some of {', '.join(PEERS)}.")
    return {name: PEERS[check_choice("methods", name, PEERS)] for name in names}


class _Scene:
    """The data that all methods are held against."""

    def __init__(self, X: Any, y: Any, y_true: Any, test: Any, dimensions: int) -> None:
        features = check_features(KnockoffsSPR(), X)
        self.labels = read_labels(y, features.shape[0], 1)
        _check_sizes(self.labels)
        self.right = truly_clean(self.labels.values, _truth(y_true, features.shape[0]))
        if not self.right.any():
            raise InputError("No label in y is that of y_true; are both of the same rows?")
        self.wrong = float(1 - self.right.mean())
        prepare = _Preparation(features, dimensions)
        self.X = prepare(features)
        self._test = None
        self.fingerprint = fingerprint(features, self.labels.values)
        if test is not None:
            other = check_features(KnockoffsSPR(), test[0])
            if other.shape[1] != features.shape[1]:
                raise InputError(
                    f"The test set has {other.shape[1]} features but X has {features.shape[1]}."
                )
            known = _truth(test[1], other.shape[0], "The test set", "labels")
            self._test = prepare(other), known
            self.fingerprint += fingerprint(other, known)
        self.fingerprint += sha256(np.packbits(self.right).tobytes()).hexdigest()

    def measure(self, name: str, method: Peer | None, question: Shared, seed: int) -> Cell:
        """Judge, and hold the answer against the truth; None stands for a reference."""
        if method is None:
            return self._reference(name)
        _warm_up(method)
        try:
            charged = charge(question, lambda: method.judge(question, seed=seed))
        except KsprError:
            raise
        except ValueError as error:
            raise InputError(f"{name} cannot judge these data: {error}") from error
        return self._cell(name, charged.answer, charged.seconds, charged.growth, told=charged.told)

    def _reference(self, name: str) -> Cell:
        """Return what all labels, or exactly the right ones, would lead to."""
        kept = self.right if name == ORACLE else np.ones_like(self.right)
        return self._cell(name, Judged(kept, np.zeros(len(kept))), 0.0, None)

    def _cell(
        self, name: str, judged: Judged, seconds: float, memory: int | None, *, told: bool = False
    ) -> Cell:
        kept, rate = np.asarray(judged.clean, dtype=bool), judged.noise_rate
        ranked = self.wrong > 0 and np.ptp(judged.suspicion) > 0
        return Cell(
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
        """Return how often a logistic regression on the kept rows is right about the test set."""
        if self._test is None or not kept.any():
            return None
        X, known = self._test
        codes = self.labels.codes[kept]
        if np.ptp(codes) == 0:
            predicted = np.full(len(known), codes[0])
        else:
            predicted = LogisticRegression(max_iter=200).fit(self.X[kept], codes).predict(X)
        return float(np.mean(same_label(self.labels.classes[predicted], known)))


class _Preparation:
    """Fewer dimensions where there are many, and one scale; fitted once, for test rows too."""

    def __init__(self, features: Any, dimensions: int) -> None:
        self._pca = None
        if features.shape[1] > dimensions:
            self._pca = fit_pca(
                lambda: (block[None] for block in features.blocks()),
                dimensions,
                rng=np.random.default_rng(0),
            )
        X = self._reduced(features)
        self._mean = X.mean(axis=0)
        self._scale = max(float(np.sqrt(np.mean((X - self._mean) ** 2))), 1e-12)

    def __call__(self, features: Any) -> np.ndarray:
        return np.asarray((self._reduced(features) - self._mean) / self._scale)

    def _reduced(self, features: Any) -> np.ndarray:
        return np.concatenate(
            [
                to_numpy(block if self._pca is None else self._pca.transform(block[None])[0])
                for block in features.blocks()
            ]
        )


def _check_sizes(labels: Labels) -> None:
    sizes = np.bincount(labels.codes)
    rarest = int(sizes.argmin())
    if sizes[rarest] < _FEWEST:
        raise InputError(
            f"Class {labels.classes.tolist()[rarest]!r} is too small to be compared on: it has "
            f"{sizes[rarest]} of the {_FEWEST} samples that five-fold cross-validation needs. "
            "Merge the class, or leave it out."
        )


def _truth(values: Any, n: int, where: str = "X", what: str = "true labels") -> np.ndarray:
    found = np.asarray(values)
    if found.ndim != 1 or len(found) != n:
        raise InputError(f"{where} has {n} rows but the {what} have the shape {found.shape}.")
    return found


def _warm_up(method: Peer) -> None:
    """Let a method load what it loads on first use, which is no part of its cost."""
    y = np.arange(60) % 3
    X = np.random.default_rng(0).standard_normal((60, 4)) + 3 * np.eye(3, 4)[y]
    # What fails here will fail on the data, and be told there.
    with suppress(Exception):
        method.judge(Shared(X.astype(np.float32), y, known_rate=0.1), seed=0)


def _versions() -> dict[str, str]:
    found = versions()
    with suppress(PackageNotFoundError):
        found["cleanlab"] = version("cleanlab")
    return found


class _Log:
    """Cells on disk, one line each, known by data, settings and method."""

    def __init__(self, path: Path | None, conditions: str) -> None:
        self._path, self._conditions = path, conditions
        self._found: dict[str, Cell] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        if text and not text.endswith("\n"):
            # Whoever was killed in the middle of a line did not finish that cell.
            path.write_text(text[: text.rfind("\n") + 1])
        for line in text.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                self._found[record["key"]] = Cell(**record["cell"])

    def key(self, name: str, method: Peer | None) -> str:
        """Return what a cell is known by; a dataclass tells its settings."""
        return sha256(f"{self._conditions} {name} {method!r}".encode()).hexdigest()[:16]

    def find(self, key: str) -> Cell | None:
        """Return a cell that was measured before."""
        return self._found.get(key)

    def add(self, key: str, cell: Cell) -> None:
        """Write a cell down."""
        if self._path is not None:
            with self._path.open("a") as out:
                out.write(json.dumps({"key": key, "cell": asdict(cell)}) + "\n")


def compare_source(
    source: Path,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    methods: Sequence[str] | None,
    test: Path | None = None,
    q: float = 0.1,
    seed: int = 0,
    dimensions: int = 128,
    out: Path | None = None,
) -> Comparison:
    """Compare methods on the rows of `source`.

    ``options.truth`` names a file of true labels, or a column of the source. `test` is read like
    the source; its true labels are used where it knows them, else its labels. Cells go to
    ``cells.jsonl`` in `out`, from where an interrupted comparison goes on.
    """
    file = options.truth if options.truth is not None and Path(options.truth).is_file() else None
    found = labelled(source, replace(options, truth=None) if file else options, settings)
    truth = read_label_file(Path(file), "truth") if file else found.records.truth
    if truth is None:
        raise InputError(
            f"{source} does not know its true labels. Pass a file or a column with --truth."
        )
    if len(truth) != len(found.records):
        raise InputError(
            f"{source} has {len(found.records)} rows but {file} has {len(truth)} true labels."
        )
    return compare(
        found.features,
        found.rows.label,
        truth[found.rows.row],
        methods,
        q=q,
        test=None if test is None else _tested(test, options, settings),
        seed=seed,
        dimensions=dimensions,
        cells=None if out is None else out / "cells.jsonl",
    )


def _tested(
    source: Path, options: ReadOptions, settings: EmbedSettings
) -> tuple[np.ndarray, np.ndarray]:
    own = replace(options, truth=None, labels=None)
    found: Labelled = labelled(source, own, settings)
    truth = found.records.truth
    return found.features, found.rows.label if truth is None else truth[found.rows.row]
