"""Which column of probabilities is which class, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kspr import InputError
from kspr.selectors.probability import order_columns, read_probabilities

Y = np.array(["ant", "bee", "cow"] * 4)
P = np.eye(3)[[0, 1, 2] * 4] * 0.7 + 0.1


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("prefix", ["", "p_", "prob."])
def test_columns_of_a_data_frame_are_known_by_their_names(frame, prefix):
    columns = {f"{prefix}{name}": P[:, k] for name, k in (("cow", 2), ("ant", 0), ("bee", 1))}
    found, labels = read_probabilities(frame(columns), Y, None, 2)
    assert labels.classes.tolist() == ["ant", "bee", "cow"]
    assert np.allclose(found, P)


def test_a_shared_beginning_of_class_names_is_no_prefix():
    assert order_columns(["p_cat", "p_car"], np.array(["car", "cat"])).tolist() == [1, 0]


def test_numbers_name_classes_that_are_numbers():
    assert order_columns(["p_2", "p_1"], np.array([1, 2])).tolist() == [1, 0]


def test_numbers_from_zero_stand_for_the_sorted_classes():
    assert order_columns(["p_0", "p_1"], np.array(["car", "cat"])).tolist() == [0, 1]
    assert order_columns([0, 1], np.array(["car", "cat"])).tolist() == [0, 1]


@pytest.mark.parametrize(
    "names", [["p_ant", "p_bee", "p_fox"], ["p_1", "p_2", "p_3"], ["ant", "ant", "bee"]]
)
def test_columns_that_do_not_name_the_classes_are_refused(names):
    with pytest.raises(InputError, match=r"do not name the class '(ant|cow)'"):
        order_columns(names, np.array(["ant", "bee", "cow"]))


def test_classes_say_which_column_is_which():
    found, _ = read_probabilities(P[:, [2, 0, 1]], Y, ["cow", "ant", "bee"], 2)
    assert np.allclose(found, P)


def test_columns_of_classes_that_no_label_has_are_left_out():
    wide = np.column_stack([0.5 * P, np.full(12, 0.5)])
    wide[0] = [0, 0, 0, 1]
    found, labels = read_probabilities(wide, Y, ["ant", "bee", "cow", "fox"], 2)
    assert len(labels.classes) == 3
    assert np.allclose(found[1:], P[1:])
    assert np.allclose(found[0], 1 / 3)


def test_half_precision_sums_to_one():
    assert np.allclose(read_probabilities(P.astype(np.float16), Y, None, 2)[0].sum(axis=1), 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (P[0], "must have two dimensions"),
        (P.astype(str), "must hold numbers"),
        (np.empty((0, 3)), "has no rows"),
        (np.where(np.arange(12)[:, None] == 4, np.nan, P), "NaN or inf in row 4"),
        (np.log(P), "log-probabilities. Pass np.exp"),
        (10 * P - 5, r"must not be negative, got -4 in row 0. Logits"),
        (100 * P, "percentages. Divide by 100"),
        (P * np.where(np.arange(12) == 7, 0.5, 1)[:, None], "row 7 sums to 0.5"),
        (P + 0.2, "outputs of one sigmoid per class"),
        (P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), "2 columns but y has 3 classes"),
        (P[:10], "10 rows but y has 12 labels"),
    ],
)
def test_what_is_no_probability_is_refused_in_one_sentence(values, message):
    with pytest.raises(InputError, match=message):
        read_probabilities(values, Y, None, 2)


def test_classes_must_name_every_column():
    with pytest.raises(InputError, match="2 labels for 3 columns"):
        read_probabilities(P, Y, ["ant", "bee"], 2)
    with pytest.raises(InputError, match="do not name the class 'cow'"):
        read_probabilities(P, Y, ["ant", "bee", "fox"], 2)
