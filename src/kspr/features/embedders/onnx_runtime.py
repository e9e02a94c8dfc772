"""Networks exported for ONNX Runtime, which is several times faster than PyTorch on CPUs.

An export is made once from the same weights, and kept in the user's cache with a few inputs and the
features that PyTorch gives them, with which it is compared whenever it is loaded. Where packages
are missing, or a network cannot be exported, PyTorch runs it.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import alone_in, read_json, staged, user_cache, write_json
from kspr._packages import is_installed, versions
from kspr._progress import say
from kspr.models.weights import first_line

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], np.ndarray]

_NEEDED = ("onnx", "onnxruntime", "onnxscript")
_CODE = ("knockoffs-spr", "torch", "transformers", "timm", "torchvision", *_NEEDED)
"""Packages whose versions decide what an export looks like."""
_FEATURES = "features by PyTorch"
"""Name of these features beside the inputs, none of which has such a name."""
_SAME = 0.9999
"""Smallest cosine between the features of both engines."""


class EngineWarning(UserWarning):
    """A network is run by PyTorch, because ONNX Runtime cannot run it."""


def onnx_run(
    name: str,
    build: Callable[[], Any],
    piece: Arrays,
    reference: Run,
    identity: str | None = None,
) -> Run | None:
    """Return the function that runs a module by ONNX Runtime on one thread; None if it cannot.

    `build` returns the torch module, which takes a dictionary of tensors; `piece` has arrays as it
    will get them, those with two axes being tokens, of any number. `reference` runs the module by
    PyTorch: the features of `piece` must agree. `identity` is what determines the module, such as
    the version of its weights: it is then built only where there is no export of it. Without it, a
    digest of all weights tells. `name` is for messages.
    """
    if not all(is_installed(package) for package in _NEEDED):
        return None
    probe = _padded(piece)
    try:
        folder = user_cache() / "onnx" / _key(identity or _weights(build()), probe)
        stored = _stored(folder)
        if stored is not None:
            return stored
        waiting = f"Another process exports {name}; waiting until it has finished."
        # Whoever comes second finds the export of the first.
        with alone_in(folder, lambda: say("auto", waiting)):
            return _stored(folder) or _new(folder, build(), probe, reference)
    except Exception as error:  # exporters raise almost anything
        warnings.warn(
            f"{name} cannot be run by ONNX Runtime ({first_line(error)}); PyTorch runs it, more "
            "slowly.",
            EngineWarning,
            stacklevel=2,
        )
        return None


def _stored(folder: Path) -> Run | None:
    """Return the export in `folder`; None without one, or if it is damaged or out of date."""
    refused = read_json(folder / "refused.json")
    if refused is not None:
        raise RuntimeError(refused)
    if not (folder / "model.onnx").is_file():
        return None
    try:
        return _opened(folder)
    except Exception:  # whatever a damaged file makes of itself, it is exported again
        return None


def _new(folder: Path, module: Any, probe: Arrays, reference: Run) -> Run:
    """Export `module` to `folder`; a refusal is written down, because the attempt takes long."""
    try:
        with staged(folder / "model.onnx") as path, _silence():
            _export(module, probe, path)
        with staged(folder / "probe.npz") as path:
            np.savez(path, allow_pickle=False, **probe, **{_FEATURES: reference(probe)})
        return _opened(folder)
    except OSError:  # a full disk, for example: the next attempt may succeed
        raise
    except Exception as error:
        # The exporter wraps the reason in advice for those who wrote the network.
        reason = first_line(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        write_json(folder / "refused.json", reason)
        raise RuntimeError(reason) from error


def _export(module: Any, probe: Arrays, path: Path) -> None:
    import torch

    # Two rows are enough to trace, and not one, which would be taken for a constant.
    example = {name: torch.from_numpy(_two_rows(array)) for name, array in probe.items()}
    any_size = torch.export.Dim.DYNAMIC
    shapes = {
        name: dict.fromkeys((0, 1) if array.ndim == 2 else (0,), any_size)
        for name, array in probe.items()
    }
    with torch.inference_mode():
        torch.onnx.export(
            module,
            (),
            str(path),
            # By name: a dictionary as the last of the unnamed arguments has another meaning there.
            kwargs={"inputs": example},
            input_names=list(probe),
            output_names=["features"],
            dynamic_shapes={"inputs": shapes},
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def open_session(path: Path) -> Run:
    """Return the function that runs a model on one thread; several threads may call it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Pieces are computed side by side, each on one thread; see Runner.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    processor = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(path), options, providers=processor)
    return lambda piece: np.asarray(session.run(None, piece)[0], dtype=np.float32)


def _opened(folder: Path) -> Run:
    """Return the function that runs the export; raise if its features are not PyTorch's."""
    run = open_session(folder / "model.onnx")
    with np.load(folder / "probe.npz", allow_pickle=False) as stored:
        probe = dict(stored)
    cosine = _smallest_cosine(probe.pop(_FEATURES), run(probe))
    if not cosine >= _SAME:
        raise ValueError(f"its features have a cosine of {cosine:.5f} with PyTorch's")
    return run


def _smallest_cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    # Rows of zeros have no direction: they agree if they are equal.
    same = (a == b).all(axis=1).astype(float)
    cosine = np.divide((a * b).sum(axis=1), lengths, out=same, where=lengths > 0)
    return float(cosine.min())


def _padded(piece: Arrays) -> Arrays:
    """Return `piece` with some tokens masked: a mask of ones could be left out of an export."""
    if "attention_mask" not in piece:
        return piece
    mask = piece["attention_mask"].copy()
    mask[0, mask.shape[1] // 2 + 1 :] = 0
    return {**piece, "attention_mask": mask}


def _two_rows(array: np.ndarray) -> np.ndarray:
    return np.repeat(array[:1], 2, axis=0) if len(array) == 1 else array[:2].copy()


def _key(identity: str, probe: Arrays) -> str:
    """Return a digest of what determines a module, fixed sizes of its inputs, code and versions."""
    fixed = [(name, str(a.dtype), a.shape[1:] if a.ndim > 2 else ()) for name, a in probe.items()]
    facts = [identity, fixed, _own_code(), versions(*_CODE)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _weights(module: Any) -> str:
    """Return a digest of a module's weights and architecture."""
    import torch

    digest = hashlib.sha256(repr(module).encode())
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        # As bytes: NumPy does not know every type of torch.
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _own_code() -> str:
    """Return a digest of the code that builds networks: between releases its version stays."""
    package = Path(__file__).parents[2]
    files = sorted([*package.glob("features/embedders/*.py"), *package.glob("models/*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@contextmanager
def _silence() -> Iterator[None]:
    """Hide the notices of the exporter, which are for its developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
