"""Packages and the machine: optional imports, versions, and what a measurement ran on."""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

from kspr.errors import MissingExtraError

CHANGED = "-changed"
"""End of the commit of sources that differ from it."""


def require(module: str, purpose: str, package: str) -> Any:
    """Import `module`, or raise `MissingExtraError` with the pip command that brings `package`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        # A package may be there and lack one of its own: then that one is what is missing.
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            missing = error.name.partition(".")[0]
            raise MissingExtraError(f"{purpose} ({module})", missing) from error
        raise MissingExtraError(purpose, package) from error


def is_installed(module: str) -> bool:
    """Return whether `module` can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def version(package: str) -> str | None:
    """Return the installed version of a package; None without one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str | None]:
    """Return the versions of Python and of `packages`."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def machine(*packages: str) -> dict[str, Any]:
    """Return what a reader needs to judge seconds: processor, cores, system, versions."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": versions(*packages),
    }


def _cpu() -> str:
    # platform.processor() is empty on many Linux systems.
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@cache
def source_commit() -> str | None:
    """Return the last git commit that changed the sources of this package, in 12 digits.

    ``-changed`` at its end says that files differ from that commit. None if the package does not
    run from a checkout of its repository, or git is not at hand.
    """
    commit = _git("log", "-1", "--abbrev=12", "--format=%h")
    if not commit:
        return None
    return commit + (CHANGED if _git("status", "--porcelain") else "")


def _git(*command: str) -> str:
    """Return the answer of git on the folder of this package; nothing where it fails."""
    folder = Path(__file__).resolve().parent
    # Only the repository of this package, ROOT/src/kspr, is asked: another one that happens to lie
    # around an installed package may have settings that start programs.
    if folder.parent.name != "src" or not (folder.parents[1] / ".git").exists():
        return ""
    import subprocess

    try:
        return subprocess.run(  # noqa: S603 - the caller's words are fixed
            ["git", "-C", str(folder), *command, "--", "."],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
