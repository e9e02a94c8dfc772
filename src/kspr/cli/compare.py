"""`kspr compare`: methods side by side, where the true labels are known."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kspr.cli._output import INVOCATION, Json, print_json
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.selectors.options import DEFAULT_Q
from kspr.sources.options import AS_FOUND, ReadOptions, refuse_annotators, refuse_groups

__all__ = ["compare"]


def compare(
    source: Path,
    /,
    *,
    test: Path | None = None,
    # For a tuple, cyclopts would add a flag --empty-methods; negative="" leaves it out.
    methods: Annotated[
        tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")
    ] = None,
    q: float = DEFAULT_Q,
    dimensions: int = 128,
    seed: int = 0,
    out: Path | None = None,
    options: Annotated[ReadOptions, Parameter(name="*")] = AS_FOUND,
    settings: Annotated[EmbedSettings, Parameter(name="*")] = AS_SHIPPED,
    json: Json = False,
) -> None:
    """Compare this method with the ones people use today, on known true labels.

    All use the same features; seconds and memory include all that a method needs, such as
    cross-validation.
    --truth is a file with one true label per row, or a column of the source. --probabilities is one
    set of class probabilities for all methods that take them; else each gets those of a
    cross-validated logistic regression.

    Example: kspr compare digits.npz --labels noisy.csv --truth noisy.csv --out comparison

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read.
    test
        A second source with right labels: a classifier trained on what each method keeps is
        tested on it.
    methods
        Some of `kspr`, `kspr-pooled`, `kspr-f1`, `kspr-paper`, `spr-half`, `kspr-probabilities`,
        `cleanlab-noise-rate`,
        `cleanlab-class`, `cleanlab-both`, `cleanlab-confident`, `cleanlab-self-confidence`,
        `datalab`, `small-loss`, `neighbours`, `topofilter`, `margins`, `logit-margin`, `logistic`,
        `simifeat-vote`, `simifeat-rank`. [default: all]
    q
        Error rate asked of the methods that take one.
    dimensions
        Principal components to keep, for all methods.
    seed
        Seed of every method.
    out
        Directory for comparison.json and comparison.svg. A comparison that was interrupted
        continues from there.
    """
    refuse_annotators(options, "compare")
    refuse_groups(options, "compare")
    from kspr.experiments.compare.comparing import compare_source
    from kspr.experiments.compare.figure import write_comparison

    found = compare_source(
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
    written = () if out is None else write_comparison(found, out, INVOCATION.get())
    if json:
        print_json({**found.to_dict(), "written": written})
        return
    print(found, *(f"\n{path}" for path in written), sep="")
