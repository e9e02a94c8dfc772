"""WebVision by its file lists, and ILSVRC12's validation images beside it."""

from dataclasses import replace

import pytest

from kspr.errors import InputError, UnreadableItemError
from kspr.sources.options import ReadOptions
from kspr.sources.published.webvision import WEBVISION, WEBVISION_MINI

NUMBERS = [f"n{1440764 + i:08d}" for i in range(60)]


def test_mini_is_the_first_fifty_classes(webvision):
    records = WEBVISION_MINI.read(webvision)
    assert records.label.tolist() == ["thing 0"] * 2 + ["thing 1"] * 2 + ["thing 49"] * 2
    assert records.row_id[0] == "google/q0000/image 0.jpg"
    assert records.truth is None
    assert records.items[0].mode == "RGB"
    assert next(records.items.content()) == (webvision / records.row_id[0]).read_bytes()


def test_the_whole_set_needs_all_thousand_names(webvision):
    with pytest.raises(InputError, match=r"synsets.txt names 60 classes, not 1000"):
        WEBVISION.read(webvision)
    assert len(replace(WEBVISION, classes=60).read(webvision)) == 10


def test_validation_images_lie_in_a_folder_of_their_own(webvision):
    records = WEBVISION_MINI.read(webvision, ReadOptions(split="val"))
    assert records.row_id.tolist() == ["val000000.jpg", "val000049.jpg"]
    assert records.label.tolist() == ["thing 0", "thing 49"]
    assert records.items[1].size == (4, 3)


def test_a_file_list_names_its_split(webvision):
    path = webvision / "info/val_filelist.txt"
    assert WEBVISION.matches(path)
    assert WEBVISION_MINI.read(path).row_id[0] == "val000000.jpg"
    assert not WEBVISION.matches(webvision / "info/synsets.txt")


def test_a_folder_is_mini_only_if_it_says_so(webvision):
    """Nobody who names a folder loses 950 classes unasked."""
    assert WEBVISION.matches(webvision)
    assert not WEBVISION_MINI.matches(webvision)
    mini = webvision.rename(webvision.with_name("WebVision-Mini"))
    assert WEBVISION_MINI.matches(mini)
    assert not WEBVISION.matches(mini)


def test_classes_of_one_name_are_told_apart(webvision):
    synsets = webvision / "info/synsets.txt"
    synsets.write_text(synsets.read_text().replace("thing 1,", "thing 0,"))
    labels = WEBVISION_MINI.read(webvision).label
    assert labels[0] == "thing 0 (n01440764)"
    assert labels[2] == "thing 0 (n01440765)"


def test_presence_needs_lists_and_images(webvision):
    assert WEBVISION_MINI.present(webvision)
    listed = [name for name, _ in WEBVISION_MINI.files(webvision) if name != "imagenet"]
    assert all((webvision / name).exists() for name in listed)
    (webvision / "google").rename(webvision / "elsewhere")
    assert not WEBVISION_MINI.present(webvision)
    with pytest.raises(InputError, match=r"google is missing; .* google_resized_256\.tar"):
        WEBVISION_MINI.read(webvision)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("info/synsets.txt", None, r"synsets\.txt is missing; it comes with WebVision 1\.0's info"),
        ("info/synsets.txt", "tench\n", "where a number such as n01440764 belongs"),
        ("info/train_filelist_google.txt", None, r"train_filelist_google\.txt is missing"),
        ("info/train_filelist_google.txt", "", "is empty"),
        ("info/train_filelist_google.txt", "google/q0001/a.jpg\n", "where an image and a class"),
        ("info/train_filelist_google.txt", "google/q0001/a.jpg 60\n", r"class in 0\.\.59"),
        ("info/train_filelist_google.txt", "google/q0001/a.jpg x\n", "where an image and a class"),
        ("info/train_filelist_google.txt", "google/q0001/a.jpg 55\n", "no image of the first 50"),
    ],
)
def test_a_broken_list_is_named(webvision, name, content, message):
    (webvision / name).unlink()
    if content is not None:
        (webvision / name).write_text(content)
    with pytest.raises(InputError, match=message):
        WEBVISION_MINI.read(webvision)


def test_a_list_that_is_no_text_is_named(webvision):
    (webvision / "info/train_filelist_google.txt").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="is not text"):
        WEBVISION_MINI.read(webvision)


def test_one_bad_image_leaves_the_others(webvision):
    records = WEBVISION_MINI.read(webvision)
    (webvision / records.row_id[0]).write_bytes(b"not an image")
    (webvision / records.row_id[1]).unlink()
    for row in (0, 1):
        with pytest.raises(UnreadableItemError):
            records.items[row]
    assert records.items[2].size == (4, 3)
    assert list(records.items.content())[:2] == [b"not an image", b""]
