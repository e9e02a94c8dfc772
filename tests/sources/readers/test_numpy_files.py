"""NumPy files: arrays told by their names, mapped, never unpickled."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


def test_npy_is_mapped_and_keeps_its_type(tmp_path, features):
    np.save(tmp_path / "x.npy", features.astype(np.float16))
    found = open_source(tmp_path / "x.npy", ReadOptions())
    assert isinstance(found.features, np.memmap)
    assert found.features.dtype == np.float16
    assert found.label is None
    assert found.reader == "npy"
    assert found.row_id.tolist() == [str(i) for i in range(30)]


def test_npy_in_column_order_is_read_right(tmp_path, features):
    np.save(tmp_path / "x.npy", np.asfortranarray(features))
    np.testing.assert_array_equal(open_source(tmp_path / "x.npy", ReadOptions()).features, features)


def test_a_renamed_npz_is_not_an_npy(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", X=features)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    assert "x.npy is a zip archive" in refusal(tmp_path / "x.npy")


def test_a_truncated_npy_says_how_much_is_there(tmp_path, features, refusal):
    path = tmp_path / "x.npy"
    np.save(path, features)
    path.write_bytes(path.read_bytes()[:300])
    assert "x.npy is cut short: it has 300 of 608 bytes. Write" in refusal(path)


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.zeros(5), "must have two dimensions (rows, features), got shape (5,)"),
        (np.zeros((5, 2, 2)), "got shape (5, 2, 2)"),
        (np.zeros((0, 3)), "has no rows"),
        (np.zeros((3, 0)), "has no columns"),
        (np.array([["a", "b"]]), "must hold numbers, got <U1"),
    ],
)
def test_features_are_a_table_of_numbers(tmp_path, array, complaint, refusal):
    np.save(tmp_path / "x.npy", array)
    assert complaint in refusal(tmp_path / "x.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_arrays_are_found_by_usual_names(tmp_path, features, names, save):
    save(tmp_path / "x.npz", embeddings=features, labels=names, y_true=names[::-1])
    found = open_source(tmp_path / "x.npz", ReadOptions())
    np.testing.assert_array_equal(found.features, features)
    np.testing.assert_array_equal(found.label, names)
    np.testing.assert_array_equal(found.truth, names[::-1])


def test_npz_arrays_can_be_named(tmp_path, features, names):
    np.savez(tmp_path / "x.npz", a=features, b=features + 1, c=names, d=np.arange(30) * 2)
    found = open_source(tmp_path / "x.npz", ReadOptions(features="b", label="c", id="d"))
    np.testing.assert_array_equal(found.features, features + 1)
    np.testing.assert_array_equal(found.label, names)
    assert found.row_id.tolist()[:3] == ["0", "2", "4"]


def test_labels_come_from_the_split_of_the_features(tmp_path, features):
    arrays = {"X_train": features, "y_train": np.zeros(30, int)}
    arrays |= {"X_test": features + 1, "y_test": np.ones(30, int)}
    np.savez(tmp_path / "x.npz", **arrays)
    assert open_source(tmp_path / "x.npz", ReadOptions()).label.tolist() == [0] * 30
    assert (
        open_source(tmp_path / "x.npz", ReadOptions(features="X_test")).label.tolist() == [1] * 30
    )


def test_an_unused_pickle_in_an_npz_is_left_alone(tmp_path, features):
    np.savez(tmp_path / "x.npz", X=features, notes=np.array([{"a": 1}], dtype=object))
    assert len(open_source(tmp_path / "x.npz", ReadOptions())) == 30


def test_an_array_that_could_be_anything_is_a_question(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", a=features, b=features)
    assert refusal(tmp_path / "x.npz").endswith(
        "x.npz holds the arrays 'a' (30, 4), 'b' (30, 4). Say which are the features with "
        "--features."
    )


def test_a_wrong_array_name_is_answered_with_near_ones(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", embeddings=features)
    message = refusal(tmp_path / "x.npz", features="embedings")
    assert message.endswith("has no array 'embedings'. Did you mean 'embeddings'?")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".arrow", ".feather"])
def test_no_suffix_makes_a_pickle_run(tmp_path, suffix, refusal):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(pickle.dumps(Bomb()))
    assert f"x{suffix} is a pickle, not " in refusal(path)


def test_object_arrays_are_refused(tmp_path, features, refusal):
    bombs = np.array([[Bomb(), Bomb()]], dtype=object)
    np.save(tmp_path / "x.npy", bombs)
    np.savez(tmp_path / "x.npz", X=bombs)
    assert "x.npy holds Python objects, that is, a pickle" in refusal(tmp_path / "x.npy")
    message = refusal(tmp_path / "x.npz")
    assert message.startswith("Array 'X' of ")
    assert "holds Python objects, that is, a pickle" in message


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_npz_is_damaged(tmp_path, features, share, refusal):
    path = tmp_path / "x.npz"
    np.savez(path, X=features)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert "x.npz cannot be read as an npz archive; it may be cut short" in refusal(path)


def test_a_corrupt_member_is_damaged(tmp_path, refusal):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).standard_normal((200, 4)))
    content = bytearray(path.read_bytes())
    content[2000:2100] = bytes(100)
    path.write_bytes(content)
    assert "x.npz cannot be read as an npz archive" in refusal(path)


def test_labels_of_another_length_are_refused(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", X=features, y=np.arange(28))
    assert refusal(tmp_path / "x.npz").endswith("x.npz has 30 rows but array 'y' has 28 labels.")


def test_a_header_that_claims_more_than_its_member_holds_is_refused(tmp_path):
    """Mapped by its header alone, the array would run into the bytes of the next member."""
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in (("X", np.zeros((20, 4))), ("y", np.arange(20))):
            file = io.BytesIO()
            np.save(file, array)
            # Of the same length: only the number of rows is false.
            archive.writestr(f"{name}.npy", file.getvalue().replace(b"(20, 4), }", b"(32, 4), }"))
    with pytest.raises(InputError, match=r"Array 'X' of .* is cut short: it has \d+ of \d+ bytes"):
        open_source(path, ReadOptions())


def test_probabilities_are_one_array_beside_the_features(tmp_path, features, refusal):
    P = np.full((len(features), 2), 0.5)
    np.savez(tmp_path / "x.npz", X=features, P=P, y=np.arange(len(features)) % 2)
    found = open_source(tmp_path / "x.npz", ReadOptions(probabilities="P"))
    np.testing.assert_array_equal(found.probabilities, P)
    np.testing.assert_array_equal(found.features, features)
    np.savez(tmp_path / "p.npz", P=P, y=np.arange(len(features)) % 2)
    alone = open_source(tmp_path / "p.npz", ReadOptions(probabilities="P"))
    assert alone.features is None
    assert len(alone) == len(features)
    np.savez(tmp_path / "s.npz", X=features, P=P[:3])
    assert "has 3 rows but array 'X' has" in refusal(tmp_path / "s.npz", probabilities="P")


def test_an_array_of_groups_is_named(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3), y=["a", "b", "a"], patient=[7, 8, 7])
    found = open_source(tmp_path / "x.npz", ReadOptions(groups="patient"))
    assert found.groups.tolist() == [7, 8, 7]
    with pytest.raises(InputError, match="no array 'person'"):
        open_source(tmp_path / "x.npz", ReadOptions(groups="person"))
