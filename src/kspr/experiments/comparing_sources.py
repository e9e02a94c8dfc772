"""A comparison on a file whose truth is known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from kspr.data.options import EmbedSettings, ReadOptions
from kspr.data.readers import read_label_file
from kspr.data.selecting import Labelled, labelled
from kspr.errors import InputError
from kspr.experiments.comparing import compare
from kspr.experiments.comparison import Comparison

__all__ = ["compare_source"]


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
