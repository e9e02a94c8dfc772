"""What all embedders share: pixels, and both flips."""

import numpy as np
import pytest
from PIL import Image, ImageOps

from kspr.errors import InputError
from kspr.features.embedders.embedder import Pixels
from tests.features.fakes import embedder_identity, load_embedder


def test_pixels_are_scaled_to_a_square():
    pixels = Pixels(4, (0.5,) * 3, (0.25,) * 3)
    prepared = pixels.prepare(Image.new("RGB", (9, 5), (255, 0, 0)))
    assert prepared.shape == (4, 4, 3)
    assert prepared.dtype == np.uint8
    assert prepared[0, 0].tolist() == [255, 0, 0]


def test_flips_average_an_image_and_its_mirror_image(own, images):
    name = own("np.array([np.asarray(i)[:4, :4, 0].ravel() for i in batch])").name
    plain = load_embedder(name, "image")
    both = load_embedder(name, "image", flips=True)
    mirrored = [ImageOps.mirror(image) for image in images]
    np.testing.assert_allclose(both(images), (plain(images) + plain(mirrored)) / 2)
    # So an image and its mirror image have the same features.
    np.testing.assert_allclose(both(images), both(mirrored))


def test_flips_are_another_identity_and_for_images_only():
    assert embedder_identity(None, "image", flips=True) != embedder_identity(None, "image")
    for use in (embedder_identity, load_embedder):
        with pytest.raises(InputError, match="flips is for images, but the items are texts"):
            use(None, "text", flips=True)
