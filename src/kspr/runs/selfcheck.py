"""The self-check on a source, or on what a run was made from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.features.loading import labelled
from kspr.features.options import EmbedSettings
from kspr.runs.run import Run
from kspr.selectors import KnockoffsSPR
from kspr.selectors.selfcheck import SelfCheck, selfcheck
from kspr.sources.options import ReadOptions
from kspr.sources.records import Records

__all__ = ["check_run", "check_source", "run_features"]


def check_source(
    source: Path,
    selector: KnockoffsSPR,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    share: float,
    kinds: Sequence[str],
    repeats: int,
    seed: int,
) -> SelfCheck:
    """Flip labels of `source` and see whether `selector` keeps its promise."""
    found = labelled(source, options, settings)
    return selfcheck(
        found.features,
        found.rows.label,
        selector,
        share=share,
        kinds=kinds,
        repeats=repeats,
        seed=seed,
    )


def check_run(run: Run, features: Any) -> SelfCheck:
    """Check the selector that made `run`, on its labels and `features`."""
    if features is None:
        raise InputError(
            f"The self-check needs the features of {run.origin.source}, which cannot be read now."
        )
    return selfcheck(features, run.selection.label, _selector(run))


def run_features(run: Run, records: Records | None) -> Any:
    """Return the features of the run's rows; None where they are gone.

    `records` is the run's source, if it could be opened.
    """
    if records is not None and records.features is not None:
        if len(records) <= int(run.row.max()):
            return None  # the source has lost rows since
        return records.features if len(run.row) == len(records) else records.features[run.row]
    stored = Path(run.origin.embedding or "") / "features.npy"
    if run.origin.embedding is None or not stored.is_file():
        return None
    features = np.load(stored, mmap_mode="r", allow_pickle=False)
    return features if len(features) == len(run.row) else None


def _selector(run: Run) -> KnockoffsSPR:
    """Return the selector that made the run, as its manifest tells."""
    manifest = run.selection.manifest
    if manifest.method != "KnockoffsSPR":
        raise InputError(f"{run.folder} was made by {manifest.method}, which promises no rate.")
    if run.selection.checked is not None:
        raise InputError(
            f"The error rate of {run.folder} rests on rows that a person has checked; flipped "
            "labels could not tell more. Check others with `kspr verify`."
        )
    return KnockoffsSPR(**manifest.parameters)
