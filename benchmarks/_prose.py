"""Wrap the prose of a Markdown page at 100 columns; tables, code and short lines stay.

python benchmarks/_prose.py docs/theory.md README.md
"""

import re
import sys
from pathlib import Path

__all__ = ["wrap_prose"]

WIDTH = 100
_LIST = re.compile(r"^(\s*)([-*+]|\d+\.) ")
_MARKER = re.compile(r"^([-+*#>|=]+|\d+[.)]|%\S?)$")
"""Words that may not begin a line: they would start a list, a table or a comment there."""
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")


def wrap_prose(text: str) -> str:
    """Return the page with every paragraph and list item that has a long line wrapped."""
    done: list[str] = []
    block: list[str] = []
    fence = None
    for line in [*text.split("\n"), ""]:
        found = _FENCE.match(line)
        plain = fence is not None or _is_fixed(line, block) or found is not None
        if plain or not line.strip() or _LIST.match(line):
            done += _wrapped(block)
            block = []
        if found and fence is None:
            fence = found[1]
        elif found and line.strip() == fence:
            fence = None
        if plain or not line.strip():
            done.append(line)
        else:
            block.append(line)
    return "\n".join(done[:-1])


def _is_fixed(line: str, block: list[str]) -> bool:
    """Return whether a line is not prose: a table, a heading, a directive, or indented code."""
    indented_code = line.startswith("    ") and not block
    return indented_code or line.startswith(("|", "#", "<!--", "![", ":::", ":", "{"))


def _wrapped(block: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in block):
        return block
    found = _LIST.match(block[0])
    first = found[0] if found else re.match(r"\s*", block[0])[0]
    rest = " " * len(first)
    lines, current = [], first.rstrip() if found else first
    for word in _words(" ".join([block[0][len(first) :], *block[1:]])):
        joined = f"{current} {word}" if current.strip() else current + word
        if len(joined) > WIDTH and current.strip() not in ("", first.strip()):
            lines.append(current)
            joined = rest + word
        current = joined
    return [*lines, current]


def _words(text: str) -> list[str]:
    """Return words; one that may not begin a line is joined to the word before it."""
    words: list[str] = []
    for word in text.split():
        if words and _MARKER.match(word):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(wrap_prose(Path(name).read_text()))
