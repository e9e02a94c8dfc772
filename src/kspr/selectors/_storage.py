"""Selections on disk: parquet tables and a JSON manifest, in a folder that appears as a whole."""

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._arrow import ParquetRows, as_array, read_parquet
from kspr._files import read_sealed, staged, write_parquet, write_sealed
from kspr.core.coded import ROWS, Coded, class_sizes, doubts, row_ranges, rows_of
from kspr.errors import InputError
from kspr.selectors.controls import ASSUMPTIONS
from kspr.selectors.controls.checked import Checked, Drawn, Guarantee
from kspr.selectors.controls.noise_estimate import NoiseEstimate
from kspr.selectors.cut_groups import CutGroups, cut_group_columns
from kspr.selectors.manifest import Manifest
from kspr.selectors.summary import STATUS_MEANING

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["load_fields", "save_selection", "write_about", "write_selection"]

_FORMAT = 4
_FILES = ("samples.parquet", "cut_groups.parquet", "manifest.json")
_NOISE = "noise.parquet"
_MATRICES = ("transition", "low", "high")
_BEFORE = "q_value_before_checks"
_CHECKED = {
    "rows": np.int64,
    "true_code": np.int64,
    "right": bool,
    "sampled": bool,
    "counted": bool,
}
_MOST_LEVELS = 1 << 16
_LABELS = ("label", "knockoff_label", "suggested_label")
_ANY_LABEL = "biufOUSM"
_SAMPLES = {
    "label": _ANY_LABEL,
    "clean": "b",
    "statistic": "f",
    "selection_time": "f",
    "suggested_label": _ANY_LABEL,
    "cut_group": "iu",
}
"""Columns of samples.parquet, and the kinds of their values as NumPy abbreviates them."""
_OPTIONAL = {
    "q_value": "f",
    "knockoff_label": _ANY_LABEL,
    "suggestion_probability": "f",
    "copies": "i",
    _BEFORE: "f",
}
# Arrow also says OSError of damaged pages.
_WRONG = (
    *(AttributeError, IndexError, KeyError, MemoryError, OSError, OverflowError),
    *(TypeError, ValueError, pa.ArrowException),
)


def save_selection(selection: "Selection", path: Path, *, overwrite: bool) -> Path:
    """Write `selection` to the directory `path`."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists. Choose another directory or pass overwrite=True.")
    # Not even with overwrite: a mistyped path must not delete other files.
    if path.exists() and not _holds_selection(path):
        raise InputError(f"{path} exists and is not a saved selection. Choose another directory.")
    with staged(path) as staging:
        staging.mkdir()
        write_selection(selection, staging)
    return path


def load_fields(path: Path) -> dict[str, Any]:
    """Return the fields of the selection that `save_selection` wrote.

    Raise `InputError` with one sentence if a file was changed, or if the files contradict each
    other.
    """
    if not _holds_selection(path):
        raise InputError(
            f"{path} is not a saved selection: {', '.join(_FILES)} are expected in it."
        )
    about = read_sealed(path / _FILES[2], *_FILES[:2])
    if about.get("format") != _FORMAT:
        raise InputError(
            f"{path} has format {about.get('format')!r}; this version of kspr reads {_FORMAT}."
        )
    try:
        return _fields(path, about)
    # The checksums hold, so that another program wrote these files: anything may be in them.
    except _WRONG as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(
            f"{path} cannot be read as a selection ({reason}). Select again."
        ) from error


def _fields(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    samples = ParquetRows(path / _FILES[0])
    n, present = samples.n_rows, samples.names
    dtype = np.dtype(about["label_dtype"])
    # The width of a text comes with its values: a large one in the file would fill the memory.
    dtype = np.dtype(np.str_) if dtype.kind == "U" else dtype
    classes = np.array(about["classes"], dtype=dtype)
    # SPR has no levels before rows are checked, and no knockoffs.
    wanted = {**_SAMPLES, **{name: k for name, k in _OPTIONAL.items() if name in present}}
    labels = {name: _labels(samples, name, classes) for name in _LABELS if name in wanted}
    columns = {
        name: _stored(samples, name, kinds) for name, kinds in wanted.items() if name not in _LABELS
    }
    used = class_sizes(labels["label"].codes, len(classes)) > 0
    _require(bool(used.all()), "classes must be the labels")
    cut_groups = _read_cut_groups(path, len(classes))
    cut_group = columns["cut_group"]
    _require(_within(cut_group, len(cut_groups)), "cut_group must number the cut groups")
    # What is used up stays with Arrow otherwise.
    pa.default_memory_pool().release_unused()
    if "copies" in columns:
        _require(_within(columns["copies"] + 1, n + 1), "copies must number sets of rows")
    manifest = _read_manifest(
        about["manifest"],
        n,
        has_levels="q_value" in columns,
        checked=about["checked"] is not None,
    )
    return {
        "label": labels["label"],
        "clean_mask": columns["clean"],
        "q_value": columns.get("q_value"),
        "statistic": columns["statistic"],
        "selection_time": columns["selection_time"],
        "knockoff_label": labels.get("knockoff_label"),
        "suggested_label": labels["suggested_label"],
        "suggestion_probability": columns.get("suggestion_probability"),
        "copies": columns.get("copies"),
        "cut_group": cut_group,
        "cut_groups": cut_groups,
        "classes": classes,
        "manifest": manifest,
        "noise": _read_noise(path, about["noise"], classes),
        "checked": _read_checked(about["checked"], len(classes), n, columns.get(_BEFORE)),
    }


def _labels(samples: ParquetRows, name: str, classes: np.ndarray) -> Coded:
    """Return a column of labels as codes, read a row group at a time."""
    codes = np.empty(samples.n_rows, np.min_scalar_type(max(0, len(classes) - 1)))
    for rows, values in _batches(samples, name, _ANY_LABEL):
        found = values.astype(classes.dtype if classes.dtype.kind != "U" else np.str_)
        place = np.minimum(np.searchsorted(classes, found), len(classes) - 1)
        _require(bool((classes[place] == found).all()), f"{name} has values that are no classes")
        codes[rows] = place
    return Coded(codes, classes)


def _stored(samples: ParquetRows, name: str, kinds: str) -> Any:
    """Return a column in as few bytes as it had when it was written, read in row groups."""
    n = samples.n_rows
    if n <= ROWS:
        return _column(samples.read([name]), name, kinds, n)
    if name == "q_value" and (levels := _as_levels(samples, name, kinds)) is not None:
        return levels
    if name == "statistic" and (found := _as_doubts(samples, name, kinds)) is not None:
        return found
    whole: np.ndarray | None = None
    for rows, values in _batches(samples, name, kinds):
        whole = np.empty(n, values.dtype) if whole is None else whole
        whole[rows] = values
    return whole


def _as_levels(samples: ParquetRows, name: str, kinds: str) -> Coded | None:
    """Return levels as codes; None if there are many different ones."""
    classes = np.empty(0)
    for _, values in _batches(samples, name, kinds):
        classes = np.union1d(classes, values)
        if len(classes) > _MOST_LEVELS or np.isnan(classes).any():
            return None
    codes = np.empty(samples.n_rows, np.min_scalar_type(max(0, len(classes) - 1)))
    for rows, values in _batches(samples, name, kinds):
        codes[rows] = np.searchsorted(classes, values)
    return Coded(codes, classes)


def _as_doubts(samples: ParquetRows, name: str, kinds: str) -> Any:
    """Return doubts as `doubts` stores them; None if they were not made from single precision."""
    right = np.empty(samples.n_rows, dtype=np.float32)
    for rows, values in _batches(samples, name, kinds):
        with np.errstate(over="ignore"):
            right[rows] = 1.0 - values
        # Then reading gives exactly what was written.
        if not np.array_equal(1.0 - right[rows].astype(np.float64), values):
            return None
    return doubts(right)


def _batches(samples: ParquetRows, name: str, kinds: str) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a column part by part, with the rows of each part."""
    start = 0
    for batch in samples.batches(ROWS, [name]):
        values = _column(pa.Table.from_batches([batch]), name, kinds, len(batch))
        yield slice(start, start + len(values)), values
        start += len(values)


def _column(table: pa.Table, name: str, kinds: str, n: int) -> np.ndarray:
    """Return a column as an array, if it is there, without gaps, and of one of the kinds."""
    _require(table.column_names.count(name) == 1, f"there is no column {name!r}")
    values = as_array(table[name])
    right = len(values) == n and not table[name].null_count and values.dtype.kind in kinds
    _require(right, f"column {name!r} does not fit")
    return values


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise ValueError(rule)


def _within(values: np.ndarray, count: int) -> bool:
    return bool(((values >= 0) & (values < count)).all())


def _read_cut_groups(path: Path, n_classes: int) -> CutGroups:
    table = read_parquet(path / _FILES[1])
    kinds = dict.fromkeys(("piece", "half", "class_code", "n", "n_kept"), "iu")
    found = CutGroups(
        **{
            field.name: _column(
                table,
                field.name,
                kinds.get(field.name, "OU" if field.name == "status" else "f"),
                len(table),
            )
            for field in fields(CutGroups)
        }
    )
    _require(
        all(status in STATUS_MEANING for status in found.status.tolist()), "a status is unknown"
    )
    _require(_within(found.class_code + 1, n_classes + 1), "class_code must number the classes")
    return found


def _read_manifest(about: dict[str, Any], n: int, *, has_levels: bool, checked: bool) -> Manifest:
    found = Manifest(**about)
    kinds = {field.name: field.type for field in fields(Manifest)}
    for name, kind in kinds.items():
        plain = {"str": str, "int": int, "bool": bool}.get(
            str(getattr(kind, "__name__", kind)), dict
        )
        _require(isinstance(getattr(found, name), plain), f"{name} of the manifest does not fit")
    _require(found.n_samples == n, f"the manifest is about {found.n_samples} rows, not {n}")
    # Checked rows give SPR levels, which no control has.
    control = found.parameters.get("control", None if has_levels and checked else "")
    _require(
        not has_levels or control is None or control in ASSUMPTIONS, "the manifest names no control"
    )
    return found


def _read_noise(
    path: Path, about: dict[str, Any] | None, classes: np.ndarray
) -> NoiseEstimate | None:
    if about is None:
        return None
    square = dict.fromkeys(_MATRICES, np.empty((0, 0)))
    # Very many classes have no matrices.
    if (path / _NOISE).exists():
        table, c = read_parquet(path / _NOISE), len(classes)
        # Written row by row, so (true class, label).
        square = {name: _column(table, name, "f", c * c).reshape(c, c) for name in _MATRICES}
    low, high = about["rate_interval"]
    return NoiseEstimate(
        rate=float(about["rate"]),
        rate_interval=(float(low), float(high)),
        anchors=np.array(about["anchors"]),
        classes=classes,
        **square,
    )


def _read_checked(
    found: dict[str, Any] | None, n_classes: int, n: int, level: np.ndarray | None
) -> Checked | None:
    if found is None:
        return None
    # With a dtype: an empty list would become floats, which cannot index.
    arrays = {name: np.array(found[name], dtype=dtype) for name, dtype in _CHECKED.items()}
    same = {array.shape for array in arrays.values()} == {(len(arrays["rows"]),)}
    _require(same and _within(arrays["rows"], n), "checked must list rows")
    _require(_within(arrays["true_code"] + 2, n_classes + 2), "true_code must number the classes")
    _require(found["drawn"] in get_args(Drawn), "drawn must be known")
    _require(found["guarantee"] in get_args(Guarantee), "guarantee must be known")
    numbers = {name: float(found[name]) for name in ("confidence", "q")}
    _require(all(0 < value < 1 for value in numbers.values()), "rates must be between 0 and 1")
    _require(isinstance(found["seed"], int), "seed must be a whole number")
    return Checked(**{**found, **arrays, **numbers}, level=level)


def write_selection(selection: "Selection", folder: Path) -> None:
    """Write the files of a selection into a folder that is there."""
    _write_samples(selection, folder / _FILES[0])
    write_about(
        folder,
        selection.cut_groups,
        selection.classes,
        selection.manifest,
        selection.noise,
        selection.checked,
    )


def write_about(
    folder: Path,
    cut_groups: CutGroups,
    classes: np.ndarray,
    manifest: Manifest,
    noise: NoiseEstimate | None,
    checked: Checked | None = None,
) -> None:
    """Write what a selection has besides its samples, which are in `folder` already.

    They are one file, or a folder of files with the rows in the order of the files' names.
    """
    write_parquet(folder / _FILES[1], pa.table(cut_group_columns(cut_groups)))
    about = {
        "format": _FORMAT,
        # pyarrow returns text as objects: the dtype brings back NumPy's own strings.
        "label_dtype": classes.dtype.str,
        "classes": classes.tolist(),
        "manifest": asdict(manifest),
        "noise": _write_noise(noise, folder),
        "checked": _plain_checked(checked),
    }
    sealed = (*_FILES[:2], *([_NOISE] if (folder / _NOISE).exists() else []))
    write_sealed(folder / _FILES[2], about, *sealed)


def _write_samples(selection: "Selection", path: Path) -> None:
    """Write one line per row, a row group at a time: never all columns as Arrow has them."""
    writer = None
    try:
        for rows in row_ranges(len(selection)):
            columns = selection._columns(rows)
            # These three follow from the cut groups.
            part = {n: c for n, c in columns.items() if n not in ("piece", "half", "status")}
            if selection.checked is not None and selection.checked.__dict__["level"] is not None:
                part[_BEFORE] = rows_of(selection.checked, "level", rows)
            table = pa.table({**part, "cut_group": selection.cut_group[rows]})
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_noise(noise: NoiseEstimate | None, folder: Path) -> dict[str, Any] | None:
    """Write the matrices to a table of (true class, label), and return the rest."""
    if noise is None:
        return None
    if noise.transition.size:
        names, c = [str(name) for name in noise.classes.tolist()], len(noise.classes)
        columns: dict[str, Any] = {"true_class": np.repeat(names, c), "label": np.tile(names, c)}
        columns |= {name: getattr(noise, name).ravel() for name in _MATRICES}
        write_parquet(folder / _NOISE, pa.table(columns))
    return {
        "rate": noise.rate,
        "rate_interval": list(noise.rate_interval),
        "anchors": noise.anchors.tolist(),
    }


def _plain_checked(checked: Checked | None) -> dict[str, Any] | None:
    if checked is None:
        return None
    plain = {name: value for name, value in vars(checked).items() if name != "level"}
    return {**plain, **{name: getattr(checked, name).tolist() for name in _CHECKED}}


def _holds_selection(path: Path) -> bool:
    return all((path / name).exists() for name in _FILES)
