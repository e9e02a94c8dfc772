"""Results of answers that are kept with the run, and how far people agree."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr import ProbabilitySelector
from kspr.runs.draws import draw_checks
from kspr.runs.review_log import Opinion
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.runs.verify import agreements, verification_of, verify_run
from kspr.sources.options import ReadOptions
from tests.runs.samples import answer, rows_of

N = 60


def test_answers_are_kept_with_the_run(texts, tmp_path):
    assert verification_of(texts) is None
    drawn = draw_checks(texts.folder, tmp_path / "out.csv", n=30)
    wrong = rows_of(drawn.path)[0]["row"]
    answer(drawn.path, **{wrong: "-"})
    found = verify_run(texts.folder, drawn.path)
    assert (found.n_counted, found.n_wrong) == (30, 1)
    again = load_run(texts.folder)
    assert verification_of(again) == found
    assert not again.selection.clean_mask[int(wrong)]


def test_a_run_by_probabilities_is_verified_like_any_other(tmp_path, names, true_names):
    classes = np.unique(names)
    # Surer of some rows than of others, so that there is an order.
    sure = np.linspace(0.5, 0.9, len(names))[:, None]
    P = np.where(true_names[:, None] == classes, sure, (1 - sure) / 2)
    columns = {f"p_{name}": P[:, k] for k, name in enumerate(classes)}
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"id": [f"r{k}" for k in range(N)], **columns, "y": names}), path)
    made = select_source(
        path,
        tmp_path / "run",
        ProbabilitySelector(q=0.2),
        options=ReadOptions(probabilities="p_*"),
        command=("kspr", "select"),
    )
    drawn = draw_checks(made.folder, tmp_path / "out.csv", n=30)
    truth = {str(k): str(name) for k, name in enumerate(true_names)}
    answer(drawn.path, **truth)
    found = verify_run(made.folder, drawn.path)
    checked = [int(row["row"]) for row in rows_of(drawn.path)]
    right = names == true_names
    assert (found.n_counted, found.n_wrong) == (30, int((~right[checked]).sum()))
    assert found.n_wrong > 0
    again = load_run(made.folder)
    assert np.array_equal(again.selection.clean_mask[checked], right[checked])
    assert verification_of(again) == found


def test_only_rows_that_two_people_share_count():
    opinions = [
        Opinion(1, {"anna": "cat", "ben": "cat"}),
        Opinion(2, {"anna": "cat", "ben": "dog", "cleo": "dog"}),
        Opinion(3, {"anna": "cat"}),
    ]
    found = {(a.one, a.other): (a.n, a.share) for a in agreements(opinions)}
    assert found == {("anna", "ben"): (2, 0.5), ("anna", "cleo"): (1, 0), ("ben", "cleo"): (1, 1)}


def test_kappa_is_one_for_full_agreement_and_none_where_chance_explains_all():
    said = [("cat", "cat"), ("cat", "dog"), ("dog", "dog"), ("dog", "dog")]
    some = [Opinion(k, {"anna": one, "ben": other}) for k, (one, other) in enumerate(said)]
    assert agreements(some)[0].kappa == 0.5
    assert agreements([some[0], some[2]])[0].kappa == 1
    assert agreements(some[2:])[0].kappa is None
