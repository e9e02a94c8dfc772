"""The EfficientNet-Lite networks, from weights made on the fly."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from kspr.models.efficientnet_lite import _padding  # noqa: E402


@pytest.mark.parametrize("size", [7, 8, 64, 75])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_padding_keeps_a_position_for_every_step(size, kernel, stride):
    """TensorFlow's "same": size / stride positions, rounded up; the odd pixel comes last."""
    before, after = _padding(size, kernel, stride)
    assert after - before in (0, 1)
    assert (size + before + after - kernel) // stride + 1 == -(-size // stride)
