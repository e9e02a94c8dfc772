"""Recipes: one TOML file for each table and figure of the paper.

`variants` are the methods, `reported` holds the paper's values as printed; the tables `smoke`,
`mini` and `paper` say what is run at each scale.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar

from kspr.errors import InputError

T = TypeVar("T")
SCALES = ("smoke", "mini", "paper")


@dataclass(frozen=True)
class Variant:
    """One method: which samples it learns from, and how."""

    selector: Literal["none", "default", "paper", "spr"] = "default"
    """``none`` trains on all labels as given."""
    selection: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the selector that differ from its defaults."""
    method: str | None = None
    """With the selector ``none``: train by this method of `kspr.experiments.baselines`."""
    without: tuple[str, ...] = ()
    """Parameters of the selector that are None, which TOML cannot express."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that differ from those of the scale."""
    bottleneck: bool = False
    """Reduce the features with a linear layer of the network instead of PCA."""
    on_features: bool = False
    """Learn from frozen features, with the preset `cpu`, where the data of the scale are images."""
    of: str | None = None
    """The variant whose trials this one is read from: it is not run itself."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """With `of`: the measure of this variant, and the measure of the other one that is shown."""

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters that the selector gets."""
        return {**self.selection, **dict.fromkeys(self.without)}


@dataclass(frozen=True)
class Claim:
    """What the paper concludes: that one value is ahead of others, or of a limit."""

    says: str
    measure: str = ""
    ahead: str = ""
    """Row whose value is larger; with `row`, the noise."""
    of: tuple[str, ...] = ()
    """Rows, or noises, that it is ahead of; empty for all others that the paper reports."""
    lower: bool = False
    """The value that is ahead is the smaller one."""
    limit: float | None = None
    """A number in the place of other rows."""
    row: str = ""
    """The row of a comparison between noises."""
    data: str | None = None
    """The paper's name of a data set; None for the only one."""
    noises: tuple[str, ...] = ()
    """Noises that the claim is about; empty for all."""
    but: tuple[str, ...] = ()
    """Comparisons that the paper excepts: ``"SPR, Sym. 40 %"``."""
    open: str = ""
    """Why no number can tell; empty where one can."""


@dataclass(frozen=True)
class Scale:
    """What is run at one scale."""

    kind: str
    """A name in `kspr.experiments.reproduce.running.KINDS`."""
    data: Mapping[str, Mapping[str, Any]]
    """The paper's name of a data set: the source that is used for it here."""
    noises: tuple[str, ...]
    """Noises that are run: those of the recipe, where the file names none."""
    variants: tuple[str, ...]
    """Variants that are run: those of the recipe, where the file names none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of all trials; each kind of trial has its own."""
    seeds: int = 1
    minutes: int | None = None
    """How long it takes with two jobs on two cores, estimated from single trials."""
    note: str = ""
    """How this scale differs from the paper."""


@dataclass(frozen=True)
class Recipe:
    """One table or figure of the paper."""

    name: str
    title: str
    place: str
    """Its number in the paper."""
    shows: Literal["table", "path", "course", "splits", "examples", "histogram"]
    variants: Mapping[str, Variant]
    noises: tuple[str, ...]
    measures: tuple[str, ...]
    scales: Mapping[str, Scale]
    section: Literal["data", "noise", "none"] = "none"
    column: Literal["noise", "measure"] = "noise"
    columns: tuple[str, ...] = ()
    """The paper's column headings, in the order of the measures or noises."""
    reported: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """The paper's values as printed: section, row, one entry per column."""
    claims: tuple[Claim, ...] = ()
    """What the paper concludes from this table or figure."""

    def scale(self, name: str) -> Scale:
        """Return the scale called `name`."""
        # A scale comes from the command line, so a wrong name needs a sentence.
        if name not in SCALES:
            raise InputError(f"There is no scale {name!r}; there are {', '.join(SCALES)}.")
        return self.scales[name]


def recipe_names() -> tuple[str, ...]:
    """Return the names of all recipes: tables first, in the order of the paper."""
    files_here = [path.name for path in files(__name__).iterdir()]
    names = [name.removesuffix(".toml") for name in files_here if name.endswith(".toml")]
    return tuple(sorted(names, key=lambda name: ("table" not in name, "appendix" in name, name)))


@cache
def load_recipe(name: str) -> Recipe:
    """Return the recipe called `name`."""
    if name not in recipe_names():
        raise InputError(f"There is no recipe {name!r}; there are {', '.join(recipe_names())}.")
    entries = tomllib.loads((files(__name__) / f"{name}.toml").read_text(encoding="utf-8"))
    reported = {
        section: {row: tuple(printed) for row, printed in rows.items()}
        for section, rows in entries.pop("reported", {}).items()
    }
    variants = {key: _filled(Variant, entry) for key, entry in entries.pop("variants").items()}
    claims = [_filled(Claim, entry) for entry in entries.pop("claims", [])]
    every = {"noises": entries["noises"], "variants": list(variants)}
    scales = {scale: _filled(Scale, {**every, **entries.pop(scale)}) for scale in SCALES}
    for scale in scales.values():
        for chosen, known in ((scale.variants, variants), (scale.noises, entries["noises"])):
            for unknown in set(chosen) - set(known):
                raise InputError(f"{name} has no {unknown!r}; it has {', '.join(known)}.")
    made = {"claims": claims, "variants": variants, "scales": scales, "reported": reported}
    return _filled(Recipe, {"name": name, **made, **entries})


def _filled(kind: type[T], entries: dict[str, Any]) -> T:
    """Return a value of `kind`; raise for an entry that it does not have."""
    known = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    for name in entries:
        if name not in known:
            raise InputError(
                f"{name!r} is no entry of a {kind.__name__}; it has {', '.join(sorted(known))}."
            )
    # TOML gives lists; frozen values hold tuples.
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in entries.items()})
