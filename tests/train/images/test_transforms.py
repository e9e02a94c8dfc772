"""Crops and colours against kornia and plain loops."""

import pytest
import torch
from scipy import stats
from torch.nn import functional

from kspr.train import augment as transforms
from kspr.train.augment import random_boxes, resize_boxes
from tests.train.images.conftest import rng


def test_a_box_is_cropped_first_and_then_scaled(images):
    boxes = random_boxes(images, (0.1, 1.0), (0.5, 2.0), rng())
    ours = resize_boxes(images, boxes)
    for row, image in enumerate(images):
        top, left, height, width = (
            int(side[row]) for side in (boxes.top, boxes.left, boxes.height, boxes.width)
        )
        crop = image[None, :, top : top + height, left : left + width]
        expected = functional.interpolate(crop, size=(12, 10), mode="bilinear")[0]
        torch.testing.assert_close(ours[row], expected, atol=1e-5, rtol=0)


def test_boxes_are_distributed_as_kornias(kornia):
    """Kolmogorov-Smirnov on 5,000 areas, ratios and places each; one seed in 500 fails by chance.

    Pixels are many (200 a side): kornia rounds to whole ones in another way.
    """
    from kornia.augmentation.random_generator import ResizedCropGenerator

    made = ResizedCropGenerator((200, 200), (0.2, 1.0), (3 / 4, 4 / 3))
    with torch.random.fork_rng():
        torch.manual_seed(3)
        corners = made(torch.Size([5000, 3, 200, 200]))["src"]
    left, top = corners[:, 0].unbind(1)
    right, bottom = corners[:, 2].unbind(1)
    width, height = right - left + 1, bottom - top + 1
    ours = random_boxes(torch.empty(5000, 3, 200, 200), (0.2, 1.0), (3 / 4, 4 / 3), rng(3))
    pairs = {
        "area": (width * height, ours.width * ours.height),
        "ratio": (width / height, ours.width / ours.height),
        "left": (left / (201 - width), ours.left / (201 - ours.width)),
        "top": (top / (201 - height), ours.top / (201 - ours.height)),
    }
    for name, (theirs, mine) in pairs.items():
        assert stats.ks_2samp(theirs, mine).pvalue > 5e-4, name


def test_boxes_lie_inside_and_the_middle_is_taken_where_none_fits():
    narrow = random_boxes(torch.empty(300, 1, 40, 4), (0.9, 1.0), (3 / 4, 4 / 3), rng())
    assert (narrow.width == 4).all()
    assert (narrow.height == 5).all()
    assert (narrow.top == 17).all()
    usual = random_boxes(torch.empty(3000, 1, 9, 7), (0.05, 1.0), (0.5, 2.0), rng())
    assert (usual.top >= 0).all()
    assert (usual.left >= 0).all()
    assert (usual.top + usual.height <= 9).all()
    assert (usual.left + usual.width <= 7).all()


@pytest.mark.parametrize(
    ("ours", "theirs", "bounds"),
    [
        ("brightness", "adjust_brightness_accumulative", (0.2, 1.8)),
        ("contrast", "adjust_contrast_with_mean_subtraction", (0.2, 1.8)),
        ("saturation", "adjust_saturation_with_gray_subtraction", (0.2, 1.8)),
        ("hue", "adjust_hue", (-0.5, 0.5)),
    ],
)
def test_each_colour_change_is_kornias(kornia, images, ours, theirs, bounds):
    factor = torch.linspace(*bounds, len(images))
    turns = 2 * torch.pi if ours == "hue" else 1.0  # kornia turns by radians
    expected = getattr(kornia.enhance, theirs)(images, factor * turns)
    found = getattr(transforms, ours)(images, factor)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_blur_is_kornias_gaussian(kornia, images):
    sigma = torch.linspace(0.1, 2.0, len(images))
    expected = kornia.filters.gaussian_blur2d(
        images, (13, 13), torch.stack([sigma, sigma], 1), border_type="replicate"
    )
    torch.testing.assert_close(transforms.blur(images, sigma, 6), expected, atol=1e-5, rtol=0)
