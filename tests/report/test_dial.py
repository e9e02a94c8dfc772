"""What other levels would keep."""

from kspr.report._dial import LEVELS, dial, dial_figure
from kspr.report._words import count, level


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_dial_shows_what_other_levels_keep(chosen, write):
    rows = {cells[0]: cells for cells in write(chosen).table("levels")}
    for q in (0.02, 0.05, 0.2):
        other = chosen.at(q)
        shown = rows[spaced(level(q))]
        assert shown[1] == count(int(other.clean_mask.sum()))
        assert shown[-1] == count(int((other.cut_groups.status == "empty").sum()))


def test_a_larger_level_keeps_no_less(chosen, digits40):
    steps = dial(chosen, chosen.label)
    assert [step.q for step in steps] == sorted({*LEVELS, 0.05})
    kept = [step.n_kept for step in steps]
    assert kept == sorted(kept)
    assert all(step.share == step.n_kept / len(chosen) for step in steps)
    # Held against its own labels, nothing is wrong.
    assert {step.measured for step in steps} <= {0.0, None}


def test_the_level_asked_for_is_on_the_dial(exchangeable):
    q = float(exchangeable.cut_groups.q_asked[0])
    (step,) = [step for step in dial(exchangeable, None) if step.q == q]
    assert step.n_kept == exchangeable.clean_mask.sum()
    assert step.measured is None


def test_the_true_share_is_drawn_only_where_it_is_known(chosen):
    assert dial_figure(chosen, None).count("<path") < dial_figure(chosen, chosen.label).count(
        "<path"
    )
