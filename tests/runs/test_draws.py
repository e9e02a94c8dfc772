"""What a person is shown of the rows that were drawn, and draws that go on."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from kspr.runs.checks import read_checks
from kspr.runs.draws import draw_checks
from kspr.runs.run import load_run
from kspr.runs.verify import verification_of, verify_run
from kspr.sources.options import ReadOptions
from tests.runs.samples import rows_of

N = 60


def test_texts_are_shown_cut_and_on_one_line(texts, tmp_path):
    draw_checks(texts.folder, tmp_path / "out.csv", n=5, drawn="all")
    for entry in rows_of(tmp_path / "out.csv"):
        assert entry["text"].startswith(f"text, of {entry['row']} ")
        assert "\n" not in entry["text"]
        assert len(entry["text"]) <= 500


def test_images_are_shown_by_their_paths(tmp_path, run_of, names):
    lines = ["path,label"]
    for k, name in enumerate(names):
        Image.new("RGB", (2, 2), (k, 0, 0)).save(tmp_path / f"{k}.png")
        lines.append(f"{k}.png,{name}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    made = run_of(tmp_path / "list.csv")
    draw_checks(made.folder, tmp_path / "out.csv", n=7, drawn="all")
    for entry in rows_of(tmp_path / "out.csv"):
        assert entry["image"] == str(tmp_path / f"{entry['row']}.png")


def test_rows_of_a_table_are_shown_by_their_cells(tmp_path, run_of, names):
    """Neither the label is among them twice, nor the truth, nor hundreds of features."""
    table = {"city": [f"city {k}" for k in range(N)], "truth": names, "label": names}
    few = {f"f{k}": np.arange(N) / 2 + k for k in range(2)}
    for name, features in (("few", few), ("many", {f"f{k}": few["f0"] for k in range(60)})):
        pq.write_table(pa.table({**table, **features}), tmp_path / f"{name}.parquet")
        made = run_of(tmp_path / f"{name}.parquet", ReadOptions(features="f*"))
        draw_checks(made.folder, tmp_path / f"{name}.csv", n=5, drawn="all")
        shown = rows_of(tmp_path / f"{name}.csv")
        assert list(shown[0])[6:] == ["city", *(few if name == "few" else ())]
        assert all(entry["city"] == f"city {entry['row']}" for entry in shown)


def test_a_source_that_is_gone_leaves_row_and_id(texts, tmp_path):
    (tmp_path / "t.csv").unlink()
    draw_checks(texts.folder, tmp_path / "out.csv", n=5, drawn="all")
    assert list(rows_of(tmp_path / "out.csv")[0])[-1] == "drawn_from"


def test_a_draw_goes_on_after_a_sample_that_was_declared(texts, tmp_path, true_names):
    """Its rows are not the first ones of our order: they stay in the draw, others follow."""
    own = list(range(0, N, 7))
    lines = [f"{row},{true_names[row]},all" for row in own]
    (tmp_path / "own.csv").write_text("\n".join(["row,true_label,drawn_from", *lines]))
    before = verify_run(texts.folder, tmp_path / "own.csv")
    draw = draw_checks(texts.folder, tmp_path / "out.csv", n=len(own) + 5, drawn="all")
    assert (draw.n_before, draw.n_drawn) == (len(own), 5)
    checks = read_checks(texts.folder, texts.selection)
    new = [int(entry["row"]) for entry in rows_of(draw.path)]
    assert list(checks.positions) == own + new
    assert set(own).isdisjoint(new)
    assert verification_of(load_run(texts.folder)).n_kept == before.n_kept
