"""Pickles are read as data: what they name is never run."""

import io
import pickle
import pickletools
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.errors import InputError
from kspr.sources.published._cifar_files import load_npy, load_pickle, load_torch

ARRAYS = {
    "clean_label": np.arange(7),
    "worse_label": np.arange(7)[::-1].astype(">i4"),
    "table": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
    "lists": [1, 2, 3],
}


class Malicious:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        import os

        return os.system, (f"touch {self.marker}",)


def same(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_arrays_come_back_as_python_reads_them(tmp_path, dump):
    path = tmp_path / "data"
    content = {
        b"data": np.arange(6, dtype=np.uint8).reshape(2, 3),
        b"labels": [3, 1],
        b"batch_label": b"training batch 1 of 5",
        b"wide": np.array([1, 300], "<i8"),
    }
    path.write_bytes(dump(content))
    if dump.__name__ == "python2":
        assert path.read_bytes()[:2] == b"\x80\x02"
        assert any(op.name == "SHORT_BINSTRING" for op, *_ in pickletools.genops(dump(content)))
    found = load_pickle(path, "an archive")
    same(found, {key.decode(): value for key, value in content.items()})
    assert found["data"].dtype == np.uint8


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_every_protocol_of_the_time_is_read(tmp_path, protocol):
    path = tmp_path / "data"
    path.write_bytes(pickle.dumps(ARRAYS, protocol))
    same(load_pickle(path, "an archive"), ARRAYS)


def test_names_of_old_and_new_numpy_are_read(tmp_path):
    for old, new in [(b"numpy._core.multi", b"numpy.core.multi"), (b"x", b"x")]:
        path = tmp_path / "data"
        path.write_bytes(pickle.dumps(ARRAYS, 2).replace(old, new))
        same(load_pickle(path, "an archive"), ARRAYS)


@pytest.mark.parametrize("zipped", [True, False])
def test_files_by_torch_are_read_without_torch(tmp_path, zipped):
    torch = pytest.importorskip("torch")
    path = tmp_path / "CIFAR-10_human.pt"
    torch.save(ARRAYS, path, _use_new_zipfile_serialization=zipped)
    same(load_torch(path, "an archive"), ARRAYS)


def test_a_zip_made_by_hand_is_read(tmp_path):
    path = tmp_path / "CIFAR-10_human.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("CIFAR-10_human/data.pkl", pickle.dumps(ARRAYS, 2))
        archive.writestr("CIFAR-10_human/version", "3\n")
    same(load_torch(path, "an archive"), ARRAYS)


def test_a_dictionary_in_an_npy_file_is_read(tmp_path):
    np.save(tmp_path / "human.npy", ARRAYS, allow_pickle=True)
    same(load_npy(tmp_path / "human.npy", "an archive"), ARRAYS)
    np.save(tmp_path / "plain.npy", np.arange(3))
    np.testing.assert_array_equal(load_npy(tmp_path / "plain.npy", "an archive"), [0, 1, 2])


def wrapped(payload: bytes, form: str) -> bytes:
    stream = io.BytesIO()
    if form == "npy":
        header = {"descr": "|O", "fortran_order": False, "shape": ()}
        np.lib.format.write_array_header_1_0(stream, header)
        return stream.getvalue() + payload
    if form == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("archive/data.pkl", payload)
        return stream.getvalue()
    return payload


@pytest.mark.parametrize(
    ("form", "load"),
    [("plain", load_pickle), ("plain", load_torch), ("zip", load_torch), ("npy", load_npy)],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_something_is_refused_unrun(tmp_path, form, load, protocol):
    marker = tmp_path / "ran"
    path = tmp_path / "data_batch_1"
    hostile = pickle.dumps({"data": Malicious(marker)}, protocol)
    path.write_bytes(wrapped(hostile, form))
    with pytest.raises(InputError, match=r"wants to run (posix|nt)\.system .* nothing of it was"):
        load(path, "cifar-10-python.tar.gz")
    assert not marker.exists()


@pytest.mark.parametrize(
    "payload",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\ngetattr\n.",
        b"cnumpy\nload\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93.",
        b"(S'ls'\nios\nsystem\n.",
        b"cnumpy.core.multiarray\n_reconstruct.__globals__\n.",
    ],
)
def test_no_other_name_is_admitted(tmp_path, payload):
    path = tmp_path / "data"
    path.write_bytes(payload)
    with pytest.raises(InputError, match="wants to run"):
        load_pickle(path, "an archive")


def test_a_name_cannot_be_changed_by_a_pickle(tmp_path):
    """BUILD would set attributes on whatever a name stands for."""
    path = tmp_path / "data"
    path.write_bytes(b"\x80\x02cnumpy\ndtype\n}U\x05_makeK\x01sb.")
    with pytest.raises(InputError, match="damaged"):
        load_pickle(path, "an archive")
    path.write_bytes(pickle.dumps(ARRAYS, 2))
    same(load_pickle(path, "an archive"), ARRAYS)


def test_tensors_are_refused_in_one_sentence(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"clean_label": torch.arange(3)}, tmp_path / "labels.pt")
    with pytest.raises(InputError, match="torch"):
        load_torch(tmp_path / "labels.pt", "an archive")


def test_object_arrays_are_not_smuggled_in(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(pickle.dumps({"data": np.array(["a", "b"])}, 2))
    with pytest.raises(InputError, match="damaged"):
        load_pickle(path, "an archive")


def attempt(path, content: bytes):
    """Return what a file holds, or None where it is refused; any other error is a failure."""
    path.write_bytes(content)
    try:
        return load_pickle(path, "an archive")
    except InputError:
        return None


CONTENT = pickle.dumps(ARRAYS, 2)


@given(st.data())
def test_a_cut_or_broken_file_gives_one_sentence(tmp_path_factory, data):
    """Whole, the file is read; cut anywhere, it is refused; broken, nothing else comes out."""
    path = tmp_path_factory.getbasetemp() / "broken"
    same(attempt(path, CONTENT), ARRAYS)
    place = data.draw(st.integers(0, len(CONTENT) - 1))
    assert attempt(path, CONTENT[:place]) is None
    broken = bytearray(CONTENT)
    broken[place] ^= data.draw(st.integers(1, 255))
    attempt(path, bytes(broken))


def test_a_change_of_values_alone_is_still_read(tmp_path):
    """Bytes of numbers and of texts are data: no value of theirs makes a file be refused."""
    path = tmp_path / "data"
    numbers = ARRAYS["clean_label"].tobytes().decode("latin1").encode()
    starts = [CONTENT.index(numbers) + k for k in range(0, len(numbers), 8)]
    for start in starts:
        changed = bytearray(CONTENT)
        changed[start] ^= 0x10
        found = attempt(path, bytes(changed))
        assert found is not None
        assert (found["clean_label"] != ARRAYS["clean_label"]).sum() == 1
    renamed = attempt(path, CONTENT.replace(b"worse_label", b"WORSE_LABEL"))
    assert list(renamed) == ["clean_label", "WORSE_LABEL", "table", "lists"]
    # What follows the end of a pickle is not read.
    same(attempt(path, CONTENT + b"padding"), ARRAYS)


def test_a_fair_share_of_changed_bytes_is_survived(tmp_path):
    """One byte in the middle of its range, at every place: some change values, some structure."""
    path = tmp_path / "data"
    survived = 0
    for place in range(len(CONTENT)):
        changed = bytearray(CONTENT)
        changed[place] ^= 0x01
        survived += attempt(path, bytes(changed)) is not None
    assert 0.1 < survived / len(CONTENT) < 0.9


def test_an_oversized_member_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("kspr.sources.published._cifar_files._LARGEST", 100)
    path = tmp_path / "labels.pt"
    path.write_bytes(wrapped(pickle.dumps(ARRAYS, 2), "zip"))
    with pytest.raises(InputError, match="damaged"):
        load_torch(path, "an archive")


def test_a_few_bytes_cannot_ask_for_much_memory_or_time(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"\x80\x02}r\xff\xff\xff\xef.")  # Memo place 4026531839.
    assert load_pickle(path, "an archive") == {}
    nested = {"a": 1}
    for _ in range(60):
        nested = {"a": nested, "b": nested}
    path.write_bytes(pickle.dumps(nested, 2))
    assert list(load_pickle(path, "an archive")) == ["a", "b"]
