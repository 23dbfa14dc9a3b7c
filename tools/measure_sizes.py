"""Measure the cores on an ECP5: sizes and clocks after place and route, and the LUTs of cores with fewer units.

    python tools/measure_sizes.py [--seeds N] [CASE ...]      such as "barrel 8 Q16.16" or "one divider"; all cases unless some are named

A placed case is the document of `retrograd hdl synth --json` for an ECP5-85F, in docs/reference/sizes.json. A case with fewer units than the
core fast is synthesised with a serial line in Q16.16; its LUTs are Yosys's count before placement (LUTs of four inputs, and two for each
carry cell), in docs/reference/units.json. Each result is stored as soon as it is known; results of other cases stay.
`python tools/measure_cycles.py docs` then writes the tables of docs/coprocessor.md, and the times at the clocks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from amaranth.back import rtlil
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.flow.synthesis import BAUD, synthesise
from retrograd.hdl.parameters import Parameters
from retrograd.isa.files import write_file
from retrograd.isa.microarchitecture.micro_operations import BARREL, CORES, Unit, Units

from retrograd import Format
from retrograd.presentation import markdown

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
RESULTS = REFERENCE / "sizes.json"
SCHEMA = "retrograd.synth/1"
SMALL, LARGE = Format(32, 16), Format(64, 32)
#: resources of an ECP5-85F
DEVICE = {"luts": 83_640, "registers": 83_640, "multipliers": 156, "memories": 208}
_RESOURCES = ("LUTs", "Registers", "Multipliers", "Block RAMs")


class Case(NamedTuple):
    """A core that is placed and routed."""

    core: str
    lanes: int
    format: Format
    #: the speed grade of the device
    grade: int = 6
    #: micro-operations of a thread in a turn
    slots: int = 1
    #: words of data of a thread
    data: int = 1024

    def __str__(self) -> str:
        more = (f" grade {self.grade}" if self.grade != 6 else "") + (f" {self.slots} slots" if self.slots > 1 else "")
        return f"{self.core} {self.lanes} {self.format}{more}" + (f" {self.data} words" if self.data != 1024 else "")

    @property
    def aim(self) -> int:
        """The clock that the placement aims for, in MHz."""
        if self.core == BARREL:
            return 95 if self.format == SMALL else 60
        return 60 if self.core != "fast" else 75 if self.grade == 6 else 95

    @property
    def title(self) -> str:
        """The name of the core in tables."""
        words = f", {self.data} words" if self.data != 1024 else ""
        return f"barrel, {self.lanes} threads{words}" + self._slots if self.core == BARREL else self.core

    @property
    def timed(self) -> str:
        """The name under which the cycles of programs are counted."""
        return self.core + self._slots

    @property
    def _slots(self) -> str:
        return f", {self.slots} slots" if self.slots > 1 else ""


CASES = (
    Case("small", 1, SMALL),
    Case("small", 1, LARGE),
    Case("fast", 1, SMALL),
    Case("fast", 1, SMALL, 8),
    Case("barrel", 8, SMALL),
    Case("barrel", 8, SMALL, slots=2),
    # With 1024 words of data it needs 251 of the 208 block RAMs, with 256 words 203.
    Case("barrel", 8, LARGE, data=128),
)
Results = dict[Case, dict[str, Any]]


def results() -> Results:
    """The stored results, in the order of the cases. Raises ValueError for a result of another schema or case."""
    found: Results = {}
    for document in json.loads(RESULTS.read_text("utf-8"))["results"]:
        case = _case(document)
        if document["schema"] != SCHEMA or case not in CASES:
            raise ValueError(f"{RESULTS.name}: {document['schema']} of {case}")
        found[case] = document
    return {case: found[case] for case in CASES if case in found}


def _case(document: Mapping[str, Any]) -> Case:
    of = Format(**document["format"])
    slots = document.get("slots", 1)
    return Case(document["core"], document["lanes"], of, document["grade"], slots, document["data_words"])


def store(document: Mapping[str, Any]) -> None:
    """Add a document of `retrograd hdl synth --json`, or replace that of the same case."""
    case = _case(document)
    found = (results() if RESULTS.exists() else {}) | {case: dict(document)}
    text = json.dumps({"results": [found[case] for case in CASES if case in found]}, indent=1)
    write_file(RESULTS, text + "\n")


def measure(case: Case, seeds: int) -> dict[str, Any]:
    """Place and route; the document. Raises subprocess.CalledProcessError."""
    lanes = ("--lanes", str(case.lanes), "--slots", str(case.slots)) if case.core == BARREL else ()
    w = case.format
    with tempfile.TemporaryDirectory() as folder:
        command = (
            sys.executable, "-m", "retrograd.cli.main", "hdl", "synth", "--json", "--format", f"{w.width},{w.frac}", "--core", case.core,
            *lanes, "--data", str(case.data), "--seeds", str(seeds), "--grade", str(case.grade), "--mhz", str(case.aim), "--folder", folder,
        )  # fmt: skip
        document: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return document


def clock(document: Mapping[str, Any]) -> float:
    """The median clock of the seeds, in MHz."""
    return round(float(median(placed["mhz"] for placed in document["seeds"])), 1)


def clocks(found: Results) -> dict[tuple[str, Format], float]:
    """Core and format -> its clock on the slowest device, for the cores with one lane."""
    one = {case: document for case, document in found.items() if case.lanes == 1 and case.grade == 6}
    return {(case.core, case.format): clock(document) for case, document in one.items()}


def _area(document: Mapping[str, Any]) -> list[str]:
    thousands = (f"{document[name] / 1000:.1f} k" for name in ("luts", "registers"))
    return [*thousands, str(document["multipliers"]), str(document["memories"])]


def sizes_table(found: Results) -> str:
    """The resources and clocks of the cores."""
    rows = [["Core", "Format", "Speed grade", *_RESOURCES, "Clock, MHz", "least", "greatest", "Seeds"]]
    for case, document in found.items():
        each = [placed["mhz"] for placed in document["seeds"]]
        spread = [f"{mhz:.1f}" for mhz in (clock(document), min(each), max(each))]
        rows.append([case.title, str(case.format), str(case.grade), *_area(document), *spread, str(len(each))])
    text: str = markdown(rows, right=range(2, len(rows[0])))
    return text


def cores_table(found: Results, each: Mapping[str, Sequence[float]]) -> str:
    """The resources, clocks and instructions a second of each core in Q16.16, on the slowest device.

    `each`: the cycles that an instruction of one program takes forward, back, and on average. A core with n
    threads executes n programs, each on a thread: instructions a second = n · clock / cycles.
    """
    ways = "forward", "back, D = 1", "both"
    rows = [
        [
            *("Core", *_RESOURCES, "Clock, MHz", "Seeds", *(f"Cycles, {way}" for way in ways)),
            *(f"Millions a second, {way}" for way in ways),
            "both, a thousand LUTs",
        ]
    ]
    some = {case: document for case, document in found.items() if case.format == SMALL and case.grade == 6}
    for case, document in some.items():
        mhz, cycles = clock(document), [n / case.lanes for n in each[case.timed]]
        rates = [mhz / n for n in cycles]
        known = f"{mhz:.1f}", str(len(document["seeds"]))
        cells = [
            *(f"{n:.2f}" for n in cycles),
            *(f"{n:.1f}" for n in rates),
            f"{rates[-1] * 1000 / document['luts']:.2f}",
        ]
        rows.append([case.title, *_area(document), *known, *cells])
    text: str = markdown(rows, right=range(1, len(rows[0])))
    return text


# -----------------------------------------------------------------------------
# Cores with fewer units than the core fast.

UNIT_RESULTS = REFERENCE / "units.json"
UNIT_SCHEMA = "retrograd.units/1"
UNITS_MHZ = 75
_FAST = CORES["fast"]


def _second_slot(*without: Unit) -> Units:
    """The core fast without some units of its second slot."""
    first, second = _FAST.slots
    return replace(_FAST, slots=(first, second - {*without}))


#: title -> the units
FEWER_UNITS: dict[str, Units] = {
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
    CORES[name] = FEWER_UNITS[title]
    try:
        yield name
    finally:
        del CORES[name]


def count_luts(title: str) -> dict[str, int]:
    """LUTs, multipliers and block RAMs of the core of a case. Raises subprocess.CalledProcessError."""
    with _core(title) as core, tempfile.TemporaryDirectory() as folder:
        parameters = Parameters(SMALL, core=core)
        top = SerialCoprocessor(parameters, round(UNITS_MHZ * 1e6 / BAUD))
        synthesise(rtlil.convert(top, name="top", emit_src=False), Path(folder), parameters)
        netlist = json.loads(Path(folder, "top.json").read_text("utf-8"))
    cells = Counter(cell["type"] for cell in netlist["modules"]["top"]["cells"].values())
    return {
        "luts": cells["LUT4"] + 2 * cells["CCU2C"],
        "multipliers": cells["MULT18X18D"],
        "memories": cells["DP16KD"],
    }


def unit_results() -> dict[str, dict[str, int]]:
    """The stored results, in the order of the cases. Raises ValueError for another schema."""
    document = json.loads(UNIT_RESULTS.read_text("utf-8"))
    if document["schema"] != UNIT_SCHEMA:
        raise ValueError(f"{UNIT_RESULTS.name}: {document['schema']}")
    return {title: document["results"][title] for title in FEWER_UNITS if title in document["results"]}


def units_table(cycles: Mapping[str, Sequence[str]], head: Sequence[str]) -> str:
    """The cores with their LUTs and the cells of `cycles`, whose columns `head` names."""
    rows = [["Core", "LUTs, Yosys", "less", "Multipliers", *head]]
    found = unit_results()
    for title, area in found.items():
        less = found["fast"]["luts"] - area["luts"]
        share = f"{area['luts'] / 1000:.1f} k", f"{less / 1000:.1f} k" if less else ""
        rows.append([title, *share, str(area["multipliers"]), *cycles[title]])
    text: str = markdown(rows, right=range(1, len(rows[0])))
    return text


def luts_without() -> tuple[int, int]:
    """LUTs of the core fast, and its LUTs less the savings of all other cases."""
    whole, *others = (area["luts"] for area in unit_results().values())
    return whole, whole - sum(whole - luts for luts in others)


def main(arguments: Iterable[str] | None = None) -> int:
    """Place and route or synthesise the cases, and store their results."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="placements of each case (default: 3)")
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"of {', '.join([*map(str, CASES), *FEWER_UNITS])} (default: all)"
    )
    options = parser.parse_args(None if arguments is None else [*arguments])
    named = {str(case): case for case in CASES}
    if unknown := [name for name in options.cases if name not in named and name not in FEWER_UNITS]:
        parser.error(f"there is no case {', '.join(unknown)}")
    for name in options.cases or [*named, *FEWER_UNITS]:
        if name in FEWER_UNITS:
            area = count_luts(name)
            units = (unit_results() if UNIT_RESULTS.exists() else {}) | {name: area}
            text = json.dumps({"schema": UNIT_SCHEMA, "results": units}, indent=1)
            write_file(UNIT_RESULTS, text + "\n")
            print(f"{name}: {area}", flush=True)
            continue
        document = measure(named[name], options.seeds)
        store(document)
        print(f"{name}: {document['luts']} LUTs, {clock(document)} MHz", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
