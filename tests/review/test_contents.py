"""What is shown of a row: as it was when the run was made, from inside of the source, and safe."""

import csv
import io
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr import KnockoffsSPR
from kspr.errors import UnreadableItemError
from kspr.features import Loaded
from kspr.review.contents import Contents
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
def photo_run(photos, tmp_path, selection):
    # The order of files is that of their names: class by class.
    options = ReadOptions()
    loaded = Loaded(open_source(photos, options), None, np.arange(N))
    label = loaded.records.label
    X = 6 * np.eye(3)[np.unique(label, return_inverse=True)[1]]
    X = X + np.random.default_rng(0).standard_normal(X.shape)
    made = KnockoffsSPR(q=0.2).fit(X, label).selection_
    origin = origin_of(loaded, options, ("kspr", "select"))
    return save_run(tmp_path / "photo-run", made, rows_of(loaded), origin, overwrite=True)


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def test_images_are_written_anew_in_the_size_asked_for(photo_run):
    contents = Contents(photo_run)
    assert contents.of(5) == {"kind": "image"}
    content, kind = contents.image(5, 100)
    assert kind == "image/jpeg"
    assert opened(content).size == (100, 67)
    assert opened(contents.image(5, 2048)[0]).size == (300, 200)


def test_what_else_is_in_a_photo_is_not_sent(photos, tmp_path, photo_run):
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
    assert b"secret" not in Contents(again).image(0, 2048)[0]


def test_an_image_that_has_changed_is_not_shown(photos, photo_run):
    path = photos / str(photo_run.row_id[7])
    Image.new("RGB", (300, 200), "white").save(path)
    with pytest.raises(UnreadableItemError, match="changed"):
        Contents(photo_run).image(7, 100)


def test_a_link_that_leads_out_of_the_source_is_not_followed(photos, tmp_path, photo_run):
    path = photos / str(photo_run.row_id[7])
    secret = tmp_path / "secret.png"
    path.rename(secret)
    path.symlink_to(secret)
    contents = Contents(load_run(photo_run.folder))
    assert contents.of(7) == {"kind": "missing"}
    with pytest.raises(UnreadableItemError, match="outside of"):
        contents.image(7, 100)
    assert contents.of(8) == {"kind": "image"}


def test_a_list_of_images_cannot_name_files_elsewhere(tmp_path, selection, run_of):
    (tmp_path / "data").mkdir()
    lines = ["path,label"]
    for k, name in enumerate(selection.label):
        Image.new("RGB", (9, 9), (k, 0, 0)).save(tmp_path / "data" / f"{k}.png")
        lines.append(f"{k}.png,{name}")
    Image.new("RGB", (9, 9), (3, 0, 0)).save(tmp_path / "secret.png")
    lines[4] = lines[4].replace("3.png", "../secret.png")
    (tmp_path / "data" / "list.csv").write_text("\n".join(lines))
    contents = Contents(run_of(tmp_path / "data" / "list.csv"))
    with pytest.raises(UnreadableItemError, match="outside of"):
        contents.image(3, 100)
    assert contents.image(2, 100)[1] == "image/png"


def bomb(width: int, height: int) -> bytes:
    """A small PNG file of very many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


def test_a_decompression_bomb_is_refused(tmp_path, selection, run_of):
    content = bomb(60_000, 60_000)
    assert len(content) < 200
    images = [content if k == 5 else None for k in range(N)]
    ok = io.BytesIO()
    Image.new("RGB", (9, 9)).save(ok, "PNG")
    images = [image or ok.getvalue() + bytes([k]) for k, image in enumerate(images)]
    table = pa.table({"image": images, "label": selection.label})
    pq.write_table(table, tmp_path / "b.parquet")
    contents = Contents(run_of(tmp_path / "b.parquet"))
    with pytest.raises(UnreadableItemError, match="pixels"):
        contents.image(5, 2048)
    assert contents.image(4, 2048)


def test_texts_are_shown_without_marks_that_act(tmp_path, selection, run_of):
    texts = [f"text {k}\nsecond line" for k in range(N)]
    texts[0] = "<script>alert(1)</script> \u202eturned\u202c \x1b[31m"
    texts[1] = "x" * 30_000
    with (tmp_path / "t.csv").open("w", newline="") as file:
        rows = zip(texts, selection.label, strict=True)
        csv.writer(file).writerows([["text", "label"], *rows])
    contents = Contents(run_of(tmp_path / "t.csv"))
    assert contents.kind == "text"
    assert contents.of(0)["text"] == r"<script>alert(1)</script> \u202eturned\u202c \u001b[31m"
    assert len(contents.of(1)["text"]) == 20_002
    assert len(contents.of(1, brief=True)["text"]) == 302
    assert contents.of(2)["text"] == "text 2\nsecond line"
    assert contents.searched_texts[2] == "text 2\nsecond line"
    with pytest.raises(UnreadableItemError):
        contents.image(0, 100)


def test_a_source_that_is_gone_leaves_rows_without_content(tmp_path, photos, photo_run):
    photos.rename(tmp_path / "elsewhere")
    contents = Contents(load_run(photo_run.folder))
    assert contents.of(3) == {"kind": "missing"}
    assert Contents(load_run(photo_run.folder, tmp_path / "elsewhere")).of(3) == {"kind": "image"}


def test_rows_of_a_table_are_shown_without_their_labels(tmp_path, digits40):
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
    contents = Contents(made)
    assert contents.kind == "table"
    cells = dict(contents.of(7)["cells"])
    assert cells["name"] == "row 7"
    assert {"label", "y_true"}.isdisjoint(cells)
    assert float(cells["p8"]) == digits40.X[7, 8]


def test_arrays_are_shown_by_their_first_numbers(tmp_path, digits40):
    np.savez(tmp_path / "d.npz", X=digits40.X[:300].astype(np.float32), y=digits40.y[:300])
    made = make_run(tmp_path / "d.npz", tmp_path / "run")
    cells = Contents(made).of(3)["cells"]
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
