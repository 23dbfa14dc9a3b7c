"""Run random programs in lockstep on the co-processor in Verilator and on the reference machine, for all parameter sets.

    python tools/long_runs/lockstep.py --instructions 10000000 --store build/lockstep.txt
    python tools/long_runs/lockstep.py --set fast-Q32.32 --seed 17                        one share again, such as a share that failed

The sets are the cores small, fast and barrel, this with one slot and with two, with words of 8 to 64 bits, each with all function units and with
the logic unit alone. A share is a seed: random sequences and, for words of 32 bits or more and all units, whole programs, by tests/support/lockstep.py. Sequences run in both
directions. Odd seeds run with D = 1; the core barrel has D = 0 and 1 in each share. Every retirement and every trap is compared: words,
cotangents, PC, BR, direction and cycles.

When a share has ended without a difference, its line is added to the store, with a digest of the Verilog of the core; a later run leaves out
such shares. Processes may share a store, for example each with sets of its own. A share with a difference is printed with the command
that repeats it, and the command ends with 1. Needs Verilator, Yosys and a C++ compiler.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import monotonic

from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import SingleCore, barrel_of, core_of
from retrograd.hdl.netlist import convert
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.transactions import BatchReport, Order, OrderReport
from retrograd.hdl.simulation.verilated import Probe, Verilated
from retrograd.isa.microarchitecture.micro_operations import BARREL, Unit
from retrograd.isa.microarchitecture.schedule import microprograms
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from shares import Store, tests_module

FORMATS = [Format(width, width // 2) for width in (8, 16, 32, 64)]
#: core -> lanes or threads
CORES = {"small": 1, "fast": 1, "barrel": 8}
#: (core, slots) of the sets
BUILT = (("small", 1), ("fast", 1), (BARREL, 1), (BARREL, 2))
#: sequences of a share: programs, and states of each
PROGRAMS, STATES = 10, 300
#: the same for each thread, and whole programs of a share
THREAD_PROGRAMS, THREAD_STATES, WHOLE = 10, 60, 6


@dataclass(frozen=True)
class Set:
    """A parameter set."""

    core: str
    format: Format
    #: all function units, or the logic unit alone
    all_units: bool = True
    slots: int = 1

    def __str__(self) -> str:
        return f"{self.core}-{self.format}" + "-logic" * (not self.all_units) + "-two-slots" * (self.slots > 1)

    @property
    def parameters(self) -> Parameters:
        units = frozenset(Unit) if self.all_units else frozenset({Unit.LOGIC})
        return Parameters(self.format, 256, 64, units, core=self.core, lanes=CORES[self.core], slots=self.slots)

    def entries(self) -> Sequence[str]:
        """The entries of the table whose instructions the units execute; none stands for all."""
        if self.all_units:
            return ()
        p, kinds = self.parameters, [(lifted, same) for lifted in (False, True) for same in (False, True)]
        used = {
            entry.name: {
                operation.unit
                for lifted, same in kinds
                for program in microprograms(entry, p.format, lifted, same, p.microarchitecture).values()
                for operation in program.schedule.operations
            }
            for entry in {opcode.entry for opcode in TABLE}
        }
        return sorted(name for name, units in used.items() if units <= p.units)


SETS = {
    str(each): each
    for core, slots in BUILT
    for all_units in (True, False)
    for w in FORMATS
    for each in [Set(core, w, all_units, slots)]
}


class Hardware:
    """A core from reset in Verilator, which counts the instructions that it retires, by D and direction."""

    def __init__(self, core: SingleCore | BarrelCore, text: str, folder: Path) -> None:
        self.parameters = core.parameters
        self.retired = Counter[str]()
        self._verilated = Verilated(core, folder, text)

    def run(self, orders: Sequence[Order]) -> list[OrderReport]:
        """Carry out the orders. Raises TimeoutError."""
        reports: list[OrderReport] = self._verilated.run(orders)
        for order, report in zip(orders, reports, strict=True):
            self._count(order, report)
        return reports

    def run_batch(self, orders: Sequence[Sequence[Order]]) -> list[BatchReport]:
        """Carry out an order for each thread, again and again. Raises TimeoutError."""
        reports: list[BatchReport] = self._verilated.run_batch(orders)
        for batch, report in zip(orders, reports, strict=True):
            for order, lane in zip(batch, report.lanes, strict=True):
                self._count(order, lane)
        return reports

    def _count(self, order: Order, report: OrderReport) -> None:
        for record in report.records:
            if not record.trap.value:
                self.retired[f"D{int(order.differentiate)}-{'back' if record.backward_before else 'forward'}"] += 1


@cache
def made(name: str) -> tuple[SingleCore | BarrelCore, str]:
    """The core of a set, and its Verilog."""
    p = SETS[name].parameters
    core: SingleCore | BarrelCore = barrel_of(p) if p.core == BARREL else core_of(p)
    return core, convert(Probe(core), "probe", undefined=True)


def share(name: str, seed: int, folder: Path) -> Counter[str]:
    """One share of a set: the retired instructions by D and direction, and the traps. Raises AssertionError, TimeoutError at a difference."""
    each, random = SETS[name], tests_module("support/lockstep")
    hardware = Hardware(*made(name), folder)
    w, lifted, entries = each.format, bool(seed % 2), each.entries()
    if each.core == BARREL:
        threads = tests_module("hdl/barrel/test_lockstep")
        executed, traps = threads.sequences(
            hardware.run_batch, w, seed, THREAD_STATES, THREAD_PROGRAMS, entries, slots=each.slots
        )
    else:
        executed, traps = random.sequences(
            hardware.run, w, lifted, seed, states=STATES, programs=PROGRAMS, entries=entries
        )
        for number in range(WHOLE * (w.width >= 32 and each.all_units)):
            case = tests_module("support/generator").generate(
                WHOLE * seed + number, formats=((w, 1),), steps=(100, 600)
            )
            both = random.Lockstep(case.program)
            random.there_and_back(both, case, lifted)
            found = both.check(hardware.run)
            executed, traps = executed + found[0], traps + found[1]
    # The retirements that were compared are all that the hardware had.
    assert executed.total() == hardware.retired.total(), (executed.total(), hardware.retired)
    return hardware.retired + Counter({"traps": traps.total()})


def attempt(name: str, seed: int, folder: Path) -> tuple[Counter[str], str]:
    """The counts of a share, and the difference."""
    try:
        return share(name, seed, folder), ""
    except (AssertionError, TimeoutError):
        return Counter(), traceback.format_exc()


def instructions(counts: Counter[str]) -> int:
    """The retired instructions among some counts."""
    return sum(n for kind, n in counts.items() if kind.startswith("D"))


def run_set(name: str, wanted: int, store: Store, folder: Path) -> tuple[Counter[str], list[int]]:
    """Run a set to a number of instructions, of which the store may have a part: the counts, and the seed of the share with a difference."""
    mark = f"{name}@{sha256(made(name)[1].encode()).hexdigest()[:16]}"
    done = store.finished(mark)
    total, began, ran = sum(done.values(), Counter[str]()), monotonic(), 0
    print(f"{mark}: {instructions(total):,} of {wanted:,} instructions are in the store", flush=True)
    for seed in (seed for seed in count() if seed not in done):
        if instructions(total) >= wanted:
            break
        counts, difference = attempt(name, seed, folder)
        if difference:
            again = shlex.join([sys.executable, *sys.argv[:1], "--set", name, "--seed", str(seed)])
            print(f"{difference}\n{name}, seed {seed}: a difference; again: {again}", flush=True)
            return total, [seed]
        store.add(mark, seed, counts)
        total += counts
        ran += instructions(counts)
        speed = ran / (monotonic() - began)
        print(
            f"{name}, seed {seed}: {instructions(total):,} of {wanted:,} instructions, {speed:,.0f} a second",
            flush=True,
        )
    return total, []


COLUMNS = ("D0-forward", "D0-back", "D1-forward", "D1-back", "traps")


def table(found: dict[str, tuple[Counter[str], list[int]]]) -> str:
    """A row for each set, and their sum."""
    rows: list[tuple[str, ...]] = [("parameter set", "instructions", *COLUMNS, "differences")]
    whole = Counter[str]()
    for name, (counts, failed) in found.items():
        rows.append((name, f"{instructions(counts):,}", *(f"{counts[c]:,}" for c in COLUMNS), str(len(failed))))
        whole += counts
    failures = sum(len(failed) for _, failed in found.values())
    rows.append(("all", f"{instructions(whole):,}", *(f"{whole[c]:,}" for c in COLUMNS), str(failures)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def main(given: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--instructions", type=int, default=10_000_000, help="of all chosen sets, in equal parts (default: 10000000)"
    )
    p.add_argument(
        "--set", action="append", metavar="NAME", help="a set, or sets such as 'small-*'; again for more (default: all)"
    )
    p.add_argument("--seed", type=int, help="run the share with this seed alone, and store nothing")
    p.add_argument("--store", type=Path, help="the file of finished shares")
    p.add_argument(
        "--folder",
        type=Path,
        help="the folder of compiled cores, which are kept (default: beside the store, or temporary)",
    )
    options = p.parse_args(given)
    chosen = [name for name in SETS if not options.set or any(fnmatch(name, each) for each in options.set)]
    if not chosen:
        p.error(f"--set: the sets are {', '.join(SETS)}")
    if options.instructions < 1 or (options.seed or 0) < 0:
        p.error("--instructions is at least 1, and --seed at least 0")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or (options.store.with_suffix(".cores") if options.store else Path(temporary))
        found: dict[str, tuple[Counter[str], list[int]]] = {}
        try:
            for name in chosen:
                if options.seed is None:
                    found[name] = run_set(name, -(-options.instructions // len(chosen)), Store(options.store), folder)
                else:
                    counts, difference = attempt(name, options.seed, folder)
                    print(difference, end="")
                    found[name] = counts, [options.seed] if difference else []
        except KeyboardInterrupt:
            print("interrupted; the store has the shares that have ended")
            return 130
    print(table(found))
    return int(any(failed for _, failed in found.values()))


if __name__ == "__main__":
    sys.exit(main())
