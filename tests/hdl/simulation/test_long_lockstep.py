"""Runs by shares: the store of shares that have ended, and the lockstep of all parameter sets (tools/long_runs/)."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.microcode import dispatch_address, microcode_for
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.isa.table import TABLE

ROOT = Path(__file__).resolve().parents[3]
SET = "small-Q4.4"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tools/long_runs/lockstep.py, with small shares; its cores are made anew."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "long_runs"))
    found = importlib.import_module("lockstep")
    for name, n in {"PROGRAMS": 1, "STATES": 8, "THREAD_PROGRAMS": 1, "THREAD_STATES": 2, "WHOLE": 1}.items():
        monkeypatch.setattr(found, name, n)
    made = found.made
    made.cache_clear()
    yield found
    # A test may have put another function in its place.
    made.cache_clear()


@pytest.fixture
def simulated(tool: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool with Amaranth's simulator in the place of Verilator, and with no Verilog but the given text."""
    monkeypatch.setattr(tool, "Verilated", lambda core, folder, text: Simulation(core_of(core.parameters)))
    monkeypatch.setattr(tool, "convert", lambda *_, **__: "module probe; endmodule")
    return tool


def test_a_store_keeps_whole_lines_of_a_mark(tool: Any, tmp_path: Path) -> None:
    store = tool.Store(tmp_path / "folder" / "shares.txt")
    assert store.finished("a") == {}
    store.add("a", 3, Counter(x=5, y=0))
    store.add("ab", 4, Counter(x=1))
    with store.path.open("a") as file:
        file.write("a 5 x=1")
    assert store.finished("a") == {3: Counter(x=5, y=0)}
    assert store.finished("ab") == {4: Counter(x=1)}
    nothing = tool.Store(None)
    nothing.add("a", 1, Counter())
    assert nothing.finished("a") == {}


def test_the_sets_are_all_cores_and_widths(tool: Any) -> None:
    sets = tool.SETS.values()
    assert {(s.core, s.slots, s.format.width, s.all_units) for s in sets} == {
        (core, slots, width, units)
        for core, slots in (("small", 1), ("fast", 1), ("barrel", 1), ("barrel", 2))
        for width in (8, 16, 32, 64)
        for units in (True, False)
    }
    # A parameter of the hardware that is added needs sets of its own. `dma` is one of the bus, not of the core.
    assert {f.name for f in fields(Parameters)} == {
        "format",
        "code_words",
        "data_words",
        "units",
        "table",
        "core",
        "lanes",
        "slots",
        "dma",
    }


@pytest.mark.parametrize("name", ["small-Q4.4-logic", "fast-Q4.4-logic"])
def test_the_logic_unit_executes_the_entries_that_are_run(tool: Any, name: str) -> None:
    """They have microcode; each entry that is left out lacks it somewhere."""
    p, entries = tool.SETS[name].parameters, set(tool.SETS[name].entries())
    code = microcode_for(p)
    ways = [
        (backward, lifted, same) for backward in (False, True) for lifted in (False, True) for same in (False, True)
    ]
    has = {o.name: [bool(code.dispatch[dispatch_address(o.code, *way)]) for way in ways] for o in TABLE}
    assert entries == {o.entry.name for o in TABLE} - {o.entry.name for o in TABLE if not all(has[o.name])}
    assert "mov" in entries
    assert "fdiv" not in entries


def test_a_run_is_continued(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store.txt"

    def run(instructions: int) -> list[str]:
        assert simulated.main(["--set", SET, "--instructions", str(instructions), "--store", str(store)]) == 0
        return capsys.readouterr().out.splitlines()

    first = run(1)
    assert re.fullmatch(rf"{SET}@[0-9a-f]{{16}}: 0 of 1 instructions are in the store", first[0])
    assert len(store.read_text().splitlines()) == 1
    row = first[-1].split()
    total, parts = int(row[1]), [int(n) for n in row[2:6]]
    assert total == sum(parts) > 10
    # Seed 0 runs with D = 0, in both directions.
    assert min(parts[:2]) > 0
    assert parts[2:] == [0, 0]
    assert run(total)[-1] == first[-1]
    assert len(store.read_text().splitlines()) == 1
    assert int(run(total + 1)[-1].split()[1]) > total
    assert len(store.read_text().splitlines()) == 2
    # Another core counts for itself.
    simulated.made.cache_clear()
    monkeypatch.setattr(simulated, "convert", lambda *_, **__: "module probe; wire x; endmodule")
    assert "0 of 1 instructions are in the store" in run(1)[0]


def test_a_difference_is_found_and_repeated(
    simulated: Any,
    planted: Callable[[str, str, str], type],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A signed comparison without its overflow."""
    planted("core.units", "less.eq(word[-1] ^ overflow)", "less.eq(word[-1])")
    monkeypatch.setattr(simulated.Set, "entries", lambda _: ("slt",))
    store = tmp_path / "store.txt"
    assert simulated.main(["--set", SET, "--instructions", "100000", "--store", str(store)]) == 1
    shown = capsys.readouterr().out
    (seed,) = re.findall(rf"{SET}, seed (\d+): a difference; again: .* --set {SET} --seed \d+", shown)
    assert "AssertionError" in shown
    assert simulated.main(["--set", SET, "--seed", seed]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "1"
    # The share is not in the store.
    assert len(store.read_text().splitlines() if store.exists() else []) == int(seed)


@pytest.mark.parametrize("options", [["--set", "medium"], ["--instructions", "0"], ["--seed", "-1"]])
def test_wrong_options(tool: Any, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main(options)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(
    not any(shutil.which(name, path=f"{Path(sys.executable).parent}") or shutil.which(name) for name in ("verilator", "verilator-cli")),
    reason="Verilator is not installed",
)  # fmt: skip
def test_shares_in_verilator(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of each kind, the core barrel among them; and Verilog that counts each instruction twice."""
    sets = ["small-Q4.4-logic", "barrel-Q4.4"]
    assert (
        tool.main([*(f"--set={name}" for name in sets), "--instructions", "2", "--store", str(tmp_path / "s.txt")]) == 0
    )
    capsys.readouterr()
    core, text = tool.made("small-Q4.4-logic")
    assert text.count("= retired + 1'h1;") == 1
    wrong = text.replace("= retired + 1'h1;", "= retired + 2'h2;")
    monkeypatch.setattr(tool, "made", lambda _: (core, wrong))
    assert tool.main(["--set", "small-Q4.4-logic", "--instructions", "100000", "--folder", str(tmp_path)]) == 1
