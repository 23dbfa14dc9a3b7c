"""Energy of netlists, of gradients, and of batches of functions and of gradients.

    counts(grad(f)(x))  =  counts(f forward, D = 0)  +  counts(f backward, D = 1)      one machine, one program
    counts(vmap(f)(xs)) =  Σᵢ counts(f(xsᵢ))                                         the code is loaded once

Batch engines count steps, erased bits and cycles of each element, but not the executions of each instruction. So elements run on
machines here, one by one; elements that executed the same instructions equally often share their counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from retrograd.batch.arguments import Batch, Loaded
from retrograd.batch.batches import Mapped
from retrograd.batch.runs import run_rows
from retrograd.compiler.compiled import Compiled
from retrograd.differentiation.batches import BatchGradient
from retrograd.differentiation.gradient_requests import GradientRequest, choose
from retrograd.differentiation.gradients import LossFunction
from retrograd.differentiation.reports import explained
from retrograd.functions.execution import ProgramTrap, execute, load
from retrograd.functions.requests import Request, RunSettings
from retrograd.functions.reversible import Inverse, Reversible, request_of
from retrograd.hdl.irreversible.network import Network
from retrograd.hdl.reversible.circuit import Circuit
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.netlists.function_netlists import FunctionNetlist
from retrograd.pricing.netlists import Netlist, NetlistEnergy, energy_of_netlist
from retrograd.pricing.report import EnergyReport
from retrograd.pricing.requests import EnergyRequest
from retrograd.simulator.energy.counts import CODE_BITS, Counts, HostTraffic, Ledger, Site, counts_of, host_traffic
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine, Stop, Trap


def energy_of(
    f: Netlist | Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest
) -> EnergyReport | NetlistEnergy:
    """The report of a netlist, a gradient or a batch: see `rg.energy`. Raises InputError RG0603 for anything else."""
    if isinstance(f, FunctionNetlist | Circuit | Network):
        return _netlist(f, args, keywords, how)
    if isinstance(f, Mapped):
        return _batch(f, args, keywords, how)
    if not isinstance(f, LossFunction):
        name = getattr(f, "__name__", None) or f"{f!r:.40}"
        _refuse(
            f"`{name}` has no energy report",
            "reversible functions have one, and what rg.grad, rg.value_and_grad and rg.vmap make of them",
        )
    return _gradient(f.__name__, f.requested, args, {**keywords, **f.zeros}, how)


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise InputError(Diagnostic("RG0603", message, hint=hint))


def _netlist(f: Netlist, args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest) -> NetlistEnergy:
    garbage = keywords.pop("garbage", "erased")
    asked = how._replace(tech="", temperature=None, frequency=None, figures=None)
    if (
        args
        or keywords
        or asked != EnergyRequest("", None, None, None, None, None, "auto", None, None, None, True, False)
    ):
        hint = "arguments, engine, format, options, gates, activity and timeline are for functions"
        _refuse("a netlist takes tech, temperature, frequency, figures and garbage", hint)
    name = f.request.function.__name__ if isinstance(f, FunctionNetlist) else "netlist"
    at: dict[str, Any] = {"temperature": how.temperature, "frequency": how.frequency, "figures": how.figures}
    return energy_of_netlist(f, name, garbage, how.tech, **at)


# ---------------------------------------------------------------------- gradients


def _gradient(
    name: str, requested: GradientRequest, args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest
) -> EnergyReport:
    """Forward and back on one machine in differentiation mode, as on the co-processor."""
    run = how.run_of(requested.run)
    values = run.values(args, keywords)
    way_back = requested.way_back(run, values)
    compiled = way_back.compiled
    wanted = choose(requested.f, compiled.arguments, requested.chosen, requested.loss)
    words = compiled.argument_words
    out = sum(a.type.size for a in wanted) + requested.value

    machine = run.machine(compiled, values)
    there = Ledger(machine, range(words)) if how.timeline else None
    execute(compiled, machine, how.max_steps, there)
    way_back.begin(machine)
    back = None if there is None else there.again(machine)
    left = None if how.max_steps is None else max(0, how.max_steps - machine.retired)
    try:
        stop = machine.run(left, observe=back).stop
    except Trap as trap:
        # A machine has cotangents of constants, too, and they may outgrow the word. The gradient program has none.
        other = _by_program(requested, run, values) if trap.code == "RG0404" else None
        if other is None:
            raise ProgramTrap(explained(compiled, machine, trap), machine, trap) from None
        machine, there, back = other, None, None
    else:
        if stop is not Stop.HALTED:
            d = Diagnostic("RG0420", f"stopped by the limit of {how.max_steps} steps, on the way back")
            raise ProgramTrap(d, machine, None)
    # The cotangent of the loss is loaded, too.
    counts = counts_of(machine, host_traffic(machine.program, words + 1, out))
    if there is not None and back is not None:
        toggled = Counter(there.toggled)
        toggled.update(back.toggled)
        counts = replace(counts, toggled_at=dict(toggled), dropped_at=dict(back.dropped))
    return EnergyReport(name, how.context(compiled.format), counts, machine.engine, None, there, back)


def _by_program(requested: GradientRequest, run: Request, values: list[Any]) -> Machine | None:
    """The gradient program, which has cotangents of active variables only; None if it traps, too."""
    program = requested.plan(run.compiled(values)).program
    machine = load(program.compiled, values, engine=run.engine)
    for address, word in program.seed(0 if requested.scale == "auto" else requested.scale).items():
        machine.load(address, [word])
    try:
        execute(program.compiled, machine, run.max_steps)
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


def _loss_function(f: Mapped) -> LossFunction:
    assert isinstance(f.each, LossFunction)
    return f.each


def _batch(f: Mapped, args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest) -> EnergyReport:
    if how.timeline:
        _refuse(
            f"`{f.__name__}` is a batch: `timeline` is for single runs",
            "look at one element: rg.energy of what is mapped",
        )
    if f.engine != "auto" or f.format is not None or f.precision is not None:
        how = how._replace(
            precision=f.precision if how.precision is None else how.precision,
            engine=f.engine if how.engine == "auto" else how.engine,
            format=f.format if how.format is None else how.format,
        )
    own = request_of(f.each) if isinstance(f.each, Reversible | Inverse) else _loss_function(f).requested.run
    request = how.run_of(own)
    if engine_named(request.engine) == "cuda":
        hint = "engine = auto, native, translated, threaded or reference: counts are the same on all"
        raise InputError(
            Diagnostic("RG1001", "the engine `cuda` keeps no counts of what was executed where", hint=hint)
        )

    def run(compiled: Compiled, loaded: Loaded, out: int, settings: RunSettings) -> _Counted:
        """`out`: words that are copied out of each element."""
        carried = sum(n for _, n in loaded.ranges.values()) + shared
        host = host_traffic(compiled.program, carried, out)._replace(code_bits=0)
        counted = _Counted(host)
        rows = run_rows(compiled, loaded, [], (), settings, counted=counted)
        if rows.traps:
            raise rows.traps[min(rows.traps)]
        return counted

    beside = None
    if isinstance(f.each, Reversible | Inverse):
        batch = Batch(request, args, keywords, f.in_axes)
        compiled = batch.compiled()
        words = compiled.argument_words
        shared = sum(a.type.size for a in compiled.arguments if a.name not in batch.columns)
        counted = run(compiled, batch.words(compiled), words, request)
        if how.baseline and not request.backward and not compiled.options.erase:
            options = replace(compiled.options, erase=True)
            erasing = request.function.compiled_for(batch.types(), request.format, options)
            beside = run(erasing, batch.words(erasing), words, request).total(erasing.program)
        program = compiled.program
    else:
        requested = _loss_function(f).requested
        b = BatchGradient.of(requested, args, keywords, f.in_axes, f.summed, request)
        p = b.plan
        shared = sum(a.type.size for a in p.compiled.arguments if a.name not in b.batch.columns)
        out = sum(a.type.size for a in p.wanted) + requested.value
        counted = run(p.program.compiled, b.loaded, out, replace(request, backward=False))
        program = p.program.compiled.program
    each = tuple(counted.each[i] for i in sorted(counted.each))
    by = how.context(program.format)
    return EnergyReport(f"vmap({f.each.__name__})", by, counted.total(program), counted.engine, beside, each=each)
