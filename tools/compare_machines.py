"""Write the page "When a reversible machine wins", and its figures.

    python tools/compare_machines.py [--measure | --check] DOCS_DIR

writes DOCS_DIR/when-a-reversible-machine-wins.md and pictures in DOCS_DIR/energy. Runs are made by this script.
Counts of large netlists are stored:
those of functions by `compare_gates.py`, and those of instructions, with exact losses of gates, in
DOCS_DIR/energy/data_path.json, which `--measure` makes anew in
two minutes. `--check` writes nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from compare_gates import (
    DEVICE,
    FORMAT,
    IRREVERSIBLE,
    STATIC_CLOCK,
    TITLES,
    Curve,
    StoredShape,
    against_static,
    best_clock,
    core_shape,
    priced_at,
    ramped_model,
    ranged,
    static_model,
)
from retrograd.examples import bundle_adjustment, chains
from retrograd.examples.tradeoffs import squared_error
from retrograd.hdl.reversible.builder import cuccaro_adder
from retrograd.hdl.reversible.circuit import Circuit
from retrograd.hdl.reversible.irreversible import Network, levels_of, network_of
from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.files import replacing, write_file
from retrograd.isa.table import TABLE
from retrograd.simulator.energy.comparisons import Comparison, Priced, ratio
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.energy.gates import lost_bits
from retrograd.simulator.energy.netlists import IrreversibleShape, ReversibleShape, price_netlist, timed_by
from retrograd.simulator.energy.technology import Range, technology, thermal_energy, with_prefix

import retrograd as rg
from retrograd import library, presentation
from retrograd.physics._derived import shape_of
from retrograd.physics.baselines import Stack, advances, mixture
from retrograd.physics.entropy import Logic, LogicGate
from retrograd.physics.report import program_text
from retrograd.presentation import generated_page, markdown

TEMPLATE = Path(__file__).parent / "templates" / "when-a-reversible-machine-wins.md"
NAME = "when-a-reversible-machine-wins"

# ---------------------------------------------------------------------- a: gradients

#: lengths of chains
STEPS = tuple(10**k for k in range(1, 8))
#: snapshots of two words that the first memory of 8 KiB holds
SNAPSHOTS = 512
#: lengths of two runs, whose difference is that of a step
SHORT, LONG = 16, 32
CACHED = ("cmos45_caches", "cmos7_caches")


def gradient_counts(f: Any, *args: Any) -> Counts:
    found: Counts = rg.energy(f, *args, baseline=False).counts
    return found


@cache
def step_counts() -> dict[str, tuple[tuple[float, Counts], ...]]:
    """Counts of a step, as differences of runs: F forward, F and B of a gradient, and the same for a chain that
    keeps its states."""
    share = 1 / (LONG - SHORT)
    out: dict[str, tuple[tuple[float, Counts], ...]] = {}
    for name, f in (("forward", chains.oscillator), ("gradient", rg.grad(chains.oscillator))):
        runs = [gradient_counts(f, 0.0, 0.5, 0.0, n) for n in (SHORT, LONG)]
        out[name] = ((share, runs[1]), (-share, runs[0]))
    kept = [gradient_counts(rg.grad(chains.last_state), 0.0, [0.3] + [0.0] * n) for n in (SHORT, LONG)]
    out["kept"] = ((share, kept[1]), (-share, kept[0]))
    # A call of Bennett's scheme, by two schemes of two levels.
    calls = [library.bennett_calls(k, 2) for k in (4, 6)]
    runs = [
        gradient_counts(
            rg.grad(chains.last_state_by_bennett), 0.0, k, [0.3] + [0.0] * (library.bennett_states(k, 2) - 1)
        )
        for k in (4, 6)
    ]
    each = 1 / (calls[1] - calls[0])
    out["call"] = ((each, runs[1]), (-each, runs[0]))
    return out


#: way -> label of its curve
WAYS = {
    "backward": "oscillator, running backward", "tape": "oscillator, tape of 2 words a step",
    "revolve": f"oscillator, {SNAPSHOTS} checkpoints (revolve)", "kept": "logistic chain, all states kept",
    "bennett": "logistic chain, Bennett's scheme, k = √n, two levels",
}  # fmt: skip


def way(name: str, n: int, tech: str) -> Priced:
    """The energy of a step of a gradient over n steps."""
    counts, model = step_counts(), technology(tech)
    match name:
        case "backward":
            return mixture(model, counts["gradient"])
        case "tape":
            return mixture(model, [*counts["gradient"], (1 / n, Stack(2 * n))])
        case "revolve":
            more = advances(n, SNAPSHOTS) / n
            again = [(more * weight, part) for weight, part in counts["forward"]]
            # At most each step reads its snapshot, and writes one.
            return mixture(model, [*counts["gradient"], *again, (1 / SNAPSHOTS, Stack(2 * SNAPSHOTS))])
        case "kept":
            return mixture(model, [*counts["kept"], (1 / n, Stack(n)), (-1, Stack(1))])
        case _:
            k = max(2, round(n**0.5))
            more = library.bennett_calls(k, 2) / library.bennett_steps(k, 2)
            return mixture(model, [(more * weight, part) for weight, part in counts["call"]])


def gradients_table() -> list[list[str]]:
    rows = [["model", "steps", *(f"{WAYS[name]}" for name in WAYS), "tape / backward", "kept / Bennett"]]
    for tech in CACHED:
        for n in STEPS[1::2]:
            found = {name: way(name, n, tech) for name in WAYS}
            energies = [program_text(p.price(p.technology)).partition(" (")[0] for p in found.values()]
            ratios = [str(ratio(found[a], found[b])) for a, b in (("tape", "backward"), ("kept", "bennett"))]
            rows.append([tech, f"{n:,}", *energies, *ratios])
    return rows


def gradients_figure() -> Any:
    figure = presentation.new_figure(10, 4.6)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, tech in zip(axes, CACHED, strict=True):
        for (name, label), colour in zip(WAYS.items(), presentation.colours(len(WAYS)), strict=True):
            energies = []
            for n in STEPS:
                found = way(name, n, tech)
                program = found.energy(found.technology)
                assert isinstance(program, Range)
                energies.append(program.nominal)
            ax.loglog(STEPS, energies, "o-", color=colour, label=label, markersize=3)
        ax.set_title(tech, fontsize="medium")
        ax.set_xlabel("steps")
    axes[0].set_ylabel("energy of a step of the gradient (J)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    return figure


# ---------------------------------------------------------------------- b: reversible gates against static CMOS

LEAKAGES = (1e-18, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12)
QUALITIES = (1e3, 1e4, 1e5, 1e6, None)
FUNCTIONS = ("addition", "product")


def quality_name(quality: float | None) -> str:
    return "no loss" if quality is None else f"Q = {quality:.0e}".replace("e+0", "e")


@cache
def over_static(name: str, power: float, quality: float | None, docs: Path) -> Comparison:
    """Static CMOS over reversible gates, for a leakage of a cell and a generator."""
    generator = {"efficiency": 1.0} if quality is None else {"quality": quality}
    return against_static(
        stored(docs, "reversible_gates")[name], ramped_model(power=power, **generator), static_model(power=power)
    )


@cache
def stored(docs: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((docs / "energy" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def static_table(docs: Path) -> list[list[str]]:
    rows = [["function", "leakage of a cell", *(quality_name(q) for q in QUALITIES)]]
    for name in FUNCTIONS:
        for power in LEAKAGES:
            rows.append(
                [TITLES[name], with_prefix(power, "W"), *(str(over_static(name, power, q, docs)) for q in QUALITIES)]
            )
    return rows


def static_figure(docs: Path) -> Any:
    figure = presentation.new_figure(10, 4.2)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, name in zip(axes, FUNCTIONS, strict=True):
        for quality, colour in zip(QUALITIES, presentation.colours(len(QUALITIES)), strict=True):
            found = [over_static(name, power, quality, docs).range for power in LEAKAGES]
            ax.loglog(
                LEAKAGES,
                [r.nominal for r in found if isinstance(r, Range)],
                "o-",
                color=colour,
                label=quality_name(quality),
            )
        ax.axhline(1, color="0.4", linestyle=":")
        ax.set_title(TITLES[name], fontsize="medium")
        ax.set_xlabel("leakage of a cell, and of a line held (W)")
    axes[0].set_ylabel("static CMOS / reversible gates")
    presentation.legend(axes[1])
    return figure


# ---------------------------------------------------------------------- c: superconducting gates with exact entropies


class Losses(NamedTuple):
    """The bits that the gates of an irreversible netlist lose."""

    title: str
    #: with independent uniform inputs of each gate
    assumed: float
    #: for uniform inputs of the function: gate by gate, and the whole
    gate_by_gate: float
    whole: float
    #: the clocks below which the reversible netlist takes less energy, by the first and by the second number
    crossings: tuple[float, float]


def logic_of(net: Network) -> Logic:
    """The network in gates of AQFP: XOR and MUX are two AND gates and an OR gate. An inverted signal is a wire of
    its own, and loses nothing."""
    gates: list[LogicGate] = []
    named: set[str] = set()

    def wire(literal: int) -> str:
        node, inverted = literal >> 1, literal & 1
        if inverted and f"~{node}" not in named:
            named.add(f"~{node}")
            gates.append(LogicGate("NOT", (f"{node}",), f"~{node}"))
        return f"~{node}" if inverted else f"{node}"

    for node in net.gates():
        kind, fanins = net.nodes[node]
        if kind in ("XOR", "MUX"):
            # a XOR b = a·b̄ + ā·b;   (value where 1, value where 0, selector) = x·s + y·s̄
            x, y, s = (fanins[0], fanins[0] ^ 1, fanins[1] ^ 1) if kind == "XOR" else fanins
            for name, pair in (("x", (x, s)), ("y", (y, s ^ 1))):
                gates.append(LogicGate("AND", (wire(pair[0]), wire(pair[1])), f"{node}{name}"))
            gates.append(LogicGate("OR", (f"{node}x", f"{node}y"), f"{node}"))
        else:
            gates.append(LogicGate(kind, tuple(wire(fanin) for fanin in fanins), f"{node}"))
    ends = tuple(dict.fromkeys(wire(bit) for bits in net.outputs.values() for bit in bits if bit > 1))
    given = tuple(f"{bit >> 1}" for bits in net.inputs.values() for bit in bits)
    return Logic(given, tuple(gates), ends)


def zero_at(net: Network, word: str) -> dict[tuple[int, ...], float]:
    """All inputs, uniform, where one word is 0."""
    sizes = {name: len(bits) for name, bits in net.inputs.items()}
    free = sum(size for name, size in sizes.items() if name != word)
    out = {}
    for bits in itertools.product((0, 1), repeat=free):
        left = iter(bits)
        row = [0 if name == word else next(left) for name, size in sizes.items() for _ in range(size)]
        out[tuple(row)] = 1 / (1 << free)
    return out


def adder_of_eight_bits() -> Circuit:
    return cuccaro_adder(8)


def losses() -> list[Losses]:
    out = []
    product = lower(TABLE["fmul.add"], rg.Format(8, 4), strategy="garbage")
    for title, circuit, zero in (
        ("addition of 8 bits", adder_of_eight_bits(), ""),
        ("product of 8 bits, Q4.4, z = 0", product, "d"),
    ):
        net = network_of(circuit)
        logic, levels = logic_of(net), levels_of(net)
        found = logic.losses(zero_at(net, zero) if zero else None)
        # In levels, the netlist has these gates, beside splitters and buffers.
        shape = IrreversibleShape(levels.cells, levels.cells, levels.levels)
        assert math.isclose(shape.lost_bits, sum(lost_bits(gate.kind) for gate in logic.gates))
        bits = shape.lost_bits, found.gate_by_gate
        other = shape_of(circuit)
        assert isinstance(other, ReversibleShape)
        out.append(
            Losses(title, *bits, found.whole, (crossing(shape, other, bits[0]), crossing(shape, other, bits[1])))
        )
    return out


def crossing(cells: IrreversibleShape, gates: ReversibleShape, bits: float) -> float:
    """The clock below which reversible gates take less energy than irreversible gates at kT ln 2 for each of `bits`,
    and ramps of buffers."""
    model = technology("aqfp")
    hertz = 1.0
    reversible, irreversible = (price_netlist(s, model, frequency=hertz).program for s in (gates, cells))
    assert isinstance(reversible, Range)
    assert isinstance(irreversible, Range)
    lost = thermal_energy(model.temperature.si.nominal)
    # Garbage does not depend on the clock, nor does the floor; the rest is proportional to it.
    garbage = gates.garbage * lost
    slope = reversible.nominal - garbage
    buffers = irreversible.nominal - cells.lost_bits * lost
    found: float = (bits * lost - garbage) / (slope - buffers) * hertz
    return found


def losses_table(found: Sequence[Losses]) -> list[list[str]]:
    rows = [
        [
            "function",
            "bits lost, independent uniform inputs of each gate",
            "bits lost, gate by gate, exact",
            "bits that the function loses",
            "reversible below",
            "reversible below, by exact bits",
        ]
    ]
    for one in found:
        clocks = (with_prefix(f, "Hz", 3) for f in one.crossings)
        rows.append([one.title, f"{one.assumed:.1f}", f"{one.gate_by_gate:.1f}", f"{one.whole:.1f}", *clocks])
    return rows


# ---------------------------------------------------------------------- d: the data path


def gradient_of_a_measurement() -> Counts:
    """The squared error of a measurement of bundle adjustment in the format of the gates, forward."""
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt")
    args = 0.0, problem.cameras[0], problem.points[0], float(problem.weights[0]), problem.features[0]
    found: Counts = rg.energy(squared_error, *args, format=FORMAT, baseline=False).counts
    return found


def measured_path() -> dict[str, Any]:
    """Opcode of the measurement -> executions, and the counts of its reversible and irreversible netlists."""
    out: dict[str, Any] = {}
    counts = gradient_of_a_measurement()
    for execution, n in counts.executions.items():
        opcode = execution.opcode
        entry = out.setdefault(opcode.name, {"executions": 0})
        entry["executions"] += n
        if len(entry) > 1:
            continue
        try:
            circuit = lower(opcode, FORMAT, strategy="garbage")
        except (KeyError, NotImplementedError, ValueError, rg.RetrogradError) as error:
            entry["lacks"] = type(error).__name__
            continue
        shape, net = shape_of(circuit), network_of(circuit)
        assert isinstance(shape, ReversibleShape)
        entry |= {
            "garbage": shape.garbage, "timed": timed_by(shape, technology("adiabatic_rc"))._asdict(),
            "irreversible": {"gates": net.counts(), **levels_of(net).as_dict()},
        }  # fmt: skip
    found = {
        "opcodes": out,
        "cycles": counts.cycles,
        "retired": counts.retired,
        "losses": [one._asdict() for one in losses()],
    }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def path_table(docs: Path) -> tuple[list[list[str]], dict[str, str]]:
    """Energies by instruction: the reversible data path, the irreversible one in static CMOS, and the core as it is."""
    facts = stored(docs, "data_path")
    static, model = static_model(), ramped_model(efficiency=1.0)
    lossy = ramped_model(quality=1e4)
    rows = [
        [
            "instruction",
            "executions",
            "reversible, no loss in the generator",
            "reversible, Q = 10⁴",
            "static CMOS",
            "static / reversible, no loss",
        ]
    ]
    sums = [0.0, 0.0, 0.0]
    for name, entry in sorted(facts["opcodes"].items(), key=lambda pair: -pair[1]["executions"]):
        if "timed" not in entry:
            rows.append([f"`{name}`", f"{entry['executions']}", "no netlist", "", "", ""])
            continue
        shape = StoredShape(0, (), garbage=entry["garbage"], known=entry["timed"])
        logic = entry["irreversible"]
        gates = Curve(IRREVERSIBLE, IrreversibleShape(logic["gates"], logic["cells"], logic["levels"]), 1)
        curve = Curve(name, shape, 1)
        n = entry["executions"]
        cells = [priced_at(curve, m, best_clock(curve, m)) for m in (model, lossy)] + [
            priced_at(gates, static, STATIC_CLOCK)
        ]
        energies = [p.energy(p.technology) for p in cells]
        assert all(isinstance(e, Range) for e in energies)
        sums = [total + n * e.nominal for total, e in zip(sums, energies, strict=True) if isinstance(e, Range)]
        texts = [ranged(p.price(p.technology)) for p in cells]
        rows.append([f"`{name}`", f"{n}", *texts, str(ratio(cells[2], cells[0])) if energies[0] != energies[2] else ""])
    core = price_netlist(core_shape(), static, frequency=STATIC_CLOCK).program
    assert isinstance(core, Range)
    whole = core.nominal * facts["cycles"]
    rows.append(
        [
            "**all instructions**",
            f"{facts['retired']}",
            *(with_prefix(x, "J", 3) for x in sums),
            f"{sums[2] / sums[0]:.3g}",
        ]
    )
    fields = {
        "core_energy": with_prefix(whole, "J", 3),
        "core_cycles": f"{facts['cycles']:,}",
        "core_over": f"{whole / sums[2]:,.0f}",
    }
    return rows, fields


# ---------------------------------------------------------------------- the page


def page(docs: Path) -> tuple[str, dict[str, Any]]:
    """The text of the page, and the pictures by name."""
    n = STEPS[-1]
    tapes = [ratio(way("tape", n, tech), way("backward", n, tech)) for tech in CACHED]
    schemes = [ratio(way("kept", n, tech), way("bennett", n, tech)) for tech in CACHED]
    revolves = [ratio(way("revolve", n, tech), way("backward", n, tech)) for tech in CACHED]
    small = ratio(way("tape", 100, CACHED[0]), way("backward", 100, CACHED[0]))
    lost = [Losses(**one) for one in stored(docs, "data_path")["losses"]]
    table, fields = path_table(docs)
    text = generated_page(
        TEMPLATE, "tools/compare_machines.py", gradients=markdown(gradients_table()), static=markdown(static_table(docs)),
        losses=markdown(losses_table(lost)), path=markdown(table), **fields,
        tape45=str(tapes[0]), tape7=str(tapes[1]), bennett45=str(schemes[0]), bennett7=str(schemes[1]),
        revolve45=str(revolves[0]), revolve7=str(revolves[1]), small=str(small), steps=f"{n:,}",
        addition=str(over_static("addition", DEVICE["power"], None, docs)), product=str(over_static("product", DEVICE["power"], None, docs)),
        product_q=str(over_static("product", DEVICE["power"], 1e4, docs)), product_leaky=str(over_static("product", 1e-12, None, docs)),
    )  # fmt: skip
    return text, {"chains": gradients_figure(), "static": static_figure(docs)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and its pictures, or check that the page is fresh."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--measure", action="store_true", help="make the netlists of instructions, and write their counts"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    parser.add_argument("docs", type=Path, metavar="DOCS_DIR")
    options = parser.parse_args(arguments)
    path = options.docs / f"{NAME}.md"
    if options.measure:
        write_file(options.docs / "energy" / "data_path.json", json.dumps(measured_path(), indent=1) + "\n")
    text, pictures = page(options.docs)
    if options.check:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale: run python tools/compare_machines.py {options.docs}", file=sys.stderr)
            return 1
        return 0
    write_file(path, text)
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "retrograd"}):
        for name, figure in pictures.items():
            with replacing(options.docs / "energy" / f"{name}.svg") as file:
                figure.savefig(file, format="svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
