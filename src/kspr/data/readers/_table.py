"""Tables as the readers see them: fields, batches of columns, and cells on demand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kspr.data.readers._cells import Cells, in_memory, sound
from kspr.data.readers._wording import listed
from kspr.errors import InputError

__all__ = ["BLOCK_BYTES", "ArrowTable", "Field", "Table", "fields_of", "pick"]

BLOCK_BYTES = 16 << 20
"""About how much of a table is held at a time while it is walked."""


@dataclass(frozen=True)
class Field:
    """A column, or a member of a struct column: ``img.bytes`` is ``bytes`` within ``img``."""

    name: str
    path: tuple[str, ...]
    type: pa.DataType


class Table(Protocol):
    """A table that can be walked from its beginning as often as needed."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Columns in order, each followed by its members."""
        ...

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """What the file says about itself."""
        ...

    @property
    def rows(self) -> int | None:
        """Number of rows; None where only walking the table tells."""
        ...

    @property
    def untyped(self) -> bool:
        """Whether everything is stored as text, so that a label's type must be found."""
        ...

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        """Yield the fields' arrays, a block of rows at a time."""
        ...

    def cells(self, field: Field) -> Cells:
        """Return one field's values, loaded no sooner than they are asked for.

        Texts may be asked for as bytes, by the field's type; they may still come as texts.
        """
        ...


def fields_of(schema: pa.Schema, where: str) -> dict[str, Field]:
    """Return the columns and the members of struct columns, by name."""
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InputError(f"{where} has more than one column named {listed(twice)}. Rename them.")
    found = {}
    for column in schema:
        found[column.name] = Field(column.name, (column.name,), column.type)
        if pa.types.is_struct(column.type):
            for member in column.type:
                name = f"{column.name}.{member.name}"
                found.setdefault(name, Field(name, (column.name, member.name), member.type))
    return found


def pick(batch: Any, field: Field) -> Any:
    """Return a field's array from a batch (or table) that holds its column."""
    array = batch.column(field.path[0])
    for member in field.path[1:]:
        array = pc.struct_field(array, member)
    return array


class ArrowTable:
    """A table in memory, or memory-mapped."""

    rows: int
    untyped = False

    def __init__(self, table: pa.Table, where: str) -> None:
        self._table = table
        self._where = where
        self.rows = table.num_rows
        self.fields: Mapping[str, Field] = fields_of(table.schema, where)
        self.metadata: Mapping[bytes, bytes] = table.schema.metadata or {}

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        columns = self._table.select(list(dict.fromkeys(field.path[0] for field in fields)))
        step = max(256, BLOCK_BYTES * self.rows // max(1, columns.nbytes))
        for batch in columns.to_batches(max_chunksize=step):
            yield [sound(pick(batch, field), self._where) for field in fields]

    def cells(self, field: Field) -> Cells:
        return in_memory(pick(self._table, field).chunks, self._where)
