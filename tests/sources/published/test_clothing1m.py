"""Clothing1M by its key files."""

import pytest

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.published.image_lists import CLOTHING1M


def test_training_labels_are_the_noisy_ones(clothing1m):
    records = CLOTHING1M.read(clothing1m)
    assert len(records) == 5
    assert records.label.tolist()[:3] == ["T-Shirt", "Shirt", "Knitwear"]
    assert records.row_id[2] == "images/2/26/3761328112,9053622262.jpg"
    assert records.truth is None
    assert records.items[0].mode == "RGB"


@pytest.mark.parametrize("split", ["clean_train", "val", "test"])
def test_other_splits_have_the_clean_labels(clothing1m, split):
    records = CLOTHING1M.read(clothing1m, ReadOptions(split=split))
    assert records.label.tolist() == ["Underwear", "Vest"]
    assert f"/{split.removeprefix('clean_')}/" in records.row_id[0]


def test_images_with_both_labels_know_their_truth(clothing1m):
    records = CLOTHING1M.read(clothing1m, ReadOptions(split="both"))
    assert records.row_id.tolist() == ["images/9/test/0,1.jpg"]
    assert records.label.tolist() == ["Chiffon"]
    assert records.truth.tolist() == ["Underwear"]


def test_key_files_may_lie_in_annotations(clothing1m):
    (clothing1m / "annotations").mkdir()
    for path in clothing1m.glob("*.txt"):
        path.rename(clothing1m / "annotations" / path.name)
    assert CLOTHING1M.matches(clothing1m)
    assert CLOTHING1M.present(clothing1m)
    assert all((clothing1m / name).exists() for name, _ in CLOTHING1M.files(clothing1m))
    records = CLOTHING1M.read(clothing1m / "annotations/clean_val_key_list.txt")
    assert records.label.tolist() == ["Underwear", "Vest"]
    assert records.items[0].size == (4, 3)


def test_a_key_list_names_its_split(clothing1m):
    path = clothing1m / "clean_test_key_list.txt"
    assert CLOTHING1M.matches(path)
    assert len(CLOTHING1M.read(path)) == 2
    assert not CLOTHING1M.matches(clothing1m / "noisy_label_kv.txt")
    assert not CLOTHING1M.matches(clothing1m / "images")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("category_names_eng.txt", None, r"category_names_eng\.txt is missing; it comes with the"),
        ("category_names_eng.txt", "Shirt\n", "names 1 classes, not 14"),
        ("noisy_train_key_list.txt", None, r"noisy_train_key_list\.txt is missing"),
        ("noisy_train_key_list.txt", "images/7/7.jpg\n", "no label for images/7/7.jpg"),
        ("noisy_label_kv.txt", None, r"noisy_label_kv\.txt is missing"),
        ("noisy_label_kv.txt", "images/2/26/3761328114,905362226.jpg\n", "where an image and a"),
        ("noisy_label_kv.txt", "images/0/1.jpg 14\n", r"class in 0\.\.13"),
    ],
)
def test_a_broken_key_file_is_named(clothing1m, name, content, message):
    (clothing1m / name).unlink()
    if content is not None:
        (clothing1m / name).write_text(content)
    with pytest.raises(InputError, match=message):
        CLOTHING1M.read(clothing1m)


def test_images_must_be_there(clothing1m):
    (clothing1m / "images").rename(clothing1m / "pictures")
    assert not CLOTHING1M.present(clothing1m)
    with pytest.raises(InputError, match=r"images is missing; .*images/0\.tar"):
        CLOTHING1M.read(clothing1m)


def test_other_labels_may_be_given_for_the_same_rows(clothing1m, tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("Dress\nSuit\n")
    records = CLOTHING1M.read(clothing1m, ReadOptions(labels=path, split="test"))
    assert records.label.tolist() == ["Dress", "Suit"]
    assert records.truth.tolist() == ["Underwear", "Vest"]
    with pytest.raises(InputError, match=r"has 5 rows but .* has 2 labels"):
        CLOTHING1M.read(clothing1m, ReadOptions(labels=path))
    with pytest.raises(InputError, match="option label does not apply"):
        CLOTHING1M.read(clothing1m, ReadOptions(label="x"))
