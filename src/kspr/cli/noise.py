"""`kspr noise`: write labels of which a known share is wrong."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kspr.cli import _common as common


def noise(
    source: Path,
    /,
    *,
    out: Path,
    kind: Literal["symmetric", "asymmetric", "circular", "pair", "instance"] = "symmetric",
    pairs: Annotated[
        tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)
    ] = (),
    rate: float = 0.4,
    seed: int = 0,
    overwrite: common.Switch = False,
    options: common.Reading = common.AS_FOUND,
    json: common.Json = False,
) -> None:
    """Write a copy of the labels with a known share of wrong ones, beside the truth.

    Example: kspr noise digits.npz --kind symmetric --rate 0.4 --seed 0 --out noisy.csv

    Example: kspr select digits.npz --labels noisy.csv --out run

    Example: kspr evaluate run --truth noisy.csv

    Parameters
    ----------
    source
        A file or folder with labels that are right.
    out
        File for the labels (such as .csv or .parquet): row, id, label and truth.
    kind
        Which labels become which: any other (`symmetric`); CIFAR's similar classes
        (`asymmetric`); the next class (`circular`); the pairs given (`pair`); what the features
        suggest (`instance`).
    pairs
        For `pair`: which class becomes which, as in --pairs cat:dog dog:cat.
    rate
        Share of wrong labels; their number is exact.
    seed
        Seed of the noise.
    overwrite
        Replace an existing file.
    """
    common.refuse_several(options, "noise")
    from kspr.runs.corrupt import Noise, write_noisy_labels

    wanted = Noise(kind, rate, seed, pairs)
    done = write_noisy_labels(source, out, wanted, options, overwrite=overwrite)
    if json:
        common.print_json({"out": out, "rows": done.n, "wrong": done.n_wrong})
        return
    print(f"{done.n_wrong:,} of {done.n:,} labels are wrong now: {out}")
    print(f"Next: kspr select {source} --labels {out} --out RUN")
    print(f"      kspr evaluate RUN --truth {out}")
