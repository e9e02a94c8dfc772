"""The demonstration on handwritten digits."""


def test_the_demo_holds_its_error_rate(tmp_path):
    """One draw: up to two standard errors of a share of the kept rows above q."""
    from kspr.experiments.demo import run_demo

    result = run_demo(tmp_path, q=0.05, seed=0)
    kept = int(result.selection.clean_mask.sum())
    assert result.quality.fsr <= 0.05 + 2 * (0.05 * 0.95 / kept) ** 0.5
    assert result.quality.recall > 0.8
    assert result.suggested_right > 0.8
