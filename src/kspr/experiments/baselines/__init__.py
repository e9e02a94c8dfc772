"""Training methods of others on the network, data and optimiser of ours: Tables 1 to 3 and since.

`METHODS` lists them without importing torch; `make_method` returns the rule of one, and
`trainer.fit_method` trains by it. A new method is a subclass of `Method` and an entry in
`methods.toml`.
"""

import tomllib
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.experiments.baselines.method import Method


@dataclass(frozen=True)
class ListedMethod:
    """A training method, for lists."""

    title: str
    """Its name in papers."""
    module: str
    """Module of this package that has its rule."""
    rule: str
    """Name of the class."""
    idea: str
    """What it does, in a few words."""
    paper: str
    told: str = ""
    """What it must be told that ours is not; empty for nothing."""
    constants: tuple[tuple[str, Any], ...] = ()
    """Arguments of the class."""


def _listed(entry: dict[str, Any]) -> ListedMethod:
    constants = tuple(entry.pop("constants", {}).items())
    return ListedMethod(**entry, constants=constants)


_TEXT = (files(__name__) / "methods.toml").read_text(encoding="utf-8")
METHODS = {name: _listed(entry) for name, entry in tomllib.loads(_TEXT).items()}
"""Name, as in ``kspr train --method NAME``, and what is behind it."""


def make_method(name: str) -> "Method":
    """Return the rule of the method called `name`.

    >>> make_method("gce")
    GCE(q=0.7)
    """
    if name not in METHODS:
        raise InputError(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
    listed = METHODS[name]
    rule = getattr(import_module(f"{__name__}.{listed.module}"), listed.rule)
    method: Method = rule(**dict(listed.constants))
    return method
