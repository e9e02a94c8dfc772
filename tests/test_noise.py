"""Every kind of noise: exact counts, allowed classes only, by seed, the truth left alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr import InputError
from kspr.noise import (
    CIFAR10,
    CIFAR100,
    CIFAR100_COARSE,
    NOISES,
    SUPERCLASSES,
    add_noise,
    asymmetric_cifar10,
    asymmetric_cifar100,
    circular,
    instance_dependent,
    pair_flip,
    symmetric,
)

RATES = st.floats(0, 0.99)
SEEDS = st.integers(0, 99)
KINDS = sorted(NOISES)


@given(st.integers(2, 6), st.integers(5, 80), st.floats(0, 0.99), st.integers(0, 9))
def test_symmetric_noise_has_the_exact_count(c, n, rate, seed):
    y = np.arange(n) % c
    noisy = symmetric(y, rate, seed)
    assert (noisy != y).sum() == round(rate * n)
    assert set(noisy) <= set(y)


def test_symmetric_noise_spreads_evenly():
    """Chi-square over the 4 other classes of 20,000 flips: fails by chance once in 10,000."""
    from scipy.stats import chisquare

    noisy = symmetric(np.zeros(40000, int) + np.repeat(np.arange(5), 8000), 0.5, seed=0)
    changed = noisy[:8000][noisy[:8000] != 0]
    assert chisquare(np.bincount(changed, minlength=5)[1:]).pvalue > 1e-4


def test_symmetric_noise_depends_on_its_seed_alone():
    y = np.array(list("abcd") * 25)
    assert np.array_equal(symmetric(y, 0.3, 1), symmetric(y, 0.3, 1))
    assert not np.array_equal(symmetric(y, 0.3, 1), symmetric(y, 0.3, 2))


def test_pair_flips_only_go_to_the_partner():
    y = np.repeat([0, 1, 2], 50)
    noisy = pair_flip(y, 0.4, {0: 1, 1: 0}, seed=3)
    assert np.bincount(noisy[y == 0], minlength=3).tolist() == [30, 20, 0]
    assert np.bincount(noisy[y == 1], minlength=3).tolist() == [20, 30, 0]
    assert (noisy[y == 2] == 2).all()


@pytest.mark.parametrize("rate", [-0.1, 1, 40])
def test_a_rate_is_a_share(rate):
    with pytest.raises(InputError, match="40 %"):
        symmetric([0, 1], rate, 0)


@given(st.lists(st.sampled_from(["b", "aa", "", "zeta"]), min_size=2, max_size=60), RATES, SEEDS)
def test_circular_noise_goes_to_the_next_class(y, rate, seed):
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        return
    noisy = np.searchsorted(classes, circular(y, rate, seed))
    moved = noisy != codes
    np.testing.assert_array_equal(noisy[moved], (codes[moved] + 1) % len(classes))
    for k, size in enumerate(np.bincount(codes)):
        assert moved[codes == k].sum() == round(rate * size)


@given(st.integers(2, 6), st.integers(4, 60), RATES, SEEDS, st.integers(0, 3))
def test_instance_noise_has_the_exact_count(c, n, rate, seed, p):
    y = np.arange(n) % c
    X = np.random.default_rng(0).standard_normal((n, p))
    noisy = instance_dependent(X, y, rate, seed)
    assert (noisy != y).sum() == round(rate * n)
    assert set(noisy) <= set(y)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_depends_on_its_seed_alone_and_spares_its_input(kind):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 20))
    kept, X = y.copy(), np.random.default_rng(1).standard_normal((200, 4))
    X_kept = X.copy()
    first = add_noise(kind, y, 0.4, 1, X=X)
    assert np.array_equal(first, add_noise(kind, y, 0.4, 1, X=X))
    assert not np.array_equal(first, add_noise(kind, y, 0.4, 2, X=X))
    assert np.array_equal(y, kept)
    assert np.array_equal(X, X_kept)
    assert not np.shares_memory(first, y)
    assert np.array_equal(add_noise(kind, y, 0, 1, X=X), y)


@pytest.mark.parametrize("kind", ["symmetric", "pair", "circular", "instance"])
@pytest.mark.parametrize(
    "y",
    [
        ["cat", "horse"] * 10,
        np.array([True, False] * 10),
        np.array([-3, 7] * 10, dtype=np.int16),
        np.array(["é", "漢字"] * 10, dtype=object),
        np.array(["2020-01-01", "2021-01-01"] * 10, dtype="datetime64[D]"),
        (0.5, 1.5) * 10,
    ],
    ids=["text", "bool", "int16", "object", "date", "float"],
)
def test_labels_of_any_type_keep_it(kind, y):
    noisy = add_noise(kind, y, 0.4, 0, X=np.arange(20.0)[:, None])
    assert noisy.dtype == np.asarray(y).dtype
    assert (noisy != np.asarray(y)).sum() == 8
    assert set(noisy.tolist()) <= set(np.asarray(y).tolist())


def test_names_are_not_cut_to_the_longest_given():
    assert set(asymmetric_cifar10(["truck"] * 4, 0.5, 0)) == {"truck", "automobile"}
    noisy = add_noise("pair", ["cat", "dog"] * 4, 0.5, 0, pairs={"cat": "horse"})
    assert set(noisy) == {"cat", "dog", "horse"}


def test_samples_of_the_same_class_flip_by_their_features():
    """The direction follows the features: near ones agree, far ones need not.

    Two tight clusters in 20 dimensions; within a cluster and class, most flips agree.
    """
    rng = np.random.default_rng(0)
    centre = rng.standard_normal((2, 20)) * 5
    side = np.arange(2000) % 2
    X = centre[side] + 0.01 * rng.standard_normal((2000, 20))
    y = rng.integers(0, 5, 2000)
    noisy = instance_dependent(X, y, 0.4, seed=0)
    shares = [
        np.bincount(noisy[chosen]).max() / chosen.sum()
        for s in (0, 1)
        for c in range(5)
        if (chosen := (side == s) & (y == c) & (noisy != y)).sum()
    ]
    assert np.mean(shares) > 0.8


def test_flips_of_instance_noise_spread_over_classes():
    """Each of 5 classes has 40 % wrong within five standard errors (2000 rows: 0.011 each)."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10_000, 8)), np.arange(10_000) % 5
    wrong = instance_dependent(X, y, 0.4, seed=1) != y
    assert all(abs(wrong[y == c].mean() - 0.4) < 0.055 for c in range(5))


def test_instance_noise_does_not_depend_on_the_features_scale():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 8)), np.arange(300) % 5
    X[:, 3] = 2.0
    noisy = instance_dependent(X, y, 0.4, seed=1)
    assert np.array_equal(noisy, instance_dependent(X * 1024 + 512, y, 0.4, seed=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "white"}, "no noise of the kind 'white'; there are symmetric, asymmetric"),
        ({"rate": 40}, r"rate must lie in \[0, 1\), got 40\. Write 0\.4 for 40 %"),
        ({"rate": float("nan")}, "rate must lie"),
        ({"seed": -1}, "seed must be a whole number from 0 to 4294967295, got -1"),
        ({"seed": 2**32}, "seed must be a whole number from 0 to 4294967295"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"y": []}, "y must be a column of labels"),
        ({"y": [[0, 1]]}, "y should be a 1d array of labels"),
        ({"y": ["a", "a"]}, r"at least two classes, got .*'a'"),
        ({"y": ["a", "a"], "kind": "circular"}, "at least two classes"),
        ({"y": [0.0, np.nan]}, "y has no label .* in row 1"),
        ({"y": np.array(["a", None, "b"])}, "y has no label .* in row 1"),
        ({"y": np.array(["a", 1, "b"], dtype=object)}, "mixes types that cannot be ordered"),
        ({"kind": "instance"}, "needs the features X"),
        ({"kind": "instance", "X": np.zeros((3, 2))}, "X has 3 rows but y has 4 labels"),
        ({"kind": "instance", "X": np.zeros(4)}, "X must be a table of numbers"),
        ({"kind": "instance", "X": [["a"]] * 4}, "X must be a table of numbers"),
        ({"kind": "instance", "X": [[np.nan]] * 4}, "missing or infinite"),
        ({"pairs": {0: 1}}, "pairs goes with kind='pair', got kind='symmetric'"),
        ({"kind": "pair", "pairs": {7: 1}}, "pairs name the class 7, which y does not have"),
        ({"kind": "asymmetric-cifar10", "y": [0, 10]}, r"CIFAR-10's labels: .* in 0\.\.9"),
        ({"kind": "asymmetric-cifar100", "y": ["otter", "Otter"]}, "CIFAR-100's labels"),
    ],
)
def test_bad_requests_are_answered_in_one_sentence(arguments, message):
    request = {"kind": "symmetric", "y": [0, 1, 0, 1], "rate": 0.4, "seed": 0} | arguments
    with pytest.raises(InputError, match=message):
        add_noise(**request)


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
