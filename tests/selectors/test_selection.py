"""The result of a selection: what it says, and that it survives being saved."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits

from kspr import SPR, InputError, KnockoffsSPR, Selection, selection_quality
from kspr.core.noise import symmetric


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


# Over the noise seeds 0 to 9 at q = 0.05, mean +- standard deviation:
#                FSR          recall       f1
#   20 %  default  .041 +- .008   .979 +- .004   .969 +- .004
#         paper    .003 +- .002   .882 +- .011   .936 +- .006
#   40 %  default  .038 +- .008   .947 +- .013   .954 +- .006
#         paper    .007 +- .002   .873 +- .014   .929 +- .008
@pytest.mark.parametrize(
    ("control", "rate", "fsr", "recall", "f1"),
    [
        ("transition", 0.2, 0.05, 0.955, 0.95),
        ("transition", 0.4, 0.05, 0.90, 0.93),
        ("paper", 0.2, 0.02, 0.80, 0.88),
        ("paper", 0.4, 0.03, 0.78, 0.86),
    ],
)
def test_digits_stay_within_the_margins(control, rate, fsr, recall, f1):
    """One seeded draw of noise; recall and f1 have more than three standard deviations of room."""
    X, y_true = load_digits(return_X_y=True)
    y = symmetric(y_true, rate, seed=1)
    selection = KnockoffsSPR(q=0.05, control=control).fit(X, y).selection_
    quality = selection_quality(selection.clean_mask, y == y_true)
    assert quality.fsr < fsr
    assert quality.recall > recall
    assert quality.f1 > f1


def test_suggested_labels_are_mostly_right_for_wrong_labels(digits40):
    wrong = ~digits40.right
    paper = KnockoffsSPR(control="paper").fit(digits40.X, digits40.y).selection_
    assert (paper.suggested_label[wrong] == digits40.y_true[wrong]).mean() > 0.85
    # Where labels may be believed, a doubtful one is; the suspects are what gets relabelled.
    default = KnockoffsSPR().fit(digits40.X, digits40.y).selection_
    wrong &= ~default.clean_mask
    assert (default.suggested_label[wrong] == digits40.y_true[wrong]).mean() > 0.8
    assert (default.suggested_label == digits40.y_true).mean() > 0.9


def test_indices_and_mask_agree(selection):
    assert np.array_equal(selection.clean_indices, np.flatnonzero(selection.clean_mask))
    together = np.concatenate([selection.clean_indices, selection.suspect_indices])
    assert np.array_equal(np.sort(together), np.arange(len(selection)))


def test_suspects_come_worst_first(selection):
    doubt = selection.statistic[selection.suspect_indices]
    assert (np.diff(doubt) <= 0).all()


def test_suspects_come_by_their_time_where_there_is_no_doubt(digits40):
    for model in (SPR(), KnockoffsSPR(control="paper"), KnockoffsSPR(control="exchangeable")):
        selection = model.fit(digits40.X, digits40.y).selection_
        assert (np.diff(selection.selection_time[selection.suspect_indices]) <= 0).all()


def test_another_level_needs_no_second_fit(digits40):
    loose = KnockoffsSPR(q=0.2).fit(digits40.X, digits40.y).selection_
    for q in (0.01, 0.05, 0.3):
        direct = KnockoffsSPR(q=q).fit(digits40.X, digits40.y).selection_
        moved = loose.at(q)
        assert np.array_equal(moved.clean_mask, direct.clean_mask)
        assert np.array_equal(moved.cut_groups.status, direct.cut_groups.status)
        assert str(moved.summary()) == str(direct.summary())
        assert moved.manifest.parameters == direct.manifest.parameters


def test_a_higher_level_keeps_more(selection):
    kept = [selection.at(q).clean_mask for q in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)]
    for small, large in pairwise(kept):
        assert (small <= large).all()


def test_a_level_out_of_reach_keeps_nothing_and_says_so(digits40):
    # A cut group of about 90 samples cannot reach a level below 1/90.
    selection = KnockoffsSPR(q=0.001).fit(digits40.X, digits40.y).selection_
    assert not selection.clean_mask.any()
    assert set(selection.cut_groups.status) == {"empty"}
    assert "could not be reached" in str(selection.summary())
    assert (selection.cut_groups.smallest_q > 0.001).all()
    reachable = selection.at(float(selection.cut_groups.smallest_q.max()))
    assert set(reachable.cut_groups.status) == {"controlled"}


def test_the_papers_rule_raises_the_level_and_marks_its_fallback():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 3, 300)
    selection = KnockoffsSPR.paper().fit(X, y).selection_
    status, cut_groups = selection.cut_groups.status, selection.cut_groups
    assert set(status) <= {"raised", "fallback"}
    assert "fallback" in status
    fallen = status == "fallback"
    assert np.isnan(cut_groups.q_reached[fallen]).all()
    assert np.array_equal(cut_groups.n_kept[fallen], (cut_groups.n[fallen] + 1) // 2)
    assert (cut_groups.q_reached[~fallen] >= cut_groups.estimated_fsr[~fallen]).all()
    assert "best half was kept" in str(selection.summary())


def test_the_theorems_bound_is_stricter(digits40):
    plain, strict, milder = (
        KnockoffsSPR(q=0.2, **choice).fit(digits40.X, digits40.y).selection_
        for choice in (
            {"control": "paper"},
            {"control": "theorem"},
            {"control": "theorem", "kappa": 0.5},
        )
    )
    assert np.allclose(strict.q_value, plain.q_value / (8 / 20))
    assert np.allclose(milder.q_value, plain.q_value / 0.5)
    assert strict.clean_mask.sum() < milder.clean_mask.sum() < plain.clean_mask.sum()


@pytest.mark.parametrize("control", ["transition", "paper"])
def test_two_classes_work(blobs, control):
    two = (blobs.y < 2) & (blobs.y_true < 2)
    X, y = blobs.X[two], blobs.y[two]
    selection = KnockoffsSPR(q=0.1, control=control).fit(X, y).selection_
    quality = selection_quality(selection.clean_mask, blobs.right[two])
    assert quality.fsr <= 0.1
    assert quality.recall > 0.8
    assert np.array_equal(selection.knockoff_label, 1 - y)


def test_of_two_classes_the_theorem_and_exchange_say_what_they_do_not_cover(blobs):
    two = blobs.y < 2
    X, y = blobs.X[two], blobs.y[two]
    with pytest.raises(InputError, match=r"covers two classes only with kappa"):
        KnockoffsSPR(control="theorem").fit(X, y)
    KnockoffsSPR(q=0.1, control="theorem", kappa=0.5).fit(X, y)
    with pytest.raises(InputError, match=r"needs at least three classes, got 2") as caught:
        KnockoffsSPR(control="exchangeable").fit(X, y)
    assert "\n" not in str(caught.value)


def test_spr_keeps_its_share_of_every_class(digits40):
    selection = SPR(clean_ratio=0.3).fit(digits40.X, digits40.y).selection_
    for row in selection.summary().per_class:
        assert row.n_kept == int(np.ceil(0.3 * row.n))
    pooled = SPR(clean_ratio=0.3, cut="pooled").fit(digits40.X, digits40.y).selection_
    assert pooled.clean_mask.sum() == int(np.ceil(0.3 * len(digits40.y)))
    assert set(selection.cut_groups.status) == {"share"}


def test_spr_has_no_level_to_move(digits40):
    with pytest.raises(InputError, match="SPR does not have"):
        SPR().fit(digits40.X, digits40.y).selection_.at(0.1)


def test_spr_puts_wrong_labels_first(digits40):
    selection = SPR(clean_ratio=0.6).fit(digits40.X, digits40.y).selection_
    assert selection_quality(selection.clean_mask, digits40.right).f1 > 0.93


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_has_one_row_per_sample(selection, backend):
    frame = selection.to_frame(backend)
    columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert frame.shape[0] == len(selection)
    assert columns[:2] == ["label", "clean"]
    assert list(np.asarray(frame["suggested_label"])) == list(selection.suggested_label)


def test_an_unknown_frame_is_refused_in_a_sentence(selection):
    with pytest.raises(InputError, match="'pandas', 'polars' or 'pyarrow'"):
        selection.to_frame("excel")


def test_saving_and_loading_changes_nothing(selection, tmp_path):
    loaded = Selection.load(selection.save(tmp_path / "run"))
    for name in (
        "label",
        "clean_mask",
        "statistic",
        "selection_time",
        "knockoff_label",
        "suggested_label",
        "cut_group",
        "classes",
    ):
        before, after = getattr(selection, name), getattr(loaded, name)
        assert before.dtype == after.dtype, name
        assert np.array_equal(before, after), name
    assert loaded.manifest == selection.manifest
    assert loaded.summary() == selection.summary()
    assert np.array_equal(loaded.at(0.1).clean_mask, selection.at(0.1).clean_mask)


def test_a_saved_selection_without_knockoffs_loads(digits40, tmp_path):
    selection = SPR().fit(digits40.X, digits40.y.astype(np.int16)).selection_
    loaded = Selection.load(selection.save(tmp_path / "spr"))
    assert loaded.knockoff_label is None
    assert loaded.label.dtype == np.int16
    assert repr(loaded) == repr(selection)


def test_the_manifest_tells_where_a_result_comes_from(digits40, tmp_path):
    model = KnockoffsSPR(q=0.07, random_state=5).fit(digits40.X, digits40.y)
    about = json.loads((model.selection_.save(tmp_path / "m") / "manifest.json").read_text())
    manifest = about["manifest"]
    assert manifest["parameters"]["q"] == 0.07
    assert manifest["n_samples"] == 1797
    assert set(manifest["versions"]) == {"python", "kspr", "numpy", "scikit-learn"}
    changed = digits40.X.copy()
    changed[7, 3] += 1
    other = KnockoffsSPR(q=0.07, random_state=5).fit(changed, digits40.y).selection_.manifest
    assert other.fingerprint != manifest["fingerprint"]


def test_an_existing_directory_is_not_overwritten_by_accident(selection, tmp_path):
    selection.save(tmp_path / "run")
    with pytest.raises(InputError, match="overwrite=True"):
        selection.save(tmp_path / "run")
    selection.at(0.2).save(tmp_path / "run", overwrite=True)
    assert Selection.load(tmp_path / "run").manifest.parameters["q"] == 0.2
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("dear")
    with pytest.raises(InputError, match="left alone"):
        selection.save(tmp_path / "photos", overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "dear"


def test_a_failed_save_leaves_nothing_behind(selection, tmp_path, monkeypatch):
    selection.save(tmp_path / "run")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(OSError, match="No space"):
        selection.at(0.2).save(tmp_path / "run", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert Selection.load(tmp_path / "run").manifest.parameters["q"] == 0.05


@pytest.mark.parametrize("damage", ["missing", "truncated", "not json", "future"])
def test_what_is_no_selection_is_refused_in_a_sentence(selection, tmp_path, damage):
    folder = selection.save(tmp_path / "run")
    if damage == "missing":
        (folder / "cut_groups.parquet").unlink()
    elif damage == "truncated":
        whole = (folder / "samples.parquet").read_bytes()
        (folder / "samples.parquet").write_bytes(whole[: len(whole) // 2])
    elif damage == "not json":
        (folder / "manifest.json").write_text("{")
    else:
        about = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(InputError) as caught:
        Selection.load(folder)
    assert str(folder) in str(caught.value)
    assert not isinstance(caught.value, pa.ArrowInvalid)


def test_repr_and_html_name_the_verdict(selection):
    assert "labels kept" in repr(selection)
    assert "10 controlled" in repr(selection)
    html = selection._repr_html_()
    assert html.count("<tr>") == 11
    assert "digit 7" in html


def test_html_escapes_labels(blobs):
    names = np.array(["<b>", "&", "c"])[blobs.y]
    html = KnockoffsSPR(q=0.1).fit(blobs.X, names).selection_._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
