"""Cores with fewer units than the core fast: their LUTs by Yosys, for docs/coprocessor.md.

    python tools/measure_units.py [CASE ...]      such as "one divider"; all unless some are named

A core is synthesised with a serial line for an ECP5 in Q16.16. LUTs are Yosys's count before placement: LUTs of four inputs, and two for each
carry cell. Each result is stored in docs/reference/units.json as soon as it is known. `python tools/measure_cycles.py docs` then writes the table,
beside the cycles of the same programs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from amaranth.back import rtlil
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.flow.synthesis import BAUD, synthesise
from retrograd.hdl.parameters import Parameters
from retrograd.isa.files import write_file
from retrograd.isa.microarchitecture.micro_operations import CORES, Unit, Units

from retrograd import Format
from retrograd.presentation import markdown

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "reference" / "units.json"
SCHEMA = "retrograd.units/1"
FORMAT, MHZ = Format(32, 16), 75
_FAST = CORES["fast"]


def _second_slot(*without: Unit) -> Units:
    """The core fast without some units of its second slot."""
    first, second = _FAST.slots
    return replace(_FAST, slots=(first, second - {*without}))


#: title -> the units
CASES: dict[str, Units] = {
    "fast": _FAST,
    "one divider": _second_slot(Unit.DIVIDER),
    "one multiplier": _second_slot(Unit.MULTIPLIER),
    "8 digits of a quotient in a cycle": replace(_FAST, scaled=8),
    "two digits of a root in a cycle": replace(_FAST, digits=2),
    "no sum with a product": replace(_FAST, chained=False),
}


@contextmanager
def _core(title: str) -> Iterator[str]:
    """The name of the core of a case, while it is built. No two cases have one name, since microcode is kept by names."""
    name = f"measured, {title}"
    CORES[name] = CASES[title]
    try:
        yield name
    finally:
        del CORES[name]


def measure(title: str) -> dict[str, int]:
    """LUTs, multipliers and block RAMs of the core of a case. Raises subprocess.CalledProcessError."""
    with _core(title) as core, tempfile.TemporaryDirectory() as folder:
        parameters = Parameters(FORMAT, core=core)
        top = SerialCoprocessor(parameters, round(MHZ * 1e6 / BAUD))
        synthesise(rtlil.convert(top, name="top", emit_src=False), Path(folder), parameters)
        netlist = json.loads(Path(folder, "top.json").read_text("utf-8"))
    cells = Counter(cell["type"] for cell in netlist["modules"]["top"]["cells"].values())
    return {
        "luts": cells["LUT4"] + 2 * cells["CCU2C"],
        "multipliers": cells["MULT18X18D"],
        "memories": cells["DP16KD"],
    }


def results() -> dict[str, dict[str, int]]:
    """The stored results, in the order of the cases. Raises ValueError for another schema."""
    document = json.loads(RESULTS.read_text("utf-8"))
    if document["schema"] != SCHEMA:
        raise ValueError(f"{RESULTS.name}: {document['schema']}")
    return {title: document["results"][title] for title in CASES if title in document["results"]}


def table(cycles: Mapping[str, Sequence[str]], head: Sequence[str]) -> str:
    """The cores with their LUTs and the cells of `cycles`, whose columns `head` names."""
    rows = [["Core", "LUTs, Yosys", "less", "Multipliers", *head]]
    found = results()
    for title, area in found.items():
        less = found["fast"]["luts"] - area["luts"]
        share = f"{area['luts'] / 1000:.1f} k", f"{less / 1000:.1f} k" if less else ""
        rows.append([title, *share, str(area["multipliers"]), *cycles[title]])
    text: str = markdown(rows, right=range(1, len(rows[0])))
    return text


def luts_without() -> tuple[int, int]:
    """LUTs of the core fast, and its LUTs less the savings of all other cases."""
    whole, *others = (area["luts"] for area in results().values())
    return whole, whole - sum(whole - luts for luts in others)


def main(arguments: Iterable[str] | None = None) -> int:
    """Synthesise the cores, and store their results."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    options = parser.parse_args(None if arguments is None else [*arguments])
    if unknown := [name for name in options.cases if name not in CASES]:
        parser.error(f"there is no case {', '.join(unknown)}")
    for title in options.cases or CASES:
        found = (results() if RESULTS.exists() else {}) | {title: measure(title)}
        text = json.dumps({"schema": SCHEMA, "results": found}, indent=1)
        write_file(RESULTS, text + "\n")
        print(f"{title}: {found[title]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
