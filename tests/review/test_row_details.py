"""What is shown of a row: as it was when the run was made, from inside of the source, and safe;
and rows to compare it with: kept ones of the class, and the nearest.
"""

import csv
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr import KnockoffsSPR
from kspr.errors import UnreadableItemError
from kspr.features.loading import Loaded
from kspr.review import page_data
from kspr.review.page_data import Details, Neighbours
from kspr.runs.rows import rows_of
from kspr.runs.run import load_run, origin_of, save_run
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from tests.review.conftest import Client, make_run

N = 60


@pytest.fixture(scope="module")
def selection():
    rng = np.random.default_rng(0)
    label = np.array(["cat", "dog", "otter"])[np.arange(N) % 3]
    X = 6 * np.eye(3)[np.arange(N) % 3] + rng.standard_normal((N, 3))
    return KnockoffsSPR(q=0.2).fit(X, label).selection_


@pytest.fixture
def run_of(tmp_path, selection):
    """Return a run of `selection` whose rows are those of a source."""

    def make(source, **said):
        options = ReadOptions(**said)
        loaded = Loaded(open_source(source, options), None, np.arange(N))
        origin = origin_of(loaded, options, ("kspr", "select"))
        return save_run(tmp_path / "run", selection, rows_of(loaded), origin, overwrite=True)

    return make


@pytest.fixture
def photos(tmp_path, selection):
    for k, name in enumerate(selection.label):
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        picture = Image.new("RGB", (300, 200), (4 * k, 0, 0))
        picture.save(tmp_path / "photos" / name / f"{k:02d}.png")
    return tmp_path / "photos"


@pytest.fixture
def photo_run(photos, tmp_path):
    return run_of_folder(photos, tmp_path)


@pytest.fixture
def sound_run(photos, tmp_path):
    for photo in photos.glob("*/*.png"):
        photo.with_suffix(".wav").write_bytes(b"RIFF" + photo.name.encode())
        photo.unlink()
    return run_of_folder(photos, tmp_path)


def run_of_folder(photos, tmp_path):
    # The order of files is that of their names: class by class.
    options = ReadOptions()
    loaded = Loaded(open_source(photos, options), None, np.arange(N))
    label = loaded.records.label
    X = 6 * np.eye(3)[np.unique(label, return_inverse=True)[1]]
    X = X + np.random.default_rng(0).standard_normal(X.shape)
    made = KnockoffsSPR(q=0.2).fit(X, label).selection_
    origin = origin_of(loaded, options, ("kspr", "select"))
    return save_run(tmp_path / "photo-run", made, rows_of(loaded), origin, overwrite=True)


@pytest.fixture
def details_of():
    """Open what is shown of a run; its background work is waited for at the end."""
    shown = []

    def _details_of(run) -> Details:
        shown.append(Details(run))
        return shown[-1]

    yield _details_of
    for details in shown:
        details.close()


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def test_images_are_written_anew_in_the_size_asked_for(photo_run, details_of):
    details = details_of(photo_run)
    assert details.content(5) == {"kind": "image"}
    content, kind = details.contents.picture(5, 100)
    assert kind == "image/jpeg"
    assert opened(content).size == (100, 67)
    assert opened(details.contents.picture(5, 2048)[0]).size == (300, 200)


def test_what_else_is_in_a_photo_is_not_sent(photos, tmp_path, photo_run, details_of):
    # The place where it was taken stands in the Exif data.
    path = next(photos.glob("*/*.png"))
    image = Image.open(path)
    exif = image.getexif()
    exif[0x010E] = "secret place"
    image.save(path, exif=exif)
    loaded = Loaded(open_source(photos), None, np.arange(N))
    again = save_run(
        tmp_path / "again", photo_run.selection, rows_of(loaded), photo_run.origin, overwrite=True
    )
    assert b"secret" in path.read_bytes()
    assert b"secret" not in details_of(again).contents.picture(0, 2048)[0]


def test_an_image_that_has_changed_is_not_shown(photos, photo_run, details_of):
    path = photos / str(photo_run.row_id[7])
    Image.new("RGB", (300, 200), "white").save(path)
    with pytest.raises(UnreadableItemError, match="changed"):
        details_of(photo_run).contents.picture(7, 100)


def test_a_link_that_leads_out_of_the_source_is_not_followed(
    photos, tmp_path, photo_run, details_of
):
    path = photos / str(photo_run.row_id[7])
    secret = tmp_path / "secret.png"
    path.rename(secret)
    path.symlink_to(secret)
    details = details_of(load_run(photo_run.folder))
    assert details.content(7) == {"kind": "missing"}
    with pytest.raises(UnreadableItemError, match="outside of"):
        details.contents.picture(7, 100)
    assert details.content(8) == {"kind": "image"}


def test_a_list_of_images_cannot_name_files_elsewhere(tmp_path, selection, run_of, details_of):
    (tmp_path / "data").mkdir()
    lines = ["path,label"]
    for k, name in enumerate(selection.label):
        Image.new("RGB", (9, 9), (k, 0, 0)).save(tmp_path / "data" / f"{k}.png")
        lines.append(f"{k}.png,{name}")
    Image.new("RGB", (9, 9), (3, 0, 0)).save(tmp_path / "secret.png")
    lines[4] = lines[4].replace("3.png", "../secret.png")
    (tmp_path / "data" / "list.csv").write_text("\n".join(lines))
    details = details_of(run_of(tmp_path / "data" / "list.csv"))
    with pytest.raises(UnreadableItemError, match="outside of"):
        details.contents.picture(3, 100)
    assert details.contents.picture(2, 100)[1] == "image/png"


def bomb(width: int, height: int) -> bytes:
    """A small PNG file of very many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


def test_a_decompression_bomb_is_refused(tmp_path, selection, run_of, details_of):
    content = bomb(60_000, 60_000)
    assert len(content) < 200
    images = [content if k == 5 else None for k in range(N)]
    ok = io.BytesIO()
    Image.new("RGB", (9, 9)).save(ok, "PNG")
    images = [image or ok.getvalue() + bytes([k]) for k, image in enumerate(images)]
    table = pa.table({"image": images, "label": selection.label})
    pq.write_table(table, tmp_path / "b.parquet")
    details = details_of(run_of(tmp_path / "b.parquet"))
    with pytest.raises(UnreadableItemError, match="pixels"):
        details.contents.picture(5, 2048)
    assert details.contents.picture(4, 2048)


def test_texts_are_shown_without_marks_that_act(tmp_path, selection, run_of, details_of):
    texts = [f"text {k}\nsecond line" for k in range(N)]
    texts[0] = "<script>alert(1)</script> \u202eturned\u202c \x1b[31m"
    texts[1] = "x" * 30_000
    with (tmp_path / "t.csv").open("w", newline="") as file:
        lines = zip(texts, selection.label, strict=True)
        csv.writer(file).writerows([["text", "label"], *lines])
    details = details_of(run_of(tmp_path / "t.csv"))
    assert details.contents.kind == "text"
    assert details.content(0)["text"] == r"<script>alert(1)</script> \u202eturned\u202c \u001b[31m"
    assert len(details.content(1)["text"]) == 20_000
    assert len(details.content(1, brief=True)["text"]) == 1_200
    assert details.content(2)["text"] == "text 2\nsecond line"
    assert details.contents.beginning(2, 6) == "text 2"
    with pytest.raises(UnreadableItemError):
        details.contents.picture(0, 100)


def test_a_source_that_is_gone_leaves_rows_without_content(tmp_path, photos, photo_run, details_of):
    photos.rename(tmp_path / "elsewhere")
    details = details_of(load_run(photo_run.folder))
    assert details.content(3) == {"kind": "missing"}
    assert details_of(load_run(photo_run.folder, tmp_path / "elsewhere")).content(3) == {
        "kind": "image"
    }


def test_rows_of_a_table_are_shown_without_their_labels(tmp_path, digits40, details_of):
    columns = {f"p{i}": digits40.X[:300, i] for i in range(6, 12)}
    table = pa.table(
        {
            "name": [f"row {k}" for k in range(300)],
            "label": digits40.y[:300],
            "y_true": digits40.y_true[:300],
            **columns,
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    made = make_run(tmp_path / "t.parquet", tmp_path / "run", features="p*", truth="y_true")
    details = details_of(made)
    assert details.content(7)["kind"] == "table"
    cells = dict(details.content(7)["cells"])
    assert cells["name"] == "row 7"
    assert {"label", "y_true"}.isdisjoint(cells)
    assert float(cells["p8"]) == digits40.X[7, 8]


def test_arrays_are_shown_by_their_first_numbers(tmp_path, digits40, details_of):
    np.savez(tmp_path / "d.npz", X=digits40.X[:300].astype(np.float32), y=digits40.y[:300])
    made = make_run(tmp_path / "d.npz", tmp_path / "run")
    cells = details_of(made).content(3)["cells"]
    assert len(cells) == 24
    assert cells[5][0] == "feature 5"
    assert float(cells[5][1]) == digits40.X[3, 5]


@pytest.mark.parametrize(
    "path",
    [
        *("/image/../../etc/passwd", "/image/%2e%2e%2fetc%2fpasswd", "/image/-1", "/image/600"),
        *(
            "/image/0/../../x",
            "/static/../session.py",
            "/static/%2e%2e%2fapp.py",
            "/static/page.html",
        ),
        *("/image/99999999999999999999", "/image/0x1"),
    ],
)
def test_no_address_leads_to_another_file(client, path):
    assert client.get(path).status_code == 404


def test_images_of_the_run_are_served(run, opened):
    client = Client(opened(run))
    found = client.get("/image/0")
    assert found.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(found.content)).size == (8, 8)
    assert "private" in found.headers["cache-control"]


def test_sounds_of_the_run_are_served_as_they_are(sound_run, opened):
    client = Client(opened(sound_run.folder))
    name = Path(str(sound_run.row_id[0]))
    found = client.get("/sound/0")
    assert found.headers["content-type"] == "audio/wav"
    assert found.content == b"RIFF" + name.with_suffix(".png").name.encode()
    assert client.get("/image/0").status_code == 404
    (Path(sound_run.origin.source) / name).write_bytes(b"RIFF other")
    assert client.get("/sound/0").status_code == 404


def test_images_have_no_sound(run, opened):
    assert Client(opened(run)).get("/sound/0").status_code == 404


def test_the_nearest_rows_of_a_class_are_found(blobs):
    code, kept = blobs.y_true, blobs.right
    found = Neighbours(blobs.X.astype(np.float16), code, kept)
    centred = blobs.X - blobs.X[kept].mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    for position in (0, 7, 200):
        similarity = found.similarity(position)
        for k in range(3):
            near = found.nearest(similarity, k, 3)
            assert len(near) == 3
            assert position not in near
            assert (code[near] == k).all()
            assert kept[near].all()
            own = unit[position] @ unit[near].T
            rest = np.flatnonzero((code == k) & kept & (np.arange(len(code)) != position))
            assert own.min() >= np.sort(unit[position] @ unit[rest].T)[-3] - 0.01
        assert found.votes(similarity, 3).argmax() == blobs.y_true[position]
        assert found.votes(similarity, 3).sum() == 50


def test_a_rare_class_is_in_the_reference(monkeypatch):
    monkeypatch.setattr(page_data, "_REFERENCE", 100)
    code = np.where(np.arange(5000) % 1000 == 0, 1, 0)
    X = np.random.default_rng(0).standard_normal((5000, 3))
    found = Neighbours(X, code, np.ones(5000, dtype=bool))
    assert len(found.nearest(found.similarity(3), 1, 9)) == 5
    assert len(found.similarity(3)) == 55


def test_a_class_of_which_nothing_is_kept_has_no_neighbours():
    code = np.array([0, 0, 1, 1])
    found = Neighbours(np.eye(4), code, code == 0)
    assert found.nearest(found.similarity(2), 1, 3) == []
    nothing = Neighbours(np.eye(4), code, code > 5)
    assert nothing.votes(nothing.similarity(0), 2).tolist() == [0, 0]
