"""Progress of long work: in a notebook below its cell, on a terminal as a bar, and otherwise nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrograd import presentation

_WORK = """
import numpy as np
import retrograd as rg
from retrograd import library
from concurrent.futures import ThreadPoolExecutor
from retrograd import presentation
presentation.PATIENCE = presentation._REDRAW = 0.0
with ThreadPoolExecutor(2) as pool:
    found = rg.run_batch(library.relu, np.zeros(400), np.linspace(-1, 1, 400), executor=pool, chunk=20)
    summed = rg.vmap(rg.grad(library.relu, "x"), executor=pool, chunk=20)(np.zeros(400), np.linspace(-1, 1, 400))
print(found.values.out.sum() > 0)
"""


@pytest.mark.long
def test_only_where_it_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = subprocess.run([sys.executable, "-c", _WORK], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("True\n", "")
    assert not presentation.in_notebook()


@pytest.mark.long
def test_on_a_terminal() -> None:
    pty = pytest.importorskip("pty")
    master, terminal = pty.openpty()
    try:
        with subprocess.Popen([sys.executable, "-c", _WORK], stdout=subprocess.DEVNULL, stderr=terminal) as process:
            os.close(terminal)
            text = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:  # Linux's answer once the last writer is gone
                    break
                if not part:
                    break
                text += part
        assert process.returncode == 0, text.decode()[-2000:]
    finally:
        os.close(master)
    assert b"running" in text
    assert b"/400" in text


@pytest.mark.long
def test_in_a_notebook(tmp_path: Path) -> None:
    """The bar is an output of the cell that is replaced, and empty at the end; an interrupt ends the cell with KeyboardInterrupt."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    shown: list[str] = []

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg, cell, cell_index):  # type: ignore[no-untyped-def]
            if msg["msg_type"] in ("display_data", "update_display_data"):
                shown.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    interrupted = """
import os, signal, threading
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
from retrograd.library import relu
import time
def slow(x):
    time.sleep(0.05)
    return x
try:
    with ThreadPoolExecutor(2) as pool:
        rg.vmap(slow, executor=pool, chunk=1)(np.zeros(400))
except KeyboardInterrupt:
    print("interrupted")
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (_WORK, interrupted)])
    kernel = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "own",
        "language": "python",
    }
    folder = tmp_path / "kernels" / "own"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(kernel))
    os.environ["JUPYTER_PATH"] = str(tmp_path)
    try:
        Client(notebook, timeout=240, kernel_name="own").execute()
    finally:
        del os.environ["JUPYTER_PATH"]
    first = notebook.cells[0].outputs
    assert any(o.get("text") == "True\n" for o in first), first
    assert not any(o.output_type == "stream" and o.name == "stderr" for o in first), first
    bars = [text for text in shown if "running" in text]
    assert any("/400" in text for text in bars), shown
    assert len(set(bars)) > 2
    assert [o["data"]["text/plain"] for o in first if o.output_type == "display_data"] == ["", ""]
    assert any(o.get("text") == "interrupted\n" for o in notebook.cells[1].outputs), notebook.cells[1].outputs
