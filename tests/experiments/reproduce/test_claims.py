"""What the paper concludes, judged by stored trials."""

import re

import pytest

from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.rendering import CANNOT, DOES_NOT, HOLDS, verdicts
from kspr.experiments.reproduce.reproduction import Reproduction, Trial

NOISES = ("Sym. 40 %", "Sym. 80 %", "Asy. 40 %")


def judged(recipe, values, place=0, scale="mini", seeds=1):
    """Return the verdict on a claim, where a measure of each row and noise is given."""
    data = next(iter(load_recipe(recipe).scale(scale).data))
    trials = [
        Trial(data, noise, row, seed, {}, value, 1.0, "2026-12-01", "0.1.0", "abc", "one")
        for (row, noise), value in values.items()
        for seed in range(seeds)
    ]
    result = Reproduction(recipe, scale, (), {}, {data: "these"}, {}, tuple(trials))
    return verdicts(result)[place]


def fsr(**rows):
    """Return the FSR of rows of Table 4 by noise."""
    names = {"ours": "Knockoffs-SPR", "random": "*-random"}
    return {
        (names[row], noise): {"fsr": value}
        for row, values in rows.items()
        for noise, value in zip(NOISES, values, strict=False)
    }


@pytest.mark.parametrize(
    ("random", "seen"),
    [
        ((0.2, 0.3, 0.1), HOLDS),
        ((0.051, 0.051, 0.051), CANNOT),
        ((0.2, 0.3, 0.02), DOES_NOT),
        ((0.2, 0.3, 0.045), CANNOT),
    ],
)
def test_a_claim_needs_more_than_two_standard_errors_either_way(random, seen):
    assert judged("table4", fsr(ours=(0.05, 0.05, 0.05), random=random)).seen == seen


def test_the_reason_names_the_comparison_that_is_most_against_a_claim():
    reason = judged("table4", fsr(ours=(0.05, 0.05), random=(0.2, 0.01))).reason
    assert reason == (
        "true in 1 of 2 comparisons, one seed; most against it: Sym. 80 %, Knockoffs-SPR 5.0, "
        "*-random 1.0"
    )


def test_more_seeds_bring_their_own_standard_error():
    values = fsr(ours=(0.05,), random=(0.051,))
    assert judged("table4", values).seen == CANNOT
    assert judged("table4", values, seeds=2).seen == HOLDS


def test_stand_ins_and_trials_that_were_not_run_tell_nothing():
    values = fsr(ours=(0.05,), random=(0.2,))
    assert judged("table4", values, scale="smoke")[1:] == (CANNOT, "these in place of CIFAR-10")
    assert judged("table4", {})[1:] == (CANNOT, "not run")
    assert judged("figure5", {}).seen == CANNOT


def test_a_comparison_that_the_paper_excepts_does_not_count():
    values = {
        (row, noise): {"accuracy": accuracy}
        for row, accuracy in (("Knockoffs-SPR", 0.8), ("SPR", 0.9), ("GCE", 0.7))
        for noise in ("Sym. 40 %",)
    }
    assert judged("table1", values).seen == HOLDS
    moved = {(row, "Asy. 40 %"): value for (row, _), value in values.items()}
    assert judged("table1", moved).seen == DOES_NOT


def test_noises_and_limits_are_compared_too():
    medians = {("SPR", noise): {"median": m} for noise, m in zip(NOISES, (1, 3, 1), strict=True)}
    assert judged("appendix-figure1", medians).seen == HOLDS
    slow = {("Knockoffs-SPR w/o split algorithm", "Sym. 40 %"): {"seconds": 0.9}}
    assert judged("table5", slow).reason.endswith("algorithm 0.90, the limit 3600.00")


def test_wrong_labels_leave_first_in_as_many_pairs_as_have_the_larger_penalty():
    # Penalties 3, 2, 1: the wrong row leaves at 2, the right ones at 3, at 2, at 1 and never.
    norms = [[0, 1, 2], [1, 2, 3], [0, 1, 2], [0, 0, 1], [0, 0, 0]]
    path = {"lams": [3, 2, 1], "norms": norms, "wrong": [True, False, False, False, False]}
    first = {("SPR", "Sym. 40 %"): path}
    assert judged("figure2", first).seen == HOLDS
    behind = {**path, "wrong": [False, True, False, False, False], "norms": norms[::-1]}
    assert judged("figure2", {("SPR", "Sym. 40 %"): behind}).seen == DOES_NOT


def test_fsr_is_held_against_q_along_the_training():
    def course(*lines):
        names = ("fsr", "q_reached", "q_spread")
        lines = [dict(zip(names, line, strict=True)) for line in lines]
        noises = NOISES if len(lines) else ()
        return {("Knockoffs-SPR", noise): {"course": lines} for noise in noises}

    early = course((0.5, 0.1, 0.02), (0.05, 0.1, 0.02))
    assert judged("figure3", early, 0).seen == DOES_NOT
    assert judged("figure3", early, 1).seen == HOLDS
    within = course((0.13, 0.1, 0.06), (None, None, None), (0.2, 0.1, 0.15))
    assert judged("figure3", within, 0).seen == HOLDS
    assert judged("figure3", within, 1).seen == DOES_NOT


@pytest.mark.parametrize("name", recipe_names())
def test_claims_name_rows_noises_and_data_that_the_recipe_has(name):
    recipe = load_recipe(name)
    for claim in recipe.claims:
        known = set(recipe.noises if claim.row else recipe.variants)
        assert {claim.ahead, *claim.of} - {""} <= known
        assert set(claim.noises) <= set(recipe.noises)
        assert claim.data is None or claim.data in recipe.reported
        excepted = [re.fullmatch("(.*), (.*)", text).groups() for text in claim.but]
        assert all(row in recipe.variants and at in recipe.noises for row, at in excepted)
        assert bool(claim.open) != bool(claim.measure)


def test_the_page_shows_a_verdict_on_every_claim():
    import kspr.experiments.reproduce.rendering as rendering

    empty = Reproduction("table6", "mini", (), {}, {}, {}, ())
    for render in (rendering.render_text, rendering.render_markdown):
        text = render(empty)
        assert text.count(CANNOT) == len(load_recipe("table6").claims) > 0
        assert "seen here" in text
