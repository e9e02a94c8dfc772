"""The `kspr` command: its list of commands, the option --config, and how errors end."""

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import cyclopts
from cyclopts import Parameter
from cyclopts.config import Toml

import kspr
from kspr._files import read_toml
from kspr._text import shorten
from kspr.cli import _common as common
from kspr.errors import LONGEST, KsprError

_SOON = 0.8
"""Seconds after which a command says on a terminal what it is doing."""
app = cyclopts.App(
    name="kspr",
    help=(
        "Find the labels that can be trusted, at an error rate that you ask for. The rate rests on "
        "an assumption about the noise until about 100 rows are checked (`kspr verify`)."
    ),
    help_epilogue="Start with `kspr demo`. In Python: `from kspr import KnockoffsSPR`.",
    version=kspr.__version__,
)
# `main` turns an interrupt into one sentence itself.
app.suppress_keyboard_interrupt = app.meta.suppress_keyboard_interrupt = False
_ORDER = """
demo select report selfcheck review verify plan gate export train methods predict embed datasets
noise evaluate compare reproduce
"""
"""The commands in the order of the work; each is the function of that name in its module."""
_NAMED: dict[str, Callable[..., None]] = {
    name: getattr(import_module(f"kspr.cli.{name}"), name) for name in _ORDER.split()
}
COMMANDS = tuple(_NAMED.values())
for place, command in enumerate(COMMANDS):
    app.command(command, sort_key=place)
app.register_install_completion_command(
    help="Set up completion of commands and flags for bash, zsh or fish.", group="Parameters"
)


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    config: Annotated[
        Path | None,
        Parameter(help="TOML file with options, one table per command; flags override it."),
    ] = None,
) -> Any:
    if config is not None:
        # Read here first: the faults of a file are named in one sentence.
        read_toml(config)
        app.config = (Toml(config, must_exist=True),)
    return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")


class _WhileRead:
    """Standard output that goes nowhere once nobody reads it, as in ``kspr datasets | head``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, or drop it where the reader is gone."""
        return self._try(self._stream.write, text) or len(text)

    def flush(self) -> None:
        """Flush the stream, or drop what is in it."""
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, action: Callable[..., Any], *given: Any) -> Any:
        try:
            return action(*given)
        except BrokenPipeError:
            # Everything after this, Python's own flush at the end included, must find an open file:
            # a reader that leaves is no reason to end a training run.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            return None


@contextlib.contextmanager
def _sigterm_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: what was begun is removed, workers are ended."""
    # Python lets only the main thread handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    with (
        _sigterm_like_ctrl_c(),
        contextlib.redirect_stdout(cast("TextIO", _WhileRead(sys.stdout))),
    ):
        _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()


@contextlib.contextmanager
def _task_said(command: Callable[..., None] | None) -> Iterator[None]:
    """Say on a terminal what a command is doing, if it takes longer than a second."""
    if command is None or not sys.stderr.isatty():
        yield
        return
    # Imports and files may take seconds before there is a bar.
    sentence = f"kspr {command.__name__}: {(command.__doc__ or '').partition(chr(10))[0]}"
    timer = threading.Timer(_SOON, lambda: print(sentence, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run(given: list[str]) -> None:
    common.INVOCATION.set(("kspr", *given))
    # An earlier call in this process may have named a file.
    app.config = ()
    called = next((_NAMED[word] for word in given if word in _NAMED), None)
    try:
        with _task_said(called), warnings.catch_warnings():
            warnings.showwarning = _print_warning
            app.meta(given, exit_on_error=False, print_error=False, result_action="return_value")
    # Whatever is wrong with the input is one line; a traceback means a bug of ours.
    except (KsprError, cyclopts.CycloptsError) as error:
        sentence = _missing(error, called) or " ".join(str(error).split())
        _stop(sentence if called is None else common.with_dashes(sentence, called), 2)
    except OSError as error:
        # A full disk has no name.
        where = f"{error.filename}: " if error.filename else ""
        _stop(f"{where}{error.strerror or error}", 2)
    except MemoryError:
        _stop("not enough memory; reduce --dimensions, or split with --samples-per-class.", 2)
    except KeyboardInterrupt as stop:
        _stop(str(stop) or "interrupted", 130)


def _print_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning as one sentence, without the line of code that raised it."""
    print(f"kspr: {message}", file=sys.stderr)


def _missing(error: Exception, command: Callable[..., None] | None) -> str | None:
    """Return the sentence for an option or file that is not given, with an example that has it."""
    # With a keyword, the option is there, and its value is missing.
    if not isinstance(error, cyclopts.MissingArgumentError) or error.keyword is not None:
        return None
    if command is None or error.argument is None:
        return None
    example = next(line for line in (command.__doc__ or "").splitlines() if "Example: " in line)
    return f"{command.__name__} needs {error.argument.name}. {example.strip()}"


def _stop(sentence: str, code: int) -> None:
    print(f"kspr: {shorten(sentence, LONGEST)}", file=sys.stderr)
    sys.exit(code)
