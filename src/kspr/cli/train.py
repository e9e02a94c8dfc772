"""`kspr train`: train a network on labels that are partly wrong."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from kspr._packages import require
from kspr.cli._common import INVOCATION, Json, print_json, refuse_several
from kspr.cli._epoch_lines import EpochLines
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.sources.options import AS_FOUND, ReadOptions

if TYPE_CHECKING:
    from kspr.selectors import Selection
    from kspr.train import Trained, TrainSettings

__all__ = ["train"]


def train(
    source: Path,
    /,
    *,
    out: Path,
    preset: Literal["cpu", "cifar10", "cifar100", "webvision", "clothing1m"] = "cpu",
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
    images or texts). The other presets are the paper's, and train a whole network on images.
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
    chosen = _settings(preset, settings, _given(given))
    how = _trainer(method, noise_rate)
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
        on_epoch=None if json else EpochLines(how.n_stages * chosen.epochs),
        **how.arguments,
    )
    # Other ranks print nothing: they have no selection. A method of others runs on one rank.
    if trained.selection is not None or method is not None:
        _print(trained, out, json)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _settings(preset: str, file: Path | None, changes: dict[str, Any]) -> "TrainSettings":
    """Return the preset with the changes of the file, then those of the flags."""
    from kspr._files import read_toml
    from kspr.train import TrainSettings

    own = {} if file is None else read_toml(file)
    return TrainSettings.from_preset(preset).changed(**own).changed(**changes)


class _Trainer(NamedTuple):
    """What trains: nothing to say for our own cycle."""

    arguments: dict[str, Any]
    n_stages: int = 1
    """Times that the epochs are run."""


def _trainer(method: str | None, noise_rate: float | None) -> _Trainer:
    """Return the function that trains by `method`, as an argument; none for our own."""
    from kspr.errors import InputError
    from kspr.experiments.baselines import make_method

    if method is None:
        if noise_rate is not None:
            raise InputError("--noise-rate is for a --method that must be told it.")
        return _Trainer({})
    rule = make_method(method)

    def train_by(X: Any, y: Any, *, save_selection: Any, **how: Any) -> "Trained":
        from kspr.experiments.baselines.trainer import fit_method

        # There is no selection to save: these methods make none that is a run of its own.
        del save_selection
        return fit_method(X, y, rule, noise_rate=noise_rate, **how)

    return _Trainer({"trainer": train_by}, rule.n_stages)


def _interruptible(source: Path, out: Path, **how: Any) -> "Trained":
    """Train; an interruption ends with a sentence on how to continue."""
    import warnings

    from kspr.features.embedders.onnx_runtime import EngineWarning
    from kspr.models.device import PrecisionWarning
    from kspr.train.source import train_source

    try:
        with warnings.catch_warnings():
            # The line of each epoch repeats the guard's warnings; nothing repeats these two.
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("always", PrecisionWarning)
            warnings.simplefilter("always", EngineWarning)
            # catch_warnings puts this back, too, at the end of the block.
            warnings.showwarning = _print_warning
            return train_source(source, out, **how)
    except KeyboardInterrupt as stop:
        goes_on = f"interrupted; the same command with --resume continues {out}"
        # `main` prints the text of the interrupt.
        raise KeyboardInterrupt(goes_on) from stop


def _print_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning as one sentence, without the line of code that raised it."""
    import sys

    print(f"kspr: {message}", file=sys.stderr)


def _print(trained: "Trained", out: Path, json: bool) -> None:
    if json:
        print_json({"out": out, **trained.as_result()})
        return
    curves = _draw(out)
    print(f"\nNetwork: the {trained.model_choice} of epoch {trained.epoch}{_why(trained)}")
    if trained.test_accuracy is not None:
        print(f"Accuracy on the test set: {trained.test_accuracy:.4f}")
    print(f"The run: {out}{curves}\nA page of it: kspr report {out} --open")
    print(f"Use it: kspr predict {out} SOURCE")
    _print_selections(trained, out)
    print(f"\nIn short: {_in_short(trained, out)}")


def _in_short(trained: "Trained", out: Path) -> str:
    """Return what the training has come to, in words that need no explanation."""
    from kspr.report.training_run import in_short
    from kspr.train.outcome import read_about

    judged, about = trained.frozen or trained.selection, read_about(out)
    return in_short(
        int(about["rows"]),
        None if judged is None else int((~judged.clean_mask).sum()),
        test_accuracy=trained.test_accuracy,
        held_out=trained.held_out.get(trained.model_choice),
        items=about.get("items"),
    )


def _print_selections(trained: "Trained", out: Path) -> None:
    """Print what the run says of the labels: the trustworthy answer first, if there is one."""
    if trained.frozen is not None:
        print(
            f"\nWhich labels to trust: {_kept(trained.frozen)}, by features that have not seen "
            f"the labels.\n  kspr report {out}/frozen"
        )
    if trained.selection is None:
        return
    seen = trained.selection.manifest.seen_labels
    # Referees keep for the report; the network learns soft labels of all rows.
    by_referees = trained.selection.manifest.method == "ProbabilitySelector"
    unseen = "by networks that have not seen the labels" if by_referees else "in training"
    whose = "by this network's features" if seen else unseen
    print(f"\nKept {whose}: {_kept(trained.selection)}.\n  kspr report {out}/selection")
    if seen:
        print(f"  Its error rate is not held. Assumed: {trained.selection.assumption}")


def _kept(selection: "Selection") -> str:
    asked = selection.summary().q_asked
    level = "" if asked is None else f" (q = {asked:g} was asked for)"
    return f"{selection.clean_mask.sum():,} of {len(selection):,} labels{level}"


def _why(trained: "Trained") -> str:
    if not trained.held_out:
        return ""
    shares = ", ".join(f"{name} {share:.3f}" for name, share in trained.held_out.items())
    return f" (held-out labels predicted: {shares})"


def _draw(out: Path) -> str:
    """Draw the curves if the packages of the extra `report` are installed."""
    from kspr.errors import MissingExtraError
    from kspr.report.training_run import write_curves
    from kspr.train.outcome import read_metrics

    try:
        return f"\nCurves: {write_curves(read_metrics(out), out / 'curves.svg')}"
    # Curves are an extra: a training must not end with an error for want of them.
    except MissingExtraError:
        return ""
