"""The report of a training run in a real browser: it fits, and complains of nothing."""

import pytest

from kspr.report import write_training_report
from tests.report.samples import training_run

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [380, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_complains_of_nothing(
    browser, chosen, raised, pictures, tmp_path, width, scheme
):
    run = training_run(tmp_path, chosen, raised, pictures, source="averylongname" * 12)
    path = write_training_report(run, tmp_path / "page.html")
    size = {"width": width, "height": 900}
    page = browser.new_page(viewport=size, color_scheme=scheme)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#curves svg").count() == 3
    # Hidden until the script shows them: the page's policy has let it run.
    assert page.locator(".copy:visible").count() == 2
    page.goto(f"{path.as_uri()}#made")
    assert page.locator("#made details[open]").count() == 1
    assert said == []
    page.close()
