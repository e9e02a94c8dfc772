"""Which columns are used as what, and which features look like ids."""

import numpy as np
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

N = 40
COLUMNS = {
    "zip": np.arange(N) % 7 + 90_000,
    "customer": np.arange(N)[::-1] * 3,
    "weight": np.random.default_rng(0).random(N),
    "age": np.arange(N) % 30,
    "note": [f"n{i}" for i in range(N)],
    "label": ["x", "y"] * (N // 2),
}


def test_every_column_has_a_role(parquet_file):
    found = open_source(parquet_file(COLUMNS), ReadOptions(id="note"))
    assert found.columns == {
        "features": ("zip", "customer", "weight", "age"),
        "label": ("label",),
        "id": ("note",),
    }
    assert found.notes[0] == (
        "Columns: features 'zip', 'customer', 'weight', 'age'; label 'label'; id 'note'."
    )
    named = open_source(parquet_file(COLUMNS), ReadOptions(features="w*"))
    assert named.columns["ignored"] == ("zip", "customer", "age", "note")


def test_features_that_look_like_ids_are_named(parquet_file):
    warning = open_source(parquet_file(COLUMNS)).notes[1]
    assert warning == (
        "'zip', 'customer' look like ids and are used as features. Name the right ones with "
        "--features."
    )


def test_the_user_is_not_warned_of_what_the_user_named(parquet_file):
    assert len(open_source(parquet_file(COLUMNS), ReadOptions(features="zip")).notes) == 1


@pytest.mark.parametrize("name", ["Zip Code", "user_id", "phone", "postal-code", "order_no"])
def test_names_of_ids_are_known_in_any_spelling(parquet_file, name):
    found = open_source(parquet_file({name: [0.5, 1.5], "y": [0, 1]}))
    assert f"{name!r} looks like an id and is used as features." in found.notes[1]


@pytest.mark.parametrize("name", ["width", "valid", "grid", "humid"])
def test_other_names_are_not(parquet_file, name):
    assert len(open_source(parquet_file({name: [0.5, 1.5], "y": [0, 1]})).notes) == 1


def test_columns_of_probabilities_are_used(parquet_file):
    columns = {"p_x": [0.5, 1.0], "p_y": [0.5, 0.0], "label": ["x", "y"]}
    found = open_source(parquet_file(columns), ReadOptions(probabilities="p_*"))
    assert found.columns == {"probabilities": ("p_x", "p_y"), "label": ("label",)}
