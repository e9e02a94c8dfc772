"""Selections on disk: parquet tables and a JSON manifest, in a folder that appears as a whole."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import staged, write_json, write_parquet
from kspr.errors import InputError
from kspr.selectors.controls.checked import Checked
from kspr.selectors.controls.transition import NoiseEstimate
from kspr.selectors.cut_groups import CutGroups, cut_group_columns
from kspr.selectors.manifest import Manifest

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["load_fields", "save_selection"]

_FORMAT = 2
_FILES = ("samples.parquet", "cut_groups.parquet", "manifest.json")
_NOISE = "noise.parquet"
_LABELS = ("label", "knockoff_label", "suggested_label")


def save_selection(selection: "Selection", path: Path, *, overwrite: bool) -> Path:
    """Write `selection` to the directory `path`."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists. Choose another directory or pass overwrite=True.")
    # Not even with overwrite: a mistyped path must not delete other files.
    if path.exists() and not _holds_selection(path):
        raise InputError(f"{path} exists and is not a saved selection. Choose another directory.")
    with staged(path) as staging:
        staging.mkdir()
        _write(selection, staging)
    return path


def load_fields(path: Path) -> dict[str, Any]:
    """Return the fields of the selection that `save_selection` wrote."""
    if not _holds_selection(path):
        raise InputError(
            f"{path} is not a saved selection: {', '.join(_FILES)} are expected in it."
        )
    try:
        about = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        samples = pq.read_table(path / "samples.parquet")
        cut_groups = pq.read_table(path / "cut_groups.parquet")
    except (json.JSONDecodeError, pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as a selection: {error}") from error
    if about.get("format") != _FORMAT:
        raise InputError(
            f"{path} has format {about.get('format')!r}; this version of kspr reads {_FORMAT}."
        )
    dtype = np.dtype(about["label_dtype"])
    columns = {
        name: _array(samples[name], dtype if name in _LABELS else None)
        for name in samples.column_names
    }
    return {
        "label": columns["label"],
        "clean_mask": columns["clean"],
        # SPR has neither levels nor knockoffs.
        "q_value": columns.get("q_value"),
        "statistic": columns["statistic"],
        "selection_time": columns["selection_time"],
        "knockoff_label": columns.get("knockoff_label"),
        "suggested_label": columns["suggested_label"],
        "suggestion_probability": columns.get("suggestion_probability"),
        "cut_group": columns["cut_group"],
        "cut_groups": CutGroups(
            **{name: _array(cut_groups[name]) for name in cut_groups.column_names}
        ),
        "classes": np.array(about["classes"], dtype=dtype),
        "manifest": Manifest(**about["manifest"]),
        "noise": _read_noise(path, about, dtype),
        "checked": _read_checked(about),
    }


def _read_noise(path: Path, about: dict[str, Any], dtype: np.dtype) -> NoiseEstimate | None:
    if about.get("noise") is None:
        return None
    table = pq.read_table(path / _NOISE)
    c = len(about["classes"])
    # Written row by row, so (true class, label).
    square = {name: _array(table[name]).reshape(c, c) for name in ("transition", "low", "high")}
    return NoiseEstimate(
        rate=about["noise"]["rate"],
        rate_interval=tuple(about["noise"]["rate_interval"]),
        anchors=np.array(about["noise"]["anchors"]),
        classes=np.array(about["classes"], dtype=dtype),
        **square,
    )


def _read_checked(about: dict[str, Any]) -> Checked | None:
    found = about.get("checked")
    if found is None:
        return None
    # With a dtype: an empty list would become floats, which cannot index.
    rows = np.array(found["rows"], dtype=np.int64)
    right = np.array(found["right"], dtype=bool)
    return Checked(rows, right, found["confidence"], calibrate=found["calibrate"])


def _write(selection: "Selection", folder: Path) -> None:
    columns = selection._columns()
    # These three follow from the cut groups.
    columns = {name: columns[name] for name in columns if name not in ("piece", "half", "status")}
    write_parquet(folder / _FILES[0], pa.table({**columns, "cut_group": selection.cut_group}))
    write_parquet(folder / _FILES[1], pa.table(cut_group_columns(selection.cut_groups)))
    about = {
        "format": _FORMAT,
        # pyarrow returns text as objects: the dtype brings back NumPy's own strings.
        "label_dtype": selection.label.dtype.str,
        "classes": selection.classes.tolist(),
        "manifest": asdict(selection.manifest),
        "noise": _write_noise(selection.noise, folder),
        "checked": _plain_checked(selection.checked),
    }
    write_json(folder / _FILES[2], about)


def _write_noise(noise: NoiseEstimate | None, folder: Path) -> dict[str, Any] | None:
    """Write the matrices to a table of (true class, label), and return the rest."""
    if noise is None:
        return None
    names, c = [str(name) for name in noise.classes.tolist()], len(noise.classes)
    columns: dict[str, Any] = {"true_class": np.repeat(names, c), "label": np.tile(names, c)}
    columns |= {name: getattr(noise, name).ravel() for name in ("transition", "low", "high")}
    write_parquet(folder / _NOISE, pa.table(columns))
    return {
        "rate": noise.rate,
        "rate_interval": list(noise.rate_interval),
        "anchors": noise.anchors.tolist(),
    }


def _plain_checked(checked: Checked | None) -> dict[str, Any] | None:
    if checked is None:
        return None
    return {
        "rows": checked.rows.tolist(),
        "right": checked.right.tolist(),
        "confidence": checked.confidence,
        "calibrate": checked.calibrate,
    }


def _holds_selection(path: Path) -> bool:
    return all((path / name).is_file() for name in _FILES)


def _array(column: Any, dtype: np.dtype | None = None) -> np.ndarray:
    values = np.asarray(column.to_numpy())
    return values if dtype is None else values.astype(dtype)
