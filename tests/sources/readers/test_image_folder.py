"""Image folders: a class per folder, and nothing decoded before it is asked for."""

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


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
