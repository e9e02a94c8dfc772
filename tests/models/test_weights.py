"""Weights from local files."""

import pytest
import torch
from safetensors.torch import save_file

from kspr.errors import InputError
from kspr.models.build import build_network

SHAPE = (3, 16, 16)


def published(network):
    """Return a state dict in torchvision's names."""
    names = {"body": "", "head": "fc."}
    state = {}
    for name, tensor in network.state_dict().items():
        part, _, rest = name.partition(".")
        state[names[part] + rest] = tensor.clone()
    return state


@pytest.fixture(scope="module")
def trained():
    return build_network("resnet50", 7, in_shape=SHAPE, seed=9)


@pytest.fixture(scope="module")
def file(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(published(trained), path)
    return path


def same(network, other, part):
    ours, theirs = network.state_dict(), other.state_dict()
    return all(torch.equal(ours[n], theirs[n]) for n in ours if n.startswith(part))


def test_published_names_fit_and_the_head_is_kept_when_it_has_the_classes(trained, file):
    network = build_network("resnet50", 7, in_shape=SHAPE, weights=file)
    assert same(network, trained, "body")
    assert same(network, trained, "head")


def test_the_head_starts_anew_when_the_classes_differ(trained, file):
    network = build_network("resnet50", 3, in_shape=SHAPE, weights=file, seed=4)
    fresh = build_network("resnet50", 3, in_shape=SHAPE, seed=4)
    assert same(network, trained, "body")
    assert same(network, fresh, "head")


def test_safetensors_our_own_names_and_old_files_fit_too(tmp_path):
    small = build_network("resnet_small", 3, in_shape=SHAPE, seed=1)
    state = {n: t for n, t in small.state_dict().items() if "num_batches_tracked" not in n}
    save_file(state, tmp_path / "small.safetensors")
    network = build_network(
        "resnet_small", 3, in_shape=SHAPE, weights=tmp_path / "small.safetensors"
    )
    assert same(network, small, "body")
    assert same(network, small, "head")


def test_another_architecture_is_refused_and_what_does_not_fit_is_named(file):
    with pytest.raises(InputError, match="of another architecture: 198 have no place") as caught:
        build_network("cifar_resnet18", 7, in_shape=SHAPE, weights=file)
    assert "body.conv1.weight with (64, 3, 7, 7) for (64, 3, 3, 3)" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_of_colour_images_are_refused_for_grey_ones(file):
    with pytest.raises(InputError, match=r"body.conv1.weight with \(64, 3, 7, 7\) for \(64, 1, 7"):
        build_network("resnet50", 7, in_shape=(1, 16, 16), weights=file)


def test_a_missing_file_and_one_of_something_else_are_refused(tmp_path):
    with pytest.raises(InputError, match="are not there"):
        build_network("resnet50", 7, in_shape=SHAPE, weights=tmp_path / "none.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(InputError, match="holds no state_dict"):
        build_network("resnet50", 7, in_shape=SHAPE, weights=tmp_path / "list.pth")
