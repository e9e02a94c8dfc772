"""`kspr datasets`: the formats, and the published data sets with their folders."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from kspr._text import text_table
from kspr.cli import _common as common

if TYPE_CHECKING:
    from kspr.sources.formats import Format


def datasets(*, json: common.Json = False) -> None:
    """List the formats that can be read and written, and the published data sets.

    For these, the folders are listed in which they are looked for, and the files expected there.

    Example: kspr datasets
    """
    from kspr.sources.formats import FORMATS
    from kspr.sources.opening import list_published

    if json:
        # asdict leaves properties out.
        formats = [{**asdict(known), "is_written": known.is_written} for known in FORMATS]
        common.print_json({"formats": formats, "published": list_published()})
        return
    print("Files and folders of your own:\n")
    rows = [
        [known.name, " ".join(known.suffixes) or "-", _uses(known), known.about]
        for known in FORMATS
    ]
    print(text_table(["format", "suffixes", "for", "what"], rows, left=4))
    print("\nPublished data sets (set KSPR_DATA to the folder that holds them):")
    for published in list_published():
        print(f"\n{published['name']}: {published['about']}")
        print(f"  found in {published['root']}" if published["root"] else "  not found")
        for place in published["places"]:
            print(f"  looked in {place}")
        files = [[f"  {name}", purpose] for name, purpose in published["files"]]
        print(text_table(["  file", "what"], files, left=2))


def _uses(known: "Format") -> str:
    uses = {"source": known.is_source, "labels": known.has_labels, "export": known.is_written}
    return ", ".join(use for use, possible in uses.items() if possible)
