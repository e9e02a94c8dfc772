"""CIFAR-10 and CIFAR-100: 50,000 + 10,000 images of 32 x 32 pixels in 10 or 100 classes."""

from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE
from kspr.sources.published._cifar_files import Cifar, Labelling, Version

__all__ = ["CIFAR_10", "CIFAR_100"]

_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))

CIFAR_10 = Cifar(
    name="cifar10",
    about="CIFAR-10, python or binary version; CIFAR-10N's labels with --labels",
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

CIFAR_100 = Cifar(
    name="cifar100",
    about="CIFAR-100, python or binary version; CIFAR-100N's labels with --labels",
    versions=(
        Version(
            binary=False,
            folder="cifar-100-python",
            archive="cifar-100-python.tar.gz",
            train=("train",),
            test=("test",),
            names=("meta",),
        ),
        Version(
            binary=True,
            folder="cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            train=("train.bin",),
            test=("test.bin",),
            names=("fine_label_names.txt", "coarse_label_names.txt"),
        ),
    ),
    labellings=(
        Labelling(
            name="coarse",
            key="coarse_labels",
            names_key="coarse_label_names",
            names_file="coarse_label_names.txt",
            classes=CIFAR100_COARSE,
        ),
        Labelling(
            name="fine",
            key="fine_labels",
            names_key="fine_label_names",
            names_file="fine_label_names.txt",
            classes=CIFAR100,
        ),
    ),
    # Files called train and test are not rare; two of the three names together are.
    telling=2,
)
