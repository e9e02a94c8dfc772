"""Checks of arguments. An error is one sentence with the argument, rule, value and way out."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import array_api_compat as compat
import numpy as np

from kspr.core.coded import class_sizes
from kspr.core.labels import Labels, encode_labels, name_rows
from kspr.errors import InputError
from kspr.selectors.feature_rows import Features, as_features, largest_size, rows_not_finite
from kspr.selectors.options import COMPARING

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from kspr.selectors.knockoffs_spr import KnockoffsSPR

__all__ = [
    "check_choice",
    "check_classes",
    "check_features",
    "check_rate",
    "check_scores",
    "check_together",
    "check_type",
    "check_types",
    "read_labels",
]


def check_features(estimator: "BaseEstimator", X: Any) -> Features:
    """Return finite 2-D features; tensors stay on their device, memory maps on disk."""
    X = _plain_tensor(X)
    if compat.is_torch_array(X):
        if X.ndim != 2:
            raise InputError(f"X must have two dimensions (rows, features), got {X.ndim}.")
        # validate_data would set this, but it makes a NumPy array of X.
        estimator.n_features_in_ = int(X.shape[1])
    else:
        # Imported here: a saved selection is read without scikit-learn, which takes long to load.
        from sklearn.utils.validation import validate_data

        # Finiteness is checked below instead, block by block, and by a message that names the rows.
        X = validate_data(
            estimator, X, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=2
        )
    features = as_features(X)
    bad = rows_not_finite(features)
    if bad.size:
        raise InputError(
            f"X holds NaN or inf in {name_rows(bad)}. Drop these rows or fill them in (for example "
            "with sklearn.impute.SimpleImputer)."
        )
    largest, limit = largest_size(features)
    if largest > limit or 0 < largest < 1 / limit:
        raise InputError(
            f"X must have a largest absolute value between {1 / limit:.0e} and {limit:.0e}, got "
            f"{largest:.0e}: its squares would be infinite or zero. Multiply X by a constant."
        )
    return features


def _plain_tensor(values: Any) -> Any:
    """Return a tensor without its graph, in a precision that NumPy has; others as they are."""
    if not compat.is_torch_array(values):
        return values
    values = values.detach()
    # NumPy has no bfloat16.
    return values.float() if str(values.dtype) == "torch.bfloat16" else values


def read_labels(y: Any, n_rows: int, min_class_size: int) -> Labels:
    """Return the labels of `n_rows` rows, of any type."""
    if y is None:
        # scikit-learn's check_estimator looks for these words.
        raise InputError("KSPR requires y to be passed, but the target y is None.")
    labels = encode_labels(y)
    if len(labels.values) != n_rows:
        raise InputError(f"X has {n_rows} rows but y has {len(labels.values)} labels.")
    check_classes(labels.classes, class_sizes(labels.codes, len(labels.classes)), min_class_size)
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


def check_scores(scores: Any, n_rows: int, n_classes: int) -> Any:
    """Return class scores of shape ``(rows, classes)``, columns in the order of the classes."""
    scores = _plain_tensor(scores)
    if not compat.is_torch_array(scores):
        scores = np.asarray(scores)
    if tuple(scores.shape) != (n_rows, n_classes):
        raise InputError(
            f"scores must have one row per sample and one column per class, in sorted class order: "
            f"expected shape ({n_rows}, {n_classes}), got {tuple(scores.shape)}."
        )
    bad = rows_not_finite(as_features(scores))
    if bad.size:
        raise InputError(f"scores hold NaN or inf in {name_rows(bad)}.")
    return scores


def check_rate(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InputError(f"{name} must be a number in (0, 1), got {value!r}.")
    if not 0 < value < 1:
        raise InputError(
            f"{name} must lie in (0, 1), got {value}. {name} is a rate: write 0.05 for 5 %."
        )
    return float(value)


def check_count(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least `least`."""
    # bool is a kind of int: True would pass as 1.
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Any) -> Any:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


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


_NEUTRAL = {
    "level": ("fixed", "f1"),
    "knockoff": ("most_confident",),
    "statistic": ("asymmetric",),
}
"""Values that every control accepts; others have an effect only under the paper's controls."""


def check_together(selector: "KnockoffsSPR") -> None:
    """Refuse choices that have no effect under the chosen control."""
    compares = selector.control in COMPARING
    for name, neutral in _NEUTRAL.items():
        value = getattr(selector, name)
        if not compares and value not in neutral:
            raise InputError(
                f"{name}={value!r} goes with control='paper' or 'theorem', not with "
                f"{selector.control!r}. Change either."
            )
    if selector.level == "f1" and selector.control != "transition":
        raise InputError(
            "level='f1' goes with control='transition', which estimates how many labels are "
            f"right, not with {selector.control!r}. Change either."
        )
    if selector.first_step != "spr" and selector.clean_ratio != 0.5:
        raise InputError(
            f"clean_ratio={selector.clean_ratio} goes with first_step='spr', as in the preset "
            f"'paper', got {selector.first_step!r}. Choose either, or leave clean_ratio out."
        )
    if selector.device is not None and selector.engine not in ("serial", "threads"):
        raise InputError(
            f"device={selector.device!r} goes with engine='serial' or 'threads', got "
            f"{selector.engine!r}. Change either."
        )
    if selector.remove_floor and selector.control != "exchangeable":
        raise InputError(
            f"remove_floor goes with control='exchangeable', got {selector.control!r}."
        )
    if selector.n_splits > 1 and compares:
        raise InputError(
            f"n_splits={selector.n_splits} goes with control='transition' or 'exchangeable', which "
            f"judge by fitted values that can be averaged, not with {selector.control!r}."
        )
    if selector.neighbours is not None and selector.control != "transition":
        raise InputError(
            f"neighbours={selector.neighbours} goes with control='transition', not with "
            f"{selector.control!r}. Change either."
        )
    if selector.neighbours is not None and selector.samples_per_class is not None:
        raise InputError(
            f"neighbours={selector.neighbours} goes with data that is not split into pieces. Pass "
            "samples_per_class=None."
        )
