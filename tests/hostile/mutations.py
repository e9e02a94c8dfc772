"""Damage to files, drawn from a seed: to their bytes, their lines, and what they hold."""

import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

Random = np.random.Generator

HUGE = ("1e400", "-1e309", "9" * 40, "1e200", "18446744073709551616", "9" * 5000, "0x10")
WRONG_VALUES: tuple[Any, ...] = (
    *(None, True, 7, -1, 2**70, 10**40, 1e308, float("nan"), float("-inf"), "", "x", "\ud800"),
    *("\x00\x1b[2J", "x" * 5000, "../../x", [], {}, [None], [[]], {"a": 1}, "2020-01-01"),
)


def damage(path: Path, rng: Random) -> str:
    """Damage one file in a way drawn from `rng`; return what was done."""
    # What a file holds is changed as often as its bytes: checksums notice all changes of bytes.
    inner = _INNER.get(_kind(path))
    choice = rng.random()
    if choice < 0.06:
        return _replaced(path, rng)
    if inner is not None and choice < 0.5:
        return inner(path, rng)
    ways = (*_BYTES, *_LINES) if _kind(path) in _TEXTS else _BYTES
    way = ways[rng.integers(len(ways))]
    whole = path.read_bytes()
    packed = path.suffix == ".gz" and choice < 0.8
    content = way(gzip.decompress(whole) if packed else whole, rng)
    path.write_bytes(gzip.compress(content) if packed else content)
    return f"{way.__name__} in {path.name}"


def _kind(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    # The files of a Hugging Face folder are streams, and those of CIFAR-N are pickles.
    return {"data-": "stream", "CIFAR": "pickle"}.get(path.name[:5], suffix)


_TEXTS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".toml")


def _replaced(path: Path, rng: Random) -> str:
    """Put something that is no file in the place of a file, or nothing."""
    path.unlink()
    ways: tuple[Callable[[], Any], ...] = (
        lambda: None,
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to(path.name),
    )
    place = int(rng.integers(len(ways)))
    ways[place]()
    return f"{('nothing', 'a folder', 'a pipe', 'a device', 'a circle')[place]} for {path.name}"


def cut_short(content: bytes, rng: Random) -> bytes:
    return content[: rng.integers(len(content) + 1)]


def emptied(content: bytes, rng: Random) -> bytes:
    return b""


def bits_flipped(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 6)) if changed else ():
        changed[place] ^= 1 << rng.integers(8)
    return bytes(changed)


def bytes_inserted(content: bytes, rng: Random) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] + rng.bytes(int(rng.integers(1, 40))) + content[place:]


def bad_utf8(content: bytes, rng: Random) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] + b"\xc3\x28\xff\xfe\xed\xa0\x80" + content[place:]


def bytes_dropped(content: bytes, rng: Random) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] + content[place + int(rng.integers(1, 40)) :]


def part_repeated(content: bytes, rng: Random) -> bytes:
    start, end = sorted(rng.integers(len(content) + 1, size=2).tolist())
    return content[:end] + content[start:end] + content[end:]


def large_lengths(content: bytes, rng: Random) -> bytes:
    """Overwrite what may be a length or an offset."""
    place = int(rng.integers(len(content) + 1))
    value = [b"\xff" * 4, b"\xff\xff\xff\x7f", b"\xff" * 7 + b"\x7f", b"\x00" * 8][rng.integers(4)]
    return content[:place] + value + content[place + len(value) :]


def rubbish_after(content: bytes, rng: Random) -> bytes:
    return content + rng.bytes(int(rng.integers(1, 200)))


_BYTES = (
    *(cut_short, emptied, bits_flipped, bytes_inserted, bad_utf8),
    *(bytes_dropped, part_repeated, large_lengths, rubbish_after),
)


def lines_repeated(content: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    place = int(rng.integers(len(lines)))
    return b"".join([*lines[:place], lines[place] * int(rng.integers(2, 40)), *lines[place + 1 :]])


def lines_dropped(content: bytes, rng: Random) -> bytes:
    return b"".join(line for line in content.splitlines(keepends=True) if rng.random() < 0.7)


def number_huge(content: bytes, rng: Random) -> bytes:
    """Replace one word, most of which are numbers, by a number that few types can hold."""
    place = int(rng.integers(len(content) + 1))
    start = max(content.rfind(mark, 0, place) for mark in (b",", b" ", b"\n", b"\t", b":")) + 1
    ends = [found for mark in b", \n\t}" if (found := content.find(mark, start)) >= 0]
    end = min(ends, default=len(content))
    return content[:start] + HUGE[rng.integers(len(HUGE))].encode() + content[end:]


def odd_text(content: bytes, rng: Random) -> bytes:
    odd = (b'"', b"\x00", b"\r", b",,,,", b"\n\n", b"\xef\xbb\xbf", b"'", b"=cmd|x", b"a" * 200_000)
    place = int(rng.integers(len(content) + 1))
    return content[:place] + odd[rng.integers(len(odd))] + content[place:]


def nested_deeply(content: bytes, rng: Random) -> bytes:
    mark = (b"[", b'{"a":', b"\nx = [", b"a.")[rng.integers(4)]
    deep = mark * int(rng.choice([50, 2_000, 20_000]))
    place = int(rng.choice([0, len(content), rng.integers(len(content) + 1)]))
    return content[:place] + deep + content[place:]


_LINES = (lines_repeated, lines_dropped, number_huge, odd_text, nested_deeply)


def spoiled(value: Any, rng: Random, wrong: tuple[Any, ...] = WRONG_VALUES) -> Any:
    """Return `value` with one entry dropped, doubled or of another type, at any depth."""
    inside = isinstance(value, (dict, list)) and len(value) > 0
    if not inside or rng.random() < 0.15:
        return wrong[rng.integers(len(wrong))]
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[rng.integers(len(keys))]
    changed = value.copy()
    choice = rng.random()
    if choice < 0.2:
        del changed[key]
    elif choice < 0.3 and isinstance(value, list):
        changed.insert(key, value[key])
    elif choice < 0.3:
        changed[f"{key}2"] = value[key]
    else:
        changed[key] = spoiled(value[key], rng, wrong)
    return changed


def _json(path: Path, rng: Random) -> str:
    about = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(spoiled(about, rng)), "utf-8")
    return f"an entry of {path.name} spoiled"


def _json_lines(path: Path, rng: Random) -> str:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    place = int(rng.integers(len(lines)))
    lines[place] = spoiled(lines[place], rng)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"a line of {path.name} spoiled"


def changed_table(table: pa.Table, rng: Random) -> pa.Table:
    """Return a table with a column that is dropped, doubled, renamed, or of another type."""
    k = int(rng.integers(table.num_columns))
    name, n = table.column_names[k], len(table)
    others = (
        pa.nulls(n, table[name].type),
        pa.nulls(n),
        pa.array([[1]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([float("nan")] * n),
        pa.array([1e300] * n),
        pa.array([2**62] * n),
        pa.array(["\x1b[2J\n" * 20] * n),
        pa.array([b"\xff\xfe"] * n),
        pa.array(["x"] * n).dictionary_encode(),
        pa.array([True] * n),
        pa.array([86_400_000] * n, pa.timestamp("ms", "UTC")),
        pa.array([-1] * n, pa.int64()),
    )
    column = others[rng.integers(len(others))]
    ways: tuple[Callable[[], pa.Table], ...] = (
        lambda: table.drop_columns([name]),
        lambda: table.append_column(name, column),
        lambda: table.append_column("extra", column),
        lambda: table.slice(0, 0),
        lambda: table.slice(1),
        lambda: pa.concat_tables([table, table]),
        lambda: table.rename_columns([f"{c}\n" if c == name else c for c in table.column_names]),
        lambda: table.replace_schema_metadata({b"huggingface": b'{"info": 7}', b"pandas": b"["}),
    )
    change = int(rng.integers(2 * len(ways)))
    return ways[change]() if change < len(ways) else table.set_column(k, name, column)


def _parquet(path: Path, rng: Random) -> str:
    pq.write_table(changed_table(pq.read_table(path), rng), path)
    return f"a column of {path.name} changed"


def _feather(path: Path, rng: Random) -> str:
    # Read whole: the file is replaced.
    table = changed_table(pa.feather.read_table(path, memory_map=False), rng)
    pa.feather.write_feather(table, path, compression="uncompressed")
    return f"a column of {path.name} changed"


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _stream(path: Path, rng: Random) -> str:
    with pa.OSFile(str(path), "rb") as opened:
        table = pa.ipc.open_stream(opened).read_all()
    write_stream(changed_table(table, rng), path)
    return f"a column of {path.name} changed"


def changed_array(array: np.ndarray, rng: Random) -> np.ndarray:
    """Return an array of another shape, length or type."""
    array = np.atleast_1d(array)
    ways: tuple[Callable[[], np.ndarray], ...] = (
        lambda: array[:-1],
        lambda: array[:0],
        lambda: np.concatenate([array, array]),
        lambda: array[None],
        lambda: np.zeros((), array.dtype),
        lambda: array.reshape(-1),
        lambda: np.zeros((len(array), 0), array.dtype),
        lambda: np.full(len(array), "NaT", "datetime64[s]"),
        lambda: np.zeros(len(array), [("a", "f4"), ("b", "U3")]),
        lambda: np.full(array.shape, b"\xff\xfe"),
        lambda: np.full(array.shape, 1e300),
        lambda: np.full(array.shape, np.nan),
        lambda: np.full(array.shape, 1 + 2j),
        lambda: np.full(array.shape, 2**63, np.uint64),
        lambda: np.full(array.shape, "x" * 3000),
        lambda: np.full(array.shape, "\ud800"),
        lambda: np.full(array.shape, 0x7FFFFFFF, np.uint32).view("<U1"),
        lambda: np.zeros(array.shape, "V5"),
    )
    return ways[rng.integers(len(ways))]()


def _npy(path: Path, rng: Random) -> str:
    np.save(path, changed_array(np.load(path, allow_pickle=False), rng))
    return f"{path.name} of another shape or type"


def _npz(path: Path, rng: Random) -> str:
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    name = list(arrays)[rng.integers(len(arrays))]
    changed = changed_array(arrays.pop(name), rng)
    if rng.random() < 0.8:
        arrays[name if rng.random() < 0.8 else "../x"] = changed
    np.savez(path, **arrays)
    return f"{name} of {path.name} changed"


def _torch(path: Path, rng: Random) -> str:
    import torch

    content = torch.load(path, map_location="cpu", weights_only=True)
    tensors = (torch.zeros(0), torch.full((3, 3), float("nan")), torch.zeros(2, dtype=torch.int64))
    torch.save(spoiled(content, rng, (*WRONG_VALUES, *tensors)), path)
    return f"an entry of {path.name} spoiled"


_INNER: dict[str, Callable[[Path, Random], str]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    ".feather": _feather,
    ".arrow": _feather,
    "stream": _stream,
    ".npy": _npy,
    ".npz": _npz,
    ".pt": _torch,
}


def in_memory(write: Callable[[io.BytesIO], Any]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()
