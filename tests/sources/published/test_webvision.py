"""WebVision, and ILSVRC12's validation images."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from kspr.errors import InputError, UnreadableItemError
from kspr.sources.options import ReadOptions
from kspr.sources.published.image_lists import ILSVRC12_VALIDATION, WEBVISION, WEBVISION_MINI

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


def test_the_first_classes_can_be_asked_for(webvision):
    """The paper's 50, whatever the folder is called."""
    asked = WEBVISION.read(webvision, ReadOptions(classes=50))
    assert asked.label.tolist() == WEBVISION_MINI.read(webvision).label.tolist()
    with pytest.raises(InputError, match=r"classes must lie in 2\.\.1000, got 0"):
        WEBVISION.read(webvision, ReadOptions(classes=0))


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


@pytest.fixture
def sorted_imagenet(tmp_path, image):
    root = tmp_path / "ilsvrc"
    for c in (49, 0, 55):
        image(root / f"val/{NUMBERS[c]}/ILSVRC2012_val_{c + 1:08d}.JPEG", c)
    return root


@pytest.fixture
def flat_imagenet(tmp_path, image):
    """Write three images, whose classes the development kit numbers in an order of its own."""
    root = tmp_path / "flat"
    for position in (1, 2, 3):
        image(root / f"val/ILSVRC2012_val_{position:08d}.JPEG", position)
    kit = root / "ILSVRC2012_devkit_t12/data"
    kit.mkdir(parents=True)
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("7\n3\n9\n")
    rows = [(7, NUMBERS[49]), (3, NUMBERS[0]), (9, NUMBERS[55]), (1, NUMBERS[1])]
    synsets = np.array(rows, dtype=[("ILSVRC2012_ID", "f8"), ("WNID", "O")])
    savemat(kit / "meta.mat", {"synsets": synsets.reshape(-1, 1)})
    return root


@pytest.mark.parametrize("layout", ["sorted_imagenet", "flat_imagenet"])
def test_validation_images_carry_webvisions_labels(webvision, layout, request):
    """Classes beyond the first 50 are left out, and the kit's own numbers never show."""
    root = request.getfixturevalue(layout)
    root = root.rename(webvision / "imagenet")
    records = WEBVISION_MINI.read(webvision, ReadOptions(split="ilsvrc12"))
    assert records.label.tolist() == ["thing 0", "thing 49"]
    assert all((root / path).is_file() for path in records.row_id)
    shades = [np.asarray(image)[0, 0, 0] for image in (records.items[0], records.items[1])]
    assert shades == pytest.approx([0, 49] if layout == "sorted_imagenet" else [2, 1], abs=2)


@pytest.mark.parametrize("layout", ["sorted_imagenet", "flat_imagenet"])
def test_alone_they_carry_wordnet_numbers(layout, request):
    root = request.getfixturevalue(layout)
    assert ILSVRC12_VALIDATION.matches(root)
    assert ILSVRC12_VALIDATION.present(root)
    records = ILSVRC12_VALIDATION.read(root)
    assert records.label.tolist() == [NUMBERS[0], NUMBERS[49], NUMBERS[55]]


def test_a_folder_with_training_images_is_left_to_the_image_folder_reader(sorted_imagenet):
    (sorted_imagenet / "train").mkdir()
    assert not ILSVRC12_VALIDATION.matches(sorted_imagenet)
    assert len(ILSVRC12_VALIDATION.read(sorted_imagenet)) == 3


def test_kaggles_list_of_classes_serves_too(flat_imagenet):
    kit = flat_imagenet / "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
    kit.unlink()
    assert not ILSVRC12_VALIDATION.present(flat_imagenet)
    with pytest.raises(InputError, match=r"ground_truth\.txt is missing; .*devkit_t12\.tar\.gz"):
        ILSVRC12_VALIDATION.read(flat_imagenet)
    rows = [f"ILSVRC2012_val_{i:08d},{NUMBERS[60 - i]} 85 1 499 272 \n" for i in (3, 1, 2)]
    path = flat_imagenet / "LOC_val_solution.csv"
    path.write_text("ImageId,PredictionString\n" + "".join(rows))
    records = ILSVRC12_VALIDATION.read(flat_imagenet)
    assert records.label.tolist() == [NUMBERS[57], NUMBERS[58], NUMBERS[59]]
    assert records.row_id[0].endswith("3.JPEG")
    path.write_text("ImageId,PredictionString\n" + rows[0])
    with pytest.raises(InputError, match="no class for ILSVRC2012_val_00000001"):
        ILSVRC12_VALIDATION.read(flat_imagenet)
    path.write_text("ImageId,PredictionString\nILSVRC2012_val_00000001,cat\n")
    with pytest.raises(InputError, match="has the line"):
        ILSVRC12_VALIDATION.read(flat_imagenet)


def test_a_broken_kit_is_named(flat_imagenet):
    kit = flat_imagenet / "ILSVRC2012_devkit_t12/data"
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("7\n8\n9\n")
    with pytest.raises(InputError, match="has the line '8' where a class number belongs"):
        ILSVRC12_VALIDATION.read(flat_imagenet)
    (kit / "meta.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(40))
    with pytest.raises(InputError, match=r"meta\.mat is cut short or damaged"):
        ILSVRC12_VALIDATION.read(flat_imagenet)
    (kit / "meta.mat").unlink()
    with pytest.raises(InputError, match=r"meta\.mat is missing"):
        ILSVRC12_VALIDATION.read(flat_imagenet)


def test_missing_images_are_named(tmp_path):
    assert not ILSVRC12_VALIDATION.matches(tmp_path)
    with pytest.raises(InputError, match=r"val is missing; it comes with ILSVRC2012_img_val\.tar"):
        ILSVRC12_VALIDATION.read(tmp_path)
