"""The self-check says "held" where the promise holds and "not held" where it is broken."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from kspr import SPR, InputError, KnockoffsSPR, selfcheck
from kspr.noise import pair_flip, symmetric
from kspr.selectors.selfcheck import KindCheck, SelfCheck
from tests.selectors.simulated import by_control


class Careless(KnockoffsSPR):
    """Keeps at four times the level that it promises."""

    def fit(self, X, y, **fit_params):
        super().fit(X, y, **fit_params)
        promised, kept = self.selection_, self.selection_.at(min(0.9, 4 * self.q))
        level = np.full(len(kept.cut_groups), self.q)
        self.selection_ = replace(
            promised,
            clean_mask=kept.clean_mask,
            cut_groups=replace(kept.cut_groups, q_reached=level),
        )
        return self


@pytest.fixture(scope="module")
def clouds():
    """Ten overlapping classes, 6,000 rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 6000)
    X = (rng.standard_normal((10, 16)) * 2)[y] + 2 * rng.standard_normal((6000, 16))
    return X, y


def test_the_default_is_not_refuted_on_noisy_digits(digits40):
    """Its rate there is .106 over ten seeds: on the border of what three repeats can tell."""
    found = selfcheck(digits40.X, digits40.y, KnockoffsSPR(q=0.1))
    assert found.verdict != "not held"
    kinds = ["estimated", "symmetric", "pair", "similar", "hard"]
    assert [row.kind for row in found.kinds] == kinds


@pytest.mark.parametrize("control", ["transition", "exchangeable"])
def test_what_is_found_is_what_happened(control, clouds):
    """The realised FSR under more noise of the same kind lies within 3 standard errors."""
    X, y = clouds
    noisy = symmetric(y, 0.3, seed=1)
    selector = KnockoffsSPR(q=0.1, control=control)
    found = selfcheck(X, noisy, selector, kinds=[]).kinds[0]
    more = symmetric(y, 0.3 + 0.7 * 0.05, seed=2)
    kept = selector.fit(X, more).selection_.clean_mask
    realised = (more != y)[kept].mean()
    assert abs(found.found - realised) < 3 * found.error


def test_directed_noise_is_followed(clouds):
    """A third of the noise comes back right when it is flipped: that must not count as wrong."""
    X, y = clouds
    noisy = pair_flip(y, 0.3, {0: 1, 1: 0, 2: 3, 3: 2}, seed=0)
    kept = KnockoffsSPR(q=0.1).fit(X, noisy).selection_.clean_mask
    found = selfcheck(X, noisy, KnockoffsSPR(q=0.1), kinds=[])
    assert (noisy != y)[kept].mean() <= 0.1
    assert found.verdict != "not held"


def test_a_selector_that_breaks_its_promise_is_found_out(clouds):
    X, y = clouds
    found = selfcheck(X, symmetric(y, 0.3, seed=1), Careless(q=0.05))
    assert found.verdict == "not held"
    assert {row.verdict for row in found.kinds if row.kind != "hard"} == {"not held"}
    assert "smaller q" in found.advice


def test_the_papers_control_does_not_hold_under_heavy_noise(clouds):
    X, y = clouds
    heavy = symmetric(y, 0.8, seed=1)
    paper = by_control(q=0.05, control="paper")
    kept = paper.fit(X, heavy).selection_.clean_mask
    assert (heavy != y)[kept].mean() > 0.06
    found = selfcheck(X, heavy, paper, share=0.3)
    assert found.verdict == "not held"
    assert "control='people'" in found.advice


def test_wrong_labels_near_the_borders_break_the_assumption(clouds):
    X, y = clouds
    found = selfcheck(X, symmetric(y, 0.2, seed=1), kinds=["hard"], share=0.1)
    usual, hard = found.kinds
    assert hard.found > hard.promised + 2 * hard.error
    # A sensitivity: no control assumes such noise, so that it decides nothing.
    assert hard.verdict is None
    assert found.verdict == usual.verdict != "not held"
    assert f"{hard.shown(hard.found)} of the kept ones are wrong" in str(found)
    assert found.to_dict()["kinds"][1]["verdict"] is None


def test_too_few_rows_cannot_tell():
    rng = np.random.default_rng(0)
    found = selfcheck(rng.standard_normal((60, 4)), np.arange(60) % 3)
    assert found.verdict == "cannot tell"
    assert "Flip more labels" in found.advice


@pytest.mark.parametrize(
    ("found", "error", "verdict"),
    [
        (0.05, 0.01, "held"),
        (0.055, 0.01, "held"),
        (0.065, 0.01, "cannot tell"),
        (0.08, 0.01, "not held"),
        (0.02, 0.04, "cannot tell"),
        (0.30, 0.04, "not held"),
    ],
)
def test_the_verdict_follows_the_error(found, error, verdict):
    assert KindCheck("pair", 100, 5, 900, 0.05, found, error).verdict == verdict


def test_nothing_kept_cannot_tell():
    assert KindCheck("pair", 100, 0, 0, 0.0, 0.0, 1.0).verdict == "cannot tell"


def test_the_worst_kind_decides():
    rows = [KindCheck("pair", 100, 5, 900, 0.05, found, 0.01) for found in (0.05, 0.065, 0.2)]
    for n, verdict in ((1, "held"), (2, "cannot tell"), (3, "not held")):
        assert SelfCheck("transition", 0.05, 0.05, 3, 0.1, tuple(rows[:n])).verdict == verdict


def test_the_same_seed_gives_the_same_answer(blobs):
    first = selfcheck(blobs.X, blobs.y, repeats=1)
    assert first == selfcheck(blobs.X, blobs.y, repeats=1)
    assert first != selfcheck(blobs.X, blobs.y, repeats=1, seed=1)


def test_labels_and_features_of_any_kind_are_taken(blobs):
    names = np.array(["ant", "bee", "cow"], dtype=object)
    expected = selfcheck(blobs.X, blobs.y, repeats=1, kinds=["similar", "hard"])
    found = selfcheck(
        sparse.csr_array(blobs.X), names[blobs.y], repeats=1, kinds=["similar", "hard"]
    )
    assert [row.n_flipped_kept for row in found.kinds] == [
        row.n_flipped_kept for row in expected.kinds
    ]


def test_the_selector_is_left_as_it_is(blobs):
    selector = KnockoffsSPR(q=0.2)
    selfcheck(blobs.X, blobs.y, selector, repeats=1, kinds=["pair"])
    assert not hasattr(selector, "selection_")
    assert selector.get_params() == KnockoffsSPR(q=0.2).get_params()


def test_the_result_can_be_read_and_saved(blobs):
    found = selfcheck(blobs.X, blobs.y, repeats=1)
    saved = json.loads(json.dumps(found.to_dict()))
    assert saved["verdict"] == found.verdict
    assert saved["kinds"][1]["kind"] == "symmetric"
    text = str(found)
    assert text.startswith("Self-check of control='people' at q = 0.05")
    assert found.advice in text


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"selector": SPR()}, "needs a KnockoffsSPR, got SPR"),
        ({"share": 0.7}, "share must be at most 0.5"),
        ({"share": 5}, "share must lie in"),
        ({"kinds": ["odd"]}, "kinds must be one of"),
        ({"repeats": 0}, "repeats must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_arguments_are_named(how, words, blobs):
    with pytest.raises(InputError, match=words):
        selfcheck(blobs.X, blobs.y, **how)
