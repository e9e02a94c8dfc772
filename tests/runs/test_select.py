"""From a source to a run."""

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.errors import InputError
from kspr.features.options import AS_SHIPPED
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.sources.options import AS_FOUND


@pytest.fixture
def source(tmp_path, features, names):
    np.savez(tmp_path / "x.npz", X=features, y=names)
    return tmp_path / "x.npz"


def select(source, out, **changes):
    return select_source(
        source,
        out,
        KnockoffsSPR(q=0.1, first_step="spr", reduction=None),
        options=AS_FOUND,
        settings=AS_SHIPPED,
        command=("kspr", "select"),
        **changes,
    )


def test_a_run_is_what_the_selector_says_of_the_source(source, tmp_path, selection):
    made = select(source, tmp_path / "run")
    np.testing.assert_array_equal(made.selection.clean_mask, selection.clean_mask)
    assert made.row.tolist() == list(range(60))
    assert load_run(tmp_path / "run").origin.reader == "npz"


def test_an_existing_run_is_refused_before_the_source_is_read(source, tmp_path):
    select(source, tmp_path / "run")
    source.unlink()
    with pytest.raises(InputError, match="already holds a run"):
        select(source, tmp_path / "run")


def test_checked_rows_are_used(source, tmp_path, true_names):
    rows = range(0, 60, 2)
    lines = [f"{row},{true_names[row]},all" for row in rows]
    (tmp_path / "c.csv").write_text("\n".join(["row,true_label,drawn_from", *lines]))
    made = select(source, tmp_path / "run", checked=tmp_path / "c.csv")
    assert sorted(made.selection.checked.rows.tolist()) == list(rows)
