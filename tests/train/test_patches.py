"""Features of patches: against a slow literal form, and what they can tell apart."""

import numpy as np
import pytest
import torch

from kspr.train.inputs import Images
from kspr.train.unlabelled import Patches, learn_patches, patch_features
from kspr.train.world import World

WORLD = World(torch.device("cpu"))


def features(images: np.ndarray, *, mirrored: bool = False, seed: int = 0) -> np.ndarray:
    return patch_features(Images(images), WORLD, mirrored=mirrored, seed=seed).numpy()


def random_images(n: int, *, side: int = 12, channels: int = 3, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (n, channels, side, side), dtype=np.uint8)


def stripes(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images of stripes with random phase and noise; the label is their direction."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 2, n)
    phase = draw.uniform(0, 2 * np.pi, n)[:, None, None]
    lines = np.sin(np.arange(16) * np.pi / 2 + phase) + np.zeros((1, 16, 1))
    pictures = np.where(label[:, None, None] == 1, lines, lines.transpose(0, 2, 1))
    noisy = 128 + 40 * pictures + draw.normal(0, 30, pictures.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)[:, None], label


def slow_features(patches: Patches, image: np.ndarray) -> np.ndarray:
    """Cut out every patch of an image, compare it with each typical one, and average."""
    filters, offset = patches.filters.numpy().astype(float), patches.offset.numpy()
    size, places = filters.shape[2], image.shape[1] - filters.shape[2] + 1
    response = np.empty((len(filters), places, places))
    for top in range(places):
        for left in range(places):
            cut = image[:, top : top + size, left : left + size].astype(float) / 255
            normal = (cut - cut.mean()) / np.sqrt(cut.var() + 10 / 255**2)
            response[:, top, left] = (filters * normal).sum(axis=(1, 2, 3)) - offset
    either = np.concatenate([response, -response])
    seen = np.maximum(either - 1, 0)
    # Quarters; the row in the middle belongs to two of them where the number of rows is odd.
    first, second = slice(0, -(-places // 2)), slice(places // 2, places)
    quarters = [seen[:, a, b].mean(axis=(1, 2)) for a in (first, second) for b in (first, second)]
    return np.sqrt(np.stack(quarters, axis=1)).ravel()


@pytest.mark.parametrize(("side", "channels"), [(12, 3), (13, 1)])
def test_features_are_those_of_the_slow_form(side, channels):
    images = random_images(20, side=side, channels=channels)
    patches = learn_patches(Images(images), WORLD, seed=0)
    expected = np.stack([slow_features(patches, image) for image in images[:3]])
    assert (expected > 0).mean() > 0.1
    np.testing.assert_allclose(features(images)[:3], expected, rtol=1e-3, atol=1e-4)


def test_typical_patches_tell_textures_apart():
    images, label = stripes(300)
    found = features(images)
    train, test = slice(0, 100), slice(100, 300)
    centres = np.stack([found[train][label[train] == k].mean(axis=0) for k in (0, 1)])
    distance = ((found[test][:, None] - centres) ** 2).sum(axis=2)
    assert (distance.argmin(axis=1) == label[test]).mean() > 0.98
    # Pixels do not: the phase is random.
    flat = images.reshape(300, -1).astype(float)
    centres = np.stack([flat[train][label[train] == k].mean(axis=0) for k in (0, 1)])
    distance = ((flat[test][:, None] - centres) ** 2).sum(axis=2)
    assert (distance.argmin(axis=1) == label[test]).mean() < 0.7


def test_labels_and_brightness_play_no_part():
    dark = random_images(10) // 2
    patches = learn_patches(Images(dark), WORLD, seed=0)
    image = torch.from_numpy(dark).float() / 255
    torch.testing.assert_close(
        patches.features(image), patches.features(image + 0.25), rtol=1e-3, atol=1e-3
    )


def test_equal_seeds_give_equal_features_and_others_do_not():
    images = random_images(10)
    np.testing.assert_array_equal(features(images), features(images))
    assert not np.array_equal(features(images), features(images, seed=1))


def test_a_mirror_image_has_the_same_features_where_both_are_averaged():
    images = random_images(10)
    pairs = np.concatenate([images, images[..., ::-1]])
    own, other = np.split(features(pairs, mirrored=True), 2)
    np.testing.assert_allclose(own, other, atol=1e-6)
    own, other = np.split(features(pairs), 2)
    assert np.abs(own - other).max() > 0.01


@pytest.mark.parametrize(("side", "channels", "n"), [(1, 1, 2), (2, 3, 3), (5, 1, 4), (80, 3, 2)])
def test_images_of_any_size_have_finite_features(side, channels, n):
    found = features(random_images(n, side=side, channels=channels))
    assert found.shape == (n, found.shape[1])
    assert np.isfinite(found).all()


def test_images_without_any_contrast_have_finite_features():
    assert np.isfinite(features(np.full((4, 3, 8, 8), 7, np.uint8))).all()


def test_large_images_are_described_as_their_small_copies():
    small = random_images(6, side=32)
    large = small.repeat(3, axis=2).repeat(3, axis=3)
    np.testing.assert_allclose(features(large), features(small), atol=1e-5)


def test_oblong_images_keep_their_shape():
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 40, 90), dtype=np.uint8)
    assert np.isfinite(features(images)).all()
