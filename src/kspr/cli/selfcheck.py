"""`kspr selfcheck`: whether the promise holds on these data."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kspr.cli._output import Json, print_json
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.sources.options import AS_FOUND, ReadOptions

__all__ = ["selfcheck"]

Kind = Literal["symmetric", "pair", "similar", "hard"]


def selfcheck(
    source: Path,
    /,
    *,
    q: float | None = None,
    control: Literal["transition", "exchangeable", "paper", "theorem"] | None = None,
    cut: Literal["per_class", "pooled"] | None = None,
    dimensions: int | None = None,
    min_class_size: int | None = None,
    share: float = 0.05,
    kinds: Annotated[tuple[Kind, ...], Parameter(consume_multiple=True, negative="")] = (
        "symmetric",
        "pair",
        "similar",
    ),
    repeats: int = 3,
    seed: int = 0,
    options: Annotated[ReadOptions, Parameter(name="*")] = AS_FOUND,
    settings: Annotated[EmbedSettings, Parameter(name="*")] = AS_SHIPPED,
    json: Json = False,
) -> None:
    """Flip some labels on purpose, select again, and see whether the error rate is kept.

    The flipped labels are known to be wrong, so what is kept of them can be counted; what was
    wrong before is inferred. The answer is `held`, `not held` or `cannot tell`, for each kind of
    flips. It takes a dozen fits and writes nothing.

    Example: kspr selfcheck embeddings.parquet --label species --q 0.05 --control transition

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read.
    q
        Error rate that is promised. [default: 0.05]
    control
        How the error rate is estimated, as for `kspr select`. [default: transition]
    cut
        As for `kspr select`. [default: per_class]
    dimensions
        Principal components to keep.
    min_class_size
        Smallest class that is accepted.
    share
        Share of the labels to flip each time.
    kinds
        `symmetric`: to any other class. `pair`: each class to one other. `similar`: to the class
        with the nearest mean. `hard`: rows near a class border, across it; no control assumes
        such noise. Flips like the noise that was estimated come on top.
    repeats
        How often each kind is tried.
    seed
        Seed of the flips and of the selection.
    """
    from kspr.cli.select import chosen_selector
    from kspr.runs.selfcheck import check_source

    given = {
        "q": q,
        "control": control,
        "cut": cut,
        "reduction": dimensions,
        "min_class_size": min_class_size,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    found = check_source(
        source,
        chosen_selector("default", {**chosen, "random_state": seed}),
        options=options,
        settings=settings,
        share=share,
        kinds=kinds,
        repeats=repeats,
        seed=seed,
    )
    if json:
        print_json(found.to_dict())
        return
    print(found)
