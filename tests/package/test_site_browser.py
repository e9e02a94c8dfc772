"""The documentation site in a real browser, opened from disk; after `make docs`."""

from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
PAGES = ("index", "what-q-means", "commands/select", "python/selectors", "error-rate", "results")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SITE.exists(), reason="`make docs` makes the site"),
]


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [380, 1000, 1600])
def test_pages_fit_the_window_and_ask_nothing_of_the_network(chromium, width):
    tab = chromium.new_page(viewport={"width": width, "height": 900})
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    for name in PAGES:
        tab.goto((SITE / f"{name}.html").as_uri())
        root = "document.documentElement"
        assert tab.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), name
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("words", ["checked+rows", "threshold"])
def test_the_search_answers_from_disk(chromium, words):
    tab = chromium.new_page()
    tab.goto((SITE / "search.html").as_uri() + f"?q={words}")
    # Results appear one after the other; this waits, and fails where the page is not found.
    tab.wait_for_selector("#search-results li:has-text('What q means')", timeout=10_000)
