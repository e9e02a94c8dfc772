"""`kspr train`: train a network on labels that are partly wrong."""

import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from kspr._packages import require
from kspr.cli._common import INVOCATION, Json, print_json, refuse_several
from kspr.errors import InputError, MissingExtraError
from kspr.sources.options import AS_FOUND, AS_SHIPPED, EmbedSettings, ReadOptions

if TYPE_CHECKING:
    from kspr.selectors import Selection
    from kspr.train import Trained
    from kspr.train.task import Epoch


PresetName = Literal[
    "cpu",
    "cifar10",
    "cifar100",
    "webvision",
    "clothing1m",
    "paper-cifar10",
    "paper-cifar100",
    "paper-webvision",
    "paper-clothing1m",
]


def train(
    source: Path,
    /,
    *,
    out: Path,
    preset: PresetName = "cpu",
    settings: Path | None = None,
    method: str | None = None,
    noise_rate: float | None = None,
    epochs: int | None = None,
    network: str | None = None,
    weights: str | None = None,
    q: float | None = None,
    # Unlike the switches below, with a --no- form: the paper has no guard.
    guard: bool | None = None,
    test: Path | None = None,
    test_split: str | None = None,
    deterministic: Annotated[bool | None, Parameter(negative="")] = None,
    seed: int | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    options: Annotated[ReadOptions, Parameter(name="*")] = AS_FOUND,
    embed: Annotated[EmbedSettings, Parameter(name="*")] = AS_SHIPPED,
    json: Json = False,
) -> None:
    """Train a network on labels that are partly wrong, and select clean ones meanwhile.

    The preset `cpu` trains a small network on features (those of SOURCE, or embeddings of its
    images or texts). The others train a whole network on images: `cifar10`, `cifar100`, `webvision`
    and `clothing1m` are ours, the paper's networks with our selection and guard; `paper-cifar10`
    and its siblings are the paper's own procedure.
    Several processes: `torchrun --nproc-per-node 2 -m kspr train ...`.

    Example: kspr train photos/ --preset cpu --out run

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read.
    out
        Directory for metrics, checkpoints, the selection and the network.
    preset
        Name of the settings to start from.
    settings
        TOML file with settings that replace those of the preset; flags win over both.
    method
        Train by a method of others instead, for comparison; `kspr methods` lists them.
    noise_rate
        Share of wrong labels, for a --method that must be told it.
    epochs
        Number of passes over all samples.
    network
        Name of the network.
    weights
        File with weights to start from.
    q
        Error rate of the selection.
    guard
        Also train a network on all given labels, and end with the better of the two. The paper has
        no guard.
    test
        A source with right labels, on which accuracy is measured.
    test_split
        The same, as a split of a published data set.
    deterministic
        Refuse operations whose result may differ between runs.
    seed
        Seed of all random numbers.
    resume
        Continue the run in --out after an interruption, to the same network.
    """
    refuse_several(options, "train")
    require("torch", "Training", "'knockoffs-spr[train]'")
    from kspr._files import read_toml
    from kspr.train import TrainSettings

    # None is a flag that was not given: the value of the preset or of the file stays.
    given = {
        "epochs": epochs,
        "network": network,
        "weights": weights,
        "guard": guard,
        "deterministic": deterministic,
        "seed": seed,
        # These two flags come with the options of the embedder. The preset `cpu` trains on
        # features: there, the size of images concerns the embedder alone.
        "device": None if embed.device == "auto" else embed.device,
        "image_size": embed.image_size if preset != "cpu" else None,
        "selection": None if q is None else {"q": q},
    }
    start = TrainSettings.from_preset(preset).changed(**read_toml(settings) if settings else {})
    chosen = start.changed(**{name: value for name, value in given.items() if value is not None})
    by, n_stages = _by_method(method, noise_rate)
    trained = _interruptible(
        source,
        out,
        settings=chosen,
        options=options,
        embed=embed,
        command=INVOCATION.get(),
        test=test,
        test_split=test_split,
        resume=resume,
        # Lines about epochs would break the one document that --json promises.
        on_epoch=None if json else EpochLines(n_stages * chosen.epochs),
        **by,
    )
    # Other ranks print nothing: they have no selection. A method of others runs on one rank.
    if trained.selection is not None or method is not None:
        _print(trained, out, json)


def _by_method(method: str | None, noise_rate: float | None) -> tuple[dict[str, Any], int]:
    """Return the argument that trains by `method`, none for our cycle, and how often epochs run."""
    if method is None:
        if noise_rate is not None:
            raise InputError("--noise-rate is for a --method that must be told it.")
        return {}, 1
    from kspr.experiments.baselines import make_method
    from kspr.experiments.baselines.method import fit_method

    rule = make_method(method)
    return {"trainer": partial(fit_method, method=rule, noise_rate=noise_rate)}, rule.n_stages


def _interruptible(source: Path, out: Path, **how: Any) -> "Trained":
    """Train; an interruption ends with a sentence on how to continue."""
    from kspr.features.embedders.onnx_runtime import EngineWarning
    from kspr.models.device import PrecisionWarning
    from kspr.train.source import train_source

    try:
        with warnings.catch_warnings():
            # The line of each epoch repeats the guard's warnings; nothing repeats these two.
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("always", PrecisionWarning)
            warnings.simplefilter("always", EngineWarning)
            return train_source(source, out, **how)
    except KeyboardInterrupt as stop:
        goes_on = f"interrupted; the same command with --resume continues {out}"
        # `main` prints the text of the interrupt.
        raise KeyboardInterrupt(goes_on) from stop


def _print(trained: "Trained", out: Path, json: bool) -> None:
    if json:
        print_json({"out": out, **trained.as_result()})
        return
    from kspr.report import in_short, write_curves
    from kspr.train.run_folder import read_about

    curves = shares = ""
    # Curves are an extra: a training must not end with an error for want of them.
    with suppress(MissingExtraError):
        curves = f"\nCurves: {write_curves(trained.history, out / 'curves.svg')}"
    if trained.held_out:
        predicted = ", ".join(f"{name} {share:.3f}" for name, share in trained.held_out.items())
        shares = f" (held-out labels predicted: {predicted})"
    print(f"\nNetwork: the {trained.model_choice} of epoch {trained.epoch}{shares}")
    if trained.test_accuracy is not None:
        print(f"Accuracy on the test set: {trained.test_accuracy:.4f}")
    print(f"The run: {out}{curves}\nA page of it: kspr report {out} --open")
    print(f"Use it: kspr predict {out} SOURCE\n")
    # The selection that says which labels to trust, as on the page of the run.
    judged = trained.selection if trained.frozen is None else trained.frozen
    if judged is not None:
        _print_which_labels(judged, out / ("selection" if trained.frozen is None else "frozen"))
    about = read_about(out)
    said = in_short(
        int(about["rows"]),
        None if judged is None else int((~judged.clean_mask).sum()),
        test_accuracy=trained.test_accuracy,
        held_out=trained.held_out.get(trained.model_choice),
        items=about.get("items"),
    )
    print(f"In short: {said}")


def _print_which_labels(selection: "Selection", folder: Path) -> None:
    """Print how many labels can be trusted, who says so, and where to look."""
    kept, q = f"{selection.clean_mask.sum():,} of {len(selection):,}", selection.summary().q_asked
    level = "" if q is None else f" (q = {q:g} was asked for)"
    whose, held = "features that have not seen the labels", ""
    if selection.manifest.seen_labels:
        whose = "features of this network"
        held = f"\n  Its error rate is not held. Assumed: {selection.assumption}"
    print(f"Which labels to trust: {kept}{level}, by {whose}.\n  kspr report {folder}{held}")


class EpochLines:
    """Print a line for every epoch: what people watch, and how long the rest will take."""

    def __init__(self, n_epochs: int) -> None:
        self._n_epochs = n_epochs
        self._seconds: list[float] = []

    def __call__(self, epoch: "Epoch") -> None:
        """Print the line of an epoch that has just ended, and the messages of the guard."""
        self._seconds.append(epoch.seconds)
        # Of the epochs of this process: a resumed run may go on on another machine.
        mean = sum(self._seconds) / len(self._seconds)
        print(epoch_line(epoch, mean * (self._n_epochs - epoch.epoch)))
        for note in epoch.notes:
            print(f"           {note}")


def epoch_line(epoch: "Epoch", seconds_left: float) -> str:
    """Return the metrics of an epoch in one line: accuracy first, time last."""
    measured = {
        "accuracy": epoch.accuracy,
        "averaged": epoch.accuracy_average,
        "held-out labels": epoch.held_out,
        "kept": epoch.kept,
        "FSR (estimated)": epoch.q_reached,
    }
    if epoch.quality is not None:
        quality = vars(epoch.quality)
        measured |= {"FSR": quality["fsr"], "recall": quality["recall"]}
    parts = [f"{name} {value:.1%}" for name, value in measured.items() if value is not None]
    took = f"{epoch.seconds:.1f} s ({epoch.select_share:.0%} selecting)"
    return "  ".join(
        [f"epoch {epoch.epoch:>3}", *parts, f"loss {epoch.loss:.3f}", took, time_left(seconds_left)]
    )


def time_left(seconds: float) -> str:
    """Return how long the rest takes, in words.

    >>> time_left(95), time_left(3 * 3600 + 120), time_left(0)
    ('2 min left', '3 h 2 min left', 'done')
    """
    if seconds <= 0:
        return "done"
    if seconds < 60:
        return f"{max(round(seconds), 1)} s left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min left"
