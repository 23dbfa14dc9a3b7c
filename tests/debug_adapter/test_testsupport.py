"""Microsoft's client for debug adapters, `@vscode/debugadapter-testsupport` from npm, against `retrograd dap`.

    cp tests/debug_adapter/testsupport/package.json FOLDER && npm install --prefix FOLDER
    NODE_PATH=FOLDER/node_modules pytest --full tests/debug_adapter/test_testsupport.py

Outside of CI the test is skipped by name where the client is not installed; in CI that is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.debug_adapter.test_protocol import LONG

pytestmark = pytest.mark.long
HERE = Path(__file__).parent
PACKAGE = Path("@vscode", "debugadapter-testsupport", "package.json")


def test_the_client_of_microsoft(tmp_path: Path) -> None:
    folders = [Path(folder) for folder in os.environ.get("NODE_PATH", "").split(os.pathsep) if folder]
    if shutil.which("node") is None or not any((folder / PACKAGE).is_file() for folder in folders):
        message = "Microsoft's client for debug adapters is not installed: see the head of this file"
        assert not os.environ.get("RETROGRAD_CI"), message
        pytest.skip(message)
    (tmp_path / "long.rga").write_text(LONG)
    (tmp_path / "trap.rga").write_text("start\n add r1, 5\n assertz r1\n finish\n")
    script = HERE / "testsupport" / "script.js"
    command = ["node", script, HERE.parents[1], tmp_path / "long.rga", tmp_path / "trap.rga"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = re.findall(r'^    async "(.*)"\(client\)', script.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"^ok (.*)$", done.stdout, re.MULTILINE) == written
    assert len(written) > 10
    assert "Traceback" not in done.stdout + done.stderr
