"""Roles of columns: told by name and type, said in words, and ids among features."""

import numpy as np
import pyarrow as pa
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers.roles import LABEL_NAMES, TRUTH_NAMES, choose_label, choose_roles
from kspr.sources.readers.table import fields_of

KINDS = {
    "text": pa.string(),
    "number": pa.float32(),
    "whole": pa.int64(),
    "bytes": pa.binary(),
    "lists": pa.list_(pa.float32()),
    "image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
}


def fields(**columns):
    return fields_of(pa.schema([(name, KINDS[kind]) for name, kind in columns.items()]), "x")


def roles(columns, **said):
    found = choose_roles(fields(**columns), ReadOptions(**said), "x")
    named = {name: getattr(found, name) for name in ("label", "truth", "id", "image", "text")}
    return {name: field.name for name, field in named.items() if field} | (
        {"features": [field.name for field in found.features]} if found.features else {}
    )


@pytest.mark.parametrize("name", [*LABEL_NAMES, "Label", "Y"])
def test_a_label_is_found_by_its_usual_names(name):
    assert choose_label(fields(a="number", **{name: "text"}), None, "x").name == name


@pytest.mark.parametrize("name", [*TRUTH_NAMES, "Truth"])
def test_truth_is_found_by_its_usual_names_and_is_no_feature(name):
    found = roles({"a": "number", "y": "whole", name: "whole"})
    assert found == {"label": "y", "truth": name, "features": ["a"]}


@pytest.mark.parametrize(
    ("columns", "said", "expected"),
    [
        ({"a": "number", "b": "whole", "id": "whole"}, {}, {"id": "id", "features": ["a", "b"]}),
        ({"a": "number", "id": "whole"}, {"id": "id"}, {"id": "id", "features": ["a"]}),
        (
            {"e1": "number", "e2": "number", "b": "number"},
            {"features": "e*"},
            {"features": ["e1", "e2"]},
        ),
        ({"emb": "lists", "size": "number"}, {}, {"features": ["emb"]}),
        ({"img": "image", "size": "number"}, {}, {"image": "img"}),
        ({"data": "bytes", "size": "number"}, {}, {"image": "data"}),
        ({"path": "text", "label": "text"}, {}, {"image": "path", "label": "label"}),
        ({"sentence": "text"}, {}, {"text": "sentence"}),
        ({"note": "text", "a": "number"}, {"text": "note"}, {"text": "note"}),
        ({"img": "image", "a": "number"}, {"features": "a"}, {"features": ["a"], "image": "img"}),
        ({"y": "text", "a": "number"}, {"labels": "other.csv"}, {"features": ["a"]}),
        ({"meta": "image"}, {"image": "meta.path"}, {"image": "meta.path"}),
    ],
)
def test_columns_are_found_by_type_and_name_unless_they_are_named(columns, said, expected):
    assert roles(columns, **said) == expected


@pytest.mark.parametrize(
    ("columns", "said", "complaint"),
    [
        ({"a": "number", "y": "whole", "label": "whole"}, {}, "Say which with --label"),
        ({"e": "lists", "f": "lists"}, {}, "Say which with --features"),
        ({"i": "bytes", "j": "bytes"}, {}, "Say which with --image"),
        ({"text": "text", "a": "number"}, {}, "Say which to use"),
        ({"a": "number"}, {"label": "b"}, "x has no column 'b'. It has 'a'"),
        ({"a": "number"}, {"image": "a"}, "holds float, not images"),
        ({"a": "number"}, {"text": "a"}, "holds float, not text"),
        ({"a": "text", "b": "text"}, {"image": "a", "text": "b"}, "either --image or --text"),
        ({"e": "lists", "e2": "number"}, {"features": "e*"}, "some hold lists"),
    ],
)
def test_what_is_not_clear_is_a_question(columns, said, complaint):
    with pytest.raises(InputError) as caught:
        roles(columns, **said)
    assert complaint in str(caught.value)


def probabilities(columns, **said):
    found = choose_roles(fields(**columns), ReadOptions(**said), "x")
    return [f.name for f in found.probabilities], [f.name for f in found.features], found.text


def test_probabilities_are_named_by_a_pattern_and_are_no_features():
    columns = {"p_a": "number", "p_b": "number", "emb": "number", "y": "text"}
    assert probabilities(columns, probabilities="p_*") == (["p_a", "p_b"], ["emb"], None)


def test_a_table_of_probabilities_needs_no_other_content():
    columns = {"p_a": "number", "p_b": "number", "y": "text"}
    assert probabilities(columns, probabilities="p_*") == (["p_a", "p_b"], [], None)
    # Texts and numbers beside them are a question only where they are needed.
    both = {**columns, "width": "number", "text": "text"}
    assert probabilities(both, probabilities="p_*") == (["p_a", "p_b"], [], None)


def test_a_pattern_of_probabilities_that_matches_nothing_is_refused():
    with pytest.raises(InputError, match="prob_"):
        probabilities({"p_a": "number", "y": "text"}, probabilities="prob_*")


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
        "'zip', 'customer' look like ids and are used as features. Leave them out with --columns "
        "'!zip,!customer', or name the right ones with --features."
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
