"""Crop, flip and normalise: every image its own, in the distribution of a plain loop."""

import pytest
import torch
from scipy import stats

from kspr.errors import InputError
from kspr.train.augment import Augment, normalise
from tests.train.images.conftest import rng


def numbered(n, size):
    """Return images whose pixels are all different and none black."""
    pixels = torch.arange(1, size * size + 1, dtype=torch.float32).view(1, 1, size, size)
    return (pixels / 1000).expand(n, 1, size, size)


def crops(padding, size):
    """Return every crop of a numbered image with its offset, by slicing."""
    padded = torch.nn.functional.pad(numbered(1, size)[0, 0], (padding,) * 4)
    places = [(i, j) for i in range(2 * padding + 1) for j in range(2 * padding + 1)]
    return places, torch.stack([padded[i : i + size, j : j + size] for i, j in places])


def test_every_view_is_one_of_the_crops_and_all_are_equally_likely():
    """Chi-squared over 2 x 25 cells and 10,000 images: wrong by chance once in a thousand seeds."""
    _, known = crops(2, 6)
    known = torch.cat([known, known.flip(2)])
    views = Augment(padding=2)(numbered(10_000, 6), rng(2))[:, 0]
    distance = torch.cdist(views.flatten(1), known.flatten(1), p=1)
    nearest = distance.min(1)
    assert nearest.values.max() < 1e-4
    assert stats.chisquare(torch.bincount(nearest.indices, minlength=50)).pvalue > 1e-3


def test_offsets_and_flips_agree_with_kornia():
    """Two samples of 4,000: means differ by less than 4 standard errors, per pixel."""
    kornia = pytest.importorskip("kornia.augmentation", reason="kornia is not installed")
    reference = torch.nn.Sequential(
        kornia.RandomCrop((6, 6), padding=2), kornia.RandomHorizontalFlip(p=0.5)
    )
    images = numbered(4000, 6).contiguous()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        theirs = reference(images)
    ours = Augment(padding=2)(images, rng(1))
    error = ((ours.var(0) + theirs.var(0)) / 4000).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4 * error).all()
    assert ((ours.std(0) / theirs.std(0)) - 1).abs().max() < 0.15


def test_bytes_and_floats_give_the_same_view():
    images = torch.randint(0, 256, (20, 3, 8, 8), dtype=torch.uint8, generator=rng())
    augment = Augment(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    torch.testing.assert_close(augment(images, rng(1)), augment(images / 255, rng(1)))


def test_without_crop_and_flip_only_normalising_is_left():
    images = torch.randint(0, 256, (4, 3, 5, 7), dtype=torch.uint8, generator=rng())
    mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    expected = (images / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(normalise(images, mean, std), expected)
    torch.testing.assert_close(Augment(0, False, mean, std)(images, rng()), expected)


def test_the_generator_decides_and_torchs_own_state_stays():
    before = torch.get_rng_state()
    first, again, other = (Augment()(numbered(9, 8), rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Augment(padding=-1), "padding must be a number of pixels, 0 or more, got -1"),
        (lambda: Augment(std=(0.0,)), "std must be positive"),
        (lambda: Augment()(torch.zeros(3, 8, 8), rng()), r"images must be bytes .* \(3, 8, 8\)"),
        (lambda: Augment()(torch.zeros(1, 3, 8, 8).long(), rng()), "images must be bytes"),
        (lambda: normalise(torch.zeros(1, 3, 8, 8), (0.1, 0.2), (1.0,)), "mean must have one numb"),
    ],
)
def test_what_is_no_image_is_said_in_one_sentence(make, says):
    with pytest.raises(InputError, match=says):
        make()
