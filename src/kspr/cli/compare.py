"""`kspr compare`: methods side by side, where the true labels are known."""

from pathlib import Path

from kspr._packages import require
from kspr.cli import _common as common
from kspr.errors import InputError


def compare(
    source: Path,
    /,
    *,
    test: Path | None = None,
    methods: common.Names = None,
    q: float = common.DEFAULT_Q,
    dimensions: int = 128,
    seed: int = 0,
    train: common.Switch = False,
    epochs: int | None = None,
    noise_rate: float | None = None,
    out: Path | None = None,
    options: common.Reading = common.AS_FOUND,
    settings: common.Embedding = common.AS_SHIPPED,
    json: common.Json = False,
) -> None:
    """Compare this method with the ones people use today, on known true labels.

    All use the same features; seconds and memory include all that a method needs, such as
    cross-validation.
    --truth is a file with one true label per row, or a column of the source. --probabilities is one
    set of class probabilities for all methods that take them; else each gets those of a
    cross-validated logistic regression.

    With --train, training methods are compared instead, by the accuracy of their networks on
    --test; the true labels of SOURCE are not needed.

    Example: kspr compare digits.npz --labels noisy.csv --truth noisy.csv --out comparison

    Example: kspr compare train.npz --train --test checked.npz --methods kspr elr gce --out runs

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read.
    test
        A second source with right labels: a classifier trained on what each method keeps is
        tested on it.
    methods
        Some of `kspr`, `kspr-per-class`, `kspr-f1`, `kspr-paper`, `spr-half`, `kspr-probabilities`,
        `cleanlab-noise-rate`,
        `cleanlab-class`, `cleanlab-both`, `cleanlab-confident`, `cleanlab-self-confidence`,
        `datalab`, `small-loss`, `neighbours`, `topofilter`, `margins`, `logit-margin`, `logistic`,
        `simifeat-vote`, `simifeat-rank`. With --train: `kspr`, and names that `kspr methods`
        lists. [default: all]
    q
        Error rate asked of the methods that take one. Not with --train.
    dimensions
        Principal components to keep, for all methods. Not with --train.
    seed
        Seed of every method.
    train
        Compare training methods; each leaves a training run in --out, for `kspr predict`.
    epochs
        With --train: passes over all samples. [default: those of the preset cpu]
    noise_rate
        With --train: share of wrong labels, for methods that must be told it. Without it, these
        are left out.
    out
        Directory for comparison.json and comparison.svg. A comparison that was interrupted
        continues from there.
    """
    common.refuse_several(options, "compare")
    if train:
        if test is None:
            raise InputError(
                "--train needs --test: a source with right labels, such as rows that were checked."
            )
        require("torch", "compare --train", "'knockoffs-spr[train]'")
        from kspr.experiments.compare.trainings import compare_training_source
        from kspr.train import TrainSettings

        changes = {} if epochs is None else {"epochs": epochs}
        trained = compare_training_source(
            source,
            test,
            methods,
            options=options,
            embed=settings,
            settings=TrainSettings.from_preset("cpu", seed=seed, **changes),
            command=common.INVOCATION.get(),
            noise_rate=noise_rate,
            out=out,
        )
        if json:
            common.print_json(trained)
            return
        print(trained)
        if out is not None:
            print(f"Use the best: kspr predict {out / trained.trials[0].method} SOURCE")
        return
    from kspr.experiments.compare.comparing import compare_source
    from kspr.experiments.compare.comparison import write_comparison

    comparison = compare_source(
        source,
        options=options,
        settings=settings,
        methods=methods,
        test=test,
        q=q,
        seed=seed,
        dimensions=dimensions,
        out=out,
    )
    written = () if out is None else write_comparison(comparison, out, common.INVOCATION.get())
    if json:
        common.print_json({**comparison.to_dict(), "written": written})
        return
    print(comparison, *(f"\n{path}" for path in written), sep="")
