"""The self-check on a source, or on the source of a run."""

from collections.abc import Sequence
from pathlib import Path

from kspr.errors import InputError
from kspr.features.loading import load
from kspr.runs.run import Run
from kspr.selectors import KnockoffsSPR
from kspr.selectors.selfcheck import SelfCheck, selfcheck
from kspr.sources.options import EmbedSettings, ReadOptions


def check_source(
    source: Path,
    selector: KnockoffsSPR,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    share: float,
    kinds: Sequence[str],
    repeats: int,
    seed: int,
) -> SelfCheck:
    """Flip labels of `source`, and count whether `selector` holds its error rate."""
    loaded = load(source, options, settings, labelled=True)
    return selfcheck(
        loaded.features,
        loaded.label,
        selector,
        groups=loaded.groups,
        share=share,
        kinds=kinds,
        repeats=repeats,
        seed=seed,
    )


def check_run(run: Run) -> SelfCheck:
    """Check the selector that made `run`, on the run's own labels and features."""
    if run.selection.manifest.method == "ProbabilitySelector":
        raise InputError(
            f"{run.folder} was selected by the probabilities of a model of your own, which would "
            "have to be trained again on flipped labels. Check rows with `kspr verify` instead."
        )
    features = run.features()
    if features is None:
        why = " ".join(run.notes())
        raise InputError(
            f"The self-check needs the features of {run.origin.source}, which cannot be read now. "
            f"{why}".rstrip()
        )
    return selfcheck(features, run.selection.label, _selector(run), groups=run.groups())


def _selector(run: Run) -> KnockoffsSPR:
    """Return the selector that made the run, with the parameters in its manifest."""
    manifest = run.selection.manifest
    if manifest.method != "KnockoffsSPR":
        raise InputError(f"{run.folder} was made by {manifest.method}, which promises no rate.")
    if run.selection.checked is not None:
        raise InputError(
            f"The error rate of {run.folder} rests on rows that a person has checked; flipped "
            "labels could not tell more. Check others with `kspr verify`."
        )
    # A run of an earlier version may have parameters that are gone by now.
    known = KnockoffsSPR().get_params(deep=False)
    return KnockoffsSPR(**{k: v for k, v in manifest.parameters.items() if k in known})
