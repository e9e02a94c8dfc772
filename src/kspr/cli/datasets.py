"""`kspr datasets`: what can be read, and where it is."""

from kspr.cli._output import Json, print_json

__all__ = ["datasets"]


def datasets(*, json: Json = False) -> None:
    """List the formats that can be read, and the published data sets with their places.

    Example: kspr datasets
    """
    from kspr.sources.opening import list_sources

    found = list_sources()
    if json:
        print_json(found)
        return
    print("Files and folders of your own:")
    for own in found.formats:
        print(f"  {own.name:<14} {own.reads}")
    print("\nPublished data sets (set KSPR_DATA to the folder that holds them):")
    for known in found.published:
        mark = f"found in {known.root}" if known.root else "not found"
        print(f"  {known.name:<14} {known.reads}\n  {'':<14} {mark}")
        for place in known.places:
            print(f"  {'':<14}   looked in {place}")
        for file, purpose in known.files:
            print(f"  {'':<14}   {file}: {purpose}")
