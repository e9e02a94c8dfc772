"""Print, as JSON, the growth of resident memory at its peak during one fit.

Runs in a process of its own: memory that was freed before could be used again and not show up.
``python _peak_memory.py PRESET X.npy y.npy THREADS``.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from kspr import KnockoffsSPR, PaperKnockoffsSPR

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def main() -> None:
    preset, features, labels, threads = sys.argv[1:]
    # As for a user: everything is imported and X is loaded before the fit.
    X, y = np.load(features), np.load(labels)
    selector = {
        "paper": lambda: PaperKnockoffsSPR(n_jobs=int(threads)),
        "default": lambda: KnockoffsSPR(q=0.05),
    }[preset]()
    reset = reset_peak()
    before = resident()
    with threadpool_limits(limits=int(threads), user_api="blas"):
        selector.fit(X, y)
    growth = max(0, peak() - before)
    found = {"x_bytes": X.nbytes, "growth_bytes": growth, "peak_was_reset": reset}
    print(json.dumps(found))


def reset_peak() -> bool:
    """Reset the peak that loading has left; return False where the system cannot."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def resident() -> int:
    """Return the bytes in memory now; without /proc the peak so far, which is at least that."""
    return _status("VmRSS") if STATUS.exists() else peak()


def peak() -> int:
    if STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    line = next(row for row in STATUS.read_text().splitlines() if row.startswith(name + ":"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
