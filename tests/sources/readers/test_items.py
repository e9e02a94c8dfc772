"""Images and texts: decoded when asked for, in folders of classes, and what cannot be read."""

import io
import os
import pickle

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from kspr.errors import UnreadableItemError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.records import ImageFiles, decoded


def test_a_corrupt_image_raises_only_when_asked_for(folder):
    (folder / "dog" / "b.png").write_bytes(b"junk")
    (folder / "dog" / "c.png").write_bytes(b"")
    found = open_source(folder, ReadOptions())
    assert len(found) == 6
    for row in (4, 5):
        with pytest.raises(UnreadableItemError, match=r"dog/..png cannot be decoded as an image"):
            found.items[row]


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "LA", "1", "I;16"])
def test_every_mode_comes_back_as_rgb(folder, mode):
    buffer = io.BytesIO()
    image = Image.new("L", (4, 4), 128)
    if mode == "I;16":
        image = Image.fromarray(np.full((4, 4), 128 * 257, dtype=np.uint16))
    else:
        image = image.convert(mode)
    image.save(buffer, "TIFF")
    (folder / "cat" / "a.PNG").write_bytes(buffer.getvalue())
    found = open_source(folder, ReadOptions()).items[0]
    assert found.mode == "RGB"
    red = found.getpixel((1, 1))[0]
    assert red in ({0, 255} if mode == "1" else range(126, 131))


def test_a_text_that_is_not_utf8_spoils_no_other(parquet_file):
    texts = pa.array([b"good", b"caf\xe9"]).view(pa.string())
    found = open_source(parquet_file({"text": texts, "label": [0, 1]}), ReadOptions())
    assert found.items[0] == "good"
    with pytest.raises(UnreadableItemError, match=r"The text in row 1 of .* is not UTF-8"):
        found.items[1]
    assert list(found.items.content()) == [b"good", b"caf\xe9"]


def test_items_can_be_sent_to_another_process(parquet_file, picture):
    found = open_source(parquet_file({"img": [picture(3)], "label": [0]}), ReadOptions())
    assert pickle.loads(pickle.dumps(found.items))[0].getpixel((0, 0)) == (3, 0, 0)  # noqa: S301


def test_items_are_prepared_ahead_in_order_and_reasons_are_kept(tmp_path, picture):
    names = [f"{k}.png" for k in range(12)]
    for k, name in enumerate(names):
        (tmp_path / name).write_bytes(picture(k) if k != 5 else b"junk")
    found = list(
        decoded(ImageFiles(tmp_path, names), range(12), lambda i: i.getpixel((0, 0))[0], ahead=4)
    )
    assert [item.row for item in found] == list(range(12))
    assert [item.value for item in found] == [k if k != 5 else None for k in range(12)]
    assert [item.row for item in found if item.reason] == [5]
    assert "5.png cannot be decoded as an image" in found[5].reason


@pytest.mark.parametrize("ahead", [1, 3, 8, 40, 64, 100])
def test_no_more_items_are_prepared_ahead_than_asked_for(tmp_path, picture, ahead):
    (tmp_path / "a.png").write_bytes(picture(0))
    prepared = []
    stream = decoded(ImageFiles(tmp_path, ["a.png"] * 90), range(90), prepared.append, ahead=ahead)
    for given, _ in enumerate(stream):
        assert len(prepared) <= given + ahead
    assert len(prepared) == 90


def test_an_image_may_have_so_many_pixels_only(tmp_path, monkeypatch):
    Image.new("1", (13_000, 13_000)).save(tmp_path / "a.png")
    items = ImageFiles(tmp_path, ["a.png"])
    complaint = r"a.png has more than 80 million pixels. If that is right, set KSPR_MAX_MEGAPIXELS"
    with pytest.raises(UnreadableItemError, match=complaint):
        items[0]
    Image.new("1", (20, 10)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 90)
    monkeypatch.setenv("KSPR_MAX_MEGAPIXELS", "0.00005")
    with pytest.raises(UnreadableItemError, match=r"more than 5e-05 million pixels"):
        items[0]
    monkeypatch.setenv("KSPR_MAX_MEGAPIXELS", "0.0002")
    assert items[0].size == (20, 10)


def test_large_images_are_decoded_too(tmp_path):
    Image.new("1", (5_000, 4_000)).save(tmp_path / "a.png")
    assert ImageFiles(tmp_path, ["a.png"])[0].size == (5_000, 4_000)


def test_pipes_and_devices_are_no_images(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to("/dev/zero")
    items = ImageFiles(tmp_path, ["a.png", "b.png"])
    for row in range(2):
        with pytest.raises(UnreadableItemError, match=r"\.png cannot be read \(no regular file"):
            items[row]
    assert list(items.content()) == [b"", b""]


def test_a_path_that_no_file_can_have_is_no_image_and_a_short_message(tmp_path):
    items = ImageFiles(tmp_path, ["n" * 5_000, "a\0b"])
    with pytest.raises(UnreadableItemError, match=r"\.\.\. cannot be read \(file name too long"):
        items[0]
    with pytest.raises(UnreadableItemError, match=r"cannot be read \(embedded null byte"):
        items[1]
    assert list(items.content()) == [b"", b""]


def test_folders_are_classes_in_sorted_order(folder, picture):
    found = open_source(folder, ReadOptions())
    assert found.reader == "imagefolder"
    assert found.row_id.tolist() == ["cat/a.PNG", "cat/b.png", "cat/deep/er/c.jpg", "dog/a.jpeg"]
    assert found.label.tolist() == ["cat", "cat", "cat", "dog"]
    assert found.features is None
    assert len(found.items) == 4
    assert found.items[2].getpixel((0, 0)) == (20, 0, 0)
    assert list(found.items.content())[3] == picture(30)


def test_links_in_a_circle_are_walked_once(folder):
    (folder / "dog" / "loop").symlink_to(folder, target_is_directory=True)
    assert len(open_source(folder, ReadOptions())) == 4


def test_labels_may_come_from_a_file(tmp_path, picture):
    flat = tmp_path / "flat"
    flat.mkdir()
    for name in ("a.png", "b.png"):
        (flat / name).write_bytes(picture())
    (tmp_path / "y.txt").write_text("x\ny\n")
    assert open_source(flat, ReadOptions(labels=tmp_path / "y.txt")).label.tolist() == ["x", "y"]


def test_folders_that_cannot_work_are_refused(tmp_path, picture, refusal):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "empty holds no images. Expected one folder per class" in refusal(empty)
    (empty / "cat").mkdir()
    (empty / "cat" / "a.png").write_bytes(picture())
    assert "empty holds only one class ('cat'); wrong labels show only" in refusal(empty)
    (empty / "loose.png").write_bytes(picture())
    assert "images that are in no class folder: 'loose.png'. Move them" in refusal(empty)


def test_splits_are_not_classes(tmp_path, picture, refusal):
    for split in ("train", "val"):
        (tmp_path / split / "cat").mkdir(parents=True)
        (tmp_path / split / "cat" / "a.png").write_bytes(picture())
    message = refusal(tmp_path)
    assert "holds splits, not classes: 'train', 'val'. Name one, such as " in message
    assert message.endswith("train.")


def test_images_need_no_classes_where_no_labels_are_asked_for(tmp_path, picture):
    for name in ("a.png", "sub/b.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(picture())
    flat = open_source(tmp_path, unlabelled=True)
    assert (flat.row_id.tolist(), flat.label) == (["a.png", "sub/b.png"], None)
    alone = open_source(tmp_path / "sub", unlabelled=True)
    assert (alone.row_id.tolist(), alone.label) == (["b.png"], None)
    (tmp_path / "a.png").unlink()
    one = open_source(tmp_path, unlabelled=True)
    assert (one.row_id.tolist(), one.label) == (["sub/b.png"], None)
    assert one.items[0].size == (8, 8)


def test_classes_are_read_even_where_no_labels_are_asked_for(folder):
    assert open_source(folder, unlabelled=True).label.tolist() == ["cat", "cat", "cat", "dog"]
