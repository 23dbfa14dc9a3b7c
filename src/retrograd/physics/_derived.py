"""`rg.energy` of netlists, of gradients, and of batches of functions and of gradients.

    counts(grad(f)(x))  =  counts(f forward, D = 0)  +  counts(f backward, D = 1)      one machine, one program
    counts(vmap(f)(xs)) =  Σᵢ counts(f(xsᵢ))                                         the code is loaded once

Batch engines count steps, erased bits and cycles of each element, but not the executions of each instruction. So elements run on
machines here, one by one; elements that executed the same instructions equally often share their counts. Of a netlist, one
evaluation of its gates is priced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from retrograd.compiler.compiled import Compiled
from retrograd.derivatives._gradients import BatchGradient, LossFunction
from retrograd.derivatives._jacobians import explained
from retrograd.derivatives._requests import plan_of, wanted_of, way_back
from retrograd.hardware.function_netlists import FunctionNetlist
from retrograd.hdl.reversible.circuit import Circuit
from retrograd.hdl.reversible.irreversible import Network
from retrograd.hdl.reversible.irreversible import levels_of as in_levels
from retrograd.isa.diagnostics import Diagnostic, InputError, printable
from retrograd.isa.program import Program
from retrograd.physics.report import EnergyReport, HasPrice, Pricing, bits_text, energy_text, program_text, total_text
from retrograd.presentation import columns, shortened_text
from retrograd.runtime._batch_arguments import Batch, Loaded
from retrograd.runtime._batch_runs import run_rows
from retrograd.runtime._batches import Mapped
from retrograd.runtime._execution import ProgramTrap, Request, execute, load
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.energy.comparisons import Comparison, Priced, ratio
from retrograd.simulator.energy.counts import CODE_BITS, Counts, HostTraffic, Site, counts_of, host_traffic
from retrograd.simulator.energy.netlists import (
    Garbage,
    IrreversibleShape,
    ReversibleShape,
    Shape,
    levels_of,
    price_netlist,
    seconds_of,
)
from retrograd.simulator.energy.pricing import NotModelled, Price, PricingContext, pricing_context
from retrograd.simulator.energy.technology import Range, Technology, with_prefix
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine, Stop, Trap

Netlist = FunctionNetlist | Circuit | Network


def shape_of(netlist: Netlist) -> Shape:
    """The parts of a netlist that its price depends on."""
    if isinstance(netlist, FunctionNetlist):
        netlist = netlist.circuit
    if isinstance(netlist, Network):
        levels = in_levels(netlist)
        return IrreversibleShape(netlist.counts(), levels.cells, levels.levels)
    ends = {line for word in netlist.outputs.values() for line in word} | set(netlist.garbage)
    begins = {line for word in netlist.inputs.values() for line in word}
    return ReversibleShape(
        netlist.lines, netlist.gates, frozenset(begins), frozenset(ends), garbage=len(netlist.garbage)
    )


@dataclass(frozen=True)
class NetlistEnergy:
    """The price of one evaluation of a netlist."""

    name: str
    shape: Shape
    by: PricingContext
    #: whether garbage is erased, or left for an erasure that has no price here
    garbage: Garbage = "erased"

    @cached_property
    def price(self) -> Price:
        """The price of the evaluation."""
        by = self.by
        return price_netlist(
            self.shape, by.technology, temperature=by.temperature, frequency=by.frequency, garbage=self.garbage
        )

    @property
    def levels(self) -> int:
        """Levels from the inputs to the outputs."""
        return levels_of(self.shape, self.by.technology)

    @property
    def seconds(self) -> float | None:
        """The time from the inputs to the outputs; None for a model without phases."""
        return seconds_of(self.shape, self.price)

    def priced_by(self, tech: str | Path | Technology, **how: Any) -> NetlistEnergy:
        """The same netlist priced by another model. `how`: temperature, frequency, figures as for `energy`."""
        return replace(self, by=pricing_context(tech, None, **how))

    def priced(self, *, whole: bool = False) -> Priced:
        """The energy of the netlist, or with cooling, as a function of the figures of the model."""
        return Priced(
            self.price.technology, lambda model: replace(self, by=replace(self.by, technology=model)).price, whole
        )

    def ratio_to(self, other: HasPrice, *, whole: bool = False) -> Comparison:
        """E / E of the other, of the netlists or with cooling; each figure of the models has the same value in both."""
        return ratio(self.priced(whole=whole), other.priced(whole=whole))

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        p, t = self.price, self.price.technology
        clock = "" if p.frequency is None else f", {with_prefix(p.frequency, 'Hz')}"
        time = "" if self.seconds is None else f", {with_prefix(self.seconds, 's')}"
        rows = [["cause", "of", "count", "energy", f"kT ln 2 at {p.temperature:g} K"]]
        for item in p.items:
            if item.count or isinstance(item.energy, Range):
                own = item.cause != "cooling" and isinstance(item.energy, Range)
                bits = bits_text(item.energy, p.temperature) if own else ""
                rows.append([item.cause, item.label, f"{item.count:.6g}", energy_text(item.energy), bits])
        rows.append(["netlist, in all", "", "", program_text(p), bits_text(p.program, p.temperature)])
        rows.append(["with cooling", "", "", total_text(p), ""])
        text = f"{self.name}: {self.levels} levels{time}\n{t.id} {t.version}, {p.temperature:g} K{clock}: {t.title}"
        head = printable(text, lines=True)
        whys = dict.fromkeys(
            f"{item.label}: {item.energy.why}"
            for item in p.items
            if isinstance(item.energy, NotModelled) and item.cause != "cooling"
        )
        open_figures = [why for why in whys if ": give " in why]
        return "\n".join([head, columns(rows, right=(2, 4)), *open_figures])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.netlist-energy/1."""
        return {
            "schema": "retrograd.netlist-energy/1",
            "name": self.name,
            "reversible": isinstance(self.shape, ReversibleShape),
            "levels": self.levels,
            "seconds": self.seconds,
            "garbage": self.garbage,
            "lost_bits": self.shape.lost_bits if isinstance(self.shape, IrreversibleShape) else 0.0,
            "technology": self.price.technology.as_dict(),
            "price": {k: v for k, v in self.price.as_dict().items() if k != "host"},
        }


def energy_of_netlist(
    netlist: Netlist, name: str, garbage: str, tech: str | Path | Technology, **how: Any
) -> NetlistEnergy:
    """The price of one evaluation. Raises InputError RG0507 for another word than `erased` or `left`, and as `energy`."""
    if garbage not in ("erased", "left"):
        hint = "`erased` prices its erasure, and `left` leaves it out"
        raise InputError(Diagnostic("RG0507", f"garbage = `{garbage!s:.40}` is not `erased` or `left`", hint=hint))
    chosen: Garbage = "left" if garbage == "left" else "erased"
    return NetlistEnergy(name, shape_of(netlist), pricing_context(tech, None, **how), chosen)


# ---------------------------------------------------------------------- dispatch


def energy_of(
    f: Netlist | Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    how: Pricing,
    settings: dict[str, Any],
) -> EnergyReport | NetlistEnergy:
    """The report of a netlist, a gradient or a batch: see `rg.energy`. Raises InputError RG0603 for anything else.

    `settings`: the changes of the request, as `Request.changed` takes them.
    """
    if isinstance(f, FunctionNetlist | Circuit | Network):
        if any(value not in ("auto", None) for value in settings.values()):
            _refuse_for_netlists()
        return _netlist(f, args, keywords, how)
    if isinstance(f, Mapped):
        return _batch(f, f.request.changed(**settings), args, keywords, how)
    if not isinstance(f, LossFunction):
        name = getattr(f, "__name__", None) or f"{f!r:.40}"
        _refuse(
            f"`{name}` has no energy report",
            "reversible functions have one, and what rg.grad, rg.value_and_grad and rg.vmap make of them",
        )
    return _gradient(f.__name__, f.request.changed(**settings), args, {**keywords, **f.zeros}, how)


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise InputError(Diagnostic("RG0603", message, hint=hint))


def _refuse_for_netlists() -> NoReturn:
    hint = "arguments, engine, format, options, gates, activity and timeline are for functions"
    _refuse("a netlist takes tech, temperature, frequency, figures and garbage", hint)


def _netlist(f: Netlist, args: tuple[Any, ...], keywords: dict[str, Any], how: Pricing) -> NetlistEnergy:
    garbage = keywords.pop("garbage", "erased")
    if args or keywords or how._replace(temperature=None, frequency=None, figures=None) != Pricing(how.tech):
        _refuse_for_netlists()
    name = f.request.function.__name__ if isinstance(f, FunctionNetlist) else "netlist"
    at: dict[str, Any] = {"temperature": how.temperature, "frequency": how.frequency, "figures": how.figures}
    return energy_of_netlist(f, name, garbage, how.tech, **at)


# ---------------------------------------------------------------------- gradients


def _gradient(
    name: str, request: Request, args: tuple[Any, ...], keywords: dict[str, Any], how: Pricing
) -> EnergyReport:
    """Forward and back on one machine in differentiation mode, as on the co-processor."""
    values, limit = request.values(args, keywords), request.max_steps
    turned = way_back(request, values)
    compiled = turned.compiled
    wanted = wanted_of(request, compiled.arguments)
    words = compiled.argument_words
    out = sum(a.type.size for a in wanted) + request.value

    machine = request.machine(compiled, values)
    there = how.ledger(machine, range(words))
    execute(compiled, machine, limit, there)
    turned.begin(machine)
    back = None if there is None else there.again(machine)
    left = None if limit is None else max(0, limit - machine.retired)
    try:
        stop = machine.run(left, observe=back).stop
    except Trap as trap:
        # A machine has cotangents of constants, too, and they may outgrow the word. The gradient program has none.
        other = _by_program(request, values) if trap.code == "RG0404" else None
        if other is None:
            raise ProgramTrap(explained(compiled, machine, trap), machine, trap) from None
        machine, there, back = other, None, None
    else:
        if stop is not Stop.HALTED:
            d = Diagnostic("RG0420", f"stopped by the limit of {limit} steps, on the way back")
            raise ProgramTrap(d, machine, None)
    # The cotangent of the loss is loaded, too.
    counts = counts_of(machine, host_traffic(machine.program, words + 1, out))
    if there is not None and back is not None:
        toggled = Counter(there.toggled)
        toggled.update(back.toggled)
        counts = replace(back.counted(counts), toggled_at=dict(toggled))
    if there is not None and there.silent:
        there = back = None
    return EnergyReport(name, how.context(compiled.format), counts, machine.engine, None, there, back)


def _by_program(request: Request, values: list[Any]) -> Machine | None:
    """The gradient program, which has cotangents of active variables only; None if it traps, too."""
    program = plan_of(request, request.compiled(values)).program
    machine = load(program.compiled, values, engine=request.engine)
    for address, word in program.seed(0 if request.scale == "auto" else request.scale).items():
        machine.load(address, [word])
    try:
        execute(program.compiled, machine, request.max_steps)
    except ProgramTrap as trap:
        if trap.trap is None:
            raise
        return None
    return machine


# ---------------------------------------------------------------------- batches


class _Counted:
    """The counts of each element at its end, kept once for elements with equal executions."""

    def __init__(self, host: HostTraffic) -> None:
        self.each: dict[int, Counts] = {}
        self.engine = "reference"
        self._host = host
        self._known: dict[tuple[tuple[int, ...], ...], Counts] = {}

    def __call__(self, i: int, machine: Machine) -> None:
        hits = tuple(tuple(found) for found in machine.executed.values())
        if hits not in self._known:
            self._known[hits] = counts_of(machine, self._host)
        self.each[i] = self._known[hits]
        self.engine = machine.engine

    def total(self, program: Program) -> Counts:
        """The sum over all elements, and the code, which is loaded once."""
        times = Counter(id(counts) for counts in self.each.values())
        executed: Counter[Site] = Counter()
        host = HostTraffic(len(program.code) * CODE_BITS)
        for counts in self._known.values():
            n = times[id(counts)]
            executed.update({site: n * once for site, once in counts.executed.items()})
            host += HostTraffic(*(n * bits for bits in counts.host))
        return Counts(program, dict(executed), 0, host)


def _batch(f: Mapped, request: Request, args: tuple[Any, ...], keywords: dict[str, Any], how: Pricing) -> EnergyReport:
    if how.timeline:
        _refuse(
            f"`{f.__name__}` is a batch: `timeline` is for single runs",
            "look at one element: rg.energy of what is mapped",
        )
    if engine_named(request.engine) == "cuda":
        hint = "engine = auto, native, translated, threaded or reference: counts are the same on all"
        raise InputError(
            Diagnostic("RG1001", "the engine `cuda` keeps no counts of what was executed where", hint=hint)
        )

    def run(request: Request, compiled: Compiled, loaded: Loaded, out: int) -> _Counted:
        """`out`: words that are copied out of each element."""
        carried = sum(n for _, n in loaded.ranges.values()) + shared
        host = host_traffic(compiled.program, carried, out)._replace(code_bits=0)
        counted = _Counted(host)
        rows = run_rows(request, compiled, loaded, [], counted=counted)
        if rows.traps:
            raise rows.traps[min(rows.traps)]
        return counted

    beside = None
    if isinstance(f.each, Reversible | Inverse):
        batch = Batch(request, args, keywords, f.in_axes)
        compiled = batch.compiled()
        words = compiled.argument_words
        shared = sum(a.type.size for a in compiled.arguments if a.name not in batch.columns)
        counted = run(request, compiled, batch.words(compiled), words)
        if how.baseline and not request.backward and not compiled.options.erase:
            options = replace(compiled.options, erase=True)
            erasing = request.function.compiled_for(batch.types(), request.format, options)
            beside = run(request, erasing, batch.words(erasing), words).total(erasing.program)
        program = compiled.program
    else:
        b = BatchGradient.of(request, args, keywords, f.in_axes, f.summed)
        p = b.plan
        shared = sum(a.type.size for a in p.compiled.arguments if a.name not in b.batch.columns)
        out = sum(a.type.size for a in p.wanted) + request.value
        counted = run(replace(request, backward=False), p.program.compiled, b.loaded, out)
        program = p.program.compiled.program
    each = tuple(counted.each[i] for i in sorted(counted.each))
    by = how.context(program.format)
    return EnergyReport(f"vmap({f.each.__name__})", by, counted.total(program), counted.engine, beside, each=each)
