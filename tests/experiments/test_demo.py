"""The demonstration on handwritten digits."""


def test_the_demo_holds_its_error_rate(tmp_path):
    """The seeds are fixed, and so is the answer."""
    from kspr.experiments.demo import run_demo

    result = run_demo(tmp_path, q=0.05, seed=0)
    assert result.quality.fsr <= 0.05
    assert result.quality.recall > 0.8
    assert result.suggested_right > 0.8
