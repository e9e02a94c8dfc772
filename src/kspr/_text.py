"""Tables as plain text: what summaries and commands print."""

from collections.abc import Sequence

__all__ = ["text_table"]


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows of text in columns: the first `left` columns flush left, the others right.

    >>> print(text_table(["class", "kept"], [["otter", "12"], ["seal", "1,024"]]))
    class   kept
    otter     12
    seal   1,024

    The last column is never padded, so that it may hold a sentence.
    """
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    last = len(head) - 1
    padded = [
        [
            text.ljust(width) if k < left else text.rjust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    for line, plain in zip(padded, lines, strict=True):
        # Flush right, the padding is in front, and must stay.
        if last < left:
            line[last] = plain[last]
    return "\n".join("  ".join(line).rstrip() for line in padded)
