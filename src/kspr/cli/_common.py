"""What commands share: options, output, and the command line as it was typed."""

import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from kspr._text import visible
from kspr.errors import InputError
from kspr.selectors.options import AS_PRESET, DEFAULT_Q, SelectorOptions
from kspr.sources.options import AS_FOUND, AS_SHIPPED, EmbedSettings, ReadOptions

__all__ = [
    "AS_DRAWN",
    "AS_FOUND",
    "AS_PRESET",
    "AS_SHIPPED",
    "DEFAULT_Q",
    "INVOCATION",
    "Chosen",
    "Drawing",
    "Embedding",
    "Json",
    "Made",
    "Moved",
    "Names",
    "Reading",
    "Switch",
    "print_json",
    "print_notes",
    "refuse_several",
    "refuse_spr",
    "with_dashes",
]

INVOCATION: ContextVar[tuple[str, ...]] = ContextVar("INVOCATION", default=("kspr",))
"""The command line as it was typed, for manifests."""

# Below the options that every command has of its own, which need no title.
_JUDGE = Group("How to judge, and what to keep", sort_key=1)
_READ = Group("What to read", sort_key=2)
_EMBED = Group("Images and texts", sort_key=3)
# "*": the fields become flags of their own (--q, not --chosen.q). "": no --no- form of switches.
Chosen = Annotated[SelectorOptions, Parameter(name="*", negative_bool="", group=_JUDGE)]
"""The options of a selector, as flags of a command."""
Reading = Annotated[ReadOptions, Parameter(name="*", group=_READ)]
"""What the user says about a source, as flags of a command."""
Embedding = Annotated[EmbedSettings, Parameter(name="*", group=_EMBED)]
"""How images and texts become features, as flags of a command."""
# For a tuple, cyclopts would add a flag --empty-methods; negative="" leaves it out.
Names = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]
"""Several names behind one flag."""
Switch = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]
Made = Annotated[Path, Parameter(help="A directory that `kspr select` made.")]
Moved = Annotated[Path | None, Parameter(help="Where the data of the run is now, if it has moved.")]


@dataclass(frozen=True)
class DrawOptions:
    """How rows are drawn for a person to check, and what their answers are to promise."""

    q: float | None = None
    """The error rate to reach; without it, the one that the run was made for."""
    guarantee: Literal["mean", "confidence", "anytime", "anywhere"] | None = None
    """`mean`: at most q of the kept labels are wrong on average over draws. `confidence`: at most q
    with the probability `--confidence`, which takes several times the checks. `anytime`: the same,
    and you may stop when you like the result. `anywhere`: as `confidence`, for all q at once, so
    that q may be chosen when you have seen the result. Set it when rows are drawn."""
    confidence: float | None = None
    """Probability for all but `mean`; 0.95 without it."""
    seed: int | None = None
    """Seed of the draw; 0 without it."""
    new_draw: bool = False
    """Begin another draw, with other settings. Without it, the draw that is there goes on, as it
    was made. Answers that are there count for rows that are drawn again."""
    whole_groups: bool = False
    """Show with each drawn row the others of its group (`kspr select --groups`), such as all boxes
    of an image; of several labels, all of the row. Answers about these others decide on their own
    rows; the drawn ones alone give the error rate."""


AS_DRAWN = DrawOptions()
Drawing = Annotated[DrawOptions, Parameter(name="*", negative_bool="")]
"""Settings of a draw, as flags of a command."""


def print_json(value: Any) -> None:
    """Print `value` as one JSON document; infinite numbers and nan become null."""
    # Bidirectional marks and the controls beyond ASCII, which json.dumps leaves as they are.
    print(visible(json.dumps(_plain(value), ensure_ascii=False, indent=2), keep="\n"))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    # Arrays and scalars of numpy, which is not imported for this.
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    # json.dumps would write NaN and Infinity, which other readers of JSON refuse.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def print_notes(notes: Iterable[str]) -> None:
    """Print sentences that the user should know to standard error, beside the result."""
    for note in notes:
        print(f"kspr: {note}", file=sys.stderr)


_MENTIONED = re.compile(
    # Neither a flag already, nor a part of a longer name or of a path.
    r"(?<![\w./-])(?P<name>[a-z]\w*)"
    r"(?:=(?P<value>'[^']*'(?: or '[^']*')*|[\w.-]*\w))?(?![\w=/-])"
)
_IN_PYTHON = {"random_state": "seed", "reduction": "dimensions"}
"""Parameters that have another name on the command line."""


def with_dashes(text: str, command: Callable[..., None]) -> str:
    """Return a message of the library with the options of `command` as they are typed.

    Messages name the parameters of Python. Replaced are names with an underscore, with a value, or
    with a rule behind them: "cut" and "level" alone may be plain words.

    >>> def command(*, cut: str = "", min_class_size: int = 2) -> None: ...
    >>> with_dashes("A cut by class: pass min_class_size=1 or cut='pooled'.", command)
    'A cut by class: pass --min-class-size 1 or --cut pooled.'
    """
    options = set(_options(command))

    def shown(mention: re.Match[str]) -> str:
        name, value = mention["name"], mention["value"]
        option = _IN_PYTHON.get(name, name)
        has_rule = text.startswith((" must", " goes with"), mention.end())
        if option not in options or not ("_" in name or value is not None or has_rule):
            return mention[0]
        flag = f"--{option.replace('_', '-')}"
        if value in (None, "True"):
            return flag
        return f"no {flag}" if value in ("None", "False") else flag + " " + value.replace("'", "")

    return _MENTIONED.sub(shown, text)


def _options(command: Callable[..., None]) -> Iterator[str]:
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(parameter.default):
            yield from (field.name for field in fields(parameter.default))
        elif parameter.kind is parameter.KEYWORD_ONLY:
            yield name


def refuse_several(options: ReadOptions, command: str, *, groups: bool = True) -> None:
    """Raise if `options` name several labels a row, or `groups`, where a command takes none."""
    for given, name in (
        (options.labels_separator is not None, "--labels-separator"),
        (options.target != "classes", "--target numbers"),
    ):
        if given:
            raise InputError(
                f"{name} goes with `kspr select`; `kspr {command}` needs one class a row. Leave it "
                "out."
            )
    if options.annotators is not None:
        raise InputError(
            f"--annotators goes with `kspr select`; `kspr {command}` needs one label a row. Leave "
            "it out, and name the column of labels with --label."
        )
    if groups and options.groups is not None:
        raise InputError(
            f"--groups goes with `kspr select` and `kspr selfcheck`; `kspr {command}` does not "
            "keep rows together. Leave it out, and name the feature columns with --features."
        )


def refuse_spr(chosen: SelectorOptions, option: str) -> None:
    """Raise if the preset is `spr`, which has no error rate, where `option` needs one."""
    if chosen.preset == "spr":
        raise InputError(
            f"{option} goes with an error rate, which the preset 'spr' does not have. Choose "
            "another --preset."
        )
