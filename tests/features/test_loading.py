"""Opening a source and getting its features: as they are, or embedded once."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.features.loading import (
    Loaded,
    cache_folder,
    check_labels,
    check_rows_alone,
    embed_source,
    load,
    options_for_test,
    stored_features,
)
from kspr.sources.options import AS_FOUND, AS_SHIPPED, EmbedSettings, ReadOptions, with_encoder
from kspr.sources.records import row_digests

OWN = EmbedSettings(embedder="lengths_of_texts:embed")
CODE = """
import numpy as np
def embed(texts):
    with open("seen.txt", "a") as log:
        log.write(f"{len(texts)}\\n")
    return np.array([[len(t), ord(t[0])] for t in texts], dtype=float)
"""


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Five texts, of which the one in row 2 cannot be decoded; the place is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "lengths_of_texts.py").write_text(CODE)
    import pyarrow as pa

    column = pa.array([b"a", b"bb", b"\xff", b"dddd", b"eeeee"]).view(pa.string())
    columns = {"text": column, "label": list("xyxyx"), "truth": list("xxxyy")}
    pq.write_table(pa.table({"id": list("abcde"), **columns}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_features_are_taken_as_they_are(tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    np.savez(tmp_path / "x.npz", X=X, y=[0, 1] * 3, y_true=[0, 0, 1] * 2)
    found = load(tmp_path / "x.npz", AS_FOUND, AS_SHIPPED)
    np.testing.assert_array_equal(found.features, X)
    assert found.row.tolist() == list(range(6))
    assert found.label.tolist() == [0, 1] * 3
    assert found.truth.tolist() == [0, 0, 1] * 2
    assert (found.folder, found.unreadable) == (None, 0)


def test_items_that_cannot_be_read_are_left_out_everywhere(texts):
    found = load(texts, ReadOptions(id="id"), OWN)
    assert found.features.tolist() == [[1, 97], [2, 98], [4, 100], [5, 101]]
    assert found.row.tolist() == [0, 1, 3, 4]
    assert found.row_id.tolist() == list("abde")
    assert found.label.tolist() == list("xyyx")
    assert found.truth.tolist() == list("xxyy")
    assert found.unreadable == 1
    assert len(found.records) == 5


def test_items_are_embedded_once(texts, tmp_path):
    first, second = (load(texts, AS_FOUND, OWN) for _ in range(2))
    assert (tmp_path / "seen.txt").read_text() == "4\n"
    assert first.folder == second.folder == cache_folder(texts, OWN)
    found = stored_features(first.folder, first.fingerprint, first.row)
    np.testing.assert_array_equal(found, second.features)
    np.testing.assert_array_equal(first.digest, second.digest)
    np.testing.assert_array_equal(first.digest, row_digests(first.records)[first.row])


def test_stored_features_are_those_of_the_same_items_only(texts):
    made = load(texts, AS_FOUND, OWN)
    assert stored_features(made.folder.parent, made.fingerprint, made.row) is None
    assert stored_features(made.folder, "other", made.row) is None
    (made.folder / "features.npy").write_bytes(b"")
    assert stored_features(made.folder, made.fingerprint, made.row) is None


def test_labels_are_checked_before_anything_is_embedded(texts, tmp_path):
    with pytest.raises(InputError, match="All 5 labels are distinct"):
        load(texts, ReadOptions(label="id"), OWN, labelled=True)
    (tmp_path / "u.csv").write_text("text\none\ntwo\n")
    with pytest.raises(
        InputError, match=r"u.csv has no labels that could be found.*Its columns: 'text'"
    ):
        load(tmp_path / "u.csv", AS_FOUND, OWN, labelled=True)
    assert not (tmp_path / "seen.txt").exists()
    found = load(tmp_path / "u.csv", AS_FOUND, OWN)
    with pytest.raises(InputError, match="no labels that could be found"):
        _ = found.label


def test_one_label_alone_is_no_mistake():
    check_labels(np.array(["a"]))
    check_labels(np.array(["a", "a"]))


def test_the_cache_depends_on_what_changes_the_features(tmp_path):
    own = cache_folder(tmp_path, AS_SHIPPED)
    assert cache_folder(tmp_path, EmbedSettings(batch_size=7, strict=True)) == own
    others = [
        cache_folder(tmp_path, EmbedSettings(half=True)),
        cache_folder(tmp_path, EmbedSettings(image_size=64)),
        cache_folder(tmp_path, AS_SHIPPED, "test"),
        cache_folder(tmp_path / "x", AS_SHIPPED),
    ]
    assert len({own, *others}) == 5


def test_embedding_to_a_folder_keeps_rows_and_labels_together(texts, tmp_path):
    embed_source(texts, tmp_path / "f", options=AS_FOUND, settings=OWN, overwrite=False)
    rows = pq.read_table(tmp_path / "f" / "rows.parquet").to_pydict()
    assert rows == {
        "row": [0, 1, 3, 4],
        "id": list("abde"),
        "label": list("xyyx"),
        "truth": list("xxyy"),
    }
    assert np.load(tmp_path / "f" / "features.npy").shape == (4, 2)


def test_features_need_no_embedding(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(InputError, match="holds features already; there is nothing to embed"):
        embed_source(
            tmp_path / "x.npy",
            tmp_path / "f",
            options=AS_FOUND,
            settings=AS_SHIPPED,
            overwrite=False,
        )


def test_rows_without_a_label_are_embedded_and_left_out(texts, tmp_path):
    (tmp_path / "g.csv").write_text("text,label\na,x\nbb,\nccc,y\ndddd,x\n")
    with pytest.raises(InputError, match=r"has no label in row 1. Fill them in, or leave these"):
        load(tmp_path / "g.csv", AS_FOUND, OWN, labelled=True)
    found = load(tmp_path / "g.csv", ReadOptions(missing="drop"), OWN, labelled=True)
    assert found.features.tolist() == [[1, 97], [3, 99], [4, 100]]
    assert found.row.tolist() == [0, 2, 3]
    assert found.label.tolist() == list("xyx")
    assert found.records.notes[-1] == "1 of 4 rows has no label and is left out."
    stored = stored_features(found.folder, found.fingerprint, found.row)
    np.testing.assert_array_equal(stored, found.features)


def test_an_entry_without_meaning_is_never_a_label(tmp_path):
    (tmp_path / "g.csv").write_text("a,label\n1,x\n2,\n3,y\n")
    records = load(tmp_path / "g.csv", ReadOptions(missing="drop"), AS_SHIPPED).records
    everything = Loaded(records, records.features, np.arange(3))
    with pytest.raises(InputError, match="has no label in row 1"):
        _ = everything.label


def test_embedding_keeps_rows_without_a_label(texts, tmp_path):
    (tmp_path / "g.csv").write_text("text,label\na,1\nbb,\nccc,2\n")
    out = tmp_path / "f"
    embed_source(tmp_path / "g.csv", out, options=AS_FOUND, settings=OWN, overwrite=False)
    assert pq.read_table(out / "rows.parquet")["label"].to_pylist() == [1, None, 2]
    assert np.load(out / "features.npy").shape == (3, 2)


def test_nothing_is_embedded_where_features_are_not_needed(texts):
    found = load(texts, AS_FOUND, OWN, embed=False)
    assert found.features is None
    assert found.row.tolist() == [0, 1, 2, 3, 4]
    assert not (texts.parent / "seen.txt").exists()


def test_rows_without_a_label_are_left_out_of_the_probabilities(tmp_path):
    (tmp_path / "g.csv").write_text("p_x,p_y,label\n1,0,x\n0.5,0.5,\n0,1,y\n0.75,0.25,x\n")
    options = ReadOptions(probabilities="p_*", missing="drop")
    found = load(tmp_path / "g.csv", options, AS_SHIPPED, labelled=True, embed=False)
    assert found.features is None
    assert found.label.tolist() == list("xyx")
    assert found.probabilities.tolist() == [[1, 0], [0, 1], [0.75, 0.25]]
    assert len(found.digest) == 3


@pytest.mark.parametrize(
    "has", [(), ("truth",), ("p_x",), ("truth", "p_x"), ("g",), ("g", "p_x"), ("g", "truth", "p_x")]
)
def test_a_test_set_is_asked_only_for_what_it_has(tmp_path, has):
    options = ReadOptions(truth="truth", probabilities="p_*", groups="g", labels=tmp_path / "y.csv")
    header = ",".join(["f", "label", *has])
    (tmp_path / "t.csv").write_text(f"{header}\n{','.join('1' * (2 + len(has)))}\n")
    found = options_for_test(tmp_path / "t.csv", options)
    assert found.labels is None
    assert found.truth == ("truth" if "truth" in has else None)
    # Columns of probabilities and groups would become features if they were not named.
    assert found.probabilities == ("p_*" if "p_x" in has else None)
    assert found.groups == ("g" if "g" in has else None)


def test_a_file_of_probabilities_is_not_about_the_test_set(tmp_path):
    np.save(tmp_path / "p.npy", np.full((1, 2), 0.5))
    (tmp_path / "t.csv").write_text("f,label\n1,1\n")
    options = ReadOptions(probabilities=str(tmp_path / "p.npy"))
    assert options_for_test(tmp_path / "t.csv", options) == AS_FOUND


def test_what_depends_on_other_rows_is_refused_without_their_encoder(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n1,0\n,1\n3,0\n")
    mixed = load(tmp_path / "x.csv", AS_FOUND, AS_SHIPPED).records
    with pytest.raises(InputError, match=r"x.csv has gaps, dates or categories, and the rows"):
        check_rows_alone(mixed, AS_FOUND)
    check_rows_alone(mixed, with_encoder(AS_FOUND, mixed.encoder))
    plain = ReadOptions(features="y")
    check_rows_alone(load(tmp_path / "x.csv", plain, AS_SHIPPED).records, plain)


def test_features_that_look_like_chances_of_the_classes_are_named(tmp_path):
    """Whoever forgets --probabilities is told; whoever names the features is not."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(3), 60)
    label = np.array(["ant", "bee", "cow"])[np.arange(60) % 3]
    for X, told in ((chances, True), (2 * chances, False), (chances[:, :2], False)):
        np.savez(tmp_path / "d.npz", X=X, y=label)
        for options, asked in ((ReadOptions(), False), (ReadOptions(features="X"), True)):
            loaded = load(tmp_path / "d.npz", options, EmbedSettings(), labelled=True)
            found = any("look like class probabilities" in note for note in loaded.records.notes)
            assert found is (told and not asked)
