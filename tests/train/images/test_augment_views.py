"""SimSiam's two views against kornia and plain loops."""

import pytest
import torch

from kspr.train.augment import ViewSettings, simsiam_views
from tests.train.images.conftest import rng

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
