"""Samples: noise on their labels, and the generated ones."""

from dataclasses import replace

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce.data import open_sample
from kspr.experiments.reproduce.sample import MADE, corrupted
from tests.experiments.reproduce.samples import FEATURES


def test_noise_has_the_rate_of_its_name(folder):
    sample = open_sample(FEATURES, folder)
    noisy = corrupted(sample, "Sym. 40 %", 0)
    assert (noisy.label != sample.truth).mean() == 0.4
    asymmetric = corrupted(sample, "Asy. 30 %", 0)
    changed = asymmetric.label != sample.truth
    # Five classes of CIFAR-10 have a partner.
    assert changed.mean() == pytest.approx(0.15)
    assert set(sample.truth[changed]) == {2, 3, 4, 5, 9}
    assert corrupted(sample, "as found", 0) is sample


@pytest.mark.parametrize("name", MADE)
def test_made_samples_are_the_same_every_time_and_fit_together(name):
    given = {"classes": 3, "per_class": 20} if name == "made" else {}
    first, second = MADE[name](**given), MADE[name](**given)
    assert np.array_equal(first.X, second.X)
    assert len(first.X) == len(first.label) == len(first.truth)
    assert len(first.test[0]) == len(first.test[1])


def test_made_data_may_come_with_wrong_labels():
    sample = MADE["made"](classes=4, per_class=50, wrong=0.2)
    assert (sample.label != sample.truth).mean() == pytest.approx(0.2)


def test_rows_are_chosen_with_their_labels():
    sample = MADE["digits"]()
    chosen = sample.only(np.arange(len(sample.label)) % 2 == 0)
    assert np.array_equal(chosen.label, sample.label[::2])
    assert np.array_equal(chosen.X, sample.X[::2])
    assert len(sample.first(7).X) == len(sample.first(7).truth) == 7
    assert sample.first(None) is sample


def test_noise_needs_true_labels():
    sample = replace(MADE["digits"](), truth=None)
    with pytest.raises(InputError, match="has no true labels"):
        corrupted(sample, "Sym. 40 %", 0)
