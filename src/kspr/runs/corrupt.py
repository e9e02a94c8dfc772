"""Writing a source's labels with known noise to a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr.core.labels import same_label
from kspr.errors import InputError
from kspr.noise import add_noise
from kspr.sources.formats import written_format
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.writing import write_table


@dataclass(frozen=True)
class Corrupted:
    """Number of labels, and of wrong ones among them."""

    n: int
    n_wrong: int


@dataclass(frozen=True)
class Noise:
    """Noise to add to labels."""

    kind: str
    rate: float
    seed: int
    pairs: tuple[str, ...] = ()
    """For the kind `pair`: ``from:to``."""


def write_noisy_labels(
    source: Path, out: Path, noise: Noise, options: ReadOptions, *, overwrite: bool
) -> Corrupted:
    """Write row, id, noisy label and truth of every row of `source`."""
    if out.exists() and not overwrite:
        raise InputError(f"{out} already exists. Choose another --out, or pass --overwrite.")
    written_format(out, files_only=True)  # refuses a name before the noise is computed
    records = open_source(source, options)
    if records.label is None:
        raise InputError(f"{source} has no labels that could be found. Name them with --label.")
    row = np.asarray(records.labelled())
    truth = records.label[row]
    X = None if records.features is None else records.features[row]
    pairs = _pairs(noise.pairs, truth) if noise.kind == "pair" else None
    noisy = add_noise(noise.kind, truth, noise.rate, noise.seed, X=X, pairs=pairs)
    # Names by which --labels and --truth find their columns without being told.
    table = pa.table({"row": row, "id": records.row_id[row], "label": noisy, "truth": truth})
    write_table(out, table)
    return Corrupted(len(truth), int((~same_label(noisy, truth)).sum()))


def _pairs(texts: tuple[str, ...], truth: np.ndarray) -> dict[Any, Any]:
    """Return the pairs of classes that the texts name, in the labels' own type."""
    names = {str(name): name for name in np.unique(truth).tolist()}
    pairs = {}
    for text in texts:
        source, colon, target = text.partition(":")
        unknown = [name for name in (source, target) if name not in names]
        if not colon or unknown:
            raise InputError(
                f"--pairs takes from:to, both of them labels, got {text!r}. The labels begin with "
                f"{', '.join(list(names)[:5])}."
            )
        pairs[names[source]] = names[target]
    if not pairs:
        raise InputError("--kind pair needs --pairs, such as --pairs cat:dog.")
    return pairs
