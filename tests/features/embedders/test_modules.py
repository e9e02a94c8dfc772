"""Modules from named arrays to features."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from kspr.features.embedders.modules import FromPixels, FromTokens  # noqa: E402


def test_bytes_are_normalised_per_channel():
    module = FromPixels(torch.nn.Flatten(), (0.5,) * 3, (0.25, 0.5, 1))
    pixels = torch.tensor([255, 0, 255], dtype=torch.uint8).view(1, 1, 1, 3)
    assert module({"pixels": pixels})[0].tolist() == [2, -1, 0.5]


class Tokens(torch.nn.Module):
    """Each token is its own number, twice."""

    def forward(self, input_ids, attention_mask):
        hidden = input_ids.float().unsqueeze(-1).expand(-1, -1, 2)
        return type("Output", (), {"last_hidden_state": hidden})


@pytest.mark.parametrize(("unit", "expected"), [(False, 2.0), (True, 0.5**0.5)])
def test_texts_are_averaged_without_the_padding(unit, expected):
    inputs = {"input_ids": torch.tensor([[1, 3, 9]]), "attention_mask": torch.tensor([[1, 1, 0]])}
    found = FromTokens(Tokens(), unit=unit)(inputs)
    assert found[0].tolist() == pytest.approx([expected] * 2)


def test_a_text_without_tokens_is_zero():
    inputs = {"input_ids": torch.tensor([[1]]), "attention_mask": torch.tensor([[0]])}
    assert FromTokens(Tokens(), unit=False)(inputs).tolist() == [[0, 0]]
