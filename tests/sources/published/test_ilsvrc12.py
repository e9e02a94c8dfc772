"""ILSVRC12's validation images, in class folders or flat, with WordNet's or WebVision's names."""

import numpy as np
import pytest
from scipy.io import savemat

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.published.webvision import ILSVRC12_VALIDATION, WEBVISION_MINI

NUMBERS = [f"n{1440764 + i:08d}" for i in range(60)]


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
