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
    CORE,
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
    summed,
)
from retrograd.examples import bundle_adjustment, chains
from retrograd.examples.tradeoffs import squared_error
from retrograd.hdl.reversible.irreversible import Network, levels_of, network_of
from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.files import replacing, write_file
from retrograd.isa.table import TABLE
from retrograd.simulator.energy.comparisons import Comparison, Priced, ratio
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.energy.gates import lost_bits
from retrograd.simulator.energy.netlists import IrreversibleShape, ReversibleShape, Shape, price_netlist, timed_by
from retrograd.simulator.energy.technology import Figure, Range, technology, thermal_energy, with_prefix

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


#: the least energy of a lost bit, at the temperature of AQFP
LEAST = thermal_energy(technology("aqfp").temperature.si.nominal)


class Losses(NamedTuple):
    """The bits that the gates of an irreversible netlist lose, and the energies of both netlists in AQFP."""

    title: str
    #: with independent uniform inputs of each gate
    assumed: float
    #: for uniform inputs of the function: gate by gate, and the whole
    gate_by_gate: float
    whole: float
    #: bits that the reversible netlist leaves as garbage, which are erased
    garbage: int
    #: energies over the clock, (lo, nominal, hi) in J/Hz: reversible gates, irreversible gates, and their buffers
    reversible: Sequence[float]
    gates: Sequence[float]
    buffers: Sequence[float]

    def crossing(self, bits: float) -> Range:
        """The clock below which reversible gates take less energy than irreversible ones, which lose these bits. The
        figure of a junction has one value in both."""
        spare = (bits - self.garbage) * LEAST
        clocks = [spare / (a - b) for a, b in zip(self.reversible, self.buffers, strict=True)]
        return Range(*reversed(clocks))

    def energy(self, hertz: float, bits: float | None = None) -> float:
        """The likely energy of the reversible gates, or of irreversible gates that lose these bits."""
        if bits is None:
            spent = self.garbage * LEAST + self.reversible[1] * hertz
        else:
            spent = max(self.gates[1] * hertz, bits * LEAST) + self.buffers[1] * hertz
        return float(spent)


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


def slope(shape: Shape, hertz: float) -> Range:
    """The energy over the clock by AQFP, between this clock and twice as much, in J/Hz."""
    once, twice = (price_netlist(shape, technology("aqfp"), frequency=f).program for f in (hertz, 2 * hertz))
    assert isinstance(once, Range)
    assert isinstance(twice, Range)
    return Range(*((y - x) / hertz for x, y in zip(once, twice, strict=True)))


def losses() -> list[Losses]:
    """The exact losses take a minute, by all inputs."""
    out = []
    for title, opcode, zero in (
        ("addition of 8 bits, `mov.add`", "mov.add", ""),
        ("product of 8 bits, `fmul.add`, Q4.4, d = 0", "fmul.add", "d"),
    ):
        circuit = lower(TABLE[opcode], rg.Format(8, 4), strategy="garbage")
        net = network_of(circuit)
        logic, levels = logic_of(net), levels_of(net)
        found = logic.losses(zero_at(net, zero) if zero else None)
        # In levels, the netlist has these gates, beside splitters and buffers.
        cells = IrreversibleShape(levels.cells, levels.cells, levels.levels)
        assert math.isclose(cells.lost_bits, sum(lost_bits(gate.kind) for gate in logic.gates))
        gates = shape_of(circuit)
        assert isinstance(gates, ReversibleShape)
        # Irreversible gates are at their floor at slow clocks, and none is at the highest.
        still, slow, fast = slope(gates, 1e3), slope(cells, 1e3), slope(cells, 2e9)
        own = [x - y for x, y in zip(fast, slow, strict=True)]
        out.append(
            Losses(title, cells.lost_bits, found.gate_by_gate, found.whole, gates.garbage, [*still], own, [*slow])
        )
    return out


def losses_table(found: Sequence[Losses]) -> list[list[str]]:
    head = "function; bits lost, independent uniform inputs of each gate; bits lost, gate by gate, exact"
    more = "bits lost by the whole; reversible below; reversible below, by exact bits"
    rows = [f"{head}; {more}".split("; ")]
    for one in found:
        clocks = []
        for bits in (one.assumed, one.gate_by_gate):
            lo, nominal, hi = (with_prefix(f, "Hz", 3) for f in one.crossing(bits))
            clocks.append(f"{nominal} ({lo} … {hi})")
        rows.append([one.title, f"{one.assumed:.1f}", f"{one.gate_by_gate:.1f}", f"{one.whole:.1f}", *clocks])
    return rows


def losses_figure(found: Sequence[Losses]) -> Any:
    """Energy against the clock: reversible gates, and irreversible gates at kT ln 2 for each bit that they lose."""
    figure = presentation.new_figure(10, 4.2)
    axes = figure.subplots(1, 2, sharey=True)
    clocks = [10 ** (3 + 6.699 * k / 60) for k in range(61)]
    for ax, one in zip(axes, found, strict=True):
        curves = (
            ("reversible gates", None),
            ("irreversible, independent inputs", one.assumed),
            ("irreversible, exact losses", one.gate_by_gate),
        )
        for (label, bits), colour in zip(curves, presentation.colours(len(curves)), strict=True):
            ax.loglog(clocks, [one.energy(f, bits) for f in clocks], color=colour, label=label)
        ax.set_title(one.title.replace("`", ""), fontsize="medium")
        ax.set_xlabel("clock (Hz)")
    axes[0].set_ylabel("energy of an evaluation at 4.2 K (J)")
    presentation.legend(axes[1])
    return figure


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
    parts: list[list[tuple[int, Priced]]] = [[], [], []]
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
        for column, cell in zip(parts, cells, strict=True):
            column.append((n, cell))
        texts = [ranged(p.price(p.technology)) for p in cells]
        rows.append([f"`{name}`", f"{n}", *texts, str(ratio(cells[2], cells[0])) if energies[0] != energies[2] else ""])
    sums = [summed(column) for column in parts]
    core = summed([(facts["cycles"], priced_at(Curve(CORE, core_shape(), 1), static, STATIC_CLOCK))])
    texts = [ranged(p.price(p.technology)) for p in sums]
    rows.append(["**all instructions**", f"{facts['retired']}", *texts, str(ratio(sums[2], sums[0]))])
    fields = {
        "core_energy": ranged(core.price(static)),
        "core_cycles": f"{facts['cycles']:,}",
        "core_over": str(ratio(core, sums[2])),
        "lossy_over": str(ratio(sums[2], sums[1])),
    }
    return rows, fields


# ---------------------------------------------------------------------- the page


def figures_table() -> list[list[str]]:
    """Each figure of the models of this page once: its range, its evidence, its source."""

    def shown(figure: Figure) -> str:
        assert figure.written is not None
        lo, nominal, hi = figure.written
        span = "" if lo == hi else f" ({lo:g} … {hi:g})"
        return f"{nominal:g}{span} {figure.unit.name.removesuffix('1')}".strip()

    rows = [["model", "figure", "value", "evidence", "source"]]
    for name in (*CACHED, "cmos_switching", "adiabatic_rc", "aqfp"):
        found: dict[tuple[str, ...], None] = {}
        place = f"for each kind, in [{name}.toml](../simulator/energy/models/{name}.toml)"
        for charge in technology(name).charges:
            named = [(key.replace("_", " "), f) for key, f in charge.figures.items() if f.written is not None]
            for size in charge.sizes:
                room = "more" if size.capacity is None else f"{size.capacity / 1024:g} KiB"
                words = f"{room}, " if charge.law.name == "hierarchy" else ""
                named.append((f"{words}{size.bits} bits", size.energy))
            for what, f in named:
                found[f"{charge.label}: {what}", shown(f), f.evidence, f.source] = None
            for what, kinds in (("nodes or junctions", charge.cells), ("levels of a gate", charge.levels)):
                if kinds:
                    values = ", ".join(f"{kind} {shown(f)}" for kind, f in kinds.items())
                    told = ", ".join(dict.fromkeys(f.evidence for f in kinds.values()))
                    found[f"{charge.label}: {what}", values, told, place] = None
        rows += [[f"`{name}`" if not k else "", *row] for k, row in enumerate(found)]
    return rows


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
        losses=markdown(losses_table(lost)), path=markdown(table), figures=markdown(figures_table()), **fields,
        tape45=str(tapes[0]), tape7=str(tapes[1]), bennett45=str(schemes[0]), bennett7=str(schemes[1]),
        revolve45=str(revolves[0]), revolve7=str(revolves[1]), small=str(small), steps=f"{n:,}",
        addition=str(over_static("addition", DEVICE["power"], None, docs)), product=str(over_static("product", DEVICE["power"], None, docs)),
        product_q=str(over_static("product", DEVICE["power"], 1e4, docs)), product_leaky=str(over_static("product", 1e-12, None, docs)),
    )  # fmt: skip
    return text, {"chains": gradients_figure(), "static": static_figure(docs), "losses": losses_figure(lost)}


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
