"""Put the measured table into docs/speed.md: `python benchmarks/speed_page.py`."""

import json
from typing import Any

from _common import RESULTS, ROOT, markdown_table
from _prose import wrap_prose

SPEED = RESULTS / "speed.json"
PAGE = ROOT / "docs" / "speed.md"
START = "<!-- speed table: written by `make bench` -->\n"
END = "<!-- end of speed table -->"


def table(results: dict[str, Any]) -> str:
    """Return the table of the page, with a sentence on data and machine above it."""
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
        shown.append([f"**{row['title']}**", "", ""])
        for check in row["checks"]:
            missed = " (missed)" if check["met"] is False else ""
            value = f"{check['value']:.3g}{missed}"
            shown.append([check["what"], value, check["target"] or "-"])
    lines.append(markdown_table(["", "measured", "target"], shown))
    return wrap_prose("\n".join(lines)) + "\n"


def with_table(text: str, results: dict[str, Any]) -> str:
    """Return the page's text with the table in its place."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}{table(results)}{END}{after}"


def main() -> None:
    results = json.loads(SPEED.read_text())
    PAGE.write_text(with_table(PAGE.read_text(), results))
    print(f"wrote the table of {SPEED.relative_to(ROOT)} into {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
