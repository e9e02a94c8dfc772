"""Columns of a table by their role: labels, true labels, ids, images, texts and features.

The user names them; those that are not named are told by their names and types.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import listed, no_such, shown
from kspr.sources.readers.table import Field

# The names of columns in tables, and of arrays in npz files.
LABEL_NAMES = ("label", "labels", "y", "target", "targets", "class", "classes")
TRUTH_NAMES = ("truth", "true_label", "true_labels", "y_true")
SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})
"""Names of the parts of a data set; folders and arrays that are called so are no classes."""
ID_NAMES = (
    *("id", "ids", "idx", "index", "row", "row_id", "row_number", "uid", "uuid", "key"),
    *("", "unnamed: 0", "__index_level_0__"),
)
PATH_NAMES = (
    *("image", "img", "path", "file", "filename", "file_name", "filepath", "file_path"),
    *("image_path", "img_path", "image_file"),
)
_TEXT_NAMES = ("text", "texts", "sentence", "document", "content", "comment")

Fields = Mapping[str, Field]


@dataclass(frozen=True)
class Roles:
    """The columns of a table by their role; None or empty where no column has it."""

    label: Field | None = None
    truth: Field | None = None
    id: Field | None = None
    image: Field | None = None
    text: Field | None = None
    features: tuple[Field, ...] = ()
    """Numeric columns, or one column of lists."""
    probabilities: tuple[Field, ...] = ()
    groups: Field | None = None
    annotators: tuple[Field, ...] = ()
    indicators: tuple[Field, ...] = ()
    """Columns of 0 and 1, one for each label that a row may have."""
    others: tuple[Field, ...] = ()
    """Columns beside the numbers that may be dates or categories, which their values decide."""

    @property
    def item(self) -> Field | None:
        """The column of images or texts."""
        return self.image or self.text


def choose_roles(
    fields: Fields, options: ReadOptions, where: str, class_columns: Collection[str] = ()
) -> Roles:
    """Return the roles of a table's columns; raise if the user has to name one.

    Without options, the label is the column that is named like one; the content of a row is its
    image, or the one column of lists, or the numeric columns, or a column that is named like paths
    or texts. Columns that are named like row numbers, labels or truth are features only if the
    user names them; one that is named like ids identifies the rows.
    """
    annotators: tuple[Field, ...] = ()
    label = None
    if options.annotators is not None:
        annotators = tuple(f for n, f in fields.items() if fnmatchcase(n, options.annotators))
        # With a file of labels, the name may be that of a column there.
        if not annotators and options.labels is None:
            raise no_such(options.annotators, fields, where)
    indicators = _indicators(fields, options, where)
    if not (options.labels or annotators or indicators):
        label = choose_label(fields, options.label, where, class_columns)
    truth = _named(fields, options.truth, where) or usual_field(fields, TRUTH_NAMES)
    identity = _named(fields, options.id, where)
    # They may be beside the labels instead, in a file of their own.
    beside = options.labels is not None and options.groups not in fields
    groups = None if beside else _named(fields, options.groups, where)
    taken = {field.name for field in (label, truth, identity, groups) if field}
    taken |= {field.name for field in (*annotators, *indicators)}
    free = {name: field for name, field in fields.items() if name not in taken}
    chosen = options.probabilities
    probabilities = _matching(fields, free, chosen, where) if chosen else ()
    free = {name: field for name, field in free.items() if field not in probabilities}
    if options.features or options.image or options.text:
        roles = _named_by_user(fields, free, options, where)
    elif options.columns:
        roles = _of_several_kinds(fields, free, options.columns, where)
    else:
        roles = _found(free, where, class_columns, needed=not probabilities)
    content = roles.image, roles.text, roles.features
    used = {field.name for field in (roles.image, roles.text, *roles.features) if field}
    rest = {name: field for name, field in free.items() if name not in used}
    # The path of an image identifies its row better than a column that is named like ids.
    if identity is None and not (roles.image and is_text(roles.image.type)):
        identity = usual_field(rest, ID_NAMES)
    judged_by = (*content, probabilities, groups, annotators, indicators, roles.others)
    return Roles(label, truth, identity, *judged_by)


def _indicators(fields: Fields, options: ReadOptions, where: str) -> tuple[Field, ...]:
    """Return the columns of 0 and 1 that the user names as the labels; empty without such."""
    mark, name = options.labels_separator, options.label
    if mark is None or name is None or name in fields or mark not in name or options.labels:
        return ()
    named = [_named(fields, one.strip(), where) for one in name.split(mark)]
    return tuple(field for field in named if field)


def choose_label(
    fields: Fields, name: str | None, where: str, class_columns: Collection[str] = ()
) -> Field | None:
    """Return the column of labels: the one called `name`, else the one that is named like one."""
    if name is not None:
        return _named(fields, name, where)
    candidates = [f for f in fields.values() if f.name.casefold() in LABEL_NAMES]
    candidates = candidates or [fields[name] for name in class_columns if name in fields]
    if len(candidates) > 1:
        raise InputError(
            f"{where} has several columns that may be the label: "
            f"{listed(f.name for f in candidates)}. Say which with --label."
        )
    return candidates[0] if candidates else None


def _named_by_user(fields: Fields, free: Fields, options: ReadOptions, where: str) -> Roles:
    features = _matching(fields, free, options.features, where) if options.features else ()
    image = _named(fields, options.image, where)
    text = _named(fields, options.text, where)
    if image and text:
        raise InputError("Name either --image or --text, not both.")
    if image and not (is_image(image.type) or is_text(image.type)):
        raise InputError(f"Column {image.name!r} of {where} holds {image.type}, not images.")
    if text and not is_text(text.type):
        raise InputError(f"Column {text.name!r} of {where} holds {text.type}, not text.")
    if features and not (image or text):
        image = next(iter(_images(free)), None)
    return Roles(features=features, image=image, text=text)


def _of_several_kinds(fields: Fields, free: Fields, patterns: str, where: str) -> Roles:
    """Return the roles of the columns that ``--columns`` names, or of all but some."""
    asked = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    for pattern in asked:
        if not any(fnmatchcase(name, pattern.removeprefix("!")) for name in fields):
            raise no_such(pattern.removeprefix("!"), fields, where)
    wanted = [pattern for pattern in asked if not pattern.startswith("!")] or ["*"]
    unwanted = [pattern[1:] for pattern in asked if pattern.startswith("!")]
    chosen = [
        field
        for name, field in free.items()
        if len(field.path) == 1
        and any(fnmatchcase(name, pattern) for pattern in wanted)
        and not any(fnmatchcase(name, pattern) for pattern in unwanted)
        # Named in full, a column of ids is one like all others.
        and (name in wanted or _is_unusual(field))
    ]
    numbers = tuple(field for field in chosen if is_numeric(field.type))
    others = tuple(field for field in chosen if _may_be_category(field))
    if not (numbers or others):
        raise InputError(
            f"{where} has no column of numbers, dates or categories among {shown(patterns, 60)}, "
            f"only {listed(free) or 'labels'}. Name others with --columns."
        )
    return Roles(features=numbers, others=others)


def _matching(fields: Fields, free: Fields, pattern: str, where: str) -> tuple[Field, ...]:
    if pattern in fields:
        return (fields[pattern],)
    # Several names or patterns are joined by commas.
    wanted = pattern.split(",")
    matches = [free[name] for name in free if any(fnmatchcase(name, one) for one in wanted)]
    for one in wanted:
        if not any(fnmatchcase(field.name, one) for field in matches):
            raise no_such(one, fields, where)
    if len(matches) > 1 and any(is_list(field.type) for field in matches):
        raise InputError(
            f"{pattern!r} matches several columns of {where}, and some hold lists: "
            f"{listed(field.name for field in matches)}. Name one of them with --features."
        )
    return tuple(matches)


def _found(
    free: Fields, where: str, class_columns: Collection[str], *, needed: bool = True
) -> Roles:
    """Choose by types and names; raise unless exactly one kind of content is there.

    Where the content is not `needed`, nothing is chosen instead.
    """
    images = _images(free)
    lists = [field for field in free.values() if is_list(field.type)]
    for several, option in ((images, "--image"), (lists, "--features")):
        if len(several) > 1:
            raise InputError(
                f"{where} has several columns that may be used: "
                f"{listed(field.name for field in several)}. Say which with {option}."
            )
    if images or lists:
        return Roles(image=images[0] if images else None, features=tuple(lists))
    # Members of structs are used only if they are named.
    columns = {name: field for name, field in free.items() if len(field.path) == 1}
    features = tuple(
        field
        for field in columns.values()
        if is_numeric(field.type) and _is_unusual(field) and field.name not in class_columns
    )
    path = usual_field(columns, PATH_NAMES, only_text=True)
    text = usual_field(columns, _TEXT_NAMES, only_text=True)
    others = tuple(f for f in columns.values() if f not in (path, text) and _may_be_category(f))
    # Beside an embedding, other columns say where a row is from.
    others = others if needed and len(features) <= _MOST_BESIDE else ()
    few = listed((f.name for f in features), 3)
    choices = [f"numeric columns ({few}; --features)"] if features else []
    choices += [f"images ({path.name!r}; --image)"] if path else []
    choices += [f"texts ({text.name!r}; --text)"] if text else []
    if len(choices) != 1 and not needed:
        return Roles()
    if len(choices) > 1:
        raise InputError(f"{where} has {' and '.join(choices)}. Say which to use.")
    if not choices and not others:
        raise no_content(free, where)
    return Roles(features=features, image=path, text=text, others=() if path or text else others)


def no_content(fields: Iterable[str], where: str) -> InputError:
    """Return the error for a table that has nothing to judge a row by."""
    return InputError(
        f"{where} has no column of numbers, images or texts that could be told by its name, only "
        f"{listed(fields) or 'labels'}. Say which to use with --features, --image or --text."
    )


_MOST_BESIDE = 100
"""Columns of numbers above which they are taken for an embedding."""


def _is_unusual(field: Field) -> bool:
    return field.name.casefold() not in (*LABEL_NAMES, *TRUTH_NAMES, *ID_NAMES)


def _may_be_category(field: Field) -> bool:
    dates = pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)
    return _is_unusual(field) and (dates or is_text(field.type))


def _named(fields: Fields, name: str | None, where: str) -> Field | None:
    if name is None:
        return None
    if name not in fields:
        raise no_such(name, fields, where)
    return fields[name]


def usual_field(fields: Fields, names: Sequence[str], only_text: bool = False) -> Field | None:
    """Return the first column that has one of the usual names, in their order."""
    # Reversed, so that the first of several columns that differ only in case is taken.
    by_name = {field.name.casefold(): field for field in reversed(list(fields.values()))}
    usual = (by_name[name] for name in names if name in by_name)
    return next((field for field in usual if not only_text or is_text(field.type)), None)


def _images(fields: Fields) -> list[Field]:
    """Return the columns of image bytes: a struct of Hugging Face, or plain binary."""
    return [f for f in fields.values() if len(f.path) == 1 and is_image(f.type)]


def is_image(kind: pa.DataType) -> bool:
    """Return whether a type can hold the bytes of images."""
    if pa.types.is_struct(kind):
        return any(member.name == "bytes" and is_image(member.type) for member in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether a type is one of numbers; truth values count as numbers."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of lists of numbers."""
    listing = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return bool(listing) and is_numeric(kind.value_type)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


# Numbers that name something: a difference between two of them means nothing.
_NAMES = frozenset(
    {"zip", "zipcode", "postcode", "postalcode", "plz", "phone", "telephone", "mobile", "fax"}
    | {"ssn", "iban", "account", "isbn", "ean", "sku", "barcode", "guid", "uuid", "userid"}
)
_ENDS = ("_id", "_ids", "_no", "_nr", "_number", "_code", "_key", "_zip", "_phone", "_index")
SINGLE = ("label", "truth", "id", "groups", "image", "text")
"""Roles that one column has."""
_LOOKED_AT = 10_000
"""Rows in which whole numbers are looked for that are all distinct."""
_ENOUGH = 20
"""Rows below which distinct whole numbers are no surprise."""


def used_columns(fields: Fields, roles: Roles) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns by their role; those without one are ``ignored``."""
    named = {
        "features": (*roles.features, *roles.others),
        "probabilities": roles.probabilities,
        "annotators": roles.annotators,
        **{name: tuple(filter(None, [getattr(roles, name)])) for name in SINGLE},
    }
    if roles.indicators:
        named["label"] = roles.indicators
    used = {role: tuple(f.name for f in columns) for role, columns in named.items() if columns}
    # A member of a struct stands for its column.
    roots = {f.path[0] for columns in named.values() for f in columns}
    ignored = tuple(f.name for f in fields.values() if len(f.path) == 1 and f.name not in roots)
    return {**used, "ignored": ignored} if ignored else used


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
    block = features[:_LOOKED_AT]
    suspects = [name for name, column in zip(names, block.T, strict=True) if _is_id(name, column)]
    if not suspects:
        return ()
    are = "looks like an id and is" if len(suspects) == 1 else "look like ids and are"
    out = ",".join(f"!{name}" for name in suspects)
    it = "it" if len(suspects) == 1 else "them"
    return (
        f"{listed(suspects, 4)} {are} used as features. Leave {it} out with "
        f"--columns {shown(out, 60)}, or name the right ones with --features.",
    )


def _is_id(name: str, column: np.ndarray) -> bool:
    plain = name.casefold().replace(" ", "_").replace("-", "_")
    if plain.replace("_", "") in _NAMES or plain.endswith(_ENDS):
        return True
    with np.errstate(invalid="ignore"):
        whole = len(column) >= _ENOUGH and (column == np.floor(column)).all()
    return bool(whole) and len(np.unique(column)) == len(column)
