"""Accessibility of the site and of the explorer's page: axe in headless Chromium, with light and dark colours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from retrograd.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
NEEDED = ("furo", "axe_playwright_python", "playwright")
MISSING = [name for name in NEEDED if find_spec(name) is None] + (["chromium"] if BROWSER is None else [])
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All pages of the site, and a page of the explorer."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "tools" / "make_site.py"), "--out", str(folder / "html")]
    subprocess.run(command, check=True, capture_output=True)
    explorer = folder / "explorer.html"
    assert main(["explore", f"{ROOT / 'examples' / 'hypot.py'}:hypot", "0.0", "3.0", "4.0", "-o", str(explorer)]) == 0
    # The page that leads to the first page navigates at once, and has no content of its own.
    left_out = {folder / "html" / "index.html"}
    found = sorted(page for page in (folder / "html").rglob("*.html") if page.parent.name != "_static")
    return [explorer, *(page for page in found if page not in left_out)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


def violations(context: Any, page: Path) -> tuple[int, list[tuple[str, str]]]:
    """(rules of axe that hold, rules that do not with their impact)."""
    import axe_playwright_python

    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_load_state("load")
    opened.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8"))
    found = opened.evaluate("axe.run()")
    opened.close()
    return len(found["passes"]), [(rule["id"], rule["impact"]) for rule in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(pages: list[Path], browser: Any, scheme: str) -> None:
    """At least 95 of 100 rules hold on each page, and each rule whose breach is serious or critical."""
    assert len(pages) > 50
    context = browser.new_context(color_scheme=scheme)
    # The roles and labels of all pages come from one theme, so that some pages stand for all; in the dark, colours alone differ.
    for page in pages[:: 4 if scheme == "light" else 12]:
        held, broken = violations(context, page)
        assert held / (held + len(broken)) >= 0.95, (page.name, broken)
        assert not [rule for rule, impact in broken if impact in ("serious", "critical")], (page.name, broken)
