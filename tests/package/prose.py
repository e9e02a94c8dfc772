"""Markdown as lines of prose: what is left without tables, code, links and options."""

import re
from collections.abc import Iterator

LIMIT = 100
_FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})")


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the numbered lines of a page that a person wrote as sentences."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        found = _FENCE.match(line)
        if found and fence is None and not found[1].startswith(":"):
            fence = found[1]
            continue
        if fence is not None:
            if line.strip() == fence:
                fence = None
            continue
        if line.startswith(("|", "    ", "<!--", "![")) or (found and found[1].startswith(":")):
            continue
        yield number, line


def too_long(text: str) -> list[int]:
    """Return the numbers of prose lines beyond the limit, links and long words excepted."""
    return [
        number
        for number, line in prose_lines(text)
        if len(line) > LIMIT and not re.search(r"https?://|\]\([^)]*$|\S{60,}", line)
    ]
