"""Labels of any type: one rule for what is the same label."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core.labels import codes_in, encode_labels, places_in, same_label, truly_clean
from kspr.errors import InputError

pandas = pytest.importorskip("pandas")

CODES = np.array([0, 1, 1, 0, 2, 2, 1])
SPELLINGS = {
    "int": lambda c: c.astype(np.int64),
    "unsigned": lambda c: c.astype(np.uint8),
    "float": lambda c: c.astype(np.float32),
    "text": lambda c: c.astype(str),
    "spreadsheet": lambda c: np.array([f"{k}.0" for k in c]),
    "list": lambda c: c.tolist(),
    "column": lambda c: c[:, None],
    "object": lambda c: c.astype(object),
    "objects of text": lambda c: c.astype(str).astype(object),
    "bytes": lambda c: c.astype("S"),
    "series": pandas.Series,
    "categorical": pandas.Categorical,
    "categorical of text": lambda c: pandas.Categorical(c.astype(str)),
    "nullable": lambda c: pandas.array(c, dtype="Int64"),
}


@pytest.mark.parametrize("second", SPELLINGS)
@pytest.mark.parametrize("first", SPELLINGS)
def test_a_label_is_the_same_in_every_spelling(first: str, second: str) -> None:
    """But two texts are compared as texts: "1" and "1.0" are two labels."""
    other = np.roll(CODES, 1)
    found = same_label(SPELLINGS[first](CODES), SPELLINGS[second](other))
    texts = {"text", "objects of text", "categorical of text", "bytes"}
    both_text = {first, second} & {"spreadsheet"} and {first, second} & texts
    np.testing.assert_array_equal(found, np.zeros(7, bool) if both_text else other == CODES)


def test_a_truth_of_floats_is_the_truth_of_ints() -> None:
    y = np.arange(120) % 4
    assert same_label(y, y.astype(float)).all()
    assert truly_clean(y, y.astype(np.float32)).all()


def test_booleans_are_zero_and_one_by_number_and_by_text() -> None:
    flags = np.array([True, False, True])
    for other in ([1, 0, 1], [1.0, 0.0, 1.0], ["true", "False", "TRUE"], ["1", "0", "1.0"]):
        assert same_label(flags, other).all()
        assert not same_label(~flags, other).any()


def test_texts_are_compared_to_the_character() -> None:
    assert same_label(["a", "b "], ["a", "b"]).tolist() == [True, False]
    assert not same_label(["True"], ["true"]).any()
    assert same_label(np.array(["ab"]), np.array(["abc"])).tolist() == [False]


@pytest.mark.parametrize("text", ["one", "1_0", "nan", "inf", "", "-"])
def test_a_text_that_reads_as_no_number_is_no_number(text: str) -> None:
    assert not same_label([1, 10], [text, text]).any()


def test_large_numbers_are_told_apart_across_types() -> None:
    """Beyond 2**53 a float is not every whole number, so types are compared exactly."""
    large = np.array([2**53 + 1, 2**53], dtype=np.int64)
    assert same_label(large, large.astype(str)).all()
    assert same_label(large, np.array([2.0**53, 2.0**53])).tolist() == [False, True]


def test_other_objects_are_known_by_equality_or_text() -> None:
    days = np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]")
    assert same_label(days, days.astype(str)).all()
    assert same_label(np.array([Decimal("1.5")], dtype=object), [1.5]).all()


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([1.0, np.nan], 1),
        ([np.inf, 1.0], 0),
        (np.array(["a", None], dtype=object), 1),
        (np.array([pandas.NA, "a"], dtype=object), 0),
        (np.array(["2024-01-01", "NaT"], dtype="M8[D]"), 1),
    ],
)
def test_a_missing_label_is_refused_with_its_row(values, row: int) -> None:
    for call in (encode_labels, lambda v: same_label(v, v), lambda v: places_in(np.arange(2), v)):
        with pytest.raises(InputError, match=rf"has no label .* in row {row}\. Drop these rows"):
            call(values)


def test_labels_that_cannot_be_ordered_are_refused() -> None:
    with pytest.raises(InputError, match="mixes types that cannot be ordered"):
        encode_labels(np.array([1, "a"], dtype=object))


@given(codes=st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_codes_lead_back_to_the_labels(codes: list[int]) -> None:
    for values in (np.array(codes), np.array(codes).astype(str), np.array(codes, dtype=float)):
        labels = encode_labels(values)
        np.testing.assert_array_equal(labels.classes[labels.codes], values)
        assert (np.diff(np.unique(labels.codes)) == 1).all()
        np.testing.assert_array_equal(codes_in(labels.classes, values, "y"), labels.codes)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_codes_are_the_same_in_every_spelling_of_number_classes(spelling: str) -> None:
    found = codes_in(np.array([0, 1, 2]), SPELLINGS[spelling](CODES), "y")
    np.testing.assert_array_equal(found, CODES)


def test_a_label_that_is_no_class_is_named_with_its_row() -> None:
    assert places_in(np.array(["a", "b"]), ["b", "c"]).tolist() == [1, -1]
    with pytest.raises(InputError, match=r"test must use the classes 0, 1, got 'x' in row 1\."):
        codes_in(np.array([0, 1]), ["1", "x"], "test")
    assert places_in(np.array([0, 1]), []).tolist() == []


def test_of_two_texts_for_one_number_the_first_class_is_meant() -> None:
    assert places_in(np.array(["1", "1.0"]), [1, 1.0]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("y", "truth", "words"),
    [
        ([0, 1], [0, 1, 1], "truth has 3 labels but there are 2 rows"),
        ([0, 1], ["cat", "dog"], "The labels are numbers such as 0, but the true labels are text"),
        (["cat", "dog"], [0, 1], "The labels are text such as 'cat', but the true labels are num"),
        ([0, 1], [[0, 1], [1, 0]], "truth should be a 1d array of labels"),
    ],
)
def test_a_truth_of_other_labels_is_refused(y, truth, words: str) -> None:
    with pytest.raises(InputError, match=words):
        truly_clean(y, truth)


def test_a_truth_with_one_class_more_is_a_truth() -> None:
    assert truly_clean([0, 1, 1], ["0", "1", "none of these"]).tolist() == [True, True, False]
