"""The tables of docs/clusters.md, and what follows from them for many machines."""

from dataclasses import dataclass

from _common import ROOT, markdown_table
from _prose import wrap_prose

__all__ = ["write_page"]

PAGE = ROOT / "docs" / "clusters.md"
BEGIN, END = "<!-- measured by `make bench-dask` -->\n", "<!-- end of what was measured -->"
MACHINES, ROWS, COLUMNS = 32, 100_000_000, 512
NETWORK = 1.25e9
"""Bytes a second: 10 gigabits."""
PASSES = {
    "look": "look",
    "fit_part": "fit",
    "judge": "judge",
    "grade": "grade",
    "write_part": "write",
    "write_row_part": "write ids",
}
KINDS = ("process", "workers 1", "workers 2")
NAMES = dict(zip(("one process", "one worker", "two workers"), KINDS, strict=True))
NEEDED = {(prefix + kind, 128) for prefix in ("", "files, ") for kind in KINDS} | {
    ("files, workers 1", 512)
}
PER_ROW = ("read_part", "look", "fit_part", "judge", "grade", "_write_part", "_write_row_part")
"""Functions that run once on every partition, and take as long as these have rows."""
MERGED = ("merge_looks", "merge_judged", "merge_counts", "_merge_stats")


def write_page(lines: list[dict]) -> None:
    """Put what was measured into the page; nothing where a case is missing."""
    by_case = {(line["kind"], line["columns"]): line for line in lines}
    if not set(by_case) >= NEEDED:
        return
    narrow = {kind: line for (kind, columns), line in by_case.items() if columns == 128}
    assert len({narrow[kind]["q_sum"] for kind in KINDS}) == 1
    assert len({line["kept"] for line in narrow.values()}) == 1
    wide = by_case["files, workers 1", COLUMNS]
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    shown = wrap_prose(f"{times(narrow)}\n\n{wire(narrow)}\n\n{many(wide)}\n")
    PAGE.write_text(before + BEGIN + "\n" + shown + "\n" + END + rest.split(END)[1])


def times(lines: dict[str, dict]) -> str:
    """Return the table of one process, one and two workers."""
    about, n = lines["process"]["machine"], lines["process"]["rows"]
    rows = []
    for title, prefix in (("**arrays, `fit`**", ""), ("**files, `kspr select`**", "files, ")):
        rows.append([title, *[""] * 4])
        for name, kind in NAMES.items():
            line = lines[prefix + kind]
            seconds = [f"{line[key]:.1f} s" for key in ("seconds", "cpu")]
            rows.append([name, *seconds, f"{line['others']:.2f}", f"{line['load']:.1f}"])
    head = ["", "time", "processor time of all", "cores that others used", "load before"]
    return "\n".join(
        [
            f"{n:,} x 128 features in float16, 10 classes, {about['cores']} cores "
            f"({about['cpu']}), Dask {about['versions']['dask']}. Everything has one thread: the "
            "process, and each worker; processor time is that of all processes, with the client "
            "and the scheduler. Near copies are not looked for. Arrays are 16 memory maps, one for "
            "the process, and end in a `Selection` in one process; files are 16 parquet files, and "
            "end in a run that workers have written. All have the same levels, to the last bit. "
            "Each line is the fastest of the measurements that others hardly disturbed.",
            "",
            markdown_table(head, rows),
            "",
            sentence("With arrays", *(lines[kind] for kind in KINDS)),
            sentence("With files", *(lines["files, " + kind] for kind in KINDS)),
            "At least 1.7 x and at most 1.2 x were asked for.",
        ]
    )


def sentence(what: str, here: dict, one: dict, two: dict) -> str:
    return (
        f"{what}, two workers are **{one['seconds'] / two['seconds']:.2f} x** as fast as one; one "
        f"worker takes **{one['seconds'] / here['seconds']:.2f} x** the time of one process, and "
        f"{one['cpu'] / here['cpu']:.2f} x the processor time."
    )


def wire(lines: dict[str, dict]) -> str:
    """Return the table of bytes that travel in every pass."""
    kinds = ("workers 1", "workers 2", "files, workers 1", "files, workers 2")
    rows = []
    for name, shown in PASSES.items():
        sent = [[p["bytes"] for p in lines[kind]["passes"] if p["name"] == name] for kind in kinds]
        rows.append([shown, *(size(sum(found)) if found else "" for found in sent)])
    n = lines["process"]["rows"]
    head = ["pass", "arrays, one worker", "two workers", "files, one worker", "two workers"]
    graded = next(p for p in lines["workers 1"]["passes"] if p["name"] == "grade")["bytes"]
    return "\n".join(
        [
            "Bytes that all processes wrote to each other, pass by pass, with everything that Dask "
            f"itself says; the features are {size(n * 128 * 2)}:",
            "",
            markdown_table(head, rows),
            "",
            "Of the fitted rows, here a quarter of all, half go to the other worker; files are "
            "read in single precision. In the last pass over arrays the columns of the `Selection` "
            f"come to the process that asked for them, {graded / n:.0f} bytes a row. Otherwise "
            "states travel, and a partition that Dask gives to a worker that would be idle.",
        ]
    )


@dataclass(frozen=True)
class Forecast:
    """Seconds of a selection on many machines, from those that were measured on one worker."""

    line: dict
    workers: int

    @property
    def per_row(self) -> dict[str, float]:
        """Seconds of a worker for one row."""
        return {name: self.line["tasks"][name][1] / self.line["rows"] for name in PER_ROW}

    @property
    def work(self) -> float:
        return sum(self.per_row.values()) * ROWS / self.workers

    @property
    def fit(self) -> float:
        """The part that one worker does, then a half."""
        tasks = self.line["tasks"]
        return tasks["reduce_rows"][1] + tasks["fit_scores"][2] + tasks["join"][1]

    @property
    def merging(self) -> float:
        """As if one worker did all of it; anchors are a share of the rows."""
        own = sum(self.line["tasks"][name][1] for name in MERGED)
        return own * ROWS / self.line["rows"]

    @property
    def fitted_bytes(self) -> int:
        """Fitted rows as they were read, and half of them again as components."""
        fitted = (512 << 20) // (4 * COLUMNS)
        return int(1.5 * fitted * COLUMNS * 4)

    @property
    def state_bytes(self) -> float:
        """What all other passes send, in proportion to the rows: anchors are a share of these."""
        sent = sum(p["bytes"] for p in self.line["passes"] if p["name"] != "fit_part")
        return sent * ROWS / self.line["rows"]

    @property
    def travel(self) -> float:
        """As if all of it went through one connection."""
        return (self.fitted_bytes + self.state_bytes) / NETWORK

    @property
    def total(self) -> float:
        return self.work + self.fit + self.merging + self.travel


def many(line: dict) -> str:
    """Return what the largest data would take, with the calculation."""
    one, eight = Forecast(line, MACHINES), Forecast(line, 8 * MACHINES)
    per_row = one.per_row
    each = " + ".join(f"{1e6 * seconds:.2f}" for seconds in per_row.values())
    total = 1e6 * sum(per_row.values())
    rows = [
        [
            f"every row: {total:.1f} microseconds x {ROWS:,} / workers",
            duration(one.work),
            duration(eight.work),
        ],
        ["the fit: components on one worker, then a half", duration(one.fit), duration(eight.fit)],
        ["merging, as if one worker did all of it", duration(one.merging), duration(eight.merging)],
        [
            f"what travels: {size(one.fitted_bytes)} of fitted rows and {size(one.state_bytes)} "
            f"of states, all through one connection of {8 * NETWORK / 1e9:.0f} Gbit/s",
            duration(one.travel),
            duration(eight.travel),
        ],
        ["**all**", f"**{duration(one.total)}**", f"**{duration(eight.total)}**"],
    ]
    head = ["", f"{MACHINES} workers", f"{8 * MACHINES} workers"]
    memory = ROWS * COLUMNS * 4 / MACHINES
    return "\n".join(
        [
            f"### {ROWS // 1_000_000} million x {COLUMNS} on {MACHINES} machines",
            "",
            f"Calculated, not measured: from one worker with {line['rows']:,} x {line['columns']} "
            f"features in {line['parts']} parquet files, of float16 in lists "
            f"({line['seconds']:.1f} s in all; others used {line['others']:.2f} cores). The "
            f"seconds of each function over the rows: read, look, place, judge, grade, write, "
            f"write ids take {each} = {total:.1f} microseconds a row. The fit takes "
            f"{duration(one.fit)}, whatever the number of rows: 262,144 of them are fitted. "
            "States that travel and merge are taken in proportion to the rows.",
            "",
            markdown_table(head, rows),
            "",
            f"With one worker on each machine, and with eight. Each file is read once if the rows, "
            f"{size(memory)} a machine in single precision, take no more than two fifths of the "
            f"memory of the workers; otherwise four more times, "
            f"{duration(4 * per_row['read_part'] * ROWS / MACHINES)} more for 32 workers. Reading "
            "is decoding here: the files were in memory. A store that is slower than "
            f"{size(COLUMNS * 2 / per_row['read_part'])} a second and worker sets the time itself.",
        ]
    )


def size(n_bytes: float) -> str:
    """Return a number of bytes as people read it."""
    for unit, limit in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n_bytes >= limit:
            return f"{n_bytes / limit:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


def duration(seconds: float) -> str:
    """Return seconds, or minutes where these are many."""
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
