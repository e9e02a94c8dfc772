"""`kspr selfcheck`: whether the error rate holds on these data."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kspr.cli import _common as common

Kind = Literal["symmetric", "pair", "similar", "hard"]


def selfcheck(
    source: Path,
    /,
    *,
    chosen: common.Chosen = common.AS_PRESET,
    share: float = 0.05,
    # consume_multiple: all words after the flag, as in --kinds pair hard.
    kinds: Annotated[tuple[Kind, ...], Parameter(consume_multiple=True, negative="")] = (
        "symmetric",
        "pair",
        "similar",
        "hard",
    ),
    repeats: int = 3,
    options: common.Reading = common.AS_FOUND,
    settings: common.Embedding = common.AS_SHIPPED,
    json: common.Json = False,
) -> None:
    """Flip some labels on purpose, select again, and test whether the error rate is kept.

    The flipped labels are known to be wrong, so those that are kept can be counted; labels that
    were wrong before are estimated. The answer is `held`, `not held` or `cannot tell`, for each
    kind of flips. It takes a dozen fits and writes nothing.

    Example: kspr selfcheck embeddings.parquet --label species --q 0.05 --control transition

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read.
    share
        Share of the labels to flip each time.
    kinds
        `symmetric`: to any other class. `pair`: each class to one other. `similar`: to the class
        with the nearest mean. `hard`: rows near a class border, across it; no control assumes such
        noise, so that it has no verdict, and shows how far the rate would be off. Flips like the
        noise that was estimated are always tried too.
    repeats
        How often each kind is tried.
    """
    from kspr.runs.selfcheck import check_source
    from kspr.selectors import from_options

    common.refuse_several(options, "selfcheck", groups=False)
    # Before anything is read: embedding may take long.
    common.refuse_spr(chosen, "kspr selfcheck")
    result = check_source(
        source,
        from_options(chosen),
        options=options,
        settings=settings,
        share=share,
        kinds=kinds,
        repeats=repeats,
        seed=chosen.seed,
    )
    if json:
        common.print_json(result.to_dict())
        return
    print(common.with_dashes(str(result), selfcheck))
