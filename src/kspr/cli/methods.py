"""`kspr methods`: the training methods of others, and what each must be told."""

from dataclasses import asdict

from kspr._text import text_table
from kspr.cli import _common as common


def methods(*, json: common.Json = False) -> None:
    """List the training methods of others that `kspr train --method` knows.

    All train the same network on the same batches with the same optimiser as ours. A method that
    must be told the noise rate gets it with `--noise-rate`; ours is told nothing.

    Example: kspr methods
    """
    from kspr.experiments.baselines import METHODS

    if json:
        common.print_json([{"name": name, **asdict(listed)} for name, listed in METHODS.items()])
        return
    rows = [
        [name, listed.told or "-", listed.idea, listed.paper] for name, listed in METHODS.items()
    ]
    print(text_table(["method", "is told", "what it does", "paper"], rows, left=4))
    print("\nkspr train SOURCE --method gce --out run")
    print("kspr train SOURCE --method co-teaching --noise-rate 0.2 --out run")
