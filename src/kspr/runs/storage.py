"""A selection on disk: parquet tables and a JSON manifest, in a folder that appears as a whole."""

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr._arrow import as_array, parquet_names, read_parquet
from kspr._files import read_sealed, staged, write_parquet, write_sealed
from kspr.errors import InputError
from kspr.runs.checks import apply_checks, read_checks
from kspr.selectors import Selection
from kspr.selectors.checked import Checked, Drawn, Guarantee
from kspr.selectors.cut_groups import CutGroups, cut_group_columns
from kspr.selectors.options import DOUBTING
from kspr.selectors.provenance import ASSUMPTIONS, Manifest, NoiseEstimate
from kspr.selectors.summary import STATUS_MEANING

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
_BLOCK = 1 << 18
"""Rows of a row group of samples.parquet."""
_LABELS = ("label", "knockoff_label", "suggested_label")
"""Columns of samples.parquet that `Selection` holds as codes."""
_SAMPLES = {
    "label": ("label_code", ""),
    "clean": ("clean_mask", "b"),
    "q_value": ("q_value", "f"),
    "statistic": ("doubt", "f"),
    "selection_time": ("selection_time", "f"),
    "knockoff_label": ("knockoff_code", ""),
    "suggested_label": ("suggested_code", ""),
    "suggestion_probability": ("suggestion_probability", "f"),
    "doubt_by_class": ("doubt_by_class", "f"),
    "doubt_by_people": ("doubt_by_people", "f"),
    "copies": ("duplicate_set", "i"),
    "cut_group": ("cut_group", "iu"),
}
"""All of its columns: the fields of `Selection`, and the kinds of their values as NumPy abbreviates
them."""
# SPR has no levels before rows are checked, and no knockoffs.
_OPTIONAL = (
    "q_value",
    "knockoff_label",
    "suggestion_probability",
    "doubt_by_class",
    "doubt_by_people",
    "copies",
)
# Arrow also says OSError of damaged pages.
_WRONG = (
    *(AttributeError, IndexError, KeyError, MemoryError, OSError, OverflowError),
    *(TypeError, ValueError, pa.ArrowException),
)


def save_selection(selection: Selection, path: Path, *, overwrite: bool) -> Path:
    """Write `selection` to the directory `path`."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists. Choose another directory or pass overwrite=True.")
    # Not even with overwrite: a mistyped path must not delete other files.
    if path.exists() and not _holds_selection(path):
        raise InputError(f"{path} exists and is not a saved selection. Choose another directory.")
    with staged(path) as staging:
        staging.mkdir()
        _write_selection(selection, staging)
    return path


def load_selection(path: Path, *, answers: bool = True) -> Selection:
    """Return the selection that `save_selection` wrote, with the answers beside it if asked for.

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
        fitted = _read_selection(path, about)
    # The checksums hold, so that another program wrote these files: anything may be in them.
    except _WRONG as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(
            f"{path} cannot be read as a selection ({reason}). Select again."
        ) from error
    return apply_checks(fitted, read_checks(path, fitted)) if answers else fitted


def _read_selection(path: Path, about: dict[str, Any]) -> Selection:
    samples = path / _FILES[0]
    names = parquet_names(samples)
    dtype = np.dtype(about["label_dtype"])
    # The width of a text comes with its values: a large one in the file would fill the memory.
    dtype = np.dtype(np.str_) if dtype.kind == "U" else dtype
    classes = np.array(about["classes"], dtype=dtype)
    _require(np.array_equal(np.unique(classes), classes), "classes must be sorted")
    # Column by column: the whole table would be in memory twice, as Arrow's and as NumPy's.
    columns: dict[str, Any] = {"q_value": None}
    for name, (field, kinds) in _SAMPLES.items():
        if name in names or name not in _OPTIONAL:
            table = read_parquet(samples, [name])
            if name in _LABELS:
                columns[field] = _codes(table, name, classes)
            else:
                columns[field] = _column(table, name, kinds, len(table))
    n, before = len(columns["label_code"]), None
    if _BEFORE in names:
        before = _column(read_parquet(samples, [_BEFORE]), _BEFORE, "f", n)
    used = np.bincount(columns["label_code"], minlength=len(classes))
    _require(bool(used.all()), "classes must be the labels")
    cut_groups = _read_cut_groups(path, len(classes))
    _require(_within(columns["cut_group"], len(cut_groups)), "cut_group must number the cut groups")
    if "duplicate_set" in columns:
        _require(_within(columns["duplicate_set"] + 1, n + 1), "copies must number sets of rows")
    manifest = _read_manifest(
        about["manifest"],
        n,
        has_levels=columns["q_value"] is not None,
        checked=about["checked"] is not None,
    )
    if _compares(manifest):
        # Negative where the label is ahead of its knockoff; a cut keeps no others.
        W = columns["doubt"]
        columns["doubt"] = np.where(np.signbit(W), -W, np.inf)
    return Selection(
        **columns,
        cut_groups=cut_groups,
        classes=classes,
        manifest=manifest,
        noise=_read_noise(path, about["noise"], classes),
        checked=_read_checked(about["checked"], len(classes), n, before),
    )


def _codes(table: pa.Table, name: str, classes: np.ndarray) -> np.ndarray:
    """Return a column of labels as positions in the classes."""
    _require(table.column_names.count(name) == 1, f"there is no column {name!r}")
    column = table[name]
    codes = pc.index_in(column, pa.array(classes).cast(column.type))
    _require(not codes.null_count, f"{name} has values that are no classes")
    return as_array(codes).astype(np.min_scalar_type(max(0, len(classes) - 1)))


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
    kinds["status"] = "OU"
    names = [field.name for field in fields(CutGroups)]
    columns = {name: _column(table, name, kinds.get(name, "f"), len(table)) for name in names}
    groups = CutGroups(**columns)
    _require(set(groups.status.tolist()) <= STATUS_MEANING.keys(), "a status is unknown")
    _require(_within(groups.class_code + 1, n_classes + 1), "class_code must number the classes")
    return groups


def _read_manifest(about: dict[str, Any], n: int, *, has_levels: bool, checked: bool) -> Manifest:
    manifest = Manifest(**about)
    types = {"str": str, "int": int, "bool": bool}
    for field in fields(Manifest):
        plain = types.get(str(getattr(field.type, "__name__", field.type)), dict)
        sound = isinstance(getattr(manifest, field.name), plain)
        _require(sound, f"{field.name} of the manifest does not fit")
    _require(manifest.n_samples == n, f"the manifest is about {manifest.n_samples} rows, not {n}")
    # Checked rows give SPR levels, which no control has.
    control = manifest.parameters.get("control", None if has_levels and checked else "")
    _require(
        not has_levels or control is None or control in ASSUMPTIONS, "the manifest names no control"
    )
    return manifest


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
        checked=bool(about.get("checked", False)),
        anchors=np.array(about["anchors"]),
        classes=classes,
        transition=square["transition"],
        low=square["low"],
        high=square["high"],
    )


def _read_checked(
    about: dict[str, Any] | None, n_classes: int, n: int, level: np.ndarray | None
) -> Checked | None:
    if about is None:
        return None
    # With a dtype: an empty list would become floats, which cannot index.
    arrays = {name: np.array(about[name], dtype=dtype) for name, dtype in _CHECKED.items()}
    same = {array.shape for array in arrays.values()} == {(len(arrays["rows"]),)}
    _require(same and _within(arrays["rows"], n), "checked must list rows")
    _require(_within(arrays["true_code"] + 2, n_classes + 2), "true_code must number the classes")
    _require(about["drawn"] in get_args(Drawn), "drawn must be known")
    _require(about["guarantee"] in get_args(Guarantee), "guarantee must be known")
    numbers = {name: float(about[name]) for name in ("confidence", "q")}
    _require(all(0 < value < 1 for value in numbers.values()), "rates must be between 0 and 1")
    _require(isinstance(about["seed"], int), "seed must be a whole number")
    return Checked(**{**about, **arrays, **numbers}, level=level)


def _sample_tables(selection: Selection) -> Iterator[pa.Table]:
    """Yield the samples a row group at a time: labels take far more memory than their codes."""
    columns = {name: getattr(selection, field) for name, (field, _) in _SAMPLES.items()}
    if _compares(selection.manifest):
        columns["statistic"] = np.where(np.isinf(selection.doubt), np.inf, -selection.doubt)
    if selection.checked is not None:
        columns[_BEFORE] = selection.checked.level
    stored = {name: column for name, column in columns.items() if column is not None}
    for start in range(0, len(selection), _BLOCK):
        part = {name: column[start : start + _BLOCK] for name, column in stored.items()}
        labels = {name: selection.classes[part[name]] for name in _LABELS if name in part}
        yield pa.table({**part, **labels})


def _compares(manifest: Manifest) -> bool:
    """Return whether labels were compared with others, so that the file has the statistic W."""
    control = manifest.parameters.get("control")
    return control is not None and control not in DOUBTING


def _write_selection(selection: Selection, folder: Path) -> None:
    """Write the files of a selection into an existing folder."""
    write_parquet(folder / _FILES[0], _sample_tables(selection))
    write_parquet(folder / _FILES[1], pa.table(cut_group_columns(selection.cut_groups)))
    checked = None
    if selection.checked is not None:
        lists = {name: getattr(selection.checked, name).tolist() for name in _CHECKED}
        checked = {**vars(selection.checked), **lists}
        del checked["level"]
    about = {
        "format": _FORMAT,
        # pyarrow returns text as objects: the dtype brings back NumPy's own strings.
        "label_dtype": selection.classes.dtype.str,
        "classes": selection.classes.tolist(),
        "manifest": asdict(selection.manifest),
        "noise": _write_noise(selection.noise, folder),
        "checked": checked,
    }
    sealed = (*_FILES[:2], *([_NOISE] if (folder / _NOISE).exists() else []))
    write_sealed(folder / _FILES[2], about, *sealed)


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
        "checked": noise.checked,
        "anchors": noise.anchors.tolist(),
    }


def _holds_selection(path: Path) -> bool:
    return all((path / name).exists() for name in _FILES)
