"""Write the page on the energy of reversible programs, with its figures.

    python tools/analyse_energy.py [--check] DOCS_DIR

writes DOCS_DIR/energy-analysis.md, and its pictures in DOCS_DIR/energy. `--check` compares the page and no pictures, since these
differ with the version of matplotlib. Every number is computed by a run of this script.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.compiler.compiled import Compiled
from retrograd.examples import bessel, bundle_adjustment
from retrograd.examples.tradeoffs import forgetting_chain, product_by_fixed, product_by_lognum, squared_error
from retrograd.hdl.reversible.builder import cuccaro_adder
from retrograd.hdl.reversible.circuit import count
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.files import replacing, write_file
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.simulator.energy.comparisons import Priced, ratio
from retrograd.simulator.energy.counts import CODE_BITS, Ledger
from retrograd.simulator.energy.gates import REST, Activity
from retrograd.simulator.energy.laws import ramp_energy
from retrograd.simulator.energy.pricing import ROOM, pricing_context
from retrograd.simulator.energy.technology import Range, technology, thermal_energy, with_prefix
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import fixed, library, presentation, reversible
from retrograd.hardware import run_on_hardware
from retrograd.physics import plots as energy_plots
from retrograd.physics.advice import break_even, break_even_per_memory_unit
from retrograd.physics.baselines import Stack, mixture
from retrograd.physics.report import EnergyReport, program_text, report_of, total_text
from retrograd.presentation import generated_page, markdown
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import argument_words, load
from retrograd.runtime._reversible import Reversible

#: a format for which the cells of the datapath have been counted
SMALL = rg.Format(32, 16)
#: the text of the page, with a field for each table and number
TEMPLATE = Path(__file__).parent / "templates" / "energy-analysis.md"


def _logistic(y: fixed, x: fixed) -> None:
    """y += 3.5·x(1 − x): a step that has no inverse in place."""
    y += 3.5 * x - 3.5 * x * x


logistic = reversible(_logistic)


def workloads() -> list[tuple[str, Reversible, tuple[Any, ...]]]:
    """Name, function and arguments of each program."""
    states = [0.3] + [0.0] * (library.bennett_states(2, 4) - 1)
    matrix = [[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]]
    return [
        ("norm of 16 numbers", library.norm, (0.0, [i / 8 for i in range(16)])),
        ("softmax of 8 numbers", library.softmax, ([0.0] * 8, [i / 4 for i in range(8)])),
        ("Bessel function J₂(1)", bessel.bessel, (0.0, 1.0)),
        ("matrix product, 3 × 3", library.matmul, ([[0.0] * 3] * 3, matrix, matrix)),
        ("Bennett's scheme, k = 2, n = 4", library.bennett, (logistic, 2, 4, states)),
    ]


def erasing(reports: Sequence[EnergyReport]) -> list[list[str]]:
    """As written and in erase mode, by uniform local erasure and in CMOS."""
    rows = [["", "instructions", "in erase mode", "level", "bits erased there", "their uniform local erasure at 300 K", "cmos45", "cmos45, erase mode"]]  # fmt: skip
    for name, report in zip((w[0] for w in workloads()), reports, strict=True):
        beside, level = report.baseline, report.uncomputing_level
        assert beside is not None
        assert level is not None
        cmos = report.priced_by("cmos45")
        assert cmos.baseline_price is not None
        bound = with_prefix(beside.erased_bits * thermal_energy(ROOM), "J")
        rows.append(
            [name, f"{report.counts.retired}", f"{beside.retired}", f"{level:.2f}", f"{beside.erased_bits}", bound,
             program_text(cmos.price), program_text(cmos.baseline_price)]
        )  # fmt: skip
    return rows


def bennett() -> list[list[str]]:
    rows = [["k", "n", "steps", "calls", "states", "the run pays for ξ <", "one unit of memory pays for ξ <"]]
    for k, n in ((2, 4), (2, 10), (4, 4), (8, 3)):
        scheme = library.bennett_steps(k, n), library.bennett_calls(k, n), library.bennett_states(k, n)
        limits = break_even(k, n), break_even_per_memory_unit(k, n)
        rows.append([*(f"{count}" for count in (k, n, *scheme)), *(f"{limit:.3g}" for limit in limits)])
    return rows


#: (k, n) of chains of equal length: with all states kept, and with fewer
SCHEMES = ((16, 1), (4, 2), (2, 4))


def chains() -> list[tuple[str, EnergyReport]]:
    """Reports of the chain by Bennett's schemes, and erasing."""
    out = []
    for k, n in SCHEMES:
        states = [0.3] + [0.0] * (library.bennett_states(k, n) - 1)
        report = rg.energy(library.bennett, logistic, k, n, states, timeline=True, baseline=False)
        out.append((f"k = {k}, n = {n}", report))
    k, n = SCHEMES[0]
    out.append(("erasing", rg.energy(forgetting_chain, 0.0, 0.3, k**n, timeline=True, baseline=False)))
    return out


def words_live(report: EnergyReport) -> int:
    """The greatest number of live words, without the arguments."""
    assert report.ledger is not None
    width: int = report.counts.format.width
    bits: int = report.ledger.peak_bits
    return bits // width


def program_energy(report: EnergyReport, tech: str) -> float:
    energy = report.priced_by(tech).price.program
    assert isinstance(energy, Range)
    joules: float = energy.nominal
    return joules


def chain(found: Sequence[tuple[str, EnergyReport]]) -> list[list[str]]:
    head = ["", "calls", "states", "words live, at most", "instructions", "bits erased", "landauer, 300 K", "cmos45"]
    rows = [[*head, "pays for ξ <, by instructions"]]
    calls = [(library.bennett_calls(k, n), library.bennett_states(k, n)) for k, n in SCHEMES]
    k, n = SCHEMES[0]
    erasing_run = found[-1][1]
    for (name, report), (called, states) in zip(found, [*calls, (k**n, 2)], strict=True):
        # The states of the scheme are its arguments, so they are not among its ancillas.
        words = words_live(report) + (states if report.name == "bennett" else 0)
        even = "" if report is erasing_run else f"{erasing_run.counts.retired / report.counts.retired:.3g}"
        rows.append(
            [name, f"{called}", f"{states}", f"{words}", f"{report.counts.retired}", f"{report.counts.erased_bits}",
             program_text(report.price), program_text(report.priced_by("cmos45").price), even]
        )  # fmt: skip
    return rows


def chain_figure(found: Sequence[tuple[str, EnergyReport]]) -> Any:
    figure, ax = presentation.axes_of(None, 7, 4)
    states = [library.bennett_states(k, n) for k, n in SCHEMES]
    for (name, report), held in zip(found, [*states, 2], strict=True):
        bennetts = report.name == "bennett"
        ax.plot([held], [report.counts.retired], "o" if bennetts else "s", color="#0072B2" if bennetts else "#D55E00")
        ax.annotate(
            f"{name}: {report.counts.erased_bits} bits erased", (held, report.counts.retired), xytext=(6, 4),
            textcoords="offset points", fontsize="small",
        )  # fmt: skip
    ax.set_xlim(0, max(states) + 8)
    ax.set_ylim(0, 1.15 * max(report.counts.retired for _, report in found))
    ax.set_xlabel("states that exist at one time")
    ax.set_ylabel("instructions")
    return figure


def checkpoints_figure() -> Any:
    """Calls of the step against states, for a chain of 4096 steps: Bennett's schemes, and the gradient by checkpoints."""
    figure, ax = presentation.axes_of(None, 7, 4)
    steps, schemes = 4096, ((2, 12), (4, 6), (8, 4), (16, 3), (64, 2), (4096, 1))
    held = [library.bennett_states(k, n) for k, n in schemes]
    calls = [library.bennett_calls(k, n) / steps for k, n in schemes]
    ax.plot(held, calls, "o", color="#0072B2", label="bennett: erases nothing")
    for (k, n), x, y in zip(schemes, held, calls, strict=True):
        ax.annotate(f"k = {k}, n = {n}", (x, y), xytext=(6, 4), textcoords="offset points", fontsize="small")
    free = [12, 13, 14, 16, 20, 30, 64, 128, 256, 1024, steps - 1]
    fewest = [library.bennett_any_calls(steps, s) / steps for s in free]
    ax.plot([s + 2 for s in free], fewest, "-", color="#0072B2", label="bennett_any: erases nothing")
    places = [2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 64, 256, 1024, steps]
    taken = [1 + library.treeverse_steps(steps, s) / steps for s in places]
    ax.plot(places, taken, "s-", color="#D55E00", label="treeverse: erases states")
    ax.loglog()
    ax.set_xlim(1.5, 12 * steps)
    ax.set_xlabel("states that exist at one time")
    ax.set_ylabel("calls of the step, for each step")
    ax.legend()
    return figure


#: numbers of factors
LENGTHS = (16, 32, 64, 128)


def products() -> list[tuple[int, EnergyReport, EnergyReport]]:
    """(n, report by fixed, report by lognum)"""
    out = []
    for n in LENGTHS:
        x = [(1 + (i % 5) / 8) if i % 2 else 1 / (1 + (i % 7) / 8) for i in range(n)]
        one, other = (rg.energy(f, 0.0, x, timeline=True) for f in (product_by_fixed, product_by_lognum))
        out.append((n, one, other))
    return out


def products_table(found: Sequence[tuple[int, EnergyReport, EnergyReport]]) -> list[list[str]]:
    rows = [["n", "numbers", "instructions", "cycles", "words live, at most", "erased in erase mode", "cmos45", "aqfp at 5 GHz, with cooling"]]  # fmt: skip
    for n, *reports in found:
        for name, report in zip(("fixed", "lognum"), reports, strict=True):
            assert report.baseline is not None
            cold = report.priced_by("aqfp").price
            rows.append(
                [f"{n}", name, f"{report.counts.retired}", f"{report.counts.cycles}", f"{words_live(report)}",
                 f"{report.baseline.erased_bits} bits", program_text(report.priced_by("cmos45").price), total_text(cold)]
            )  # fmt: skip
    return rows


def products_figure(found: Sequence[tuple[int, EnergyReport, EnergyReport]]) -> Any:
    figure = presentation.new_figure(8, 3.5)
    left, right = figure.subplots(1, 2)
    by_fixed, by_lognum = [row[1] for row in found], [row[2] for row in found]
    for name, colour, reports in (("fixed", "#0072B2", by_fixed), ("lognum", "#D55E00", by_lognum)):
        left.plot(LENGTHS, [words_live(r) for r in reports], "o-", label=name, color=colour)
        right.plot(LENGTHS, [r.counts.cycles for r in reports], "o-", label=name, color=colour)
    for ax, what in ((left, "words live, at most"), (right, "cycles")):
        ax.set_xlabel("numbers multiplied")
        ax.set_ylabel(what)
        ax.set_ylim(0)
    presentation.legend(right)
    return figure


def taped(compiled: Compiled) -> tuple[Program, int]:
    """A program in erase mode with each erase replaced by a move to a memory word of its own; the number of these words.

    Trap to avoid: an erase in a loop would need a word for each pass; the caller checks that each is executed once at most.
    """
    program = compiled.program
    code, places = [], 0
    for i in program.instructions:
        if i.opcode.erased_words:
            # Register 0 is zero: the address is the constant.
            code.append(encode(Instruction(TABLE["exch"], rd=i.rd, ra=0, imm=program.memory + places)))
            places += 1
        else:
            code.append(encode(i))
    memory = program.memory + places
    return Program(tuple(code), program.data, memory, program.format, source=program.source), places


def gradients() -> tuple[EnergyReport, EnergyReport, int]:
    """Reports of the gradient of `squared_error` by the adjoint and by a tape, after a comparison of both; the words of the tape."""
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt")
    args = 0.0, problem.cameras[0], problem.points[0], float(problem.weights[0]), problem.features[0]
    adjoint = rg.energy(rg.grad(squared_error), *args, timeline=True)
    values = bind(squared_error, args, {})
    options = replace(squared_error.options, erase=True, cotangents=True)
    compiled = squared_error.compiled_for(types_of(squared_error, values), None, options)
    program, places = taped(compiled)
    machine = Machine(program)
    given = argument_words(compiled, values)
    machine.load(0, given)
    there = Ledger(machine, range(len(given)))
    machine.run(observe=there)
    moved = [at for at, i in enumerate(compiled.program.instructions) if i.opcode.erased_words]
    assert all(machine.executed[+1][at] <= 1 for at in moved), "each erase has one word of the tape"
    machine.differentiating = True
    machine.clear_cotangents()
    machine.memory_cotangents[0] = 1 << program.format.frac
    machine.turn()
    back = there.again(machine)
    machine.run(observe=back)
    assert not any(machine.memory[compiled.program.memory :]), "the tape is empty again"
    expected = rg.grad(squared_error, scale=0)(*args)
    for argument in compiled.arguments[1:]:
        found = machine.memory_cotangents[argument.address : argument.address + argument.type.size]
        assert (
            fixed.to_reals(np.array(found, dtype=np.uint64)).tolist()
            == np.ravel(getattr(expected, argument.name)).tolist()
        )
    by = pricing_context("landauer", program.format)
    # The host loads and copies out the same words in both cases, the cotangent of the loss among them.
    host = adjoint.counts.host._replace(code_bits=len(program.code) * CODE_BITS)
    tape = report_of(machine, "by a tape", by, host, ledger=there)
    return replace(adjoint, name="by the adjoint"), replace(tape, back=back), places


def gradients_table(adjoint: EnergyReport, tape: EnergyReport) -> list[list[str]]:
    rows = [["", "instructions there", "back", "cycles", "words live, at most", "bits of cotangents dropped", "landauer, 300 K", "cmos45"]]  # fmt: skip
    for report in (adjoint, tape):
        ways = [sum(n for e, n in report.counts.executions.items() if e.direction == way) for way in (1, -1)]
        rows.append(
            [report.name, *(f"{n}" for n in ways), f"{report.counts.cycles}", f"{words_live(report)}", f"{report.counts.dropped_bits}",
             program_text(report.price), program_text(report.priced_by("cmos45").price)]
        )  # fmt: skip
    return rows


#: measurements whose tapes are held at one time
MEASUREMENTS = (1, 100, 10_000, 1_000_000)


def tapes(adjoint: EnergyReport, tape: EnergyReport, words: int, p: int, tech: str) -> tuple[Priced, Priced, Priced]:
    """Energies of one of p measurements: by the adjoint; by a tape, written and read once; by a tape whose words are
    exchanged there and back.

    The run of the tape has its accesses to the first memory. What a longer tape adds are its words in further memories.
    """
    model = technology(tech)
    longer, short = Stack(words * p), Stack(words)
    ways = [mixture(model, [(1, tape.counts), (k / p, longer), (-k, short)]) for k in (1, 2)]
    return mixture(model, [(1, adjoint.counts)]), ways[0], ways[1]


def tape_table(adjoint: EnergyReport, tape: EnergyReport, words: int) -> list[list[str]]:
    rows = [
        [
            "measurements",
            "words of the tape",
            "model",
            "by the adjoint",
            "by a tape",
            "tape / adjoint",
            "by a tape that is emptied",
            "tape / adjoint",
        ]
    ]
    for p in MEASUREMENTS:
        for tech in ("cmos45_caches", "cmos7_caches"):
            ways = tapes(adjoint, tape, words, p, tech)
            energies = [program_text(way.price(way.technology)) for way in ways]
            ratios = [str(ratio(way, ways[0])) for way in ways[1:]]
            count = [f"{p:,}", f"{words * p:,}"] if tech.startswith("cmos45") else ["", ""]
            rows.append([*count, tech, energies[0], energies[1], ratios[0], energies[2], ratios[1]])
    return rows


def gradients_figure(adjoint: EnergyReport, tape: EnergyReport) -> Any:
    figure = presentation.new_figure(8.5, 3.5)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, report in zip(axes, (adjoint, tape), strict=True):
        assert report.ledger is not None
        energy_plots.over_time(report.ledger, report.back, ax, with_legend=ax is axes[-1])
        ax.set_title(report.name, fontsize="medium")
    axes[-1].set_ylabel("")
    return figure


def ramp() -> list[list[str]]:
    rows = [["τ / RC", *(f"{t:g}" for t in (0.01, 0.1, 1, 10, 100, 1000))]]
    rows.append(["E / CV²", *(f"{ramp_energy(1, 1, 1, t):.4g}" for t in (0.01, 0.1, 1, 10, 100, 1000))])
    return rows


def gated() -> dict[str, str]:
    """The fields on prices of the datapath's cells, in the format whose cells are counted."""
    rows = [["", "instructions", "cycles", "logic, aqfp at 5 GHz", "in kT ln 2 at 4.2 K, an instruction", "at 300 K", "with cooling"]]  # fmt: skip
    for name, f, args in workloads():
        try:
            report = rg.energy(f, *args, tech="aqfp", format=SMALL, baseline=False)
        except (rg.ProgramTrap, rg.CompileError) as error:
            rows.append([name, f"does not fit {SMALL} ({error.code})", "", "", "", "", ""])
            continue
        p, n = report.price, report.counts.retired
        logic = p.of("logic")
        assert isinstance(logic, Range)
        cold, warm = (logic.nominal / thermal_energy(t) / n for t in (p.temperature, ROOM))
        cooling = p.of("cooling")
        assert isinstance(cooling, Range)
        rows.append(
            [name, f"{n}", f"{report.counts.cycles}", with_prefix(logic.nominal, "J"), f"{cold:.3g}", f"{warm:.3g}",
             f"{with_prefix(logic.nominal + cooling.nominal, 'J')} ({with_prefix(logic.lo + cooling.lo, 'J')} … {with_prefix(logic.hi + cooling.hi, 'J')})"]
        )  # fmt: skip
    report = rg.energy(library.norm, 0.0, [1.0], tech="aqfp", format=SMALL, baseline=False)
    lacking = sorted({i.label for i in report.price.missing if i.cause == "logic"})
    gates = report.by.gates
    assert gates is not None
    share = gates.in_levels["BUF"] / sum(gates.in_levels.values())
    return {
        "counted_format": str(SMALL), "core_levels": f"{gates.levels}", "core_clocks": f"{report.by.clocks}", "buffers": f"{share:.0%}",
        "gates": markdown(rows), "without_figures": "; ".join(lacking),
    }  # fmt: skip


#: capacitance and voltage of a cell, as an illustration
DEVICE = {"capacitance": "1 fF", "voltage": "0.9 V"}
#: units of the picture; the others are the rest of the core
DRAWN = ("logic unit", "multiplier", "divider", "ROM", "branch unit", "decoder")


def switched() -> list[tuple[str, EnergyReport, EnergyReport]]:
    """Name, report by the assumed activity and report by the measured activity of small programs."""
    programs: list[tuple[str, Reversible, tuple[Any, ...]]] = [
        ("dot product, 4 numbers", library.dot, (0.0, [1.0, 0.5, 0.25, 2.0], [0.5, 1.5, 2.0, 0.25])),
        ("norm of 2 numbers", library.norm, (0.0, [3.0, 4.0])),
        ("softmax of 2 numbers", library.softmax, ([0.0] * 2, [0.25, 0.5])),
    ]
    out = []
    for name, f, args in programs:
        found = run_on_hardware(f, *args, format=SMALL, activity=True)
        how: dict[str, Any] = {"tech": "cmos_switching", "figures": DEVICE, "format": SMALL, "baseline": False}
        out.append((name, rg.energy(f, *args, **how), rg.energy(f, *args, activity=found.activity, **how)))
    return out


def measured(report: EnergyReport) -> Activity:
    assert report.by.gates is not None
    assert report.by.gates.activity is not None
    return report.by.gates.activity


def rises(report: EnergyReport, *kinds: str) -> float:
    """Rises of a cell in a cycle, over all units: of some kinds of cells, or of all gates and flip-flops."""
    parts = [
        part for unit in measured(report).units.values() for kind, part in unit.items()
        if kind in kinds or (not kinds and not kind.startswith("memory"))
    ]  # fmt: skip
    slots, toggles = (sum(n) for n in zip(*parts, strict=True))
    return float(toggles / (2 * slots))


def switching_table(found: Sequence[tuple[str, EnergyReport, EnergyReport]]) -> list[list[str]]:
    rows = [
        [
            "program",
            "cycles",
            "rises of an AND in a cycle",
            "of an XOR",
            "of a flip-flop",
            "of any cell",
            "energy, as assumed",
            "as measured",
        ]
    ]
    for name, assumed, found_here in found:
        shares = (f"{rises(found_here, *kinds):.4f}" for kinds in (("AND",), ("XOR",), ("DFF",), ()))
        energies = (program_text(report.price) for report in (assumed, found_here))
        rows.append([name, f"{assumed.counts.cycles}", *shares, *energies])
    return rows


def switching_figure(found: Sequence[tuple[str, EnergyReport, EnergyReport]], assumption: float) -> Any:
    figure, ax = presentation.axes_of(None, 8, 4.2)
    units = [*DRAWN, REST]
    for k, (name, _, report) in enumerate(found):
        activity = measured(report)
        heights = []
        for unit in units:
            parts = [
                part for own, kinds in activity.units.items() for kind, part in kinds.items()
                if not kind.startswith("memory") and (own == unit or (unit == REST and own not in DRAWN))
            ]  # fmt: skip
            slots, toggles = (sum(n) for n in zip(*parts, strict=True))
            heights.append(toggles / (2 * slots))
        ax.bar([at + 0.27 * (k - 1) for at in range(len(units))], heights, 0.25, label=name)
    ax.axhline(assumption, linestyle="--", color="0.4", label="assumed")
    ax.set_yscale("log")
    ax.set_ylim(1e-4, 1)
    ax.set_xticks(range(len(units)), [unit.replace(" ", "\n", 1) for unit in units])
    ax.set_ylabel("rises of a cell in a cycle")
    presentation.legend(ax)
    return figure


def adder() -> list[list[str]]:
    rows = [["bits", "Toffoli", "CNOT", "NOT"]]
    for n in (8, 16, 32, 64):
        counts = count(cuccaro_adder(n))
        rows.append([f"{n}", f"{counts.toffoli}", f"{counts.cnot}", f"{counts.x}"])
    return rows


def ledgers() -> tuple[Ledger, Ledger]:
    """Ledgers of Bennett's scheme: forward, and back."""
    _, f, args = workloads()[-1]
    values = bind(f, args, {})
    compiled = f.compiled_for(types_of(f, values))
    machine = load(compiled, values, engine="reference")
    forward = Ledger(machine)
    machine.run(observe=forward)
    back = Ledger(machine)
    machine.run_back(observe=back)
    return forward, back


def ramp_figure() -> Any:
    figure, ax = presentation.axes_of(None, 7, 4)
    xs = [10 ** (e / 20) for e in range(-40, 81)]
    ax.loglog(xs, [ramp_energy(1, 1, 1, x) for x in xs], label="E / CV²")
    ax.loglog(xs, [min(1 / x, 10) for x in xs], ":", color="0.4", label="RC/τ")
    ax.axhline(0.5, linestyle="--", color="0.4", label="½")
    ax.set_ylim(5e-5, 2)
    ax.set_xlabel("τ / RC")
    ax.set_ylabel("E / CV²")
    presentation.legend(ax)
    return figure


def _ratio(one: EnergyReport, other: EnergyReport) -> float:
    energies = one.price.program, other.price.program
    assert isinstance(energies[0], Range)
    assert isinstance(energies[1], Range)
    return float(energies[0].nominal / energies[1].nominal)


def page() -> tuple[str, dict[str, Any]]:
    """The text of the page, and the pictures by name."""
    reports = [rg.energy(f, *args) for _, f, args in workloads()]
    cmos = [report.priced_by("cmos45") for report in reports]
    forward, back = ledgers()
    overhead = next(i for i in cmos[0].price.items if i.of == "instructions")
    assert isinstance(overhead.energy, Range)
    each = overhead.energy.nominal / overhead.count / thermal_energy(ROOM)
    found, multiplied = chains(), products()
    adjoint, tape, places = gradients()
    switches = switched()
    (assumed,) = (f for c in switches[0][1].by.technology.charges for f in c.figures.values() if f.name == "activity")
    least = min(_ratio(one, other) for _, one, other in switches)
    more = program_energy(found[-2][1], "cmos45") - program_energy(found[-1][1], "cmos45")
    chain_bound = found[-1][1].counts.erased_bits * thermal_energy(ROOM)
    tables = {
        "erasing": erasing(reports), "bennett": bennett(), "chain": chain(found), "products": products_table(multiplied),
        "gradients": gradients_table(adjoint, tape), "tapes": tape_table(adjoint, tape, places), "ramp": ramp(), "adder": adder(),
        "switching": switching_table(switches),
    }  # fmt: skip
    text = generated_page(
        TEMPLATE, "tools/analyse_energy.py", **{name: markdown(rows) for name, rows in tables.items()}, **gated(),
        per_bit=f"10^{math.floor(math.log10(each))}", chain_steps=SCHEMES[0][0] ** SCHEMES[0][1],
        chain_bound=with_prefix(chain_bound, "J"), chain_ratio=f"10^{math.floor(math.log10(more / chain_bound))}",
        ba_inputs=11 + 3 + 1 + 2, tape_words=places, tape_full=f"{(1 << 20) // (8 * places):,}", adjoint_words=words_live(adjoint), tape_bits=places * 64,
        tape_bound=with_prefix(places * 64 * thermal_energy(ROOM), "J"), peak=forward.peak_bits // 64,
        states=library.bennett_states(2, 4), assumed_activity=f"{assumed.si.nominal:g}", switching_format=str(SMALL),
        switching_device=" and ".join(DEVICE.values()), switching_ratio=math.floor(least),
    )  # fmt: skip
    pictures = {
        "causes": energy_plots.by_cause(cmos),
        "bennett": chain_figure(found),
        "checkpoints": checkpoints_figure(),
        "products": products_figure(multiplied),
        "gradients": gradients_figure(adjoint, tape),
        "crossover": energy_plots.crossover(),
        "time": energy_plots.over_time(forward, back),
        "ramp": ramp_figure(),
        "activity": switching_figure(switches, assumed.si.nominal),
    }
    return text, pictures


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and its pictures, or check that the page is fresh."""
    parser = argparse.ArgumentParser(prog="python tools/analyse_energy.py", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    parser.add_argument("docs", type=Path, metavar="DOCS_DIR")
    options = parser.parse_args(arguments)
    text, pictures = page()
    path: Path = options.docs / "energy-analysis.md"
    if options.check:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale: run python tools/analyse_energy.py {options.docs}", file=sys.stderr)
            return 1
        return 0
    write_file(path, text)
    folder: Path = options.docs / "energy"
    folder.mkdir(exist_ok=True)
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "retrograd"}):
        for name, figure in pictures.items():
            with replacing(folder / f"{name}.svg") as file:
                figure.savefig(file, format="svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
