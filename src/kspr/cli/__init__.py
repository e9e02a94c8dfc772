"""The command line: one module per command."""

from kspr.cli._app import main

__all__ = ["main"]
