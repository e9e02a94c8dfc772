"""Compare methods on the same features and labels, where the true labels are known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr._packages import version
from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.experiments.compare.comparison import REFERENCES, Comparison, TrialLog
from kspr.experiments.compare.known_truth import KnownTruth
from kspr.experiments.compare.peers import PEERS, Peer, Shared, import_needs
from kspr.features import load
from kspr.features.loading import options_for_test
from kspr.features.options import EmbedSettings
from kspr.noise import check_seed
from kspr.selectors.manifest import versions
from kspr.selectors.options import DEFAULT_Q
from kspr.selectors.validation import check_choice, check_count, check_rate
from kspr.sources.joining import join_label_file
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.label_files import open_label_file
from kspr.sources.records import Records

__all__ = ["compare", "compare_source", "load_test"]


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
        File of JSON lines, one per method, to continue an interrupted comparison: a method that
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
    entries |= chosen
    measured = []
    with Progress(progress, "Comparing", len(entries)) as bar:
        for name, method in entries.items():
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
        versions=_versions(),
    )


def _chosen(
    methods: Sequence[str] | Mapping[str, Peer] | None, *, features: bool
) -> dict[str, Peer]:
    if isinstance(methods, Mapping):
        return dict(methods)
    # A string is a sequence too, of letters.
    if isinstance(methods, str):
        methods = (methods,)
    able = [name for name, peer in PEERS.items() if features or _by_probabilities(peer)]
    names = able if methods is None else methods
    if not names:
        raise InputError(f"methods is empty; name some of {', '.join(PEERS)}.")
    found = {name: PEERS[check_choice("methods", name, PEERS)] for name in names}
    for name in found:
        if name not in able:
            raise InputError(
                f"The method {name!r} needs features, and there are only probabilities. These take "
                f"them: {', '.join(able)}."
            )
    return found


def _by_probabilities(method: Peer) -> bool:
    return bool(getattr(method, "by_probabilities", False))


def _versions() -> dict[str, str]:
    cleanlab = version("cleanlab")
    return versions() | ({} if cleanlab is None else {"cleanlab": cleanlab})


def compare_source(
    source: Path,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    methods: Sequence[str] | None,
    test: Path | None = None,
    q: float = DEFAULT_Q,
    seed: int = 0,
    dimensions: int = 128,
    out: Path | None = None,
) -> Comparison:
    """Compare methods on the rows of `source`.

    ``options.truth`` names a file of true labels, or a column of the source. `test` is read like
    the source; its true labels are used if it has them, else its labels. Trials go to
    ``trials.jsonl`` in `out`, from which an interrupted comparison continues.
    """
    file = options.truth if options.truth is not None and Path(options.truth).is_file() else None
    found = load(source, replace(options, truth=None) if file else options, settings, labelled=True)
    truth = _truth_in(Path(file), found.records, options) if file else found.records.truth
    if truth is None:
        raise InputError(
            f"{source} has no true labels. Pass a file or a column of them with --truth."
        )
    return compare(
        found.features,
        found.label,
        # Items that cannot be read are left out of the features, but not of the truth.
        truth[found.row],
        methods,
        probabilities=found.probabilities,
        classes=found.records.probability_columns or None,
        q=q,
        test=None if test is None else load_test(test, options, settings),
        seed=seed,
        dimensions=dimensions,
        trials=None if out is None else out / "trials.jsonl",
    )


def _truth_in(path: Path, records: Records, options: ReadOptions) -> np.ndarray:
    file = open_label_file(path, "truth", count=len(records), id_column=options.id)
    found = join_label_file(file, records.row_id, records.named, records.source)
    if found.missing.size:
        few = listed(records.row_id[found.missing].tolist(), 5)
        raise InputError(f"{path} has no true label for the rows {few} of {records.source}.")
    return found.label


def load_test(
    source: Path, options: ReadOptions, settings: EmbedSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Return features and right labels of a test source: its true labels, if it has them."""
    found = load(source, options_for_test(source, options), settings, labelled=True)
    truth = found.records.truth
    return found.features, found.label if truth is None else truth[found.row]
