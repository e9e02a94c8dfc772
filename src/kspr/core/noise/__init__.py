"""Noise that is made on purpose, so that a method can be held against it.

`models` puts a rate of wrong labels on known labels, by kind and seed; `cifar` has the class names
of CIFAR and the noise between them; `flips` makes a few labels of real data wrong, for the
self-check. `check_seed` is the rule for seeds, here and in all other rooms.
"""

from kspr.core.noise._drawing import check_seed
from kspr.core.noise.cifar import asymmetric, asymmetric_cifar10, asymmetric_cifar100
from kspr.core.noise.flips import ESTIMATED, HARD, KINDS, Ground, flip
from kspr.core.noise.models import (
    NOISES,
    add_noise,
    circular,
    instance_dependent,
    pair_flip,
    symmetric,
)

__all__ = [
    "ESTIMATED",
    "HARD",
    "KINDS",
    "NOISES",
    "Ground",
    "add_noise",
    "asymmetric",
    "asymmetric_cifar10",
    "asymmetric_cifar100",
    "check_seed",
    "circular",
    "flip",
    "instance_dependent",
    "pair_flip",
    "symmetric",
]
