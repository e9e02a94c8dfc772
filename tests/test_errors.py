"""The tree of errors: what a caller can catch."""

import pytest

from kspr.errors import InputError, KsprError, MissingExtraError, UnreadableItemError


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (InputError, (KsprError, ValueError)),
        (UnreadableItemError, (InputError,)),
        (MissingExtraError, (KsprError, ImportError)),
    ],
)
def test_an_error_is_caught_by_our_base_and_by_pythons(error, bases):
    assert all(issubclass(error, base) for base in bases)


def test_a_missing_package_is_one_sentence_with_the_command():
    assert str(MissingExtraError("The report", "jinja2")) == (
        "The report needs jinja2: run `pip install jinja2`."
    )
