"""What the pages of this room share: templates, style, scripts and their hashes."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kspr.report import _words

__all__ = ["environment", "shared_parts"]


def environment() -> Environment:
    """Return the templates, with the filters that put numbers and labels into words."""
    made = Environment(
        loader=PackageLoader("kspr.report", "templates"),
        # Labels and texts come from the data and may hold markup.
        autoescape=True,
        # A misspelt name in a template must fail, not vanish.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=_words.count,
        level=_words.level,
        share=_words.share,
        number=_words.number,
        label=_words.name,
    )
    return made


def shared_parts(
    templates: Environment, styles: Sequence[str], scripts: Sequence[str]
) -> dict[str, Any]:
    """Return the style sheets and scripts of these names, as `head.html` takes them.

    The look of all pages of this package comes first.
    """
    read = [_file(templates, name) for name in scripts]
    return {
        "style": Markup("").join([_look(), *(_file(templates, name) for name in styles)]),
        "scripts": read,
        "script_hashes": [_hash(script) for script in read],
    }


def _file(templates: Environment, name: str) -> Markup:
    """Return a file beside the templates as it is: the page allows exactly this script."""
    assert templates.loader is not None  # noqa: S101 - set by `environment`
    return Markup(templates.loader.get_source(templates, name)[0])  # noqa: S704 - our own file


def _look() -> Markup:
    """Return what all pages of this package look like."""
    return Markup((files("kspr") / "_look.css").read_text("utf-8"))  # noqa: S704 - our own file


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
