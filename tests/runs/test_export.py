"""Export: which rows and labels are written, and what is refused."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.runs.checks import Checks
from kspr.runs.export import export_run
from kspr.runs.review_log import ReviewLog
from kspr.runs.verify import verify_run
from kspr.sources.options import ReadOptions
from tests.runs.tables import HEADER, N, cells_of, parquet, text_rows, write_csv


def test_relabelled_suspects_are_spelled_as_the_source_spells_the_class(tmp_path, run_of, names):
    rows = text_rows(names)
    path = write_csv(tmp_path / "x.csv", ",", rows)
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "o.csv", None, "relabel", threshold=0.2)
    header, *found = cells_of(tmp_path / "o.csv")
    written, label = after_relabelling(run.selection, 0.2)
    assert (label != names).any()
    assert [int(row[header.index("kspr_row")]) for row in found] == written.tolist()
    for k, row in zip(written, found, strict=True):
        assert row[5] == f" {label[k]}"
        assert [*row[:5], row[6]] == [*rows[k][:5], rows[k][6]]


def after_relabelling(selection, threshold):
    """Return the rows that are written, and the labels of all rows."""
    found = selection.relabel(threshold)
    return np.flatnonzero(selection.clean_mask | (found.pile == "change")), found.label


def test_what_is_expected_of_relabelling_is_said_before_anything_is_written(
    tmp_path, run_of, names
):
    run = run_of(write_csv(tmp_path / "x.csv", ",", text_rows(names)), ReadOptions(features="f*"))
    said = []

    def say(words):
        said.append(words)
        assert not (tmp_path / "o.csv").exists()

    made = export_run(run.folder, tmp_path / "o.csv", None, "relabel", threshold=0.999, say=say)
    (words,) = said
    assert words.startswith(str(run.selection.relabel(0.999)))
    kept, n_left = int(run.selection.clean_mask.sum()), N - made.rows
    assert f"Of {N} rows, {kept} are written as they are, {made.relabelled} with another" in words
    assert f"and {n_left} are left out." in words
    assert ("To keep them as they are: --suspects relabel-keep." in words) == (n_left > 0)


def test_relabelling_can_keep_all_rows(tmp_path, run_of, names):
    """Three pages once promised all rows of an option that keeps 703 of 2,500."""
    run = run_of(write_csv(tmp_path / "x.csv", ",", text_rows(names)), ReadOptions(features="f*"))
    made = export_run(run.folder, tmp_path / "o.csv", None, "relabel-keep", threshold=0.2)
    found = run.selection.relabel(0.2)
    assert (made.rows, made.dropped) == (N, 0)
    assert made.relabelled == found.count("change") > 0
    _header, *cells = cells_of(tmp_path / "o.csv")
    assert [row[5].strip() for row in cells] == [str(label).strip() for label in found.label]


def test_another_error_rate_needs_no_new_fit(tmp_path, run_of, names):
    run = run_of(write_csv(tmp_path / "x.csv", ",", text_rows(names)), ReadOptions(features="f*"))
    made = export_run(run.folder, tmp_path / "o.csv", None, q=0.3)
    assert made.rows == run.selection.at(0.3).clean_mask.sum() > run.selection.clean_mask.sum()
    checks = Checks(
        "pool", "mean", 0.95, 0.1, 0, run.selection.manifest.fingerprint, tuple(range(1))
    )
    checked = replace(run, checks=checks.with_answers({0: "a"}, Path("a.csv")))
    with pytest.raises(InputError, match=r"hold for q = 0.1, for which they were drawn. Leave --q"):
        checked.at(0.3)
    assert checked.at(0.1).selection.manifest.parameters["q"] == 0.1


def test_rows_that_the_run_left_out_are_not_exported(tmp_path, run_of, names, features, typed):
    """A run may have fewer rows than its source: items that could not be read are not in it."""
    from kspr import KnockoffsSPR

    some = np.flatnonzero(np.arange(N) % 7 != 3)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    run = run_of(parquet(typed, tmp_path / "x.pq"), ReadOptions(features="f*"), made, some)
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    found = pq.read_table(tmp_path / "o.parquet")
    assert found["größe"].to_pylist() == some.tolist() == found["kspr_row"].to_pylist()
    export_run(run.folder, tmp_path / "p.parquet", None, "relabel", threshold=0.2)
    written, label = after_relabelling(made, 0.2)
    codes = np.searchsorted(["cat", "dog", "otter"], label[written])
    assert pq.read_table(tmp_path / "p.parquet")["label"].to_pylist() == codes.tolist()


def test_labels_of_a_second_file_take_the_place_of_the_tables_own(tmp_path, run_of, names):
    rows = [[str(i), "old"] for i in range(N)]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["f0", "y"])
    (tmp_path / "new.txt").write_text("\n".join(names))
    run = run_of(path, ReadOptions(labels=tmp_path / "new.txt"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    header, *found = cells_of(tmp_path / "o.csv")
    assert header[:3] == ["f0", "y", "kspr_row"]
    assert [row[1] for row in found] == names.tolist()


def test_an_export_can_be_exported_again(tmp_path, run_of, names):
    rows = text_rows(names)
    path = write_csv(tmp_path / "x.csv", ",", rows)
    export_run(run_of(path, ReadOptions(features="f*")).folder, tmp_path / "o.csv", None, "keep")
    run = run_of(tmp_path / "o.csv", ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "again.csv", None, "keep")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()


def test_nothing_kept_is_an_empty_table(tmp_path, run_of, selection, names):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    nothing = replace(selection, clean_mask=np.zeros(N, dtype=bool))
    run = run_of(path, ReadOptions(features="f*"), nothing)
    for out in ("o.csv", "o.parquet", "o.arrow", "o.jsonl"):
        assert export_run(run.folder, tmp_path / out, None, "drop").rows == 0
    assert cells_of(tmp_path / "o.csv")[0][:7] == HEADER
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 0


LINES = {"by id": "id", "by content": "note"}
"""How rows are found again: the name of the first column, which is an id or not."""


@pytest.mark.parametrize("how", LINES)
def test_a_line_that_is_gone_shifts_no_other(tmp_path, run_of, names, how):
    rows = [[f"n{i}", f"{i / 7!r}", name] for i, name in enumerate(names)]
    path = write_csv(tmp_path / "x.csv", ",", rows, [LINES[how], "f0", "label"])
    run = run_of(path, ReadOptions(features="f*"))
    lost = int(run.selection.clean_indices[3])
    write_csv(path, ",", rows[:lost] + rows[lost + 1 :], [LINES[how], "f0", "label"])
    made = export_run(run.folder, tmp_path / "o.csv", None, "drop")
    _, *found = cells_of(tmp_path / "o.csv")
    kept = [k for k in run.selection.clean_indices if k != lost]
    assert [row[0] for row in found] == [f"n{k}" for k in kept]
    assert [int(row[3]) for row in found] == kept
    assert made.rows == len(kept)
    name = f"'n{lost}'" if how == "by id" else f"'{lost}'"
    assert len(made.notes) == 1
    assert made.notes[0].startswith("1 row of the run is gone from")
    assert made.notes[0].endswith(f"{path}: {name}.")


@pytest.mark.parametrize("how", LINES)
def test_rows_are_found_in_any_order(tmp_path, run_of, names, how):
    rows = [[f"n{i}", f"{i / 7!r}", name] for i, name in enumerate(names)]
    path = write_csv(tmp_path / "x.csv", ",", rows, [LINES[how], "f0", "label"])
    run = run_of(path, ReadOptions(features="f*"))
    order = np.random.default_rng(0).permutation(N)
    new = ["new", "123", "cat"]
    write_csv(path, ",", [new, *(rows[k] for k in order)], [LINES[how], "f0", "label"])
    made = export_run(run.folder, tmp_path / "o.csv", None, "relabel", threshold=0.2)
    _, *found = cells_of(tmp_path / "o.csv")
    written, label = after_relabelling(run.selection, 0.2)
    order = order[np.isin(order, written)]
    assert [row[0] for row in found] == [f"n{k}" for k in order]
    assert [row[2] for row in found] == label[order].tolist()
    assert made.notes == (f"{path} has 1 row that the run does not know.",)


@pytest.mark.parametrize(("cell", "value"), [(1, "99"), (2, "dog")])
def test_a_row_that_has_changed_is_left_out_and_named(tmp_path, run_of, names, cell, value):
    rows = [[f"n{i}", f"{i / 7!r}", name] for i, name in enumerate(names)]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["id", "f0", "label"])
    run = run_of(path, ReadOptions(features="f*"))
    rows[0][cell] = value
    write_csv(path, ",", rows, ["id", "f0", "label"])
    made = export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert made.notes == (f"1 row of the run is changed in {path}: 'n0'.",)
    assert [row[0] for row in cells_of(tmp_path / "o.csv")[1:]] == [f"n{i}" for i in range(1, N)]


def test_copies_that_came_or_went_are_refused(tmp_path, run_of, names):
    rows = [["0.5", name] for name in names]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["f0", "label"])
    run = run_of(path)
    write_csv(path, ",", rows[1:], ["f0", "label"])
    with pytest.raises(InputError, match=r"equal to row 0, .* Give the rows a column of ids"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert not (tmp_path / "o.csv").exists()


def test_other_data_is_refused(tmp_path, run_of, names):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    run = run_of(path, ReadOptions(features="f*"))
    write_csv(path, ",", [[*row[:1], "-1", *row[2:]] for row in text_rows(names)])
    with pytest.raises(InputError, match=r"None of the rows of .* is in .* as it was"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")
    path.unlink()
    with pytest.raises(InputError, match=r"does not exist.* has moved, name its place with --sou"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert not list(tmp_path.glob("o.csv*"))


def test_a_source_that_has_moved_is_read_where_the_user_says(tmp_path, run_of, names):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    run = run_of(path, ReadOptions(features="f*"))
    moved = path.rename(tmp_path / "moved.csv")
    made = export_run(run.folder, tmp_path / "o.csv", None, "keep", moved)
    assert (made.rows, made.notes) == (N, ())


@pytest.mark.parametrize("suspects", ["drop", "relabel", "keep"])
def test_the_list_of_changes_says_from_what_to_what(tmp_path, run_of, names, suspects):
    rows = [[f"={i}", f"{i / 7!r}", name] for i, name in enumerate(names)]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["id", "f0", "label"])
    run = run_of(path, ReadOptions(features="f*"))
    selection = run.selection
    made = export_run(run.folder, tmp_path / "o.csv", None, suspects, threshold=0.2)
    if suspects == "keep":
        assert made.changes is None
        assert not (tmp_path / "o.csv.changes.csv").exists()
        return
    moved = selection.relabel(0.2).pile == "change" if suspects == "relabel" else np.zeros(N, bool)
    assert made.changes == tmp_path / "o.csv.changes.csv"
    header, *found = cells_of(made.changes)
    assert header == ["row", "id", "action", "from", "to", "why", "q_value"]
    assert [int(row[0]) for row in found] == np.flatnonzero(~selection.clean_mask).tolist()
    for row in found:
        k = int(row[0])
        # A cell that a spreadsheet would compute is marked; the data itself stays exact.
        assert row[1] == f"'={k}"
        assert row[3] == selection.label[k]
        assert row[4] == (selection.suggested_label[k] if moved[k] else "")
        assert row[2] == ("relabelled" if moved[k] else "left out")
        assert ("this label is right with" in row[5]) == moved[k]
        assert row[6] == f"{selection.q_value[k]:.4g}"
    assert cells_of(tmp_path / "o.csv")[1][0].startswith("=")
    n = int((~selection.clean_mask).sum())
    assert (made.relabelled, made.dropped) == (moved.sum(), n - moved.sum())


def test_a_failed_export_leaves_no_list_of_changes(tmp_path, run_of, names):
    table = pa.table({"f0": np.arange(N) / 2, "odd": [[1.0]] * N, "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    with pytest.raises(InputError, match="cannot hold the lists"):
        export_run(run.folder, tmp_path / "o.csv", None, "drop")
    assert not list(tmp_path.glob("*o.csv*"))


@pytest.mark.parametrize(
    ("column", "out", "complaint"),
    [
        (pa.array([[1.0]] * N), "o.csv", "A CSV file cannot hold the lists or structs of column"),
        (pa.array([b"x"] * N), "o.csv", "A CSV file cannot hold the bytes of column 'odd'"),
        (pa.array([b"x"] * N, pa.large_binary()), "o.jsonl", "JSON cannot hold the bytes"),
        (pa.array([{"bytes": b"x"}] * N), "o.jsonl", "JSON cannot hold the bytes of column 'odd'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path, run_of, names, column, out, complaint):
    table = pa.table({"f0": np.arange(N) / 2, "odd": column, "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    with pytest.raises(InputError, match=complaint):
        export_run(run.folder, tmp_path / out, None, "keep")
    assert not (tmp_path / out).exists()
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    assert pq.read_table(tmp_path / "o.parquet")["odd"].to_pylist() == column.to_pylist()


def test_a_pandas_frame_comes_back_with_its_index(tmp_path, run_of, names):
    import pandas as pd

    frame = pd.DataFrame(
        {"f0": np.arange(N) / 3, "label": names}, index=[f"i{k}" for k in range(N)]
    )
    frame.to_parquet(tmp_path / "x.parquet")
    run = run_of(tmp_path / "x.parquet", ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.parquet", None, "drop")
    found = pd.read_parquet(tmp_path / "o.parquet")
    pd.testing.assert_frame_equal(found[["f0", "label"]], frame.iloc[run.selection.clean_indices])


def test_nan_is_not_missing(tmp_path, run_of, names):
    table = pa.table({"f0": [math.nan, None] * (N // 2), "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert [row[0] for row in cells_of(tmp_path / "o.csv")[1:3]] == ["nan", ""]


@pytest.mark.parametrize("suspects", ["drop", "relabel", "keep"])
def test_what_a_person_has_checked_is_written_as_it_was_found(
    tmp_path, run_of, names, true_names, suspects
):
    """Right and wrong labels, one row of no class, and one that nobody can tell."""
    run = run_of(write_csv(tmp_path / "x.csv", ",", text_rows(names)), ReadOptions(features="f*"))
    rows = run.selection.draw_checks(40)
    wrong = [int(row) for row in rows if names[row] != true_names[row]]
    assert wrong
    truth = {int(row): true_names[row] for row in rows}
    no_class, unknown = [int(row) for row in rows if int(row) not in wrong][:2]
    truth |= {no_class: "-", unknown: "?"}
    lines = [f"{row},{answer}" for row, answer in truth.items()]
    (tmp_path / "a.csv").write_text("\n".join(["row,true_label", *lines]))
    verify_run(run.folder, tmp_path / "a.csv", "chosen")
    made = export_run(run.folder, tmp_path / "o.csv", None, suspects)
    header, *found = cells_of(tmp_path / "o.csv")
    place = header.index("kspr_row")
    written = {int(row[place]): row[5].strip() for row in found}
    for row, answer in truth.items():
        if row not in (no_class, unknown):
            assert written[row] == answer
        elif suspects == "keep":
            assert written[row] == names[row]
        else:
            assert row not in written
    assert made.relabelled >= len(wrong)
    listed = {int(row[0]): row for row in cells_of(made.changes)[1:]}
    for row in wrong:
        expected = ["relabelled", names[row], true_names[row], "checked by a person"]
        assert listed[row][2:6] == expected
    if suspects != "keep":
        assert "nobody can tell" in listed[unknown][5]


def test_a_list_that_a_killed_export_left_is_replaced_and_no_other_file_is(tmp_path, run_of, names):
    table = pa.table({"f0": np.arange(N) / 2, "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    made = export_run(run.folder, tmp_path / "o.csv", None, "drop")
    whole = made.changes.read_bytes()
    made.out.unlink()
    made.changes.write_bytes(whole[:60])
    assert export_run(run.folder, tmp_path / "o.csv", None, "drop").changes.read_bytes() == whole
    made.out.unlink()
    made.changes.write_text("my own notes\n")
    with pytest.raises(InputError, match=r"o\.csv\.changes\.csv already exists"):
        export_run(run.folder, tmp_path / "o.csv", None, "drop")
    assert made.changes.read_text() == "my own notes\n"


def test_reviewed_changes_what_people_answered_and_nothing_else(tmp_path, run_of, names, typed):
    run = run_of(parquet(typed, tmp_path / "x.pq"), ReadOptions(features="f*"))
    with pytest.raises(InputError, match="has no answers that could be written"):
        export_run(run.folder, tmp_path / "none.csv", None, "reviewed")
    log = ReviewLog(run.folder, run.selection.manifest.fingerprint)
    other = "dog" if names[0] != "dog" else "cat"
    log.append("anna", "fix", {0: other, 1: "-", 2: str(names[2])})
    log.close()
    made = export_run(run.folder, tmp_path / "o.csv", None, "reviewed")
    assert (made.rows, made.relabelled, made.dropped) == (N - 1, 1, 1)
    header, *found = cells_of(tmp_path / "o.csv")
    row, given = (header.index(name) for name in ("kspr_row", "kspr_given_label"))
    codes = {cells[row]: cells[header.index("label")] for cells in found}
    assert "1" not in codes
    assert codes["0"] == str(["cat", "dog", "otter"].index(other))
    assert [cells[given] for cells in found] == [str(n) for n in np.delete(names, 1)]
