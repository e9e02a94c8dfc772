"""The card of a data set: what was done, on what the rate rests, and nothing about the machine."""

from pathlib import Path

import numpy as np

from kspr.runs._cleaned_table import marks
from kspr.runs.export import Exported, data_card
from kspr.sources.options import ReadOptions
from tests.runs.tables import parquet


def test_the_card_says_what_was_done_and_explains_every_added_column(tmp_path, run_of, typed):
    run = run_of(parquet(typed, tmp_path / "x.parquet"), ReadOptions(features="f*"))
    card = data_card(run, Exported(Path(), 1234, 5, 6, None, ()))
    assert card.startswith("# x.parquet, labels checked by kspr\n")
    assert "1,234 rows are in this data set. Of the suspects, 5 have" in card
    assert str(run.selection.clean_mask.sum()) in card
    assert run.selection.assumption in card
    assert str(tmp_path) not in card
    assert [name for name in marks(run, np.arange(3)) if f"| `{name}` |" not in card] == []


def test_the_name_of_a_source_cannot_break_the_card(tmp_path, run_of, typed):
    run = run_of(parquet(typed, tmp_path / "a`b\n# c.parquet"), ReadOptions(features="f*"))
    assert data_card(run, Exported(Path(), 1, 0, 0, None, ())).startswith(
        "# a'b\\n# c.parquet, labels checked by kspr\n"
    )
