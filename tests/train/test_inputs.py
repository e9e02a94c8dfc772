"""Rows by number: vectors and images, in memory and on disk."""

import numpy as np
import pytest
import torch

from kspr.errors import InputError, UnreadableItemError
from kspr.sources.records import ImageFiles
from kspr.train.inputs import Images, LazyImages, Vectors, as_inputs, content_digest, image_inputs


def test_images_from_files_are_the_same_held_or_lazy(folder):
    items = ImageFiles(folder, [f"dark/{k}.png" for k in range(0, 40, 2)])
    held, rows, unreadable = image_inputs(items, None)
    lazy = LazyImages(items, rows, 8)
    index = torch.tensor([3, 0, 11])
    assert isinstance(held, Images)
    assert unreadable == {}
    assert torch.equal(held.take(index), lazy.take(index))
    assert lazy.shape == held.shape == (3, 8, 8)


def test_an_image_that_cannot_be_decoded_is_left_out_or_named(folder, tmp_path):
    (tmp_path / "torn.png").write_bytes(b"\x89PNG nothing")
    items = ImageFiles(
        tmp_path, [str(folder / "dark/0.png"), "torn.png", str(folder / "dark/2.png")]
    )
    held, rows, unreadable = image_inputs(items, 8)
    assert (len(held), rows.tolist(), list(unreadable)) == (2, [0, 2], [1])
    with pytest.raises(UnreadableItemError, match=r"torn\.png cannot be decoded"):
        LazyImages(items, np.arange(3), 8).take(torch.tensor([1]))
    with pytest.raises(UnreadableItemError, match="None of the 1 images can be read"):
        image_inputs(ImageFiles(tmp_path, ["torn.png"]), 8)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (np.zeros((3, 8, 8), np.uint8), "images", "Images must be uint8 of shape"),
        (np.zeros((3, 3, 8, 8), np.float32), "images", "Images must be uint8"),
        (Images(np.zeros((3, 3, 8, 8), np.uint8)), "embeddings", "rows of shape .* 'embeddings'"),
        (Vectors(np.zeros((3, 2))), "images", "which needs 3 dimensions a row"),
        (np.array([["a", "b"]]), "embeddings", "X must hold numbers"),
    ],
)
def test_the_wrong_kind_of_input_is_one_sentence(X, kind, message):
    with pytest.raises(InputError, match=message):
        as_inputs(X, kind)


def test_channels_may_come_last():
    X = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    found = as_inputs(X, "images")
    assert found.shape == (3, 4, 5)
    assert torch.equal(found.take(torch.tensor([1]))[0, 2], torch.from_numpy(X[1, :, :, 2]))


def test_a_digest_tells_contents_apart_and_loads_few_rows():
    values = np.arange(6000, dtype=np.float32).reshape(3000, 2)
    first = content_digest(as_inputs(values, "embeddings"))
    assert content_digest(as_inputs(values.copy(), "embeddings")) == first
    values[2999, 1] = 0
    assert content_digest(as_inputs(values, "embeddings")) != first

    class Lazy:
        shape, taken = (2,), 0

        def __len__(self):
            return 3000

        def take(self, index):
            self.taken += len(index)
            return torch.from_numpy(values)[index].bfloat16()

    lazy = Lazy()
    before = content_digest(lazy)
    assert lazy.taken == 1000
    values += 500
    assert content_digest(lazy) != before
