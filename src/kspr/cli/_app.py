"""The `kspr` command: what all subcommands share."""

import sys
from collections.abc import Sequence

import cyclopts

import kspr
from kspr.cli.demo import demo
from kspr.errors import KsprError

__all__ = ["app", "main"]

app = cyclopts.App(
    name="kspr",
    help="Find the labels that can be trusted, at an error rate you set.",
    help_epilogue="Start with `kspr demo`. In Python: `from kspr import KnockoffsSPR`.",
    version=kspr.__version__,
)
app.command(demo)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (KsprError, cyclopts.CycloptsError) as error:
        print(f"kspr: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"kspr: {error.filename or 'file'}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("kspr: interrupted", file=sys.stderr)
        sys.exit(130)
