"""CIFAR-100: 50,000 + 10,000 images of 32 x 32 pixels in 100 classes of 20 super-classes."""

from kspr.data.published._cifar import Cifar, Labelling, Version
from kspr.data.published.cifar_classes import CIFAR100, CIFAR100_COARSE

__all__ = ["CIFAR_100"]

CIFAR_100 = Cifar(
    name="cifar100",
    reads="CIFAR-100, python or binary version; CIFAR-100N's labels with --labels",
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
