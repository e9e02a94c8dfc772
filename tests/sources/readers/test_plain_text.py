"""Text files as UTF-8: plain ones where they are, others as copies that do not stay."""

import gzip

import pytest

from kspr.errors import InputError
from kspr.sources.readers.file_checks import plain_text


def test_a_plain_file_is_not_copied(text_file):
    path = text_file("x")
    assert plain_text(path, "text").data == path


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, (1 << 20) + 1])
def test_characters_across_blocks_are_kept(text_file, length):
    content = "a" * length + "€ß"
    path = text_file(gzip.compress(content.encode("utf-16")), "x.txt.gz")
    assert plain_text(path, "text").data.read_text("utf-8") == content


def test_a_copy_is_removed_with_what_refers_to_it(text_file):
    text = plain_text(text_file("é".encode("latin-1")), "text", "latin-1")
    copy = text.data
    assert copy.read_text("utf-8") == "é"
    del text
    assert not copy.exists()


def test_a_text_that_ends_within_a_character_is_refused(text_file):
    with pytest.raises(InputError, match=r"x.csv is not utf-16: it has the byte"):
        plain_text(text_file("ab".encode("utf-16") + b"c"), "text")
