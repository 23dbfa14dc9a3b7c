"""The page on cycles: fresh, complete, and with the numbers of the units."""

from __future__ import annotations

from pathlib import Path

import pytest
from retrograd.isa.manual.description import page
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS
from retrograd.isa.table import TABLE

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
OPCODES = list(TABLE)


@pytest.mark.long
def test_the_page_is_fresh() -> None:
    assert (DOCS / "timing.md").read_text(encoding="utf-8") == page(), (
        "run python -m retrograd.isa.manual docs/reference"
    )


@pytest.mark.long
def test_every_instruction_is_on_the_page_with_its_cycles() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert "| `rot`, `irot` | 143 | 174 | 106 | 145 |" in rows
    names = {name for row in rows for name in row.split(" | ")[0].strip("| ").replace("`", "").split(", ")}
    for opcode in OPCODES:
        entry = opcode.entry
        listed = opcode.name in names or entry.name in names
        assert listed or any(n.startswith(f"{entry.name}.{{") and opcode.name.split(".")[1] in n for n in names), opcode


def test_the_pages_numbers_are_those_of_the_units(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"| look-up in a table | {DEFAULT_UNITS.rom} | 1 |" in page()
    monkeypatch.setattr("retrograd.isa.manual.description.FETCH", 7)
    assert "| fetch | 7 |" in page()
