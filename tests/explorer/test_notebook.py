"""The explorer in notebooks: the widget and its step, the frame without anywidget, and JupyterLab in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.isa.diagnostics import InputError

import retrograd as rg
from tests.debugger.test_session import SUM
from tests.explorer.test_document import HOSTILE

WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = [
    "import retrograd as rg\n"
    "from retrograd.assembler.assemble import assemble\n"
    f"program = assemble({f'; {HOSTILE}' + chr(10) + SUM!r})\n"
    "machine = rg.Machine(program)\n"
    "machine.registers[1] = 3\n"
    "found = rg.explore(machine)\n"
    "found",
    "found.widget.step",
    "found.widget.step = 12",
]


def notebook(*cells: str) -> Any:
    # Imported where it is used: it takes a second.
    import nbformat

    made = nbformat.v4.new_notebook()
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.cells = [nbformat.v4.new_code_cell(text) for text in cells]
    return made


def exploration() -> Any:
    machine = rg.Machine(assemble(SUM))
    machine.registers[1] = 3
    return rg.explore(machine)


def test_the_widget_has_the_recording_and_its_step() -> None:
    found = exploration()
    assert json.loads(found.widget.recording) == json.loads(json.dumps(found.as_dict()))
    assert found.widget is found.widget
    seen: list[int] = []
    found.widget.observe(lambda change: seen.append(change.new), "step")
    last = len(found.recording.steps)
    for step in (0, 7, last):
        found.widget.step = step
    assert seen == [7, last]
    for wrong in (-1, last + 1):
        with pytest.raises(InputError, match=f"no step {wrong} here"):
            found.widget.step = wrong
    assert found.widget.step == last


def test_steps_of_a_recording_that_begins_later() -> None:
    machine = rg.Machine(assemble(SUM))
    machine.registers[1] = 3
    machine.run(5)
    found = rg.explore(machine, steps=4)
    assert found.widget.step == 5
    found.widget.step = 9
    with pytest.raises(InputError, match="no step 4"):
        found.widget.step = 4


def test_the_module_needs_no_network_and_holds_no_text_of_a_program() -> None:
    module = rg.explore(assemble(f"; {HOSTILE}\nstart\n finish")).widget._esm
    assert not re.search(r"https?:|\bimport\b|\bfetch\b|\beval\b", module)
    assert "onerror" not in module
    # Markup is written in one place, and it is the component, which has no data in it.
    assert re.findall(r"(\w+HTML\b|write\()(.*)", module) == [("innerHTML", " = COMPONENT;")]


def test_without_anywidget_a_notebook_shows_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "retrograd.observe._notebook", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    found = exploration()
    assert found._repr_mimebundle_() == {}
    assert found._repr_html_().startswith("<iframe")
    with pytest.raises(InputError, match=r"RG0515[\s\S]*retrograd\[notebook\]"):
        _ = found.widget


@pytest.mark.long
def test_a_notebook_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The widget's view is in the output, with the frame for readers without a kernel; the step is Python's."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    made = notebook(*CELLS, "found.widget.step")
    import nbclient

    nbclient.NotebookClient(made, timeout=60).execute()
    [shown] = made.cells[0].outputs
    assert shown.data[WIDGET]["model_id"]
    assert shown.data["text/html"].startswith("<iframe")
    assert re.fullmatch(r"<Exploration of program: \d+ steps>", shown.data["text/plain"])
    assert [cell.outputs[0].data["text/plain"] for cell in made.cells[1::2]] == ["0", "12"]
    states = made.metadata.widgets["application/vnd.jupyter.widget-state+json"].state
    assert [state.model_module for state in states.values() if "recording" in state.state] == ["anywidget"]


# ---------------------------------------------------------------------- JupyterLab


def environment(folder: Path) -> dict[str, str]:
    """Folders of its own for Jupyter, and the data of the packages that are imported here."""
    import jupyterlab

    data = Path(jupyterlab.__file__).parents[4] / "share" / "jupyter"
    own = {name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    return {**own, "JUPYTER_PATH": str(data), "JUPYTERLAB_DIR": str(data / "lab")}


@contextmanager
def laboratory(folder: Path) -> Iterator[str]:
    """JupyterLab on a folder: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--IdentityProvider.token=", "--expose-app-in-browser", f"--notebook-dir={folder}"]
    with subprocess.Popen(command, env={**os.environ, **environment(folder)}, stderr=subprocess.DEVNULL) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@contextmanager
def opened(address: str) -> Iterator[Any]:
    """A tab of a browser at an address that is served soon."""
    api = pytest.importorskip("playwright.sync_api", reason="the tests of the explorer in JupyterLab need Playwright")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("the tests of the explorer in JupyterLab need a browser")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1500, "height": 1400})
        for _ in range(300):
            try:
                tab.goto(address)
                break
            except api.Error:
                tab.wait_for_timeout(200)
        yield tab
        browser.close()


@pytest.mark.long
def test_the_widget_in_jupyterlab(tmp_path: Path) -> None:
    import nbformat

    nbformat.write(notebook(*CELLS), tmp_path / "run.ipynb")
    with laboratory(tmp_path) as address, opened(f"{address}/lab/tree/run.ipynb") as tab:
        from playwright.sync_api import expect

        # A busy machine takes a minute to show the page.
        tab.set_default_timeout(300_000)
        requests: list[str] = []
        dialogs: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())
        tab.wait_for_selector(".jp-Notebook .jp-Cell")
        tab.wait_for_selector(".jp-NotebookPanel-toolbar >> text=Python 3")
        tab.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached")

        def run(cell: int) -> None:
            """Presses until the cell has a number: keys are lost while the page binds its commands or moves the focus."""
            prompt = tab.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").nth(cell)
            for _ in range(60):
                tab.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(cell).click()
                tab.keyboard.press("Control+Enter")
                for _ in range(20):
                    if prompt.inner_text() != "[ ]:":
                        return
                    tab.wait_for_timeout(100)
            pytest.fail(f"cell {cell} was not executed: {prompt.inner_text()}")

        run(0)
        status = tab.locator("#status")
        status.wait_for()
        expect(status).to_contain_text("step 0 of ", timeout=60_000)
        assert HOSTILE in tab.locator("#source-lines").inner_text()
        assert tab.locator("#source-lines img").count() == 0
        assert tab.locator(".jp-OutputArea iframe").count() == 0
        # A picture of a width of its own has been drawn.
        assert tab.locator("#memory").evaluate("canvas => canvas.width") > 300
        tab.locator("#step").click()
        # Keys are the explorer's, where it has the focus: the notebook's active cell stays.
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowRight")
        expect(status).to_contain_text("step 3 of ", timeout=60_000)
        run(1)
        tab.wait_for_selector(".jp-OutputArea-executeResult pre >> text=/^3$/")
        run(2)
        tab.wait_for_function(
            "() => document.querySelector('[aria-label=Explorer]').shadowRoot.getElementById('scrubber').value === '12'"
        )
        expect(status).to_contain_text("step 12 of ", timeout=60_000)
        assert dialogs == []
        assert {urlsplit(url).hostname for url in requests if url.startswith("http")} == {"127.0.0.1"}
        if "RETROGRAD_SCREENSHOT" in os.environ:
            tab.screenshot(path=os.environ["RETROGRAD_SCREENSHOT"])
