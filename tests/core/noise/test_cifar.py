"""CIFAR's class names, and the noise between its classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr import InputError
from kspr.core.noise import add_noise, asymmetric_cifar10, asymmetric_cifar100
from kspr.core.noise.cifar import CIFAR10, CIFAR100, CIFAR100_COARSE, SUPERCLASSES

RATES = st.floats(0, 0.99)
SEEDS = st.integers(0, 99)


def test_names_come_in_the_order_of_their_numbers():
    assert (len(CIFAR10), len(CIFAR100)) == (10, 100)
    assert list(CIFAR100) == sorted(set(CIFAR100))
    assert list(CIFAR100_COARSE) == sorted(SUPERCLASSES)
    assert all(len(members) == 5 for members in SUPERCLASSES.values())


def spellings(names):
    """Return the ways in which a data set's labels may be written, as functions of numbers."""
    return [
        lambda codes: codes,
        lambda codes: codes.astype(np.uint8),
        lambda codes: codes.astype(float),
        lambda codes: np.asarray(names)[codes],
        lambda codes: np.asarray(names, dtype=object)[codes],
        lambda codes: [names[c] for c in codes],
        lambda codes: codes.astype(str),
    ]


TEN = st.lists(st.integers(0, 9), min_size=1, max_size=80).map(np.asarray)
HUNDRED = st.lists(st.integers(0, 99), min_size=1, max_size=80).map(np.asarray)
TARGET10 = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
TARGET100 = {
    CIFAR100.index(name): CIFAR100.index(members[(i + 1) % 5])
    for members in SUPERCLASSES.values()
    for i, name in enumerate(members)
}


def check_pairs(codes, noisy, target, rate):
    """Each class of `target` sends exactly its share to its partner; the others stay."""
    for source in np.unique(codes):
        members = noisy[codes == source]
        moved = members != source
        expected = round(rate * len(members)) if source in target else 0
        assert moved.sum() == expected
        assert set(members[moved]) <= {target.get(int(source))}


@given(TEN, RATES, SEEDS, st.sampled_from(spellings(CIFAR10)))
def test_cifar10_flips_between_similar_classes(codes, rate, seed, spell):
    y = spell(codes)
    noisy = np.asarray(asymmetric_cifar10(y, rate, seed))
    back = {str(shown): c for c, shown in enumerate(spell(np.arange(10)))}
    check_pairs(codes, np.array([back[str(label)] for label in noisy]), TARGET10, rate)


@given(HUNDRED, RATES, SEEDS, st.sampled_from(spellings(CIFAR100)))
def test_cifar100_flips_within_superclasses(codes, rate, seed, spell):
    y = spell(codes)
    noisy = np.asarray(asymmetric_cifar100(y, rate, seed))
    back = {str(shown): c for c, shown in enumerate(spell(np.arange(100)))}
    check_pairs(codes, np.array([back[str(label)] for label in noisy]), TARGET100, rate)


def test_asymmetric_picks_the_data_set_by_its_labels():
    ten = np.repeat(np.arange(10), 10)
    assert np.array_equal(add_noise("asymmetric", ten, 0.4, 0), asymmetric_cifar10(ten, 0.4, 0))
    hundred = np.repeat(CIFAR100, 5)
    expected = asymmetric_cifar100(hundred, 0.4, 0)
    assert np.array_equal(add_noise("asymmetric", hundred, 0.4, 0), expected)
    subset = np.repeat(["otter", "seal"], 5)
    assert set(add_noise("asymmetric", subset, 0.4, 0)) == {"otter", "seal", "whale"}
    with pytest.raises(InputError, match="defined for the classes of CIFAR-10 and CIFAR-100"):
        add_noise("asymmetric", ["ok", "faulty"], 0.4, 0)
