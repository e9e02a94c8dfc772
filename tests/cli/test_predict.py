"""`kspr predict`, as it is typed."""

import json
import shutil

import numpy as np
import pyarrow.csv
import pytest
from PIL import Image

from kspr.train import TrainSettings, fit
from tests.cli.commands import fails, run
from tests.train.digits import small_digits


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A file of digits with labels as text."""
    small = small_digits()
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    np.savez(path, X=small.X, y=np.array([f"digit-{k}" for k in range(10)])[small.y])
    return path


@pytest.fixture(scope="module")
def trained(source, tmp_path_factory):
    """The folder of a short run on these digits."""
    out = tmp_path_factory.mktemp("runs") / "run"
    data = np.load(source)
    settings = TrainSettings.from_preset("cpu", epochs=2, batch_size=32, selection={"q": 0.2})
    fit(data["X"], data["y"], settings=settings, out=out)
    return out


def test_a_file_gets_one_row_per_sample(trained, source, tmp_path, capsys):
    out = tmp_path / "predictions.csv"
    said = run("predict", trained, source, "--out", out, capsys=capsys)
    assert "300 predictions" in said
    message = fails("predict", trained, source, "--out", out, capsys=capsys)
    assert f"{out} already exists." in message
    found = pyarrow.csv.read_csv(out)
    assert found.column_names == ["id", "predicted", "confidence", "label"]
    assert set(found["predicted"].to_pylist()) <= {f"digit-{k}" for k in range(10)}


def test_without_a_file_the_first_rows_are_printed(trained, source, capsys):
    said = run("predict", trained, source, capsys=capsys).splitlines()
    assert "of the source's labels are predicted" in said[0]
    assert len(said) == 1 + 20 + 1
    assert said[-1] == "... 280 more; --out FILE writes all of them"


def test_ids_cannot_act_on_the_terminal(trained, source, tmp_path, capsys):
    data = np.load(source)
    ids = np.array([f"row {k}\x1b[2J\nall is well" for k in range(len(data["y"]))])
    np.savez(tmp_path / "d.npz", X=data["X"], y=data["y"], id=ids)
    said = run("predict", trained, tmp_path / "d.npz", "--id", "id", capsys=capsys)
    assert "row 0\\u001b[2J\\nall is well" in said
    assert len(said.splitlines()) == 1 + 20 + 1


def test_json_has_every_prediction(trained, source, capsys):
    found = json.loads(run("predict", trained, source, "--json", capsys=capsys))
    assert len(found["label"]) == len(found["confidence"]) == 300
    assert found["unreadable"] == 0


def test_another_kind_of_source_or_folder_is_a_sentence(trained, source, tmp_path, capsys):
    assert "no training run" in fails("predict", tmp_path, source, capsys=capsys)
    np.savez(tmp_path / "narrow.npz", X=np.zeros((5, 3), np.float32))
    message = fails("predict", trained, tmp_path / "narrow.npz", capsys=capsys)
    assert "rows of shape (3,); the network was trained on (64,)" in message


@pytest.fixture(scope="module")
def on_images(tmp_path_factory):
    """The folder of a short run on dark and bright images, without an embedder."""
    root = tmp_path_factory.mktemp("images")
    for k in range(24):
        name = ("dark", "bright")[k % 2]
        (root / "photos" / name).mkdir(parents=True, exist_ok=True)
        shade = (k + 150 * (k % 2),) * 3
        Image.new("RGB", (8, 8), shade).save(root / "photos" / name / f"{k}.png")
    (root / "s.toml").write_text(
        "network = 'resnet_small'\nepochs = 1\nwarmup_epochs = 1\npretrain_epochs = 0\n"
        "batch_size = 8\nselector = 'spr'\n"
    )
    how = ("--preset", "cifar10", "--settings", root / "s.toml", "--no-guard")
    run("train", root / "photos", *how, "--out", root / "run")
    return root / "run"


@pytest.mark.parametrize("inside", [".", "holiday"])
def test_photos_without_labels_are_predicted(on_images, inside, tmp_path, capsys):
    """A flat folder, and one subfolder, which is no class."""
    (tmp_path / "new" / inside).mkdir(parents=True, exist_ok=True)
    for k in range(3):
        Image.new("RGB", (8, 8), (90 * k,) * 3).save(tmp_path / "new" / inside / f"{k}.png")
    found = json.loads(run("predict", on_images, tmp_path / "new", "--json", capsys=capsys))
    assert [name.rpartition("/")[2] for name in found["row_id"]] == ["0.png", "1.png", "2.png"]
    assert set(found["label"]) <= {"dark", "bright"}
    assert found["given"] is None


def test_folders_that_are_no_classes_are_not_compared_with(on_images, tmp_path, capsys):
    for name in ("2024", "2025"):
        (tmp_path / "new" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "new" / name / "a.png")
    said = run("predict", on_images, tmp_path / "new", capsys=capsys)
    assert "of the source's labels" not in said
    assert len(said.splitlines()) == 2


def test_a_table_without_a_label_column_is_predicted(trained, source, tmp_path, capsys):
    X = np.load(source)["X"][:5]
    header = ",".join(f"f{i}" for i in range(64))
    np.savetxt(tmp_path / "new.csv", X, delimiter=",", header=header, comments="")
    found = json.loads(run("predict", trained, tmp_path / "new.csv", "--json", capsys=capsys))
    assert len(found["label"]) == 5


HARM = "from pathlib import Path\nPath('harm').touch()\ndef f(batch):\n    return batch\n"


@pytest.mark.parametrize("named", ["evil:f", "run.evil:f", "subprocess:call"])
def test_a_run_never_makes_code_be_imported(trained, tmp_path, monkeypatch, capsys, named):
    """A run folder comes from other people: only the user's own word imports a module."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "run")
    about = json.loads((tmp_path / "run" / "train.json").read_text())
    about["embed"] = {"embedder": named}
    (tmp_path / "run" / "train.json").write_text(json.dumps(about))
    for place in ("evil.py", "run/evil.py"):
        (tmp_path / place).write_text(HARM)
    (tmp_path / "texts.csv").write_text("text\nhello\nworld\n")
    message = fails("predict", "run", "texts.csv", capsys=capsys)
    assert f"if you know that code, pass --embedder {named}" in message
    assert not (tmp_path / "harm").exists()


def test_the_users_own_word_is_enough_for_an_embedder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "letters.py").write_text(
        "import numpy as np\ndef count(texts):\n"
        "    return np.array([[t.count('a'), t.count('b'), len(t)] for t in texts], np.float32)\n"
    )
    rows = "".join(f"{'ab'[k % 2] * (3 + k % 5)},{'ab'[k % 2]}\n" for k in range(40))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    how = ("--embedder", "letters:count", "--epochs", "1", "--out", "run")
    run("train", "texts.csv", *how, capsys=capsys)
    (tmp_path / "new.csv").write_text("text\naaaa\nbbbb\n")
    assert "--embedder letters:count" in fails("predict", "run", "new.csv", capsys=capsys)
    said = run("predict", "run", "new.csv", "--embedder", "letters:count", capsys=capsys)
    assert len(said.splitlines()) == 2
    message = fails("predict", "run", "new.csv", "--embedder", "minilm", capsys=capsys)
    assert "was trained on features of letters:count" in message
