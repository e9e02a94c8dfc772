"""Lets ``python -m kspr`` be the command line."""

import atexit
import os
import sys

from kspr.cli import main


def _leave() -> None:
    """End this process now, after everything that is to be done at its end."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


main()
# Of several processes, one in twenty or so is aborted by threads of torch while Python is closing
# down. torchrun then stops all others, and would lose what the first is about to write.
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    _leave()
