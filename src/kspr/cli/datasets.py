"""`kspr datasets`: the formats, and the published data sets with their folders."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from kspr._text import text_table
from kspr.cli import _common as common

if TYPE_CHECKING:
    from kspr.sources.formats import Format
    from kspr.sources.opening import Known


def datasets(*, json: common.Json = False) -> None:
    """List the formats that can be read and written, and the published data sets.

    For these, the folders are listed in which they are looked for, and the files expected there.

    Example: kspr datasets
    """
    from kspr.sources.opening import list_sources

    sources = list_sources()
    if json:
        # asdict leaves properties out.
        formats = [{**asdict(known), "is_written": known.is_written} for known in sources.formats]
        common.print_json({"formats": formats, "published": sources.published})
        return
    print("Files and folders of your own:\n")
    rows = [
        [known.name, " ".join(known.suffixes) or "-", _uses(known), known.about]
        for known in sources.formats
    ]
    print(text_table(["format", "suffixes", "for", "what"], rows, left=4))
    print("\nPublished data sets (set KSPR_DATA to the folder that holds them):")
    for known in sources.published:
        _print_published(known)


def _uses(known: "Format") -> str:
    uses = {"source": known.is_source, "labels": known.has_labels, "export": known.is_written}
    return ", ".join(use for use, possible in uses.items() if possible)


def _print_published(known: "Known") -> None:
    print(f"\n{known.name}: {known.about}")
    print(f"  found in {known.root}" if known.root else "  not found")
    for place in known.places:
        print(f"  looked in {place}")
    print(text_table(["  file", "what"], [[f"  {f}", p] for f, p in known.files], left=2))
