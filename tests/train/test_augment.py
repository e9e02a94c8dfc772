"""Crop, flip and normalise: every image its own, in the distribution of a plain loop."""

import pytest
import torch
from scipy import stats
from torch.nn import functional

from kspr.errors import InputError
from kspr.train import augment as transforms
from kspr.train.augment import (
    ViewSettings,
    crop_and_flip,
    normalise,
    random_boxes,
    resize_boxes,
    simsiam_views,
)


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
    views = crop_and_flip(numbered(10_000, 6), rng(2), 2)[:, 0]
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
    ours = crop_and_flip(images, rng(1), 2)
    error = ((ours.var(0) + theirs.var(0)) / 4000).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4 * error).all()
    assert ((ours.std(0) / theirs.std(0)) - 1).abs().max() < 0.15


def test_without_crop_and_flip_only_normalising_is_left():
    images = torch.randint(0, 256, (4, 3, 5, 7), dtype=torch.uint8, generator=rng())
    mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    expected = (images / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    for pixels in (images, images / 255):
        torch.testing.assert_close(normalise(pixels, mean, std), expected)
    assert torch.equal(crop_and_flip(images, rng(), 0, flip=False), images)


def test_the_generator_decides_and_torchs_own_state_stays():
    before = torch.get_rng_state()
    first, again, other = (crop_and_flip(numbered(9, 8), rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("wrong", [torch.zeros(3, 8, 8), torch.zeros(1, 3, 8, 8).long()])
@pytest.mark.parametrize("use", [crop_and_flip, lambda images, _: normalise(images, (0,), (1,))])
def test_what_is_no_image_is_said_in_one_sentence(wrong, use):
    with pytest.raises(InputError, match="images must be bytes"):
        use(wrong, rng())


STILL = ViewSettings(
    area=(1.0, 1.0),
    ratio=(1.0, 1.0),
    flip=False,
    jitter_probability=0.0,
    grey_probability=0.0,
)


def test_views_have_the_mean_and_spread_of_kornias(kornia):
    """Means and standard deviations over 4,000 images of one scene, per channel, each over all
    positions: closer than 5 standard errors of the mean, and 6 % for the spread.
    """
    from kornia import augmentation as known

    scene = torch.rand(1, 3, 8, 8, generator=rng(4)).expand(4000, 3, 8, 8).contiguous()
    reference = torch.nn.Sequential(
        known.RandomResizedCrop((8, 8), scale=(0.2, 1.0), ratio=(3 / 4, 4 / 3)),
        known.RandomHorizontalFlip(p=0.5),
        known.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        known.RandomGrayscale(p=0.2),
    )
    with torch.random.fork_rng():
        torch.manual_seed(2)
        # Several batches: the order of the colour changes is drawn once for each.
        theirs = torch.cat([reference(part) for part in scene.split(100)]).mean((2, 3))
    generator = rng(2)
    ours = torch.cat(
        [simsiam_views(part, generator, ViewSettings())[0] for part in scene.split(100)]
    )
    ours = ours.mean((2, 3))
    error = ((ours.var(0) + theirs.var(0)) / 4000).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 5 * error).all()
    assert (ours.std(0) / theirs.std(0) - 1).abs().max() < 0.06


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"jitter_probability": 0.8}, 0.8),
        ({"grey_probability": 0.2}, 0.2),
        ({"flip": True}, 0.5),
        ({"blur_probability": 0.5, "blur_sigma": (1.0, 2.0)}, 0.5),
    ],
)
def test_a_change_meets_its_share_of_the_images(settings, rate):
    """Binomial with 2,000 images: within 4 standard deviations."""
    images = torch.rand(2000, 3, 6, 6, generator=rng(8))
    made = ViewSettings(**{**vars(STILL), **settings})
    for view in simsiam_views(images, rng(1), made):
        share = changed(view, images).float().mean()
        assert abs(share - rate) < 4 * (rate * (1 - rate) / 2000) ** 0.5


def test_the_two_views_differ_and_still_settings_change_nothing(images):
    first, second = simsiam_views(images, rng(), ViewSettings())
    assert changed(first, second).all()
    square = images[..., :10, :]
    for view in simsiam_views(square, rng(), STILL):
        torch.testing.assert_close(view, square, atol=1e-5, rtol=0)


def test_grey_images_vary_in_light_only_and_stay_in_range():
    images = torch.rand(50, 1, 8, 8, generator=rng(6))
    only_jitter = ViewSettings(**{**vars(STILL), "jitter_probability": 1.0})
    view, _ = simsiam_views(images, rng(), only_jitter)
    assert changed(view, images).all()
    assert ((view >= 0) & (view <= 1)).all()
    ranks = [pixels.flatten().argsort(stable=True) for pixels in (view[0], images[0])]
    inner = (view[0] > 0).flatten() & (view[0] < 1).flatten()
    assert torch.equal(*[r[inner[r]] for r in ranks])  # lighter stays lighter


def test_bytes_give_the_views_of_floats_and_the_generator_decides(images):
    as_bytes = (images * 255).round().byte()
    mine = simsiam_views(as_bytes, rng(3), ViewSettings())
    again = simsiam_views(as_bytes / 255, rng(3), ViewSettings())
    other = simsiam_views(as_bytes, rng(4), ViewSettings())
    torch.testing.assert_close(mine[1], again[1])
    assert changed(mine[1], other[1]).any()


def changed(views, images):
    return (views - images).abs().amax((1, 2, 3)) > 1e-4


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


def rng(seed=0):
    """Return a generator of random numbers."""
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def images():
    return torch.rand(60, 3, 12, 10, generator=rng(5))


@pytest.fixture(scope="module")
def kornia():
    return pytest.importorskip("kornia", reason="kornia is not installed")
