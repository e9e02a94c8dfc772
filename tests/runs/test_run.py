"""A run on disk: saved and loaded unchanged, and its source found again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr._files import read_json, write_json, write_sealed
from kspr.errors import InputError, UnreadableItemError
from kspr.runs import storage
from kspr.runs.run import load_run, save_run
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

N = 60


@pytest.fixture
def table(tmp_path, features, names) -> Path:
    columns = {f"f{i}": features[:, i] for i in range(4)}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({**columns, "note": [f"n{i}" for i in range(N)], "label": names}), path)
    return path


def test_what_is_saved_is_loaded(run_of, table):
    made = run_of(table, ReadOptions(label="label", features="f*"))
    found = load_run(made.folder)
    np.testing.assert_array_equal(found.row, made.row)
    np.testing.assert_array_equal(found.row_id, made.row_id)
    np.testing.assert_array_equal(found.selection.clean_mask, made.selection.clean_mask)
    assert found.origin == made.origin
    np.testing.assert_array_equal(found.rows.digest, made.rows.digest)
    assert found.rows.named is made.rows.named
    assert found.origin.read_options() == ReadOptions(label="label", features="f*")
    assert found.origin.command_line() == f"kspr select {table}"


def test_features_are_those_of_the_runs_rows(run_of, table, features):
    np.testing.assert_array_equal(run_of(table).features(), features)
    # The rows of the selection stand for others of the source here.
    some = np.sort(np.random.default_rng(0).permutation(N))
    np.testing.assert_array_equal(run_of(table, row=some).features(), features[some])


def test_features_of_some_rows_are_chosen_by_row_number(run_of, table, features, names):
    from kspr import KnockoffsSPR

    some = np.arange(3, N)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    np.testing.assert_array_equal(run_of(table, made=made, row=some).features(), features[3:])


def test_items_are_those_of_the_runs_rows(run_of, table, features, names):
    from kspr import KnockoffsSPR

    some = np.flatnonzero(np.arange(N) % 5 != 2)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    items = run_of(table, ReadOptions(text="note"), made, some).items()
    assert items.kind == "text"
    assert len(items) == len(some)
    assert [items[k] for k in range(len(some))] == [f"n{i}" for i in some]
    assert list(items.content()) == [f"n{i}".encode() for i in some]
    assert run_of(table).items() is None


def test_stored_features_serve_a_run_of_items(run_of, table, features, tmp_path):
    made = run_of(table, ReadOptions(text="note"))
    assert made.features() is None
    np.save(tmp_path / "features.npy", features)
    about = {"fingerprint": "abc", "rows": len(features), "unreadable": {}}
    about |= {"embedder": "e", "image_size": None, "max_pixels": None}
    write_json(tmp_path / "embedding.json", about)
    origin = replace(made.origin, embedding=str(tmp_path), fingerprint="abc")
    found = save_run(made.folder, made.selection, made.rows, origin, overwrite=True)
    np.testing.assert_array_equal(found.features(), features)
    # Other items may have been embedded into the same folder since.
    write_json(tmp_path / "embedding.json", {**about, "fingerprint": "other"})
    assert found.features() is None
    write_json(tmp_path / "embedding.json", about)
    np.save(tmp_path / "features.npy", features[:-1])
    assert found.features() is None


def test_a_source_that_is_gone_has_neither_features_nor_items(run_of, table):
    made = run_of(table)
    table.unlink()
    assert made.features() is None
    assert made.items() is None
    for ask in (made.records, made.table):
        with pytest.raises(InputError, match="does not exist"):
            ask()


def test_items_that_are_gone_are_unreadable_and_the_others_stay(run_of, table):
    made = run_of(table, ReadOptions(text="note"))
    whole = pq.read_table(table)
    pq.write_table(pa.concat_tables([whole.slice(0, 5), whole.slice(6)]), table)
    items = made.items()
    assert [items[k] for k in range(N) if k != 5] == [f"n{k}" for k in range(N) if k != 5]
    with pytest.raises(UnreadableItemError, match="has changed since the run was made"):
        items[5]
    assert made.notes() == (f"1 row of the run is gone from, or changed in, {table}: '5'.",)


def test_features_of_a_source_that_has_lost_rows_are_gone(run_of, table):
    made = run_of(table)
    pq.write_table(pq.read_table(table).slice(0, N - 1), table)
    assert made.features() is None


@pytest.mark.parametrize("named", [True, False])
def test_a_forged_source_shows_nothing(tmp_path, run_of, names, named):
    """A run from somebody else may name any file; only texts that its author knew are shown."""
    public, private = tmp_path / "public.csv", tmp_path / "private.csv"
    for path, word in ((public, "harmless"), (private, "secret")):
        lines = [f"id{k},{word} {k},{name}" for k, name in enumerate(names)]
        # One text is the same in both files.
        lines[7] = f"id7,known,{names[7]}"
        head = "id,text,label" if named else "number,text,label"
        path.write_text("\n".join([head, *lines]))
    made = run_of(public, ReadOptions(text="text"))
    origin = replace(made.origin, source=str(private))
    forged = save_run(made.folder, made.selection, made.rows, origin, overwrite=True)
    items = load_run(forged.folder).items()
    assert items[7] == "known"
    for k in (k for k in range(N) if k != 7):
        for show in (items.__getitem__, items.stored):
            with pytest.raises(UnreadableItemError, match="has changed"):
                show(k)


def test_the_source_is_read_once(run_of, table, monkeypatch):
    made, opened = run_of(table, ReadOptions(text="note")), []
    monkeypatch.setattr(
        "kspr.runs.run.open_source", lambda *asked: opened.append(asked) or open_source(*asked)
    )
    made.items()
    made.features()
    made.records()
    assert len(opened) == 1


def test_a_folder_is_never_written_over_by_accident(run_of, table, tmp_path):
    made = run_of(table)
    args = (made.selection, made.rows, made.origin)
    with pytest.raises(InputError, match="already holds a run"):
        save_run(made.folder, *args, overwrite=False)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is not a run of kspr"):
        save_run(tmp_path / "mine", *args, overwrite=True)


FILES = ("run.json", "rows.parquet", "manifest.json", "samples.parquet", "cut_groups.parquet")


@pytest.mark.parametrize("file", [*FILES, "noise.parquet"])
def test_a_damaged_run_is_one_sentence(run_of, table, file):
    """Every file is cut, flipped, emptied and filled with what is not UTF-8, in many ways."""
    path = run_of(table).folder / file
    whole, rng = path.read_bytes(), np.random.default_rng(len(file))
    cut = [whole[:k] for k in (0, 1, *rng.integers(2, len(whole), 8).tolist())]
    flipped = [
        whole[:k] + bytes([whole[k] ^ (1 << k % 8)]) + whole[k + 1 :]
        for k in rng.integers(0, len(whole), 20).tolist()
    ]
    other = [b"\xff\xfe" + whole, whole + b"\n{}", b"{}", b"[]", b"null", b"PAR1PAR1", b"[" * 9999]
    for damaged in (*cut, *flipped, *other):
        path.write_bytes(damaged)
        with pytest.raises(InputError) as caught:
            load_run(path.parent)
        assert "\n" not in str(caught.value)
        assert str(path.parent) in str(caught.value)
    path.unlink()
    with pytest.raises(InputError, match=r"is missing|is not a run of kspr|is not a saved sele"):
        load_run(path.parent)
    path.write_bytes(whole)
    assert len(load_run(path.parent).rows) == N


def resealed(folder, file, content, *beside):
    """Write a document with checksums that hold, as another program might."""
    write_sealed(folder / file, content, *beside)
    if file == "manifest.json":
        about = read_json(folder / "run.json")
        resealed(folder, "run.json", without_sums(about), "rows.parquet", "manifest.json")


def without_sums(about):
    return {k: v for k, v in about.items() if not k.startswith("checksum")}


def spoiled(about):
    """Yield documents in which one key is missing or has a value of another type, at any depth."""
    for key, value in about.items():
        yield {k: v for k, v in about.items() if k != key}
        for wrong in (None, 7, "x", [None], {"a": 1}):
            if type(wrong) is not type(value):
                yield {**about, key: wrong}
        if isinstance(value, dict):
            yield from ({**about, key: inner} for inner in spoiled(value))


@pytest.mark.parametrize("file", ["run.json", "manifest.json"])
def test_a_document_of_another_shape_is_one_sentence_or_harmless(run_of, table, file, monkeypatch):
    """Checksums hold here: either the run is refused, or everything that uses it still works."""
    # Hundreds of small files: nothing of this has to survive a loss of power.
    monkeypatch.setattr("os.fsync", lambda _: None)
    folder = run_of(table).folder
    about = without_sums(read_json(folder / file))
    beside = ("samples.parquet", "cut_groups.parquet", "noise.parquet")
    beside = beside if file == "manifest.json" else ("rows.parquet", "manifest.json")
    refused = 0
    for spoilt in spoiled(about):
        resealed(folder, file, spoilt, *beside)
        try:
            found = load_run(folder)
        except InputError:
            refused += 1
        else:
            assert len(found.selection) == len(found.rows) == N
            assert str(found.selection.summary())
            found.origin.read_options()
            found.origin.command_line()
    assert refused > 10


@pytest.mark.parametrize("file", ["rows.parquet", "samples.parquet", "cut_groups.parquet"])
def test_a_table_of_another_shape_is_one_sentence(run_of, table, file):
    folder = run_of(table).folder
    whole = pq.read_table(folder / file)
    about = {name: without_sums(read_json(folder / name)) for name in ("manifest.json", "run.json")}
    changed = {"shorter": whole.slice(1), "empty": whole.slice(0, 0)}
    for k, name in enumerate(whole.column_names):
        if name not in storage._OPTIONAL:
            changed[f"without {name}"] = whole.drop_columns([name])
        gap = pa.array([None] * len(whole), whole[name].type)
        changed[f"gaps in {name}"] = whole.set_column(k, name, gap)
        other = pa.array([[1]] * len(whole))
        changed[f"lists in {name}"] = whole.set_column(k, name, other)
    for what, spoilt in changed.items():
        if file == "cut_groups.parquet" and what == "shorter" and len(whole) == 1:
            continue
        pq.write_table(spoilt, folder / file)
        beside = ("samples.parquet", "cut_groups.parquet", "noise.parquet")
        write_sealed(folder / "manifest.json", about["manifest.json"], *beside)
        write_sealed(folder / "run.json", about["run.json"], "rows.parquet", "manifest.json")
        with pytest.raises(InputError) as caught:
            load_run(folder)
        assert "\n" not in str(caught.value), what


def test_a_seal_does_not_lead_out_of_the_run(run_of, table):
    folder = run_of(table).folder
    about = without_sums(read_json(folder / "run.json"))
    write_sealed(folder / "run.json", about, "rows.parquet", "manifest.json", f"../{table.name}")
    with pytest.raises(InputError, match="is missing"):
        load_run(folder)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a run of kspr\. Make one with `kspr select`"):
        load_run(tmp_path)


def test_damaged_pages_of_sealed_rows_are_one_sentence(run_of, table):
    folder = run_of(table).folder
    about = without_sums(read_json(folder / "run.json"))
    whole = (folder / "rows.parquet").read_bytes()
    (folder / "rows.parquet").write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    write_sealed(folder / "run.json", about, "rows.parquet", "manifest.json")
    with pytest.raises(InputError, match="cannot be read as a run"):
        load_run(folder)


def test_no_address_is_opened_because_a_run_names_it(run_of, table):
    fsspec = pytest.importorskip("fsspec")
    address = Path("memory://runs/x.parquet")
    fsspec.filesystem("memory").pipe("/runs/x.parquet", table.read_bytes())
    made = run_of(table)
    about = read_json(made.folder / "run.json")
    about = {k: v for k, v in about.items() if not k.startswith("checksum")}
    about["source"] = "memory://runs/x.parquet"
    write_sealed(made.folder / "run.json", about, "rows.parquet", "manifest.json")
    found = load_run(made.folder)
    for read in (found.records, found.table):
        with pytest.raises(InputError, match=r"pass --source memory://runs/x\.parquet\.$"):
            read()
    assert found.features() is None
    asked = load_run(made.folder, address)
    np.testing.assert_array_equal(asked.features(), made.features())
    labels = replace(found.origin, source=str(table), options={"labels": "memory://runs/y.csv"})
    with pytest.raises(InputError, match="no address is opened"):
        replace(found, origin=labels).records()


def test_a_run_keeps_the_rows_that_it_was_loaded_with(run_of, table, names):
    """Whatever takes the place of its files."""
    run_of(table)
    run = load_run(run_of(table).folder)
    pq.write_table(pq.read_table(table).append_column("uid", [[f"o{k}" for k in range(N)]]), table)
    made = run_of(table)
    assert made.row_id[0] == "o0"
    assert run.row_id[0] != "o0"
    np.testing.assert_array_equal(run.row, made.row)
