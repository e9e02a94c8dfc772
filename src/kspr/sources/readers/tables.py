"""Tables as records: files of any format, folders of these, and data frames.

A table becomes records in one pass over the columns that are needed.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr._files import read_json
from kspr.errors import InputError
from kspr.sources.formats import HUGGING_FACE_FILES, find_format, format_of, list_files
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.pairs import sets_of
from kspr.sources.parts import FilesTable, Part, open_files
from kspr.sources.readers.csv_tables import open_csv_table
from kspr.sources.readers.file_checks import check_row_count, listed, no_such
from kspr.sources.readers.json_tables import open_json_table
from kspr.sources.readers.mixed_tables import Encoder, OtherColumn, encode
from kspr.sources.readers.roles import (
    SINGLE,
    SPLITS,
    Fields,
    Roles,
    choose_roles,
    columns_sentence,
    id_warning,
    is_list,
    is_text,
    no_content,
    used_columns,
)
from kspr.sources.readers.table import ArrowTable, Field, Table
from kspr.sources.readers.values import (
    FeatureBuilder,
    check_numeric,
    class_names,
    group_names,
    identifiers,
    joined_indicators,
    joined_lists,
    label_fields,
    labels_with_gaps,
    whole_labels,
)
from kspr.sources.records import ImageCells, Items, Records, TextCells, all_distinct, number_texts

_STATE, _SPLIT_LIST = HUGGING_FACE_FILES


def open_table_file(path: Path, options: ReadOptions = AS_FOUND) -> Table | None:
    """Return the table at `path`; None if its format is not one of tables."""
    known = format_of(path)
    name = "" if known is None else known.name
    if name == "csv":
        return open_csv_table(path, options.encoding, options.decimal)
    if name == "jsonl":
        return open_json_table(path, options.encoding)
    if name == "huggingface":
        return open_files(_saved_files(path), "arrow")
    if name == "parquet":
        return open_files(_files(path, name), "parquet")
    if name == "arrow":
        return open_files(_files(path, name), "arrow")
    return None


def _files(path: Path, name: str) -> list[str]:
    """Return the files of a table: one, those of a folder, or those that fit a pattern."""
    files = list_files(path, find_format(name).suffixes)
    if not files:
        raise InputError(f"{path} does not exist, or holds no {name} file.")
    # Shards of one split (train-00000-of-00003.parquet) are one table; two splits beside each
    # other are not.
    names = sorted({re.split(r"[-_.]", Path(file).name)[0].lower() for file in files})
    if len(names) > 1 and set(names) <= SPLITS:
        raise InputError(
            f"{path} holds several splits: {listed(names)}. Name one file, or put each split "
            "into a folder of its own."
        )
    return files


def _saved_files(path: Path) -> list[str]:
    """Return the files of a Hugging Face data set."""
    splits = _entries(path / _SPLIT_LIST, "splits") if (path / _SPLIT_LIST).is_file() else None
    if splits is not None:
        first = path / str(next(iter(splits), "train"))
        raise InputError(
            f"{path} holds the splits {listed(map(str, splits))}. Name one, such as {first}."
        )
    entries = _entries(path / _STATE, "_data_files")
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in entries]
    if not all(isinstance(name, str) and Path(name).name for name in names):
        raise InputError(f"{path / _STATE} does not list the files of a data set. Copy it again.")
    if not names:
        raise InputError(f"{path} has no rows.")
    # A name is a file in this folder: a path that leads out of it is not followed.
    return [str(path / Path(str(name)).name) for name in names]


def _entries(path: Path, key: str) -> list[Any]:
    """Return a list in a JSON document of a data set."""
    document = read_json(path)
    if not isinstance(document, dict):
        raise InputError(
            f"{path} cannot be read as JSON; it may be cut short or damaged. Write or copy it "
            "again."
        )
    entries = document.get(key)
    return entries if isinstance(entries, list) else [None]


def read_table(path: Path, options: ReadOptions) -> Records:
    """Return the rows of a table in a file or folder."""
    table, known = open_table_file(path, options), format_of(path)
    if table is None or known is None:
        raise InputError(f"{path} is not a table.")
    records = _records(table, path, known.name, options)
    # What is used up stays with Arrow otherwise: as much as labels and ids take themselves.
    pa.default_memory_pool().release_unused()
    return records


def read_part(part: Part, options: ReadOptions) -> Records:
    """Return the rows of a part of a source; rows without other ids have their numbers in it."""
    table = FilesTable((part,), part.schema)
    records = _records(table, Path(part.uri), part.kind, options, whole=False)
    if records.named:
        return records
    return replace(records, row_id=number_texts(part.start + np.arange(len(records))))


def roles_of(table: Table, options: ReadOptions, where: str) -> Roles:
    """Return the roles of a table's columns."""
    fields = _as_named(table.fields, options) if table.untyped else table.fields
    roles = choose_roles(fields, options, where, class_names(table.metadata))
    if options.encoder is not None:
        roles = _as_encoded(roles, fields, options.encoder, where)
    return _literal(roles) if table.untyped else roles


def _as_encoded(roles: Roles, fields: Fields, encoder: Encoder, where: str) -> Roles:
    """Return the roles with the columns of an earlier table, whatever they are taken for here."""
    others = (*encoder.dates, *encoder.categories)
    for name in (*encoder.numbers, *others):
        if name not in fields:
            raise no_such(name, fields, where)
    return replace(
        roles,
        features=tuple(fields[name] for name in encoder.numbers),
        others=tuple(fields[name] for name in others),
    )


def _records(
    table: Table, source: Path, reader: str, options: ReadOptions, *, whole: bool = True
) -> Records:
    """Return the rows of a table; images and texts are read when they are asked for.

    Of a part of a source (not `whole`) only numbers are read: dates and categories are told, and
    gaps are filled, by all rows together.
    """
    where = str(source)
    if table.rows == 0:
        raise InputError(f"{where} has no rows.")
    check_row_count(table.rows or 0, where)
    roles = roles_of(table, options, where)
    roles = roles if whole else replace(roles, others=())
    check_numeric(table, roles.features, where)
    check_numeric(table, roles.probabilities, where)
    dates = None if options.encoder is None else options.encoder.dates
    walked = _walk(table, roles, where, dates)
    items = _items(table, roles, source)
    # Texts, or images stored as bytes, with labels in another file leave nothing to walk.
    count = walked.count or (len(items) if items else 0)
    if not count:
        raise InputError(f"{where} has no rows.")
    row_id = _row_id(walked, roles, options, where)
    labels: dict[str, Any] = {}
    truth = groups = None
    names = class_names(table.metadata)
    mark = options.labels_separator
    if roles.label:
        name, what = roles.label.name, f"Label column {roles.label.name!r} of {where}"
        column = walked.columns[name]
        column = column if mark is None else joined_lists(column, what, mark)
        given = labels_with_gaps(column, what, names.get(name), table.untyped)
        labels = label_fields(*given, what)
    elif roles.indicators:
        told = {field.name: walked.columns[field.name] for field in roles.indicators}
        labels = {"label": joined_indicators(told, where, str(mark), table.untyped)}
    if roles.truth:
        name, what = roles.truth.name, f"Truth column {roles.truth.name!r} of {where}"
        column = walked.columns[name]
        if mark is None:
            truth = whole_labels(column, what, names.get(name), table.untyped)
        else:
            # Of several labels, a row may truly have none.
            truth = sets_of(*labels_with_gaps(joined_lists(column, what, mark), what))
    if roles.groups:
        name = roles.groups.name
        groups = group_names(walked.columns[name], f"Column {name!r} of {where}")
    encoded = None
    if whole and not any(is_list(field.type) for field in roles.features):
        columns = [field.name for field in roles.features]
        about = (walked.others, labels.get("label"), options.encoder)
        encoded = encode(walked.features, columns, *about)
    encoder = None if encoded is None else encoded.encoder
    known = () if encoder is None else (*encoder.dates, *encoder.categories)
    unused = [f.name for f in roles.others if f.name not in known]
    roles = replace(roles, others=tuple(f for f in roles.others if f.name in known))
    if roles.item is None and not (roles.features or roles.others or roles.probabilities):
        raise no_content(unused, where)
    used = used_columns(table.fields, roles)
    notes = (*table.notes, columns_sentence(used), *walked.notes)
    # Who names the columns knows what they are; beside probabilities they judge nothing.
    named = options.features or options.columns or options.probabilities
    if walked.features is not None and named is None:
        notes += id_warning(tuple(f.name for f in roles.features), walked.features)
    return Records(
        source=source,
        # A CSV file of paths is a list of images.
        reader="manifest" if table.untyped and roles.image else reader,
        row_id=number_texts(np.arange(count)) if row_id is None else row_id,
        features=walked.features if encoded is None else encoded.features,
        items=items,
        truth=truth,
        groups=groups,
        named=row_id is not None,
        notes=notes if encoded is None else (*notes, encoded.note),
        columns=used,
        probabilities=walked.probabilities,
        # The members of one column of lists have no names.
        probability_columns=tuple(f.name for f in roles.probabilities if not is_list(f.type)),
        encoder=encoder,
        digest=None if encoded is None else encoded.digest,
        **labels,
    )


@dataclass(frozen=True)
class _Walked:
    columns: dict[str, pa.ChunkedArray]
    features: np.ndarray | None
    probabilities: np.ndarray | None
    others: list[OtherColumn]
    count: int
    notes: tuple[str, ...]


def _walk(table: Table, roles: Roles, where: str, dates: Sequence[str] | None) -> _Walked:
    """Read labels, truth, ids and features in one pass; `dates` names those that are known."""
    # Without an id column, the path of an image identifies its row.
    path = roles.image if _has_paths(roles) and roles.id is None else None
    # One column may have two roles; it is read once.
    single = (roles.label, roles.truth, roles.id, roles.groups, path)
    small = {f.name: f for f in (*single, *roles.indicators) if f}
    chunks: dict[str, list[pa.Array]] = {name: [] for name in small}
    numbers = (roles.features, roles.probabilities)
    builders = [FeatureBuilder(some, where, table.rows) if some else None for some in numbers]
    others = [OtherColumn(f.name, None if dates is None else f.name in dates) for f in roles.others]
    takers: list[tuple[Sequence[Field], Callable[[list[pa.Array]], None]]] = [
        *(([field], chunks[name].extend) for name, field in small.items()),
        *((some, b.append) for some, b in zip(numbers, builders, strict=True) if b),
        # A category that is the truth, too, is read as that.
        *(
            ([f if f.name in small else _as_bytes(f)], o.extend)
            for f, o in zip(roles.others, others, strict=True)
        ),
    ]
    fields = [field for group, _ in takers for field in group]
    count = 0
    for arrays in table.batches(fields) if fields else ():
        count += len(arrays[0])
        check_row_count(count, where)
        rest = iter(arrays)
        for group, take in takers:
            take(list(islice(rest, len(group))))
    columns = {
        name: pa.chunked_array(kept, kept[0].type if kept else small[name].type)
        for name, kept in chunks.items()
    }
    features, probabilities = (builder.result() if builder else None for builder in builders)
    # Only of features: probabilities need no more than single precision.
    notes = builders[0].notes if builders[0] else ()
    return _Walked(columns, features, probabilities, others, count, notes)


def _has_paths(roles: Roles) -> bool:
    return roles.image is not None and is_text(roles.image.type)


def _row_id(walked: _Walked, roles: Roles, options: ReadOptions, where: str) -> np.ndarray | None:
    """Return the ids that the table holds; None where it has none."""
    field = roles.id or (roles.image if _has_paths(roles) else None)
    if field is None:
        return None
    column = walked.columns[field.name]
    # A column that is only named like ids has to be one: simple values, no gaps, none twice.
    found_by_name = roles.id is not None and options.id is None
    if found_by_name and (pa.types.is_nested(column.type) or column.null_count):
        return None
    ids = identifiers(column, f"Column {field.name!r} of {where}")
    return None if found_by_name and not all_distinct(ids) else ids


def _items(table: Table, roles: Roles, source: Path) -> Items | None:
    if roles.item is None:
        return None
    if roles.text:
        return TextCells(table.cells(_as_bytes(roles.text)), None, str(source))
    cells = table.cells(roles.item)
    return ImageCells(cells, source if source.is_dir() else source.parent, str(source))


def _as_bytes(field: Field) -> Field:
    """Ask for a text's bytes: one that is not UTF-8 must not make the others unreadable."""
    plain = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    return replace(field, type=pa.large_binary()) if plain else field


def _as_named(fields: Fields, options: ReadOptions) -> Fields:
    """Take columns of a CSV file as texts if the user says so, even if they hold numbers."""
    texts = {name for name in (options.text, options.image) if name in fields}
    return {
        name: replace(field, type=pa.string()) if name in texts else field
        for name, field in fields.items()
    }


def _literal(roles: Roles) -> Roles:
    """Read labels and ids of a CSV file as they are written, and features as numbers."""

    def numbers(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(
            replace(field, type=pa.float64()) if field.type == pa.string() else field
            for field in fields
        )

    single = {name: getattr(roles, name) for name in SINGLE}
    texts = {n: replace(field, type=pa.string()) for n, field in single.items() if field}
    return replace(
        roles,
        features=numbers(roles.features),
        probabilities=numbers(roles.probabilities),
        others=tuple(replace(field, type=pa.string()) for field in roles.others),
        indicators=tuple(replace(field, type=pa.string()) for field in roles.indicators),
        **texts,
    )


def read_object(source: Any, options: ReadOptions) -> Records:
    """Return the rows of an Arrow table, a Hugging Face data set, or any data frame.

    ``Records.source`` is then the name of its type, in angle brackets.
    """
    name = f"<{type(source).__name__}>"
    return _records(ArrowTable(_as_arrow(source, name), name), Path(name), "object", options)


def _as_arrow(source: Any, name: str) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, Mapping) and any(_is_hugging_face(part) for part in source.values()):
        raise InputError(f"{name} holds the splits {listed(map(str, source))}. Pass one of them.")
    if _is_hugging_face(source):
        return _hugging_face(source)
    return _data_frame(source, name)


def _is_hugging_face(source: Any) -> bool:
    # By attributes: `datasets` is no dependency, and may not be installed.
    return hasattr(source, "with_format") and hasattr(getattr(source, "data", None), "table")


def _hugging_face(source: Any) -> pa.Table:
    """Return a data set's table; it stays mapped unless rows were chosen or moved."""
    # `select` and `shuffle` keep the whole table, and a list of the rows that count.
    chosen = getattr(source, "_indices", None) is not None
    table = source.with_format("arrow")[:] if chosen else source.data.table
    metadata = {**(table.schema.metadata or {}), **_class_names(source)}
    return table.replace_schema_metadata(metadata)


def _class_names(source: Any) -> dict[bytes, bytes]:
    features = getattr(source, "features", None) or {}
    names = {
        column: {"names": list(feature.names), "_type": "ClassLabel"}
        for column, feature in features.items()
        if getattr(feature, "names", None)
    }
    # The form in which save_to_disk writes it, so that class_names reads both.
    return {b"huggingface": json.dumps({"info": {"features": names}}).encode()}


def _data_frame(source: Any, name: str) -> pa.Table:
    # Imported here: files need none of it.
    import narwhals as nw

    try:
        frame = nw.from_native(source)
    except TypeError as error:
        raise InputError(
            f"{name} cannot be read. Pass a path, an Arrow table, a data frame or a Hugging Face "
            "data set."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    try:
        return frame.to_arrow()
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{name} has a column that mixes types ({reason}).") from error
