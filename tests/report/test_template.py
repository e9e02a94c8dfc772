"""What the pages share."""

import base64
import hashlib

import pytest
from jinja2 import UndefinedError

from kspr.report._template import environment, shared_parts


def test_every_script_has_the_hash_of_its_text():
    parts = shared_parts(environment(), ["style.css"], ["common.js", "script.js"])
    assert [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in parts["scripts"]
    ] == parts["script_hashes"]


def test_the_look_of_all_pages_comes_before_their_own_style():
    style = shared_parts(environment(), ["training.css"], [])["style"]
    assert 0 <= style.index("--accent") < style.index(".curves")


def test_a_misspelt_name_in_a_template_fails():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ no_such_name }}").render()


def test_labels_are_escaped():
    shown = environment().from_string("{{ name|label }}").render(name="<b>")
    assert shown == "&lt;b&gt;"
