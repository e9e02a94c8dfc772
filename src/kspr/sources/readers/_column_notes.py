"""What the columns of a table are used as, in words, and a warning of ids among the features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.roles import Fields, Roles

__all__ = ["columns_sentence", "id_warning", "used_columns"]

# Numbers that name something: a difference between two of them means nothing.
_NAMES = frozenset(
    {"zip", "zipcode", "postcode", "postalcode", "plz", "phone", "telephone", "mobile", "fax"}
    | {"ssn", "iban", "account", "isbn", "ean", "sku", "barcode", "guid", "uuid", "userid"}
)
_ENDS = ("_id", "_ids", "_no", "_nr", "_number", "_code", "_key", "_zip", "_phone", "_index")
_SINGLE = ("label", "truth", "id", "groups", "image", "text")
"""Roles that one column has."""
_LOOKED_AT = 10_000
"""Rows in which whole numbers are looked for that are all distinct."""
_ENOUGH = 20
"""Rows below which distinct whole numbers are no surprise."""


def used_columns(fields: Fields, roles: Roles) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns by their role; those without one are ``ignored``."""
    named = {
        "features": roles.features,
        "probabilities": roles.probabilities,
        "annotators": roles.annotators,
        **{name: _one(getattr(roles, name)) for name in _SINGLE},
    }
    used = {role: tuple(f.name for f in found) for role, found in named.items() if found}
    # A member of a struct stands for its column.
    roots = {f.path[0] for found in named.values() for f in found}
    ignored = tuple(f.name for f in fields.values() if len(f.path) == 1 and f.name not in roots)
    return {**used, "ignored": ignored} if ignored else used


def _one(field: Any) -> tuple[Any, ...]:
    return () if field is None else (field,)


def columns_sentence(used: Mapping[str, tuple[str, ...]]) -> str:
    """Say which columns are used as what.

    >>> columns_sentence({"features": ("a", "b"), "label": ("y",), "ignored": ("note",)})
    "Columns: features 'a', 'b'; label 'y'; not used 'note'."
    """
    words = {"ignored": "not used"}
    parts = [f"{words.get(role, role)} {listed(names, 4)}" for role, names in used.items()]
    return f"Columns: {'; '.join(parts)}."


def id_warning(names: tuple[str, ...], features: np.ndarray) -> tuple[str, ...]:
    """Return a sentence about features that look like ids, by their name or by their values."""
    if len(names) != features.shape[1]:
        return ()
    by_value = _all_distinct_whole(features[:_LOOKED_AT])
    found = [name for name, distinct in zip(names, by_value, strict=True) if distinct or _is(name)]
    if not found:
        return ()
    are = "looks like an id and is" if len(found) == 1 else "look like ids and are"
    return (f"{listed(found, 4)} {are} used as features. Name the right ones with --features.",)


def _is(name: str) -> bool:
    plain = name.casefold().replace(" ", "_").replace("-", "_")
    return plain.replace("_", "") in _NAMES or plain.endswith(_ENDS)


def _all_distinct_whole(block: np.ndarray) -> np.ndarray:
    if len(block) < _ENOUGH:
        return np.zeros(block.shape[1], dtype=bool)
    with np.errstate(invalid="ignore"):
        whole = (block == np.floor(block)).all(axis=0)
    found = np.zeros(block.shape[1], dtype=bool)
    for column in np.flatnonzero(whole):
        found[column] = len(np.unique(block[:, column])) == len(block)
    return found
