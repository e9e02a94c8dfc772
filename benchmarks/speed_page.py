"""Put the measured tables into docs/speed.md: `python benchmarks/speed_page.py`."""

import json
from collections.abc import Iterable
from typing import Any

from _common import RESULTS, ROOT, markdown_table
from _prose import wrap_prose
from _trials import read_trials

PAGE = ROOT / "docs" / "speed.md"


def speed_table() -> str:
    """Return the table of `make bench`, with a sentence on data and machine above it."""
    results = json.loads((RESULTS / "speed.json").read_text())
    about, data = results["machine"], results["data"]
    versions = about["versions"]
    rows, columns = data["shape"]
    lines = [
        f"`make bench` on {data['source']} ({rows:,} x {columns}, {data['noise']:.0%} symmetric",
        f"noise, seed {results['seed']}); {about['cores']} cores ({about['cpu']}),",
        f"Python {versions['python']}, numpy {versions['numpy']}, "
        f"scikit-learn {versions['scikit-learn']}, cleanlab {versions['cleanlab']}:",
        "",
    ]
    shown = []
    for name in sorted(results["rows"]):
        row = results["rows"][name]
        shown += [[f"**{row['title']}**", "", ""], *_cells(row["checks"])]
    lines.append(markdown_table(["", "measured", "target"], shown))
    return "\n".join(lines)


def embedding_table() -> str:
    """Return the table of `make bench-embed`."""
    results = json.loads((RESULTS / "embedding.json").read_text())
    about, parts = results["machine"], results["parts"]
    versions = about["versions"]
    items = " and ".join(f"{part['items']['command']:,} {part['title']}" for part in parts)
    busy = max(max(part["others"].values()) for part in parts)
    lines = [
        f"`{results['command']}` on {items}; {about['cores']} cores",
        f"({about['cpu']}), of which other work used up to {busy:.1f}; torch {versions['torch']},",
        f"onnxruntime {versions['onnxruntime']}, transformers {versions['transformers']}:",
        "",
    ]
    shown = []
    for part in parts:
        shown += [[f"**{part['title']}**", "", ""], *_cells(part["checks"])]
    lines.append(markdown_table(["", "measured", "target"], shown))
    return "\n".join(lines)


def embedders_table() -> str:
    """Return the table of `python benchmarks/embedders.py`."""
    trials = read_trials(RESULTS / "embedders.jsonl")
    head = ["network", "pixels", "flips", "linear probe", "best-cut recall", "images a second"]
    shown = [
        [
            trial["embedder"],
            str(trial["size"]),
            "both" if trial["flips"] else "-",
            f"{trial['probe']:.3f}",
            f"{trial['best_cut_recall']:.3f}",
            f"{trial['images_per_cpu_second']:.0f}",
        ]
        for trial in sorted(trials, key=lambda t: (t["embedder"], t["size"], t["flips"]))
    ]
    return markdown_table(head, shown)


def _cells(checks: Iterable[dict[str, Any]]) -> list[list[str]]:
    shown = []
    for check in checks:
        missed = " (missed)" if check["met"] is False else ""
        shown.append([check["what"], f"{check['value']:.3g}{missed}", check["target"] or "-"])
    return shown


TABLES = {
    "make bench": speed_table,
    "make bench-embed": embedding_table,
    "python benchmarks/embedders.py": embedders_table,
}
"""The command that measures, and the function that returns its table."""


def with_tables(text: str) -> str:
    """Return the page's text with every table in its place."""
    for command, table in TABLES.items():
        start, end = f"<!-- measured by `{command}` -->\n", "<!-- end of what was measured -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{wrap_prose(table())}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text()))
    print(f"wrote the measured tables into {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
