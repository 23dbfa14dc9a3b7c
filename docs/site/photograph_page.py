"""A picture of an explorer's page at one step, for the documentation. Needs Playwright and Chromium.

retrograd explore examples/bessel.py:bessel 0.0 2.5 --loss out --tech cmos45 -o bessel.html
python docs/site/photograph_page.py bessel.html 700 docs/explorer.png
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def main(page: str, step: str, picture: str) -> None:
    """Write the picture of `page` at `step`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1400, "height": 1050})
        tab.goto(f"{Path(page).resolve().as_uri()}#step={step}")
        tab.wait_for_selector("html[data-ready]")
        tab.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
