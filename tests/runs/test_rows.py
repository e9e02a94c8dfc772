"""Rows of a run: stored in a file, and joined to the source as it is now, row by row."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr._files import write_parquet
from kspr.errors import InputError
from kspr.runs.rows import RunRows, join_rows, read_rows, row_tables
from kspr.sources.records import Records, row_digests

N = 30
X = np.random.default_rng(0).standard_normal((N, 2)).astype(np.float32)
LABEL = np.array(["a", "b", "c"])[np.arange(N) % 3]
IDS = np.array([f"n{k}" for k in range(N)])


def records(rows, *, named, label=None, features=None):
    ids = IDS[rows] if named else np.arange(len(rows)).astype(str)
    label = LABEL[rows] if label is None else label
    X_now = X[rows] if features is None else features
    return Records(Path("x"), "npz", ids, label, X_now, named=named)


def before(named):
    now = records(np.arange(N), named=named)
    return RunRows(np.arange(N), row_digests(now), now.row_id if named else None)


@given(st.permutations(range(N)), st.integers(0, N - 1), st.booleans())
def test_every_row_is_found_or_gone_in_any_order(order, n_lost, named):
    now = records(np.array(order[n_lost:], dtype=int), named=named)
    found = join_rows(before(named), LABEL, now)
    np.testing.assert_array_equal(now.features[found.place], X[found.position])
    np.testing.assert_array_equal(found.position, np.sort(order[n_lost:]))
    assert sorted(found.gone) == sorted(order[:n_lost])
    assert (len(found.changed), found.n_other) == (0, 0)
    assert found.whole == (n_lost == 0)


@pytest.mark.parametrize("named", [True, False])
def test_a_row_is_what_it_was_only_with_its_label_and_content(named):
    label, features = LABEL.copy(), X.copy()
    label[3], features[8] = "b", 0
    rows = before(named)
    found = join_rows(rows, LABEL, records(np.arange(N), named=named, label=label))
    assert (found.changed if named else found.gone).tolist() == [3]
    found = join_rows(rows, LABEL, records(np.arange(N), named=named, features=features))
    assert (found.changed if named else found.gone).tolist() == [8]
    assert found.places()[[7, 8, 9]].tolist() == [7, -1, 9]


def test_labels_of_another_type_are_the_same_labels():
    number = np.arange(N) % 3
    for now in (number.astype(float), number.astype(str)):
        for named in (True, False):
            found = join_rows(before(named), number, records(np.arange(N), named=named, label=now))
            assert found.whole


def test_copies_keep_their_order():
    same = np.zeros((N, 2), np.float32)
    now = records(np.arange(N), named=False, features=same)
    rows = RunRows(np.arange(N), row_digests(now))
    np.testing.assert_array_equal(join_rows(rows, LABEL, now).place, np.arange(N))
    fewer = records(np.arange(1, N), named=False, features=same[1:])
    with pytest.raises(InputError, match=r"9 of its rows are equal to row 0, .* run has 10"):
        join_rows(rows, LABEL, fewer)
    # Ids tell copies apart; ids that are there twice do not.
    named = RunRows(np.arange(N), rows.digest, IDS)
    assert join_rows(
        named, LABEL, records(np.arange(1, N), named=True, features=same[1:])
    ).gone == [0]


def test_notes_count_and_name():
    rows = before(named=True)
    now = records(np.arange(8, N), named=True)
    assert join_rows(rows, LABEL, now).notes(rows, "x") == (
        "8 rows of the run are gone from x: 'n0', 'n1', 'n2', 'n3', 'n4' and 3 more.",
    )
    half = RunRows(rows.row[:20], rows.digest[:20], rows.ids[:20])
    found = join_rows(half, LABEL[:20], records(np.arange(N), named=True))
    assert found.notes(half, "x") == ("x has 10 rows that the run does not know.",)
    # Items that could not be read are in no run.
    assert found.notes(half, "x", unreadable=10) == ()


@pytest.mark.parametrize("named", [True, False])
def test_a_row_without_a_label_is_neither_what_it_was_nor_new(named):
    """Whatever its entry among the labels holds: that has no meaning."""
    now = replace(records(np.arange(N), named=named), unlabelled=np.array([3, 5]))
    found = join_rows(before(named), LABEL, now)
    assert sorted([*found.gone, *found.changed]) == [3, 5]
    some = np.setdiff1d(np.arange(N), [3, 5])
    rows = before(named)
    without = RunRows(some, rows.digest[some], rows.ids[some] if named else None)
    again = join_rows(without, LABEL[some], now)
    assert (again.whole, again.n_other) == (True, 0)


def stored(row: np.ndarray) -> RunRows:
    ids = np.array([f"id {k}" for k in row])
    return RunRows(row, np.arange(len(row), dtype=np.uint64) * 7, ids)


@pytest.mark.parametrize("row", [np.arange(N), np.arange(N) * 3 + 2, np.array([0, 1, 2, 9])])
def test_rows_are_read_back_as_they_were(tmp_path, row):
    made = stored(row)
    write_parquet(tmp_path / "rows.parquet", row_tables(made))
    found = read_rows(tmp_path / "rows.parquet", named=True, n=len(row))
    np.testing.assert_array_equal(found.row, row)
    np.testing.assert_array_equal(found.row_id, made.row_id)
    np.testing.assert_array_equal(found.digest, made.digest)


def test_rows_without_ids_are_known_by_their_numbers(tmp_path):
    write_parquet(tmp_path / "rows.parquet", row_tables(stored(np.arange(N))))
    found = read_rows(tmp_path / "rows.parquet", named=False, n=N)
    np.testing.assert_array_equal(found.row_id, np.arange(N).astype(str))


SOUND = {
    "row": pa.array(np.arange(N)),
    "row_id": pa.array([f"id {k}" for k in range(N)]),
    "digest": pa.array(np.arange(N, dtype=np.uint64)),
}


@pytest.mark.parametrize(
    "change",
    [
        {"row": pa.array(np.zeros(N, dtype=np.int64))},
        {"row": pa.array(np.arange(N)[::-1])},
        {"row": pa.array(np.arange(N) - 1)},
        {"row": pa.array(np.arange(N) / 2)},
        {"row_id": pa.array(np.arange(N))},
        {"row_id": pa.array([None, *map(str, range(N - 1))])},
        {"digest": pa.array(np.arange(N))},
    ],
)
def test_rows_of_another_kind_are_refused(tmp_path, change):
    pq.write_table(pa.table({**SOUND, **change}), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=f"rows.parquet does not fit the selection of {N} rows"):
        read_rows(tmp_path / "rows.parquet", named=True, n=N)


@pytest.mark.parametrize(("named", "n"), [(True, N + 1), (True, N - 1), ("yes", N), (1, N)])
def test_another_number_of_rows_is_refused(tmp_path, named, n):
    pq.write_table(pa.table(SOUND), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="does not fit"):
        read_rows(tmp_path / "rows.parquet", named=named, n=n)
