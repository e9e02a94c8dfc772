"""Figures as SVG: the colours of the page, equal bytes, and files of their own."""

import re
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from kspr._figures import ACCENT, KEPT, canvas, standalone, style, to_svg


def drawn(key="key", colour=ACCENT, **how) -> str:
    with style():
        figure, axes = canvas(300, 200)
        axes.plot([0, 1], [0, 1], color=colour)
        axes.set_xlabel("a < b & $c$")
        return to_svg(figure, key, 'a "quoted" figure', **how)


def test_placeholder_colours_become_variables_of_the_page():
    assert "var(--accent)" in drawn()
    assert "var(--accent)" not in drawn(colour=KEPT)
    assert not re.search("#0[1-6]0[1-6]0[1-6]", drawn())


def test_equal_figures_give_equal_text():
    assert drawn() == drawn()


def test_ids_of_two_figures_differ():
    first, second = (set(re.findall(r' id="([^"]+)"', drawn(key))) for key in ("a", "b"))
    assert first
    assert first.isdisjoint(second)


def test_labels_and_descriptions_are_escaped():
    assert "a &lt; b &amp; $c$" in drawn()
    assert 'aria-label="a &#34;quoted&#34; figure"' in drawn()


def test_a_standalone_figure_is_a_whole_xml_file_with_its_colours():
    text = standalone(drawn())
    root = ElementTree.fromstring(text)  # noqa: S314 - our own drawing
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--accent: #" in text
    assert "prefers-color-scheme: dark" in text


def test_a_tight_figure_holds_texts_outside_its_axes():
    def height(**how):
        with style():
            figure, axes = canvas(300, 200)
            axes.text(0.5, -1.0, "far below", transform=axes.transAxes, in_layout=True)
            figure.set_layout_engine("none")
            box = re.search(r'viewBox="0 0 \S+ (\S+)"', to_svg(figure, "k", "d", **how))
        return float(box[1])

    assert height(tight=True) > height() == pytest.approx(200)


def test_the_users_own_settings_return():
    with mpl.rc_context({"font.size": 23}):
        with style():
            assert mpl.rcParams["font.size"] != 23
        assert mpl.rcParams["font.size"] == 23
