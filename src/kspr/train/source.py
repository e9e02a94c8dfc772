"""`train_source` and `predict_source`: train on a source on disk, and predict the rows of one."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from kspr._files import staged, write_parquet
from kspr.core.labels import places_in, same_label
from kspr.errors import InputError
from kspr.features.embedders import is_function
from kspr.features.loading import Loaded, check_labels, check_rows_alone, load, options_for_test
from kspr.runs.rows import rows_of
from kspr.runs.run import origin_of, save_run
from kspr.selectors import Selection
from kspr.selectors.validation import check_types
from kspr.sources.opening import open_source
from kspr.sources.options import EmbedSettings, ReadOptions, with_encoder
from kspr.sources.readers.mixed_tables import Encoder
from kspr.sources.records import Records
from kspr.train.fitting import Trained, fit, load_trained
from kspr.train.inputs import image_inputs
from kspr.train.run_folder import check_out, check_same, read_about
from kspr.train.settings import TrainSettings
from kspr.train.task import Epoch
from kspr.train.world import rank_zero_first, the_world


def load_source(
    source: Path,
    settings: TrainSettings,
    options: ReadOptions,
    embed: EmbedSettings,
    *,
    labelled: bool = False,
) -> Loaded:
    """Read `source` as features or as images, whichever `settings` trains on.

    Items that cannot be decoded are left out, and counted. With `labelled`, a source without labels
    is refused.
    """
    if settings.input == "images":
        records = open_source(source, options, unlabelled=not labelled)
        return _images(records, settings)
    return load(source, options, embed, labelled=labelled)


def train_source(
    source: Path,
    out: Path,
    settings: TrainSettings,
    *,
    options: ReadOptions,
    embed: EmbedSettings,
    command: Sequence[str],
    test: Path | None = None,
    test_split: str | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    trainer: Callable[..., Trained] = fit,
) -> Trained:
    """Train on the rows of `source` and write the run to `out`.

    Accuracy is measured on `test`, a source of the same kind, or on the split `test_split` of a
    published data set. `trainer` has the arguments of `fit`, and trains by another method.
    """
    with the_world(settings.device) as world:
        if world.rank == 0:
            check_out(out, resume=resume)
        if resume:
            embed = _as_begun(out, embed)
        # Rank 0 fills the cache of features; the others would compute the same ones again.
        loaded = rank_zero_first(
            world, lambda: load_source(source, settings, options, embed, labelled=True)
        )
        # Test rows are embedded as these were, whatever they look like.
        embed = replace(embed, embedder=loaded.embedder or embed.embedder)
        held = rank_zero_first(
            world,
            lambda: _test(
                source, test, test_split, settings, options, embed, loaded.records.encoder
            ),
        )
        check_labels(loaded.label)
        origin = origin_of(loaded, options, command)
        # Once, and only by the process that saves: the digests of images need all files.
        rows = cache(lambda: rows_of(loaded))

        def save(selection: Selection, path: Path) -> None:
            save_run(path, selection, rows(), origin, overwrite=True)

        items = loaded.records.items
        return trainer(
            loaded.features,
            loaded.label,
            settings=settings,
            truth=loaded.truth,
            test=held,
            out=out,
            resume=resume,
            on_epoch=on_epoch,
            about={
                "origin": asdict(origin),
                "embed": asdict(embed),
                "items": None if items is None else str(items.kind),
            },
            save_selection=save,
        )


def _as_begun(out: Path, embed: EmbedSettings) -> EmbedSettings:
    """Return how the run in `out` makes its features; raise `InputError` if `embed` differs."""
    stored = read_about(out).get("embed", {})
    name = stored.get("embedder") if isinstance(stored, dict) else None
    # Without a name, the run's own embedder goes on: the default may be another one by now. Code
    # is never imported because a run names it.
    if embed.embedder is None and isinstance(name, str) and not is_function(name):
        embed = replace(embed, embedder=name)
    # What else there is to choose does not change the features.
    counts = ("embedder", "half", "image_size", "flips")
    chosen = {name: value for name, value in asdict(embed).items() if name in counts}
    check_same(stored, chosen, str(out))
    return embed


def _images(records: Records, settings: TrainSettings) -> Loaded:
    if records.items is None or records.items.kind != "image":
        kind = "features" if records.items is None else "texts"
        raise InputError(
            f"{records.source} holds {kind}, not images. Choose --preset cpu, which trains on "
            "features."
        )
    inputs, row, unreadable = image_inputs(records.items, settings.image_size)
    return Loaded(records, inputs, row, len(unreadable))


def _test(
    source: Path,
    test: Path | None,
    split: str | None,
    settings: TrainSettings,
    options: ReadOptions,
    embed: EmbedSettings,
    encoder: Any,
) -> tuple[Any, np.ndarray] | None:
    if test is None and split is None:
        return None
    path = test or source
    said = with_encoder(options_for_test(path, replace(options, split=split)), encoder)
    loaded = load_source(path, settings, said, embed)
    check_rows_alone(loaded.records, said)
    return loaded.features, loaded.label if loaded.truth is None else loaded.truth


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted labels of the rows that could be read."""

    row_id: np.ndarray
    """Names of the rows in the source."""
    label: np.ndarray
    """Predicted label per row."""
    confidence: np.ndarray
    """Probability of the predicted label."""
    given: np.ndarray | None
    """Labels of the source; None if it has none, or none that the network knows."""
    unreadable: int
    """Number of items that could not be read."""

    @property
    def agreement(self) -> float | None:
        """Share of rows whose given label is predicted; None without given labels."""
        if self.given is None:
            return None
        return float(same_label(self.label, self.given).mean())

    def write(self, path: Path) -> Path:
        """Write one row per prediction to `path`, a CSV or parquet file by its ending."""
        columns = {"id": self.row_id, "predicted": self.label, "confidence": self.confidence}
        if self.given is not None:
            columns["label"] = self.given
        table = pa.table(columns)
        if path.suffix == ".parquet":
            write_parquet(path, table)
        elif path.suffix == ".csv":
            with staged(path) as staging:
                pyarrow.csv.write_csv(table, staging)
        else:
            raise InputError(f"{path} must end in .csv or .parquet.")
        return path


def predict_source(
    folder: Path, source: Path, options: ReadOptions, embedder: str | None = None
) -> Predictions:
    """Predict the rows of `source`, labelled or not, with the network of the run in `folder`.

    The run names the embedder. If that is a ``module:function``, pass it as `embedder` too: code is
    never imported because a run names it.
    """
    about = read_about(folder)
    embed = _embed_settings(folder, about, embedder)
    options = with_encoder(options, _encoder(folder, about))
    trained = load_trained(folder)
    settings = trained.settings
    if settings.input == "images":
        # The size of the training images, where the settings leave it to the first image.
        settings = replace(settings, image_size=trained.shape[-1])
    loaded = load_source(source, settings, options, embed)
    check_rows_alone(loaded.records, options)
    probability = trained.predict_proba(loaded.features)
    best = probability.argmax(axis=1)
    return Predictions(
        row_id=loaded.row_id,
        label=trained.classes[best],
        confidence=probability.max(axis=1),
        given=_given(loaded, trained.classes),
        unreadable=loaded.unreadable,
    )


def _encoder(folder: Path, about: dict[str, Any]) -> Encoder | None:
    """Return how the run made numbers of gaps, dates and categories; None if there were none."""
    origin = about.get("origin")
    stored = origin.get("encoder") if isinstance(origin, dict) else None
    try:
        return None if stored is None else Encoder.read(stored)
    except ValueError as error:
        raise InputError(f"{folder} cannot be read: {error}. Train again.") from error


def _embed_settings(folder: Path, about: dict[str, Any], named: str | None) -> EmbedSettings:
    """Return how the run made its features; raise `InputError` if that needs the user's word."""
    try:
        stored = EmbedSettings(**about.get("embed", {}))
        check_types(stored)
    except (TypeError, InputError) as error:
        raise InputError(f"{folder} names its embedder in a way that cannot be read.") from error
    if named is not None and named != stored.embedder:
        raise InputError(
            f"{folder} was trained on features of {stored.embedder or 'the default embedder'}. "
            f"Those of {named} mean nothing to its network; leave --embedder out."
        )
    if named is None and stored.embedder is not None and is_function(stored.embedder):
        raise InputError(
            f"{folder} was trained on features of {stored.embedder}, a function outside of kspr. "
            "It is not imported because a run names it: if you know that code, pass "
            f"--embedder {stored.embedder}."
        )
    return stored


def _given(loaded: Loaded, classes: np.ndarray) -> np.ndarray | None:
    """Return the labels of the source, if the network knows any of them."""
    try:
        label = loaded.label
    except InputError:  # there are none, or some rows have none
        return None
    # Folders of photos may be named by date: such names are no labels to agree with.
    return label if (places_in(classes, label) >= 0).any() else None
