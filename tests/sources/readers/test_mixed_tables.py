"""Tables as they are: numbers with gaps, dates, categories and names of rows side by side."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions, with_encoder
from kspr.sources.readers import mixed_tables
from kspr.sources.records import row_digests

N = 40
DAYS = np.datetime64("2020-01-01") + np.arange(N) % 9


def mixed(**changes) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {
        "id": [f"C{i}" for i in range(N)],
        "age": pa.array([None if i == 3 else float(20 + i % 7) for i in range(N)]),
        "income": 1e5 * rng.random(N),
        "job": [None if i == 5 else ("clerk", "nurse", "driver")[i % 3] for i in range(N)],
        "since": pa.array([None if i == 7 else str(day) for i, day in enumerate(DAYS)]),
        "note": [f"free text {i}" for i in range(N)],
        "y": [("low", "high")[i % 2] for i in range(N)],
    }
    return pa.table({**columns, **changes})


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        pa.feather.write_feather(table, path)
    else:
        table.to_pandas().to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.arrow", "x.jsonl"])
def test_a_mixed_table_gives_the_same_features_in_every_format(tmp_path, name):
    found = open_source(write(mixed(), tmp_path / name))
    expected = open_source(mixed())
    # age, its gaps, income, since, its gaps; three jobs, and none.
    assert found.features.shape == (N, 9)
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(row_digests(found), row_digests(expected))
    assert np.isfinite(found.features).all()
    assert found.columns["features"] == ("age", "income", "job", "since")
    assert found.columns["ignored"] == ("note",)


def test_one_line_says_what_was_done_with_which_columns():
    (said,) = (note for note in open_source(mixed()).notes if note.startswith("Encoded"))
    assert said == (
        "Encoded: numbers are scaled; gaps in 'age' hold the median and are marked; dates 'since' "
        "are counted in days; categories 'job' (3) have a column for each value. --columns names "
        "others."
    )


def test_numbers_are_scaled_and_gaps_are_marked():
    scaled = open_source(mixed().select(["age", "income", "y"])).features
    assert scaled.shape == (N, 3)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-3)
    assert np.flatnonzero(scaled[:, 2] > 1).tolist() == [3]


def test_a_table_of_numbers_without_gaps_stays_as_it_is():
    found = open_source(mixed().select(["income", "id", "note", "y"]))
    assert found.features[:, 0].tolist() == np.float32(mixed()["income"]).tolist()
    assert found.digest is None


@pytest.mark.parametrize(
    ("columns", "used"),
    [
        ("age,job", ("age", "job")),
        ("!age,!since", ("income", "job")),
        ("*e, !since", ("age", "income")),
        ("job", ("job",)),
    ],
)
def test_columns_are_chosen_by_names_patterns_and_exclusion(columns, used):
    assert open_source(mixed(), ReadOptions(columns=columns)).columns["features"] == used


def test_a_column_that_is_not_there_and_a_choice_of_none_are_one_sentence(refusal):
    assert "has no column 'agee'. Did you mean 'age'?" in refusal(mixed(), columns="agee")
    assert "no column of numbers, dates or categories among '!*'" in refusal(mixed(), columns="!*")
    assert "could be told by its name, only 'note'" in refusal(mixed().select(["note", "y"]))


def test_what_tells_the_label_or_names_rows_is_no_category():
    table = mixed(kind=[("niedrig", "hoch")[i % 2] for i in range(N)], same=["x"] * N)
    found = open_source(table)
    assert found.columns["ignored"] == ("note", "kind", "same")
    assert "'kind' says what the label says, and is not used" in found.notes[-1]


def test_beside_an_embedding_other_columns_are_not_used():
    table = pa.table({f"e{i}": np.arange(4.0) for i in range(101)} | {"job": list("aabb")})
    table = table.append_column("y", pa.array([0, 1, 0, 1]))
    assert open_source(table).columns["ignored"] == ("job",)
    assert "job" in open_source(table, ReadOptions(columns="*")).columns["features"]


def test_a_digest_is_of_the_row_alone(tmp_path):
    """Medians and scales are of all rows; a row must be known again when others come or go."""
    whole = row_digests(open_source(mixed()))
    some = row_digests(open_source(mixed().slice(10, 25)))
    np.testing.assert_array_equal(some, whole[10:35])
    assert len(set(whole.tolist())) == N


def test_many_values_and_odd_bytes_are_no_categories(tmp_path, monkeypatch):
    monkeypatch.setattr(mixed_tables, "_MOST_VALUES", 5)
    odd = pa.array([b"\xff", b"a"] * (N // 2)).view(pa.string())
    table = mixed(many=[f"v{i % 8}" for i in range(N)], odd=odd)
    found = open_source(write(table, tmp_path / "x.parquet"), ReadOptions(columns="*"))
    assert found.columns["ignored"] == ("note", "many", "odd")


def test_rare_values_share_a_column_and_blocks_do_not_show(tmp_path, monkeypatch):
    table = pa.concat_tables([mixed().drop_columns("note")] * 3)
    monkeypatch.setattr(mixed_tables, "_SHOWN_VALUES", 3)
    found = open_source(table)
    # clerk, nurse and driver, of which one shares its column with none.
    assert found.features.shape == (3 * N, 8)
    monkeypatch.setattr(mixed_tables, "BLOCK_BYTES", 1000)
    np.testing.assert_array_equal(open_source(table).features, found.features)


@pytest.mark.parametrize(
    "change",
    [{"fill": ["a", "b", "c"]}, {"marked": [99]}, {"scale": []}, {"categories": []}, {"more": 1}],
)
def test_an_encoder_comes_back_from_json_and_a_damaged_one_does_not(change):
    encoder = open_source(mixed()).encoder
    document = json.loads(json.dumps(asdict(encoder)))
    assert mixed_tables.Encoder.read(document) == encoder
    with pytest.raises(ValueError, match="the encoder is damaged"):
        mixed_tables.Encoder.read({**document, **change})


def test_the_encoder_of_one_table_encodes_the_rows_of_another():
    whole = open_source(mixed())
    options = with_encoder(ReadOptions(), whole.encoder)
    some = mixed(job=["nurse"] * 20 + ["pilot"] * 20).slice(10, 20)
    found = open_source(some, options)
    assert found.features.shape == (20, whole.features.shape[1])
    np.testing.assert_array_equal(found.features[:, :5], whole.features[10:30, :5])
    # A nurse is a nurse, and a pilot is none of those that were seen.
    assert found.features[:, 5:].sum(axis=1).tolist() == [1.0] * 10 + [0.0] * 10
    assert found.notes[-1].endswith("of no column, is 'pilot' in 'job'.")
