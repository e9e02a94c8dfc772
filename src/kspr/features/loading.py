"""Opening a source and getting its features: read, and embedded where it has none."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr._files import user_cache, write_parquet
from kspr.errors import InputError
from kspr.features._store import Embedded, read_embedded
from kspr.features.embedders.google import with_embedder
from kspr.sources.formats import absolute
from kspr.sources.opening import open_source, probability_file
from kspr.sources.options import EmbedSettings, ReadOptions, with_encoder
from kspr.sources.pairs import PairRows, Pairs
from kspr.sources.readers.file_checks import listed
from kspr.sources.records import Records, row_digests


@dataclass(frozen=True, eq=False)
class Loaded:
    """The rows of a source that could be read, with their features."""

    records: Records
    """All rows of the source, those that could not be read among them."""
    features: Any
    """``(len(row), p)``, in the order of `row`; in training on images, what the network takes."""
    row: np.ndarray
    """Row numbers in the source, from 0, in ascending order."""
    unreadable: int = 0
    """Items that could not be decoded; they are not in `row`."""
    folder: Path | None = None
    """Where the features are kept, if they were computed."""
    embedder: str | None = None
    """Name of the embedder, if they were computed."""
    fingerprint: str | None = None
    """Fingerprint of all items, under which the features are kept."""
    read_digest: np.ndarray | None = None
    """Digest of each item of the source, where all were read; see `digest`."""

    @property
    def row_id(self) -> Any:
        """What identifies each of these rows, as text."""
        return _at(self.records.row_id, self.row)

    @property
    def digest(self) -> np.ndarray:
        """A digest of the content of each of these rows, by which they are known again."""
        # Embedding has read all items; they are not read once more.
        of_all = row_digests(self.records) if self.read_digest is None else self.read_digest
        return np.asarray(_at(of_all, self.row))

    @property
    def label(self) -> np.ndarray:
        """The label of each of these rows."""
        label, gaps = _labels(self.records), self.records.unlabelled
        # An entry without meaning must never be taken for a class.
        if gaps is not None and np.isin(self.row, gaps).any():
            raise InputError(self.records.no_labels or "Rows without a label cannot be used here.")
        return np.asarray(_at(label, self.row))

    @property
    def numbers(self) -> np.ndarray:
        """The label of each of these rows, where labels are numbers."""
        return np.asarray(_at(self.records.numbers, self.row))

    @property
    def groups(self) -> np.ndarray | None:
        """Which of these rows belong together, where the user has named it."""
        groups = self.records.groups
        return None if groups is None else np.asarray(_at(groups, self.row))

    @property
    def probabilities(self) -> Any:
        """The class probabilities of each of these rows, where the user has named them."""
        return _at(self.records.probabilities, self.row)

    @property
    def truth(self) -> np.ndarray | None:
        """The true label of each of these rows, where the source has them."""
        truth = self.records.truth
        return None if truth is None else np.asarray(_at(truth, self.row))


def load(
    source: Path,
    options: ReadOptions,
    settings: EmbedSettings,
    *,
    labelled: bool = False,
    embed: bool = True,
) -> Loaded:
    """Open `source`, and embed its images or texts where it has no features.

    With `labelled`, a source without labels, or whose labels cannot be classes, is refused before
    anything is embedded. Without it, rows need no labels (see `open_source`). Without `embed`,
    images and texts stay as they are, without features.
    """
    opened = open_source(source, options, unlabelled=not labelled)
    if isinstance(opened, Pairs):
        return _of_pairs(_loaded(source, opened.rows, options, settings, embed=embed), opened)
    return _loaded(source, opened, options, settings, labelled=labelled, embed=embed)


def _of_pairs(loaded: Loaded, pairs: Pairs) -> Loaded:
    """Return the pairs of the rows that were loaded."""
    k, digest = len(pairs.labels), loaded.read_digest
    pairs = replace(pairs, notes=tuple(dict.fromkeys((*pairs.notes, *loaded.records.notes))))
    return replace(
        loaded,
        records=pairs,
        features=None if loaded.features is None else PairRows(loaded.features, k),
        row=(loaded.row[:, None] * k + np.arange(k)).ravel(),
        read_digest=None if digest is None else np.repeat(digest, k),
    )


def _loaded(
    source: Path,
    records: Records,
    options: ReadOptions,
    settings: EmbedSettings,
    *,
    labelled: bool = False,
    embed: bool,
) -> Loaded:
    wanted = np.asarray(records.labelled())
    if labelled:
        label = _at(_labels(records), wanted)
        check_labels(label)
        told = _several_labels(label)
        if options.features is None and options.columns is None:
            told += _like_probabilities(records.features, label)
        records = replace(records, notes=(*records.notes, *told))
    # A source of class probabilities may have neither features nor items.
    if records.features is not None or records.items is None or not embed:
        return Loaded(records, _at(records.features, wanted), wanted)
    folder = cache_folder(source, settings, options.split)
    # The folder is made for this source and these settings: what differs in it is out of date.
    embedded = embed_records(records, folder, settings, overwrite=True)
    if embedded.note is not None:
        records = replace(records, notes=(*records.notes, embedded.note))
    # All items are embedded: labels may come later, and need no second embedding.
    row = np.intersect1d(embedded.kept, wanted, assume_unique=True)
    return Loaded(
        records,
        _at(embedded.features, np.searchsorted(embedded.kept, row)),
        row,
        len(embedded.unreadable),
        folder,
        embedded.embedder,
        embedded.fingerprint,
        embedded.digest,
    )


def stored_features(folder: Path, fingerprint: str, row: np.ndarray) -> np.ndarray | None:
    """Return the features that `load` has kept in `folder` for the rows `row` of the source.

    None if they are gone, or if `folder` holds those of items with another fingerprint by now.
    """
    stored = read_embedded(folder, fingerprint)
    if stored is None:
        return None
    place = np.flatnonzero(np.isin(stored.kept, row))
    there = np.array_equal(stored.kept[place], row)
    return np.asanyarray(_at(stored.features, place)) if there else None


def _at(features: Any, place: Any) -> Any:
    """Return the rows at `place`; all of them as they are, for example as a memory map."""
    if features is None or len(place) == len(features):
        return features
    return features[place]


def options_for_test(source: Path, options: ReadOptions) -> ReadOptions:
    """Return how to read the test set `source`, given the options of the training rows.

    A second file, of labels or of probabilities, belongs to the training rows. True labels and
    columns of probabilities or groups are read if `source` has them, and not asked for otherwise:
    its own labels are right, and columns that are named as probabilities or groups are no features.
    """
    base = replace(options, labels=None)
    if probability_file(base) is not None:
        base = replace(base, probabilities=None)
    columns = ("truth", "probabilities", "groups")
    asked = [name for name in columns if getattr(base, name) is not None]
    # As it is; then without one of them, without two.
    for left_out in chain.from_iterable(combinations(asked, k) for k in range(len(asked))):
        changes: dict[str, Any] = dict.fromkeys(left_out)
        tried = replace(base, **changes)
        try:
            open_source(source, tried, unlabelled=True)
        except InputError:
            continue
        return tried
    # Any other fault comes up again, and is named, when the test set is read.
    return replace(base, truth=None, probabilities=None, groups=None)


def load_test(
    source: Path, options: ReadOptions, settings: EmbedSettings, encoder: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return features and right labels of a test source: its true labels, if it has them.

    `encoder` is that of the rows to train on, by which those of a mixed table become numbers.
    """
    options = with_encoder(options_for_test(source, options), encoder)
    loaded = load(source, options, settings, labelled=True)
    check_rows_alone(loaded.records, options)
    return loaded.features, loaded.label if loaded.truth is None else loaded.truth


def embed_source(
    source: Path, out: Path, *, options: ReadOptions, settings: EmbedSettings, overwrite: bool
) -> Embedded:
    """Embed the items of `source` into `out`, with the labels of the rows beside them."""
    # Features need no labels: rows without one are embedded too, and have none in the table.
    records = open_source(source, replace(options, missing="drop"), unlabelled=True)
    embedded = embed_records(records, out, settings, overwrite=overwrite)
    row = np.asarray(embedded.kept)
    columns = {"row": row, "id": records.row_id[row]}
    if records.label is not None:
        empty = np.isin(row, records.labelled(), invert=True)
        columns["label"] = pa.array(records.label[row], mask=empty)
    if records.truth is not None:
        columns["truth"] = records.truth[row]
    write_parquet(out / "rows.parquet", pa.table(columns))
    return embedded


def embed_records(
    records: Records, folder: Path, settings: EmbedSettings, *, overwrite: bool
) -> Embedded:
    """Embed the items of `records` into `folder`, or use the features that it holds."""
    if records.items is None:
        raise InputError(f"{records.source} holds features already; there is nothing to embed.")
    from kspr.features.embedding import embed

    settings, note = with_embedder(records.items, settings)
    return replace(embed(records.items, settings, folder, overwrite=overwrite), note=note)


def cache_folder(source: Path, settings: EmbedSettings, split: str | None = None) -> Path:
    """Return where the features of `source`, or of one of its splits, are kept between runs."""
    # Neither of the two changes the features.
    relevant = {k: v for k, v in asdict(settings).items() if k not in ("batch_size", "strict")}
    # Resolved: a relative path and an absolute one share the features.
    key = json.dumps([absolute(source), split, relevant], sort_keys=True)
    return user_cache() / "embeddings" / hashlib.sha256(key.encode()).hexdigest()[:16]


def check_rows_alone(records: Records, options: ReadOptions) -> None:
    """Raise if what is made of a row depends on the other rows of its table.

    Rows that are judged by a fit to others need features that are made as theirs were.
    """
    if records.digest is not None and options.encoder is None:
        raise InputError(
            f"{records.source} has gaps, dates or categories, and the rows that it is judged by "
            "have none that would say what to make of these. Fill the gaps in, or name columns of "
            "numbers without gaps with --features for both."
        )


def check_labels(label: np.ndarray) -> None:
    """Raise if every row has a label of its own, or most have a number: these are no classes."""
    first = set(label[: 1 << 16].tolist())
    if 2 * len(first) > min(len(label), 1 << 16) and _are_fractions(first):
        raise InputError(
            f"The labels are numbers, {len(first):,} different ones such as {min(first)}, and no "
            "classes. Judge them as numbers with --target numbers."
        )
    # The first rows nearly always answer it; sorting texts would copy all of them.
    for some in (label[: 1 << 16], label):
        distinct = len(set(some.tolist()))
        if distinct < len(some) or distinct < 2:
            return
    raise InputError(
        f"All {len(label)} labels are distinct; is this the right label column? A class needs "
        "at least two samples."
    )


def _are_fractions(labels: set[Any]) -> bool:
    """Return whether labels are numbers, and not whole ones, which may be names."""
    try:
        return any(float(label) % 1 for label in labels)
    except (TypeError, ValueError):
        return False


def _like_probabilities(features: np.ndarray | None, label: np.ndarray) -> tuple[str, ...]:
    """Return a note for features that look like chances of the classes, or none."""
    some = None if features is None else np.asarray(features[:1000])
    if some is None or (some < 0).any() or (np.abs(some.sum(axis=1) - 1) > 0.01).any():
        return ()
    if some.shape[1] != len(np.unique(label)):
        return ()
    return (
        "The features look like class probabilities: a column for each class, and each row sums to "
        "1. If a model of yours made them, pass --probabilities (or --kind probabilities for an "
        "npy file), which judges by them as they are.",
    )


def _several_labels(label: np.ndarray) -> tuple[str, ...]:
    """Return a note for labels of which most are several, as ``cat|indoors``, or none."""
    some = label[: 1 << 16]
    texts = some.tolist() if some.dtype.kind == "U" else []
    for mark in "|;,":
        # Names with a comma have as many parts as there are names; several labels have fewer.
        parts = {part.strip() for text in set(texts) for part in text.split(mark)}
        many = 2 * sum(mark in text for text in texts) > len(texts)
        if many and len(parts) < len(set(texts)):
            return (
                f"Most labels hold {mark!r}, as {next(t for t in texts if mark in t)!r} does: each "
                f"such text is taken for one class. Are these several labels? --labels-separator "
                f"{mark!r} judges each of them.",
            )
    return ()


def _labels(records: Records) -> np.ndarray:
    """Return the labels of all rows."""
    if records.label is None:
        columns = [name for names in records.columns.values() for name in names]
        raise InputError(
            f"{records.source} has no labels that could be found. Name their column with --label, "
            "or their file with --labels."
            + (f" Its columns: {listed(columns)}." if columns else "")
        )
    return records.label
