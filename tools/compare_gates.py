"""Write the page that compares reversible with irreversible gates, and its figures.

    python tools/compare_gates.py [--measure | --check] DOCS_DIR

writes DOCS_DIR/reversible-gates-compared.md and pictures in DOCS_DIR/energy from the counts in DOCS_DIR/energy/reversible_gates.json. `--measure` makes
all netlists first, in about a minute, and writes the counts. `--check` writes nothing: it compares the page, and the counts of the small functions.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from retrograd.examples import compared
from retrograd.hdl.reversible.irreversible import levels_of as in_levels
from retrograd.isa.files import replacing, write_file
from retrograd.simulator.energy.comparisons import Comparison, Priced, ratio
from retrograd.simulator.energy.gates import FLIP_FLOPS, MEMORY_BITS, Gates
from retrograd.simulator.energy.netlists import (
    IrreversibleShape,
    ReversibleShape,
    Shape,
    Timed,
    price_netlist,
    seconds_of,
    timed_by,
)
from retrograd.simulator.energy.pricing import Price, gates_for
from retrograd.simulator.energy.technology import Range, Technology, technology, thermal_energy, with_prefix

import retrograd as rg
from retrograd import presentation
from retrograd.physics._derived import shape_of
from retrograd.physics.baselines import scaled
from retrograd.presentation import generated_page, markdown

#: the format whose core is counted by synthesis
FORMAT = rg.Format(32, 16)
NUMBERS = [3.5, -1.0, 12.25, 0.5, 7.0, -6.5, 2.0, 9.75, -3.25, 5.0, 1.5, -8.0, 4.25, 11.0, -0.75, 6.0]
#: name -> (function, arguments, ancillas that pebbling is given)
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...]]] = {
    "addition": (compared.addition, (0, 3), ()),
    "product": (compared.product, (0.0, 1.5, 2.5), ()),
    "hypotenuse": (compared.hypotenuse, (0.0, 3.0, 4.0), (200,)),
    "sorting": (compared.sorting, (NUMBERS, [0] * 16), ()),
    "leapfrog_step": (compared.leapfrog_step, ([1.0, 0.0], [0.0, 1.0]), (420,)),
}
#: measured anew by `--check`
SMALL = ("addition", "product")
TITLES = {
    "addition": "addition", "product": "product", "hypotenuse": "√(x² + y²)", "sorting": "sorting of 16 numbers",
    "leapfrog_step": "step of leapfrog",
}  # fmt: skip
#: a device of round numbers
DEVICE = {"resistance": 1e4, "capacitance": 1e-15, "voltage": 0.8, "power": 1e-15}
IRREVERSIBLE, CORE = "irreversible netlist", "co-processor"
#: the text of the page, with a field for each table and number
TEMPLATE = Path(__file__).parent / "templates" / "reversible-gates-compared.md"


def models() -> dict[str, Technology]:
    """The models that have figures for both kinds of gates."""
    return {"aqfp": technology("aqfp"), "adiabatic_rc": ramped_model(**GENERATORS["without losses"])}


# ---------------------------------------------------------------------- counts


def measured(names: Sequence[str]) -> dict[str, Any]:
    """The counts of these functions: on the core, as an irreversible netlist, and as a reversible netlist by each strategy."""
    out: dict[str, Any] = {}
    for name in names:
        f, arguments, budgets = FUNCTIONS[name]
        run = rg.energy(f, *arguments, format=FORMAT, baseline=False).counts
        ways: dict[str, dict[str, Any]] = {way: {"strategy": way} for way in ("garbage", "bennett", "eager")}
        ways |= {f"pebble, {n} ancillas": {"strategy": "pebble", "budget": n} for n in budgets}
        found = {}
        for way, options in ways.items():
            netlist = rg.netlist(f, *arguments, format=FORMAT, **options)
            shape, counts = shape_of(netlist), netlist.counts
            assert isinstance(shape, ReversibleShape)
            found[way] = {
                "gates": counts.gates, "lines": counts.width, "ancillas": counts.ancillas, "garbage": counts.garbage,
                "timed": {model.id: timed_by(shape, model)._asdict() for model in (technology("landauer"), *models().values())},
            }  # fmt: skip
        logic = rg.netlist(f, *arguments, format=FORMAT, strategy="garbage").irreversible
        out[name] = {
            "core": {"instructions": run.retired, "cycles": run.cycles},
            "irreversible": {"gates": logic.counts(), **in_levels(logic).as_dict()},
            "reversible": found,
        }
    return json.loads(json.dumps(out))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class StoredShape(ReversibleShape):  # type: ignore[misc]
    """A reversible netlist whose levels by a model were counted before."""

    known: Mapping[str, Any] = field(default_factory=dict)

    def timed(self, levels: Mapping[str, int], *, peres: bool = False) -> Timed:
        """The levels that were counted."""
        return Timed(**self.known)


class Curve(NamedTuple):
    """One way to compute a function, by one model."""

    way: str
    shape: Shape
    #: evaluations of the shape, one after the other
    times: int

    def energy(self, model: Technology, hertz: float) -> Range:
        """The energy of the function at a clock."""
        spent = price_netlist(self.shape, model, frequency=hertz).program
        assert isinstance(spent, Range)
        return spent * self.times

    def seconds(self, model: Technology, hertz: float) -> float:
        """The time of the function at a clock."""
        found: float | None = seconds_of(self.shape, price_netlist(self.shape, model, frequency=hertz))
        assert found is not None
        return found * self.times


def core_gates() -> Gates:
    """The cells of the co-processor."""
    found = gates_for(FORMAT)
    assert found is not None
    return found


def core_shape() -> IrreversibleShape:
    """The co-processor without its memories, as a netlist that is evaluated once in a cycle."""
    gates = core_gates()
    assert gates.levels is not None
    whole = {kind: n for kind, n in gates.cells().items() if kind != MEMORY_BITS}
    return IrreversibleShape(whole, {**gates.in_levels, FLIP_FLOPS: whole[FLIP_FLOPS]}, gates.levels)


def curves(facts: Mapping[str, Any], model: Technology) -> list[Curve]:
    """All ways to compute a function: the irreversible netlist, the co-processor, and a reversible netlist for each strategy."""
    logic, core = facts["irreversible"], core_shape()
    clocks = model.cycles(core.levels)
    assert clocks is not None
    out = [
        Curve(IRREVERSIBLE, IrreversibleShape(logic["gates"], logic["cells"], logic["levels"]), 1),
        # All cells of the core switch in each cycle of the clock, and it has several for a cycle of the core.
        Curve(CORE, core, facts["core"]["cycles"]),
    ]
    for way, found in facts["reversible"].items():
        shape = StoredShape(found["lines"], (), garbage=found["garbage"], known=found["timed"][model.id])
        out.append(Curve(way, shape, 1))
    return out


def energy_of(curve: Curve, model: Technology, hertz: float) -> Range:
    """The energy of a function."""
    return curve.energy(model, hertz) * (repetitions(curve, model) / curve.times)


def repetitions(curve: Curve, model: Technology) -> int:
    """How often the shape is evaluated; the co-processor switches in each cycle of the clock of each of its cycles."""
    clocks = model.cycles(core_shape().levels) if curve.way == CORE else 1
    assert clocks is not None
    return curve.times * clocks


def clocks_of(model: Technology, points: int = 61) -> list[float]:
    """Clocks over the range of a model."""
    assert model.frequency is not None
    lo, _, hi = model.frequency.si
    return [lo * (hi / lo) ** (k / (points - 1)) if 0 < k < points - 1 else (lo, hi)[k > 0] for k in range(points)]


def cheapest(facts: Mapping[str, Any], model: Technology, hertz: float) -> Curve:
    """The reversible netlist with the least energy at a clock."""
    ways = [curve for curve in curves(facts, model) if curve.way not in (IRREVERSIBLE, CORE)]
    return min(ways, key=lambda curve: curve.energy(model, hertz).nominal)


def crossing(model: Technology, dear: Callable[[float], float], cheap: Callable[[float], float]) -> float | None:
    """The clock below which the first energy is less than the second; None where it is so at no clock of the model."""
    assert model.frequency is not None
    lo, hi = math.log(model.frequency.si.lo), math.log(model.frequency.si.hi)
    if dear(math.exp(lo)) >= cheap(math.exp(lo)):
        return None
    if dear(model.frequency.si.hi) < cheap(model.frequency.si.hi):
        return float(model.frequency.si.hi)
    for _ in range(80):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if dear(math.exp(middle)) < cheap(math.exp(middle)) else (lo, middle)
    return math.exp(lo)


# ---------------------------------------------------------------------- tables


def counts_table(facts: Mapping[str, Any]) -> list[list[str]]:
    """Gates, levels and lines of every way."""
    rows = [["function", "as", "gates", "levels", "lines held, at most", "bits lost", "garbage"]]
    core = core_shape()
    for name, found in facts.items():
        logic = found["irreversible"]
        lost = IrreversibleShape(logic["gates"], {}, 1).lost_bits
        rows.append(
            [
                TITLES[name],
                IRREVERSIBLE,
                f"{sum(logic['gates'].values()):,}",
                f"{logic['levels']:,}",
                "",
                f"{lost:,.0f}",
                "",
            ]
        )
        cycles = found["core"]["cycles"]
        rows.append(
            ["", f"{CORE}: {found['core']['instructions']} instructions, {cycles:,} cycles", f"{cycles:,} · {sum(core.gates.values()):,}",
             f"{cycles:,} · {core.levels}", "", f"{cycles:,} · {core.lost_bits:,.0f}", ""]
        )  # fmt: skip
        for way, counted in found["reversible"].items():
            levels = counted["timed"]["landauer"]["levels"]
            rows.append(
                [
                    "",
                    f"reversible, {way}",
                    f"{counted['gates']:,}",
                    f"{levels:,}",
                    f"{counted['lines']:,}",
                    "0",
                    f"{counted['garbage']:,}",
                ]
            )
    return rows


def prices_table(facts: Mapping[str, Any]) -> list[list[str]]:
    """Energies and times by AQFP at its full clock."""
    model = technology("aqfp")
    assert model.frequency is not None
    hertz = model.frequency.si.hi
    rows = [["function", "as", "energy", "time"]]
    for name, found in facts.items():
        every = {curve.way: curve for curve in curves(found, model)}
        best = cheapest(found, model, hertz)
        for k, (label, curve) in enumerate(
            ((IRREVERSIBLE, every[IRREVERSIBLE]), (CORE, every[CORE]), (f"reversible, {best.way}", best))
        ):
            seconds = time_of(curve, model, hertz)
            rows.append(
                [
                    TITLES[name] if not k else "",
                    label,
                    ranged(price_netlist(curve.shape, model, frequency=hertz), repetitions(curve, model)),
                    with_prefix(seconds, "s", 3),
                ]
            )
    return rows


def time_of(curve: Curve, model: Technology, hertz: float) -> float:
    """The time of a function."""
    return curve.seconds(model, hertz)


def ranged(price: Price, times: int = 1) -> str:
    """The energy of a netlist with its range; a lower bound where a part is not modelled."""
    assert isinstance(price.program, Range)
    lo, nominal, hi = (with_prefix(x * times, "J", 3) for x in price.program)
    return f"{'' if price.complete(program=True) else '≥ '}{nominal} ({lo} … {hi})"


class Crossing(NamedTuple):
    """The clock at which a reversible netlist costs as much as another way, its energy and its time there."""

    hertz: float | None
    best: Curve
    energy: float
    seconds: float


def crossings(found: Mapping[str, Any], model: Technology, against: str, end: str = "nominal") -> Crossing:
    """Where the cheapest reversible netlist meets another way; `end`: of the range of that way's energy."""
    every = {curve.way: curve for curve in curves(found, model)}
    assert model.frequency is not None
    best = cheapest(found, model, model.frequency.si.lo)
    hertz = crossing(
        model,
        lambda f: cheapest(found, model, f).energy(model, f).nominal,
        lambda f: getattr(energy_of(every[against], model, f), end),
    )
    if hertz is None:
        return Crossing(None, best, math.nan, math.nan)
    best = cheapest(found, model, hertz)
    return Crossing(hertz, best, best.energy(model, hertz).nominal, best.seconds(model, hertz))


def crossings_table(facts: Mapping[str, Any]) -> list[list[str]]:
    """The clocks below which reversible netlists cost less, by AQFP."""
    model = technology("aqfp")
    rows = [["function", "strategy", "less than the irreversible netlist, below", "its energy there", "its time there", "with the highest floor, below", "less than the co-processor, without their generators"]]  # fmt: skip
    for name, found in facts.items():
        netlist, high, core = (
            crossings(found, model, IRREVERSIBLE), crossings(found, model, IRREVERSIBLE, "hi"), crossings(found, model, CORE),
        )  # fmt: skip
        rows.append(
            [TITLES[name], netlist.best.way, hertz_text(netlist.hertz), f"≥ {with_prefix(netlist.energy, 'J', 3)}", with_prefix(netlist.seconds, "s", 3),
             hertz_text(high.hertz), hertz_text(core.hertz, model)]
        )  # fmt: skip
    return rows


def hertz_text(hertz: float | None, model: Technology | None = None) -> str:
    """A clock; `every clock` for the highest of the model."""
    if hertz is None:
        return "no clock"
    highest = model is not None and model.frequency is not None and hertz >= model.frequency.si.hi
    return "at every clock" if highest else with_prefix(hertz, "Hz", 3)


class Ratios(NamedTuple):
    """The ratios ξ below which a reversible netlist wins."""

    gates: float
    cells: float
    core: float
    erasure: float


def ratios(found: Mapping[str, Any], way: str) -> Ratios:
    """ξ by gates alone, with buffers and held lines, against the core; and the energy of a gate in kT ln 2 against gates at their bound."""
    logic, counted, core = found["irreversible"], found["reversible"][way], core_shape()
    plain = counted["timed"]["landauer"]
    gates, held, garbage = counted["gates"], plain["idle"], counted["garbage"]
    lost = IrreversibleShape(logic["gates"], {}, 1).lost_bits
    return Ratios(
        (sum(logic["gates"].values()) - garbage) / gates,
        (sum(logic["cells"].values()) - garbage) / (gates + held),
        (found["core"]["cycles"] * sum(core.gates.values()) - garbage) / gates,
        (lost - garbage) / gates,
    )


def best_ratios(found: Mapping[str, Any]) -> list[tuple[str, float]]:
    """For each of the four, the strategy with the largest ratio, and the ratio."""
    every = {way: ratios(found, way) for way in found["reversible"]}
    return [max(((way, values[k]) for way, values in every.items()), key=lambda pair: pair[1]) for k in range(4)]


def ratios_table(facts: Mapping[str, Any]) -> list[list[str]]:
    """The ratios of all functions, by the best strategy for each."""
    rows = [["function", "ξ, gates alone", "ξ, with buffers and held lines", "ξ, against the co-processor", "energy of a gate in kT ln 2, against the bound"]]  # fmt: skip
    for name, found in facts.items():
        rows.append([TITLES[name], *(f"{value:.3g} ({way})" for way, value in best_ratios(found))])
    return rows


#: kinds of generator: title -> figures
GENERATORS = {"without losses": {"efficiency": 1.0}, "Q = 10⁴": {"quality": 1e4}, "Q = 10³": {"quality": 1e3}}
#: the clock of static CMOS: the faster, the less it leaks for a result
STATIC_CLOCK = 1e9


def static_model(**device: float) -> Technology:
    """Static CMOS with the device's capacitance, voltage and leakage, or with others."""
    used = {**{name: DEVICE[name] for name in ("capacitance", "voltage", "power")}, **device}
    return technology("cmos_switching").with_figures({name: Range(x, x, x) for name, x in used.items()})


def ramped_model(**figures: float) -> Technology:
    """Adiabatic CMOS with the device and a generator."""
    used = {**DEVICE, **figures}
    return technology("adiabatic_rc").with_figures({name: Range(x, x, x) for name, x in used.items()})


def best_clock(curve: Curve, model: Technology) -> float:
    """The clock at which a way costs least."""
    found: float = min(clocks_of(model), key=lambda f: curve.energy(model, f).nominal)
    return found


def priced_at(curve: Curve, model: Technology, hertz: float) -> Priced:
    """The energy of a netlist at a clock, to be compared."""
    return Priced(model, lambda by: price_netlist(curve.shape, by, frequency=hertz))


def summed(parts: Sequence[tuple[int, Priced]]) -> Priced:
    """The sum of energies by one model, each as often as it says; each figure has one value in all of them."""

    def priced(by: Technology) -> Price:
        found = [(n, part.price(by)) for n, part in parts]
        return replace(found[0][1], items=tuple(scaled(item, n) for n, price in found for item in price.items))

    return Priced(parts[0][1].technology, priced)


def reversible_at_best(found: Mapping[str, Any], model: Technology) -> tuple[Curve, float]:
    """The reversible netlist with the least energy at any clock, and that clock."""
    ways = [curve for curve in curves(found, model) if curve.way not in (IRREVERSIBLE, CORE)]
    every = [(curve, best_clock(curve, model)) for curve in ways]
    return min(every, key=lambda pair: pair[0].energy(model, pair[1]).nominal)


def against_static(found: Mapping[str, Any], reversible: Technology, static: Technology) -> Comparison:
    """The energy of the irreversible netlist in static CMOS over that of the reversible one at its best clock."""
    curve, hertz = reversible_at_best(found, reversible)
    logic = found["irreversible"]
    gates = Curve(IRREVERSIBLE, IrreversibleShape(logic["gates"], logic["cells"], logic["levels"]), 1)
    return ratio(priced_at(gates, static, STATIC_CLOCK), priced_at(curve, reversible, hertz))


def adiabatic_table(facts: Mapping[str, Any]) -> list[list[str]]:
    """Static CMOS, ramped irreversible cells, and reversible gates by the quality of the generator."""
    rows = [["function", "as", "least energy", "at a clock of", "time", "static CMOS over it"]]
    static = static_model()
    for name, found in facts.items():
        logic = found["irreversible"]
        shape = IrreversibleShape(logic["gates"], logic["cells"], logic["levels"])
        price = price_netlist(shape, static, frequency=STATIC_CLOCK)
        rows.append([TITLES[name], "static CMOS", ranged(price), with_prefix(STATIC_CLOCK, "Hz", 3), "", "1"])
        for title, figures in GENERATORS.items():
            model = ramped_model(**figures)
            curve, hertz = reversible_at_best(found, model)
            rows.append(
                ["", f"reversible, {curve.way}, generator {title}", ranged(price_netlist(curve.shape, model, frequency=hertz)),
                 with_prefix(hertz, "Hz", 3), with_prefix(curve.seconds(model, hertz), "s", 3), str(against_static(found, model, static))]
            )  # fmt: skip
        ramped = ramped_model(**GENERATORS["without losses"])
        cells = Curve(IRREVERSIBLE, shape, 1)
        hertz = best_clock(cells, ramped)
        energy = ranged(price_netlist(shape, ramped, frequency=hertz))
        more = str(ratio(priced_at(cells, static, STATIC_CLOCK), priced_at(cells, ramped, hertz)))
        seconds = with_prefix(cells.seconds(ramped, hertz), "s", 3)
        rows.append(
            ["", "irreversible, ramped, generator without losses", energy, with_prefix(hertz, "Hz", 3), seconds, more]
        )
    return rows


def gains(facts: Mapping[str, Any], generator: str) -> tuple[float, float]:
    """The least and the greatest likely ratio of static CMOS to reversible gates, over all functions."""
    found = [against_static(f, ramped_model(**GENERATORS[generator]), static_model()).range for f in facts.values()]
    nominal = [r.nominal for r in found if isinstance(r, Range)]
    return min(nominal), max(nominal)


# ---------------------------------------------------------------------- pictures


def fronts_figure(facts: Mapping[str, Any]) -> Any:
    """Energy against time for every way and clock of AQFP; the least energy for each time is the front."""
    model = technology("aqfp")
    figure = presentation.new_figure(9.5, 8.5)
    places = figure.subplots(3, 2).flat
    colours = {IRREVERSIBLE: presentation.COLOURS[5], CORE: presentation.COLOURS[7]}
    styles = {"garbage": ("-", 0), "bennett": ("--", 2), "eager": (":", 1)}
    handles: dict[str, Any] = {}
    for ax, (name, found) in zip(places, facts.items(), strict=False):
        for curve in curves(found, model):
            points = [(time_of(curve, model, f), energy_of(curve, model, f)) for f in clocks_of(model)]
            xs, ys = [x for x, _ in points], [y.nominal for _, y in points]
            style, colour = styles.get(curve.way, ("-.", 4))
            label = curve.way if curve.way in colours else f"reversible, {curve.way.split(',')[0]}"
            (line,) = ax.plot(
                xs,
                ys,
                style if curve.way not in colours else "-",
                color=colours.get(curve.way, presentation.COLOURS[colour]),
            )
            handles.setdefault(label, line)
            if curve.way == IRREVERSIBLE:
                ax.fill_between(
                    xs,
                    [y.lo for _, y in points],
                    [y.hi for _, y in points],
                    color=colours[curve.way],
                    alpha=0.15,
                    linewidth=0,
                )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(TITLES[name], fontsize="medium")
        ax.set_xlabel("time (s)")
        ax.set_ylabel("energy at 4.2 K (J)")
    last = list(figure.axes)[-1]
    last.axis("off")
    last.legend(handles.values(), handles.keys(), loc="center", fontsize="medium", frameon=False)
    return figure


def ratios_figure(facts: Mapping[str, Any]) -> Any:
    """ξ below which the reversible netlist of each function wins."""
    figure, ax = presentation.axes_of(None, 8.5, 4)
    labels = (
        "against gates of the irreversible netlist",
        "the same, with buffers and held lines",
        "against gates of the co-processor",
    )
    for k, (label, marker) in enumerate(zip(labels, "osD", strict=True)):
        xs = [best_ratios(found)[k][1] for found in facts.values()]
        ax.plot(xs, range(len(facts)), marker, color=presentation.COLOURS[(5, 1, 2)[k]], label=label)
    ax.axvline(1, color="0.4", linestyle=":")
    ax.set_xscale("log")
    ax.set_yticks(range(len(facts)), [TITLES[name] for name in facts])
    ax.set_ylim(len(facts) - 0.5, -0.5)
    ax.set_xlabel("ξ, below which the reversible netlist takes less energy")
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=1, fontsize="small", frameon=False)
    return figure


def page_path(docs: Path) -> Path:
    """The page."""
    return docs / "reversible-gates-compared.md"


def page(facts: Mapping[str, Any]) -> str:
    """The text of the page."""
    core = core_shape()
    aqfp = technology("aqfp")

    def times(way: str) -> list[float]:
        return [
            found["reversible"][way]["gates"] / sum(found["irreversible"]["gates"].values()) for found in facts.values()
        ]

    kept = [found["reversible"]["garbage"] for found in facts.values()]
    bounds = [best_ratios(found)[3][1] for found in facts.values()]
    clocks = aqfp.cycles(core.levels)
    meets = {name: crossings(found, aqfp, IRREVERSIBLE) for name, found in facts.items()}
    known = [meet.hertz for meet in meets.values() if meet.hertz is not None]
    gates_alone = [best_ratios(found)[0][1] for found in facts.values()]
    with_lines = [best_ratios(found)[1][1] for found in facts.values()]
    against_core = [best_ratios(found)[2][1] for found in facts.values()]
    gain = {name: gains(facts, name) for name in GENERATORS}
    product = facts["product"]
    fast = {
        curve.way: summed([(repetitions(curve, aqfp), priced_at(curve, aqfp, 5e9))]) for curve in curves(product, aqfp)
    }
    timed = product["reversible"]["garbage"]["timed"]["aqfp"]
    product_energy = fast["garbage"].energy(aqfp)
    assert isinstance(product_energy, Range)
    lines_share = 2 * timed["idle"] / (product_energy.nominal / 1.4e-21)
    text: str = generated_page(
        TEMPLATE, "tools/compare_gates.py", format=str(FORMAT), core_gates=f"{sum(core.gates.values()):,}", core_levels=core.levels, core_clocks=clocks,
        counts=markdown(counts_table(facts)), prices=markdown(prices_table(facts)), crossings=markdown(crossings_table(facts)),
        ratios=markdown(ratios_table(facts)), adiabatic=markdown(adiabatic_table(facts)),
        kept_low=f"{min(times('garbage')):.1f}", kept_high=f"{max(times('garbage')):.1f}",
        undone_low=f"{min(times('bennett')):.1f}", undone_high=f"{max(times('bennett')):.1f}",
        low=with_prefix(min(known), "Hz", 3), high=with_prefix(max(known), "Hz", 3),
        soon=with_prefix(min(meet.seconds for meet in meets.values()), "s", 3),
        late=with_prefix(max(meet.seconds for meet in meets.values()), "s", 3),
        share=f"{max(100 * way['garbage'] / way['gates'] for way in kept):.1f}",
        bound_low=f"{min(bounds):.2g}", bound_high=f"{max(bounds):.2g}",
        gates_low=f"{min(gates_alone):.2g}", gates_high=f"{max(gates_alone):.2g}",
        lines_low=f"{min(with_lines):.2g}", lines_high=f"{max(with_lines):.2g}",
        core_low=f"{min(against_core):,.0f}", core_high=f"{max(against_core):,.0f}",
        product_ratio=str(ratio(fast["garbage"], fast[IRREVERSIBLE])),
        product_core=str(ratio(fast[CORE], fast["garbage"])),
        lines_share=f"{lines_share:.0%}", bound=with_prefix(thermal_energy(4.2), "J", 3),
        dropped=with_prefix(0.5 * DEVICE["capacitance"] * DEVICE["voltage"] ** 2, "J", 3),
        **{f"{key}_{end}": f"{x:.2g}" for key, name in zip(("ideal", "good", "poor"), GENERATORS, strict=True)
           for end, x in zip(("low", "high"), gain[name], strict=True)},
        device="10 kΩ, 1 fF, 0.8 V, 1 fW of leakage for each cell or held bit",
    )  # fmt: skip
    return text


def stale(docs: Path, facts: Mapping[str, Any]) -> str | None:
    """The reason why the page or the counts are out of date, or None."""
    if page_path(docs).read_text(encoding="utf-8") != page(facts):
        return "the page differs from its counts"
    for name, found in measured(SMALL).items():
        if facts[name] != found:
            return f"the counts of {name} differ"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and its pictures, or check that they are fresh."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="make all netlists, and write their counts")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    parser.add_argument("docs", type=Path, metavar="DOCS_DIR")
    options = parser.parse_args(arguments)
    stored: Path = options.docs / "energy" / "reversible_gates.json"
    if options.measure:
        write_file(stored, json.dumps(measured(list(FUNCTIONS)), indent=1) + "\n")
    facts = json.loads(stored.read_text(encoding="utf-8"))
    if options.check:
        reason = stale(options.docs, facts)
        if reason is not None:
            print(
                f"{page_path(options.docs)} is stale, {reason}: run python tools/compare_gates.py --measure {options.docs}",
                file=sys.stderr,
            )
        return int(reason is not None)
    write_file(page_path(options.docs), page(facts))
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "retrograd"}):
        for name, figure in (("fronts", fronts_figure(facts)), ("ratios", ratios_figure(facts))):
            with replacing(options.docs / "energy" / f"{name}.svg") as file:
                figure.savefig(file, format="svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
