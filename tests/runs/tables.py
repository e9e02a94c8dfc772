"""Tables with columns of every kind, and texts that are easily damaged."""

import csv
import gzip
import io
import json
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

N = 60


INFO = {"info": {"features": {"label": {"names": ["cat", "dog", "otter"], "_type": "ClassLabel"}}}}


ODD = [
    'say "hi"',
    "a,b;c\td",
    "two\nlines",
    "x\r\ny",
    "café 水 🦦",
    " spaced ",
    "",
    "NA",
    "-0",
    "1e5",
]


def cells_of(path, delimiter=","):
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def text_rows(names):
    """Return the cells of a CSV file: every odd thing that a cell can hold."""
    return [
        [f"{i:05d}", f"{i / 7!r}", f"{i}.50", ODD[i % len(ODD)], str(i * 10**15), f" {name}", ""]
        for i, name in enumerate(names)
    ]


HEADER = ["zip", "f0", "f1", "the note", "big", "Label", "empty"]


def write_csv(path, delimiter, rows, header=HEADER):
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter).writerows([header, *rows])
    content = ("\ufeff" if path.name == "x.csv" else "") + stream.getvalue()
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


def typed_table(names) -> pa.Table:
    """A table with columns of many types, and metadata of Hugging Face and of pandas."""
    number = np.arange(N)
    codes = np.searchsorted(["cat", "dog", "otter"], names)
    table = pa.table(
        {
            "zip": [f"{i:05d}" for i in number],
            "f0": number.astype(np.float32) / 7,
            "f1": pa.array([None if i % 9 == 0 else i / 3 for i in number]),
            "half": number.astype(np.float16),
            "note": [None if i % 11 == 0 else ODD[i % len(ODD)] for i in number],
            "count": pa.array([None if i % 5 == 0 else i for i in number], pa.int16()),
            "flag": pa.array([None if i % 8 == 0 else i % 2 == 0 for i in number]),
            "day": pa.array([date(2020, 1, 1 + i % 28) for i in number]),
            "price": pa.array([Decimal(i) / 4 for i in range(N)], pa.decimal128(9, 2)),
            "kind": pa.array([f"kind {i % 4}" for i in number]).dictionary_encode(),
            "label": pa.array(codes, pa.int32()),
            "größe": number,
        }
    )
    return table.replace_schema_metadata({"huggingface": json.dumps(INFO), "mine": "kept"})


def parquet(table, path):
    pq.write_table(table, path, row_group_size=17)
    return path
