"""CIFAR-10: 50,000 + 10,000 images of 32 x 32 pixels in ten classes."""

from kspr.data.published._cifar import Cifar, Labelling, Version
from kspr.data.published.cifar_classes import CIFAR10

__all__ = ["CIFAR_10"]

_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))

CIFAR_10 = Cifar(
    name="cifar10",
    reads="CIFAR-10, python or binary version; CIFAR-10N's labels with --labels",
    versions=(
        Version(
            binary=False,
            folder="cifar-10-batches-py",
            archive="cifar-10-python.tar.gz",
            train=_TRAIN,
            test=("test_batch",),
            names=("batches.meta",),
        ),
        Version(
            binary=True,
            folder="cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            train=tuple(f"{name}.bin" for name in _TRAIN),
            test=("test_batch.bin",),
            names=("batches.meta.txt",),
        ),
    ),
    labellings=(
        Labelling(
            name="labels",
            key="labels",
            names_key="label_names",
            names_file="batches.meta.txt",
            classes=CIFAR10,
        ),
    ),
    # Nothing else is called data_batch_1.
    telling=1,
)
