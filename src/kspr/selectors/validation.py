"""Checks of arguments. An error is one sentence with the argument, rule, value and way out."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import numpy as np

from kspr.core.labels import (
    Labels,
    as_label_array,
    encode_labels,
    missing_labels,
    name_rows,
)
from kspr.errors import InputError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def read_features(estimator: "BaseEstimator", X: Any) -> Any:
    """Return features as an array ``(rows, columns)`` of this process, or a sparse matrix.

    Memory maps stay on disk, and tensors are moved. Whether values are finite is not checked: that
    is a part of the first look at the rows, which names them.
    """
    # Imported here: a saved selection is read without scikit-learn, which takes long to load.
    from sklearn.utils.validation import validate_data

    X = on_host(X)
    # scikit-learn would answer with all values.
    if getattr(X, "ndim", 2) != 2:
        raise InputError(f"X must have two dimensions (rows, features), got {X.ndim}.")
    if getattr(X, "shape", ()) and X.shape[0] == 1:
        raise InputError("X has 1 sample; wrong labels show only among others. Pass more rows.")
    return validate_data(
        estimator, X, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=2
    )


def on_host(values: Any) -> Any:
    """Return a tensor as an array of this process, and all other values as they are."""
    if type(values).__module__.partition(".")[0] != "torch":
        return values
    values = values.detach().cpu()
    # NumPy has no bfloat16.
    return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()


def read_labels(y: Any, n_rows: int, min_class_size: int) -> Labels:
    """Return the labels of `n_rows` rows, of any type."""
    if y is None:
        # scikit-learn's check_estimator looks for these words.
        raise InputError("KSPR requires y to be passed, but the target y is None.")
    labels = encode_labels(on_host(y))
    if len(labels.values) != n_rows:
        raise InputError(f"X has {n_rows} rows but y has {len(labels.values)} labels.")
    check_classes(labels.classes, np.bincount(labels.codes), min_class_size)
    return labels


def check_classes(classes: np.ndarray, counts: np.ndarray, least: int) -> None:
    """Refuse a single class, and classes of fewer than `least` rows."""
    if len(classes) < 2:
        raise InputError(
            f"y has only one class ({classes.tolist()[0]!r}). Wrong labels can be found "
            "only between two or more classes."
        )
    small = np.flatnonzero(counts < least)
    if not small.size:
        return
    worst = small[np.argmin(counts[small])]
    name, size = classes.tolist()[worst], int(counts[worst])
    others = f" ({small.size - 1} more classes are too small)" if small.size > 1 else ""
    raise InputError(
        f"Class {name!r} has {size} {'sample' if size == 1 else 'samples'}; at least {least} are "
        f"needed{others}. Merge the class, or pass min_class_size={size} to have it judged anyway."
    )


def read_groups(groups: Any, labels: Labels) -> np.ndarray:
    """Return the user's groups as sets of rows: numbers from 0 on, -1 for a row alone."""
    values, n_rows = as_label_array(groups, "groups"), len(labels.codes)
    if len(values) != n_rows:
        raise InputError(
            f"groups must hold one entry per row: X has {n_rows} rows, groups has {len(values)}."
        )
    missing = missing_labels(values)
    if missing.size:
        raise InputError(
            f"groups has no entry (NaN or inf, or None) in {name_rows(missing)}. Give a row that "
            "belongs to no other a group of its own."
        )
    number: dict[Any, int] = {}
    try:
        codes = np.array([number.setdefault(v, len(number)) for v in values.tolist()], dtype=int)
    except TypeError as error:
        raise InputError(
            f"groups must hold numbers, texts or other values that can be compared, got {error}."
        ) from error
    _check_groups(codes, labels)
    sizes = np.bincount(codes)
    kept = np.cumsum(sizes > 1) - 1
    return np.where(sizes[codes] > 1, kept[codes], -1)


def _check_groups(codes: np.ndarray, labels: Labels) -> None:
    """Refuse groups that hold a whole class: no fit without them would know the class."""
    low = np.full(len(labels.classes), len(codes))
    high = np.full(len(labels.classes), -1)
    np.minimum.at(low, labels.codes, codes)
    np.maximum.at(high, labels.codes, codes)
    inside = np.flatnonzero((low == high) & (np.bincount(labels.codes) > 1))
    if inside.size:
        others = f" ({inside.size - 1} more classes do too)" if inside.size > 1 else ""
        raise InputError(
            f"All rows of class {labels.classes.tolist()[inside[0]]!r} lie in one of the groups"
            f"{others}, so that no fit on other groups has seen this class. Pass smaller groups, "
            "or leave the class out."
        )


def check_rate(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InputError(f"{name} must be a number in (0, 1), got {value!r}.")
    if not 0 < value < 1:
        raise InputError(
            f"{name} must lie in (0, 1), got {value}. {name} is a rate: write 0.05 for 5 %."
        )
    return float(value)


def check_count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number of at least `least`, and at most `most` if that is given."""
    # bool is a kind of int: True would pass as 1.
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if most is not None and value > most:
        raise InputError(f"{name} must be a whole number of at most {most:,}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Any) -> Any:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def read_reduction(chosen: Any, *words: str) -> tuple[int | str | None, Any]:
    """Return the principal components to keep, or the user's own transformer."""
    if hasattr(chosen, "transform"):
        return None, chosen
    if chosen is None or chosen in words:
        return chosen, None
    if isinstance(chosen, str):
        raise InputError(
            f"reduction must be a number of components, {', '.join(map(repr, words))}, None or a "
            f"fitted transformer, got {chosen!r}."
        )
    return check_count("reduction", chosen, 1), None


def refuse_dense() -> NoReturn:
    """Raise `InputError`: a sparse matrix needs principal components."""
    raise InputError(
        "reduction=None would make the sparse X dense. Pass a number of components, such as "
        "reduction=64, or a fitted transformer."
    )


def check_progress(progress: Any) -> None:
    """Refuse what is neither a bool nor ``"auto"``."""
    if progress not in (True, False, "auto"):
        raise InputError(f"progress must be True, False or 'auto', got {progress!r}.")


def check_types(settings: Any) -> None:
    """Raise `InputError` if a field of a dataclass is not of its type: files hold anything."""
    for name, hint in get_type_hints(type(settings)).items():
        check_type(name, getattr(settings, name), hint)


def check_type(name: str, value: Any, hint: Any) -> None:
    """Raise `InputError` if `value` is not of the type `hint`, as a field would be annotated."""
    kinds = [get_origin(kind) or kind for kind in _alternatives(hint)]
    if not any(_is_a(value, kind) for kind in kinds):
        words = " or ".join(_type(kind)[0] for kind in kinds if kind is not NoneType)
        raise InputError(f"{name} must be {words}, got {value!r}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


_TYPES: dict[Any, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("text", (str,)),
    # The choices themselves are checked by name.
    Literal: ("text", (str,)),
    Mapping: ("a table", (Mapping,)),
    tuple: ("a list of numbers", (tuple, list)),
    NoneType: ("left out", (NoneType,)),
}
"""Type of a field: what to call it, and which values pass."""


def _type(kind: Any) -> tuple[str, tuple[type, ...]]:
    return _TYPES.get(kind) or (f"a {kind.__name__}", (kind,))


def _is_a(value: Any, kind: Any) -> bool:
    # True is a number to Python, but no rate and no count.
    fits = isinstance(value, _type(kind)[1]) and (kind is bool or not isinstance(value, bool))
    if kind is tuple:
        return fits and all(_is_a(entry, float) for entry in value)
    # nan is below nothing. math.isfinite would raise an error for a whole number of 400 digits.
    return fits and (kind is not float or abs(value) < float("inf"))
