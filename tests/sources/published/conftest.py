"""Small data sets in exactly the published layouts."""

import pickle
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE


def python2(value) -> bytes:
    """Return `value` as Python 2 pickled it with protocol 2: strings are byte strings."""
    return b"\x80\x02" + _python2(value) + b"."


def _python2(value) -> bytes:
    match value:
        case bytes():
            size = len(value)
            return (b"U" + bytes([size]) if size < 256 else b"T" + struct.pack("<i", size)) + value
        case int():
            return b"J" + struct.pack("<i", value)
        case list():
            return b"](" + b"".join(map(_python2, value)) + b"e"
        case dict():
            return b"}(" + b"".join(_python2(k) + _python2(v) for k, v in value.items()) + b"u"
        case np.ndarray():
            return _python2_array(value)
    raise TypeError(type(value))


def _python2_array(array) -> bytes:
    code = array.dtype.str[1:].encode()
    order = array.dtype.str[:1].encode()
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\n" + _python2(code) + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + _python2(order) + b"NNN" + _python2(-1) * 2 + b"K\x00tb"
    shape = b"(" + b"".join(map(_python2, array.shape)) + b"t"
    return made + b"(K\x01" + shape + dtype + b"\x89" + _python2(array.tobytes()) + b"tb"


def python3(value) -> bytes:
    """Return `value` as Python 3 pickles it with protocol 2: byte strings go through `_codecs`."""
    return pickle.dumps(value, protocol=2)


@pytest.fixture(params=[python2, python3], ids=["python2", "python3"])
def dump(request):
    return request.param


def batches(n_classes, rows, seed=0):
    """Return images and labels in six parts, the last for the test."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (6, rows, 3072), dtype=np.uint8)
    return pixels, rng.integers(0, n_classes, (6, rows))


@pytest.fixture
def cifar10(tmp_path):
    """Write both versions, four images a batch; return the folders and what they hold."""
    pixels, labels = batches(10, rows=4)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]

    def write_python(dump=python2, folder=tmp_path / "cifar-10-batches-py"):
        folder.mkdir(exist_ok=True)
        for name, images, y in zip(names, pixels, labels, strict=True):
            content = {
                b"batch_label": name.encode(),
                b"labels": y.tolist(),
                b"data": images,
                b"filenames": [b"some_image_s_%06d.png" % i for i in range(len(y))],
            }
            (folder / name).write_bytes(dump(content))
        meta = {b"label_names": [c.encode() for c in CIFAR10], b"num_vis": 3072}
        (folder / "batches.meta").write_bytes(dump(meta))
        return folder

    def write_binary():
        folder = tmp_path / "cifar-10-batches-bin"
        folder.mkdir()
        for name, images, y in zip(names, pixels, labels, strict=True):
            np.c_[y.astype(np.uint8), images].tofile(folder / f"{name}.bin")
        (folder / "batches.meta.txt").write_text("\n".join(CIFAR10) + "\n\n")
        return folder

    return SimpleNamespace(
        python=write_python, binary=write_binary, pixels=pixels, labels=labels, root=tmp_path
    )


@pytest.fixture
def cifar100(tmp_path):
    """Write both versions, 12 training and 4 test images."""
    pixels, fine = batches(100, rows=4)
    coarse = fine // 5
    parts = {"train": (pixels[:3], fine[:3], coarse[:3]), "test": (pixels[3], fine[3], coarse[3])}
    parts = {
        name: (images.reshape(-1, 3072), y.ravel(), c.ravel())
        for name, (images, y, c) in parts.items()
    }

    def write_python(dump=python2):
        folder = tmp_path / "cifar-100-python"
        folder.mkdir()
        for name, (images, y, c) in parts.items():
            content = {b"fine_labels": y.tolist(), b"coarse_labels": c.tolist(), b"data": images}
            (folder / name).write_bytes(dump(content))
        meta = {
            b"fine_label_names": [c.encode() for c in CIFAR100],
            b"coarse_label_names": [c.encode() for c in CIFAR100_COARSE],
        }
        (folder / "meta").write_bytes(dump(meta))
        return folder

    def write_binary():
        folder = tmp_path / "cifar-100-binary"
        folder.mkdir()
        for name, (images, y, c) in parts.items():
            np.c_[c.astype(np.uint8), y.astype(np.uint8), images].tofile(folder / f"{name}.bin")
        (folder / "fine_label_names.txt").write_text("\n".join(CIFAR100) + "\n")
        (folder / "coarse_label_names.txt").write_text("\n".join(CIFAR100_COARSE) + "\n")
        return folder

    return SimpleNamespace(python=write_python, binary=write_binary, parts=parts)


def write_image(path, shade):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 3), shade).save(path, "JPEG")


@pytest.fixture
def image():
    return write_image


SYNSETS = {f"n{1440764 + i:08d}": f"thing {i}, other name of {i}" for i in range(60)}


@pytest.fixture
def webvision(tmp_path):
    """Write 60 classes: two training images for each of some, one validation image."""
    root = tmp_path / "webvision"
    (root / "info").mkdir(parents=True)
    (root / "info/synsets.txt").write_text("".join(f"{n} {w}\n" for n, w in SYNSETS.items()))
    train = [(f"google/q{c:04d}/image {i}.jpg", c) for c in (0, 1, 49, 50, 59) for i in range(2)]
    val = [(f"val{c:06d}.jpg", c) for c in (59, 0, 49)]
    (root / "info/train_filelist_google.txt").write_text("".join(f"{p} {c}\n" for p, c in train))
    (root / "info/val_filelist.txt").write_text("".join(f"{p} {c}\n" for p, c in val))
    for path, c in train:
        write_image(root / path, c)
    for path, c in val:
        write_image(root / "val_images_256" / path, c)
    return root


CLOTHES = [
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Down Coat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
]


@pytest.fixture
def clothing1m(tmp_path):
    """Write five noisy training images, and two of each clean split; one of these has both."""
    root = tmp_path / "clothing"
    noisy = {f"images/{i}/26/376132811{i},905362226{i}.jpg": i for i in range(5)}
    clean = {
        split: {f"images/9/{split}/{i},1.jpg": 13 - i for i in range(2)}
        for split in ("train", "val", "test")
    }
    both = {"images/9/test/0,1.jpg": 3}
    for key in [*noisy, *(key for keys in clean.values() for key in keys)]:
        write_image(root / key, 99)
    lines = {
        "category_names_eng.txt": CLOTHES,
        "noisy_train_key_list.txt": noisy,
        "noisy_label_kv.txt": [f"{k} {c}" for k, c in (noisy | both).items()],
        "clean_label_kv.txt": [f"{k} {c}" for keys in clean.values() for k, c in keys.items()],
        **{f"clean_{split}_key_list.txt": keys for split, keys in clean.items()},
    }
    for name, content in lines.items():
        (root / name).write_text("".join(f"{line}\n" for line in content))
    return root
