"""The explorer's page in a browser (Chromium, driven by Playwright): states, keys, buttons, hostile text, no network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples.bessel import bessel
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd.observe._traces import page
from tests.debugger.test_session import SUM
from tests.explorer.dots import dot
from tests.explorer.test_document import HOSTILE, Player

pytestmark = pytest.mark.long
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"the tests of the explorer's page need a browser: {', '.join(BROWSERS)}")
    api = pytest.importorskip("playwright.sync_api", reason="the tests of the explorer's page need Playwright")
    with api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


class Page:
    """A page of the explorer, whose messages and requests are kept."""

    def __init__(self, browser: Any, path: Path, html: str, step: int = 0) -> None:
        path.write_text(html, "utf-8")
        self.tab = browser.new_page(viewport={"width": 1400, "height": 1000})
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.complaints.append(dialog.message) or dialog.dismiss())
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(f"file://{path}#step={step}")
        self.tab.wait_for_selector("html[data-ready]")

    def words(self) -> list[int]:
        return [int(word) for word in self.tab.evaluate("() => player.words.map(String)")]

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)

    @property
    def step(self) -> int:
        found: int = self.tab.evaluate("() => player.step")
        return found

    def close(self) -> None:
        assert self.complaints == []
        assert len(self.requests) == 1
        self.tab.close()


def summing(n: int) -> Any:
    machine = Machine(assemble(SUM))
    machine.registers[1] = n
    return rg.explore(machine)


def test_every_state_forward_and_back(browser: Any, tmp_path: Path) -> None:
    found = rg.explore(rg.grad(bessel, loss="out"), 0.0, 2.5)
    states = Player(found.as_dict()).states()
    shown = Page(browser, tmp_path / "page.html", found.html)
    for n in [*range(len(states)), *reversed(range(len(states)))]:
        shown.tab.evaluate("n => player.to(n)", n)
        assert shown.words() == states[n]
    shown.close()


def test_keys_and_buttons(browser: Any, tmp_path: Path) -> None:
    found = summing(3)
    last = len(found.recording.steps)
    shown = Page(browser, tmp_path / "page.html", found.html)
    shown.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert shown.step == 1
    shown.press("End")
    assert shown.step == last
    assert shown.tab.is_disabled("#step")
    shown.press("Shift+ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowRight", "Home")
    assert shown.step == 0
    assert shown.tab.is_disabled("#back")
    shown.tab.click("#step")
    shown.tab.click("#last")
    # The last write of `total`, and the write before it.
    row = shown.tab.locator("#word-lines tr", has_text="r2 total")
    row.locator("button").first.click()
    assert shown.tab.locator("#status").inner_text().splitlines()[-1] == "changed: r2 total: 5 → 14"
    row.locator("button").first.click()
    assert shown.tab.locator("#status").inner_text().splitlines()[-1] == "changed: r2 total: 1 → 5"
    row.locator("button").last.click()
    assert "5 → 14" in shown.tab.locator("#status").inner_text()
    # Small numbers have their whole exponent: 3 is 3·2⁻³² in Q32.32.
    assert shown.tab.locator("#word-lines tr", has_text="r1 n").locator("td").last.inner_text() == "6.98491931e-10"
    assert shown.tab.locator("#scrubber").get_attribute("aria-valuetext") == f"step {shown.step}"
    shown.close()


def test_a_line_is_a_step_of_the_source(browser: Any, tmp_path: Path) -> None:
    shown = Page(browser, tmp_path / "page.html", rg.explore(dot, 0.0, [*range(1, 21)], [1.0] * 20).html)
    # The loop is too long to be unrolled: its line comes before the line of its body.
    shown.press("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight")
    here = shown.tab.locator("#source-lines tr.here").inner_text()
    assert "total += x[i] * y[i]" in here
    there = shown.step
    shown.press("End", "Shift+ArrowLeft")
    assert shown.step > there
    assert "1 2 3" in shown.tab.locator("#variable-lines").inner_text()
    shown.close()


def test_running_and_scrubbing(browser: Any, tmp_path: Path) -> None:
    found = summing(200)
    last = len(found.recording.steps)
    shown = Page(browser, tmp_path / "page.html", found.html, step=7)
    assert shown.step == 7
    shown.tab.select_option("#speed", "5000")
    shown.tab.click("#play")
    shown.tab.wait_for_function(f"() => player.step === {last}")
    shown.tab.click("#play-back")
    shown.tab.wait_for_function("() => player.step === 0")
    box = shown.tab.locator("#timeline").bounding_box()
    shown.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 10)
    assert abs(shown.step - last / 2) <= 2
    shown.tab.locator("#scrubber").fill("11")
    assert shown.step == 11
    shown.close()


def test_hostile_text_is_text(browser: Any, tmp_path: Path) -> None:
    program = assemble(f"; {HOSTILE}\nstart\n add r1, 1\n finish")
    shown = Page(browser, tmp_path / "page.html", page({**rg.explore(program).as_dict(), "name": HOSTILE}, HOSTILE))
    assert shown.tab.locator("img").count() == 0
    assert HOSTILE in shown.tab.locator("#source-lines").inner_text()
    assert shown.tab.title() == shown.tab.locator("h1").inner_text() == HOSTILE
    shown.close()


def test_colours_of_text_can_be_read(browser: Any, tmp_path: Path) -> None:
    """Contrast of at least 4.5 to 1 (WCAG AA) between each colour of text and its backgrounds, in both schemes."""
    script = """() => {
      const style = getComputedStyle(document.documentElement);
      const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
      const light = (name) => {
        const [r, g, b] = style.getPropertyValue(`--${name}`).trim().match(/[0-9a-f]{2}/gi).map((h) => part(parseInt(h, 16)));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const pairs = ["text", "faint", "live", "erased", "energy", "cotangent", "focus", "back-way"].map((name) => [name, "panel"]);
      pairs.push(["text", "changed"], ["cotangent", "changed"]);
      pairs.push(...["text", "faint", "focus", "back-way"].map((name) => [name, "here"]));
      return pairs.map(([name, behind]) => {
        const [a, b] = [light(name), light(behind)].sort();
        return [`${name} on ${behind}`, (b + 0.05) / (a + 0.05)];
      });
    }"""
    for scheme in ("light", "dark"):
        shown = Page(browser, tmp_path / "page.html", summing(1).html)
        shown.tab.emulate_media(color_scheme=scheme)
        found = dict(shown.tab.evaluate(script))
        assert len(found) == 14
        assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}, scheme
        shown.close()
