"""``hf:NAME``: an image classifier of the Hugging Face hub or of a local folder."""

from kspr.data.embedders._packages import require
from kspr.data.embedders.huggingface import from_pretrained
from kspr.errors import InputError
from kspr.train.backbones._network import Network
from kspr.train.backbones._request import Request
from kspr.train.backbones._wrap import wrap_network

__all__ = ["build"]


def build(request: Request) -> Network:
    """Return the model with its own weights, and a new classifier if the classes differ."""
    require("transformers", f"The network {request.name}", "transformers")
    if request.weights is not None:
        raise InputError(
            f"weights must be left out for {request.name}, which has its own, got "
            f"{request.weights}. For another set, name its folder: hf:FOLDER."
        )
    model = from_pretrained(
        request.name,
        "AutoModelForImageClassification",
        request.rest,
        num_labels=request.n_classes,
        ignore_mismatched_sizes=True,
    )
    return wrap_network(
        model,
        request.n_classes,
        in_shape=request.in_shape,
        feature_layer=request.feature_layer,
    )
