"""Types of CSV columns: which commas are decimal marks."""

import numpy as np
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


def test_decimal_commas_are_said(text_file):
    found = open_source(text_file("a;b;y\n0,5;1;x\n-1,25;2;y\n"), ReadOptions())
    assert found.features.tolist() == [[0.5, 1], [-1.25, 2]]
    assert found.notes[0] == "Commas in the numbers of x.csv are read as decimal commas."


def test_the_user_settles_what_a_comma_means(text_file):
    found = open_source(text_file("a;y\n1,234;0\n5,678;1\n"), ReadOptions(decimal=","))
    np.testing.assert_array_equal(found.features, np.float32([[1.234], [5.678]]))


@pytest.mark.parametrize("value", ["1,5", "0,123", "12345,678", "1,2345", ",5", "1,5e3", "1,123e2"])
def test_numbers_that_can_have_a_decimal_comma_only(text_file, value):
    found = open_source(text_file(f"a;y\n{value};0\n2;1\n"), ReadOptions())
    assert found.features[0, 0] == np.float32(value.replace(",", "."))


def test_words_with_commas_are_no_numbers(text_file):
    found = open_source(text_file("a;note;y\n1;x, y;0\n2;1,5;1\n"), ReadOptions())
    assert found.features.tolist() == [[1], [2]]
