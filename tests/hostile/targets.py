"""What is damaged: small inputs of every kind that kspr reads, and how each is used."""

import gzip
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
from PIL import Image

from kspr.errors import InputError
from kspr.selectors.base import fingerprint
from kspr.sources.joining import with_label_file
from kspr.sources.opening import open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.records import row_digests
from tests.hostile.mutations import in_memory, write_stream

N = 12
LABELS = np.array(["cat", "dog", "otter"])[np.arange(N) % 3]
FEATURES = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)
COLUMNS = pa.table(
    {
        "key": [f"row-{i}" for i in range(N)],
        **{f"emb_{i}": FEATURES[:, i] for i in range(3)},
        "label": LABELS,
        "y_true": LABELS[::-1],
    }
)
LISTS = pa.table({"emb": FEATURES.tolist(), "label": LABELS})
TEXTS = pa.table({"text": [f"some words, {i}" for i in range(N)], "label": LABELS})


@dataclass(frozen=True)
class Target:
    """One kind of input: how to write it, and how to use it; both get a folder."""

    name: str
    build: Callable[[Path], Any]
    use: Callable[[Path], Any]
    """Returns a value that is equal for equal input; checks that lengths agree."""
    damaged: str = "**/*"
    """Pattern of the files that are damaged."""
    mended: Callable[[Path], None] | None = None
    """Makes checksums right again, so that what was damaged is read."""
    weight: int = 2
    """Share of the cases; fewer where one takes long."""


def digest(*parts: Any) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(repr(part).encode("utf-8", "replace") + b"\0")
    return whole.hexdigest()


def use_source(path: Path, **said: Any) -> str:
    """Read all that a source has to offer; return a digest of it."""
    options = ReadOptions(**said)
    with suppress(InputError):
        table = open_table(path, options)
        for batch in () if table is None else table.columns().walk():
            batch.to_pylist()
    found = open_source(path, options)
    n = len(found.row_id)
    assert found.label is None or len(found.label) == n
    assert found.truth is None or len(found.truth) == n
    assert found.features is not None or found.items is not None
    contents: list[Any] = []
    if found.features is not None:
        assert found.features.shape[0] == n
        contents.append(np.asarray(found.features, dtype=np.float32).tobytes())
    if found.items is not None:
        assert len(found.items) == n
        assert len(list(found.items.content())) == n
        for row in range(n):
            # One image may be damaged; the others must be there.
            with suppress(InputError):
                item = found.items[row]
                contents.append(item if isinstance(item, str) else item.tobytes())
    digests = row_digests(found)
    assert len(digests) == n
    if found.label is not None:
        fingerprint(digests, (n, 1), found.label)
    return digest(found.row_id.tolist(), np.asarray(found.label).tolist(), contents)


def source(name: str, file: str, build: Callable[[Path], Any], **said: Any) -> Target:
    """Return the target of a source that is one file, or the folder itself if `file` is "."."""
    return Target(
        name, lambda folder: build(folder / file), lambda folder: use_source(folder / file, **said)
    )


def _csv(path: Path, table: pa.Table = COLUMNS, delimiter: str = ",") -> None:
    options = pa.csv.WriteOptions(delimiter=delimiter)
    content = in_memory(lambda out: pa.csv.write_csv(table, out, options))
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def _as_text(path: Path) -> None:
    _csv(path, pa.table({**LISTS.to_pydict(), "emb": [str(row) for row in FEATURES.tolist()]}))


def _json_lines(path: Path) -> None:
    rows = COLUMNS.to_pylist()
    text = json.dumps(rows) if path.suffix == ".json" else "\n".join(map(json.dumps, rows))
    path.write_text(text + "\n")


def picture(shade: int) -> bytes:
    image = Image.fromarray(np.full((4, 5, 3), shade, np.uint8))
    return in_memory(lambda out: image.save(out, "PNG"))


IMAGES = pa.table({"img": [picture(20 * i) for i in range(N)], "label": LABELS})


def _image_folder(root: Path) -> None:
    for i, label in enumerate(LABELS):
        (root / label).mkdir(exist_ok=True)
        (root / label / f"{i}.png").write_bytes(picture(20 * i))


def _manifest(path: Path) -> None:
    for i in range(N):
        (path.parent / f"{i}.png").write_bytes(picture(20 * i))
    _csv(path, pa.table({"path": [f"{i}.png" for i in range(N)], "label": LABELS}))


INFO = {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}


def _hugging_face(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    names = [f"data-{shard:05d}-of-00002.arrow" for shard in range(2)]
    for name in names:
        images = [{"bytes": picture(i), "path": None} for i in range(4)]
        table = pa.table({"image": images, "label": [0, 1, 0, 1]})
        about = {b"huggingface": json.dumps({"info": INFO}).encode()}
        write_stream(table.replace_schema_metadata(about), folder / name)
    state = {"_data_files": [{"filename": name} for name in names]}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps(INFO))


def _splits(folder: Path) -> None:
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    _hugging_face(folder / "train")


def _parts(folder: Path) -> None:
    for k in range(2):
        pq.write_table(COLUMNS.slice(6 * k, 6), folder / f"part-{k}.parquet")


FILES: tuple[Target, ...] = (
    source("csv", "a.csv", _csv, id="key"),
    source("csv of lists", "a.csv", _as_text),
    source("csv of texts", "a.csv", lambda path: _csv(path, TEXTS)),
    source("tsv", "a.tsv", lambda path: _csv(path, delimiter="\t"), features="emb_*"),
    source("csv.gz", "a.csv.gz", _csv, truth="y_true"),
    source("jsonl", "a.jsonl", _json_lines),
    source("json", "a.json", _json_lines),
    source("parquet", "a.parquet", lambda path: pq.write_table(COLUMNS, path), id="key"),
    source("parquet of lists", "a.parquet", lambda path: pq.write_table(LISTS, path)),
    source("parquet of images", "b.parquet", lambda path: pq.write_table(IMAGES, path)),
    source("parquet folder", ".", _parts),
    source("feather", "a.feather", lambda path: pa.feather.write_feather(COLUMNS, path)),
    source("arrow", "a.arrow", lambda path: pa.feather.write_feather(IMAGES, path, "uncompressed")),
    source("npz", "a.npz", lambda path: np.savez(path, X=FEATURES, y=LABELS)),
    source("npz packed", "a.npz", lambda p: np.savez_compressed(p, X=FEATURES, y=LABELS)),
    source("image folder", ".", _image_folder),
    source("manifest", "a.csv", _manifest),
    source("hugging face", ".", _hugging_face),
    source("hugging face splits", "train", lambda path: _splits(path.parent)),
)


def _labels(file: str, write: Callable[[Path], Any], name: str | None = None) -> Target:
    """Return the target of a file of labels, which belong to an array of features."""

    def build(folder: Path) -> None:
        np.save(folder / "x.npy", FEATURES)
        write(folder / file)

    def use(folder: Path) -> str:
        # Once through the source, and once to rows with ids.
        options = ReadOptions(labels=folder / file)
        named = open_source(COLUMNS, ReadOptions(id="key"))
        with suppress(InputError):
            assert len(with_label_file(named, options).label) == N
        return use_source(folder / "x.npy", labels=folder / file)

    return Target(name or f"labels {file}", build, use, damaged="[xy].*")


def chosen(label: str, **more: Any) -> dict[str, Any]:
    """Return an annotation of Label Studio."""
    value = {"choices": [label]}
    result = {"from_name": "label", "to_name": "item", "type": "choices", "value": value}
    return {"result": [result], "was_cancelled": False, **more}


def _tasks(path: Path) -> None:
    tasks = [
        {"data": {"row_id": f"row-{i}", "text": "words"}, "annotations": [chosen(str(label))]}
        for i, label in enumerate(LABELS)
    ]
    tasks[0]["annotations"] += [chosen("dog"), chosen("cat", ground_truth=True)]
    path.write_text(json.dumps(tasks, indent=1))


def _fiftyone(path: Path) -> None:
    classes = ["cat", "dog", "otter"]
    labels = {
        f"row-{i}": {"label": classes.index(label), "attributes": {"kspr_clean": True}}
        for i, label in enumerate(LABELS)
    }
    path.write_text(json.dumps({"classes": classes, "labels": labels}))


PAIRS = COLUMNS.select(["key", "label"])
LABEL_FILES = (
    _labels("y.txt", lambda path: path.write_text("\n".join(LABELS))),
    _labels("y.txt.gz", lambda path: path.write_bytes(gzip.compress("\n".join(LABELS).encode()))),
    _labels("y.csv", lambda path: _csv(path, PAIRS)),
    _labels("y.npy", lambda path: np.save(path, LABELS)),
    _labels("y.parquet", lambda path: pq.write_table(PAIRS, path)),
    _labels("y.jsonl", _json_lines),
    _labels("y.json", _tasks, "labels of label-studio"),
    _labels("y.json", _fiftyone, "labels of fiftyone"),
    _labels("y.feather", lambda path: pa.feather.write_feather(PAIRS, path)),
)
