"""Energy of what is made of reversible functions: gradients, and batches of functions and of gradients.

    counts(grad(f)(x))  =  counts(f there, D = 0)  +  counts(f back, D = 1)            one machine, one program
    counts(vmap(f)(xs)) =  Σᵢ counts(f(xsᵢ))                                         the code is loaded once

Engines that run a batch as one keep steps, erased bits and cycles of each element, and nothing of what was executed where. So
elements are run by machines here, one by one; elements that did the same share their counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from retrograd.batch.arguments import Batch, Loaded
from retrograd.batch.gradients import plan
from retrograd.batch.runs import run_rows
from retrograd.compiler.compiled import Compiled
from retrograd.differentiation.arguments import Batched, Derived, Sought, direction_of, need_scale, position, positions
from retrograd.differentiation.course import explained
from retrograd.differentiation.gradients import Slope, choose, need_loss
from retrograd.differentiation.programs import gradient_program, kept
from retrograd.functions.execution import ProgramTrap, execute, load
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.pricing.context import EnergyRequest
from retrograd.pricing.report import EnergyReport
from retrograd.simulator.energy.counting import CODE_BITS, Counts, Host, Site, counts_of, host_traffic
from retrograd.simulator.energy.ledger import Ledger
from retrograd.simulator.engines.choice import engine_named, engine_of
from retrograd.simulator.machine import Machine, Stop, Trap
from retrograd.values.marshal import bind, types_of


def energy_of(
    f: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest
) -> EnergyReport:
    """The report of a gradient or a batch: see `rg.energy`. Raises InputError RG0603 for anything else."""
    if isinstance(f, Derived) and f.batched is not None:
        return _batch(f, f.batched, args, keywords, how)
    sought = _sought(f)
    if sought is None:
        name = getattr(f, "__name__", None) or f"{f!r:.40}"
        _refuse(
            f"`{name}` has no energy report",
            "reversible functions have one, and what rg.grad, rg.value_and_grad and rg.vmap make of them",
        )
    return _gradient(f.__name__, sought, args, {**keywords, **(f.zeros if isinstance(f, Slope) else {})}, how)


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise InputError(Diagnostic("RG0603", message, hint=hint))


def _sought(f: Any) -> Sought | None:
    """Which gradient it gives, if it gives one."""
    if isinstance(f, Slope):
        return Sought(f.function, f.argnums, f.loss, f.scale, value=False)
    return f.sought if isinstance(f, Derived) else None


# ---------------------------------------------------------------------- gradients


def _gradient(
    name: str, sought: Sought, args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest
) -> EnergyReport:
    """There and back on one machine, whose program tests where it frees what has a cotangent."""
    function, backward = direction_of(sought.f)
    values = bind(function, args, keywords)
    chosen, at = positions(sought.f, sought.argnums), position(sought.f, sought.loss)
    types, options = types_of(function, values), how.options or function.options
    compiled = function.compiled_for(types, how.format, replace(options, cotangents=True))
    loss = compiled.arguments[at]
    need_loss(sought.f, loss)
    wanted = choose(sought.f, compiled.arguments, chosen, at)
    one = 1 << (compiled.format.frac + need_scale(sought.scale, compiled.format))
    words = sum(a.type.size for a in compiled.arguments)
    out = sum(a.type.size for a in wanted) + sought.value

    machine = load(compiled, values, backward=backward, engine=how.engine)
    there = Ledger(machine, range(words)) if how.timeline else None
    execute(compiled, machine, how.max_steps, there)
    machine.differentiating = True
    machine.clear_cotangents()
    machine.memory_cotangents[loss.address] = one
    machine.turn()
    back = None if there is None else there.again(machine)
    left = None if how.max_steps is None else max(0, how.max_steps - machine.retired)
    try:
        stop = machine.run(left, observe=back).stop
    except Trap as trap:
        # As in rg.grad: cotangents of constants, which a machine has and nobody asks for, may outgrow the word.
        plain = function.compiled_for(types, how.format, options)
        other = _by_program(plain, backward, values, {loss.address: one}, how) if trap.code == "RG0404" else None
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
    return EnergyReport(name, how.context(compiled.format), counts, engine_of(machine), None, there, back)


def _by_program(
    compiled: Compiled, backward: bool, values: list[Any], seeds: Mapping[int, int], how: EnergyRequest
) -> Machine | None:
    """The gradient program, which has cotangents of what is active only; None if it traps, too."""
    program = kept(compiled, ("gradient", backward), lambda: gradient_program(compiled, backward))
    machine = load(program.compiled, values, engine=how.engine)
    for address, word in seeds.items():
        machine.load(address + program.cotangents, [word])
    try:
        execute(program.compiled, machine, how.max_steps)
    except ProgramTrap as trap:
        if trap.trap is None:
            raise
        return None
    return machine


# ---------------------------------------------------------------------- batches


class _Counted:
    """The counts of each element, as it comes to its end; of elements that did the same, once."""

    def __init__(self, host: Host) -> None:
        self.each: dict[int, Counts] = {}
        self.engine = "reference"
        self._host = host
        self._known: dict[tuple[tuple[int, ...], ...], Counts] = {}

    def __call__(self, i: int, machine: Machine) -> None:
        hits = tuple(tuple(found) for found in machine.executed.values())
        if hits not in self._known:
            self._known[hits] = counts_of(machine, self._host)
        self.each[i] = self._known[hits]
        self.engine = engine_of(machine)

    def total(self, program: Program) -> Counts:
        """The sum over all elements, and the code, which is loaded once."""
        times = Counter(id(counts) for counts in self.each.values())
        executed: Counter[Site] = Counter()
        host = Host(len(program.code) * CODE_BITS)
        for counts in self._known.values():
            n = times[id(counts)]
            executed.update({site: n * once for site, once in counts.executed.items()})
            host += Host(*(n * bits for bits in counts.host))
        return Counts(program, dict(executed), 0, host)


def _batch(
    f: Derived, batched: Batched, args: tuple[Any, ...], keywords: dict[str, Any], how: EnergyRequest
) -> EnergyReport:
    if how.timeline:
        _refuse(
            f"`{f.__name__}` is a batch: `timeline` is for single runs",
            "look at one element: rg.energy of what is mapped",
        )
    engine = batched.engine if how.engine == "auto" else how.engine
    if engine_named(engine) == "cuda":
        hint = "engine = auto, native, translated, threaded or reference: counts are the same on all"
        raise InputError(
            Diagnostic("RG1001", "the engine `cuda` keeps no counts of what was executed where", hint=hint)
        )

    def run(compiled: Compiled, loaded: Loaded, out: int, backward: bool) -> _Counted:
        """`out`: words that are copied out of each element."""
        carried = sum(n for _, n in loaded.ranges.values()) + shared
        host = host_traffic(compiled.program, carried, out)._replace(code_bits=0)
        counted = _Counted(host)
        modes: dict[str, Any] = {"engine": engine, "backward": backward, "limit": how.max_steps}
        rows = run_rows(compiled, loaded, [], counted=counted, **modes)
        if rows.traps:
            raise rows.traps[min(rows.traps)]
        return counted

    beside = None
    if isinstance(batched.f, Reversible | Inverse):
        function, backward = (~batched.f, True) if isinstance(batched.f, Inverse) else (batched.f, False)
        batch = Batch(function, args, keywords, batched.in_axes)
        types = batch.types()
        compiled = function.compiled_for(types, how.format, how.options)
        words = sum(a.type.size for a in compiled.arguments)
        shared = sum(a.type.size for a in compiled.arguments if a.name not in batch.columns)
        counted = run(compiled, batch.words(compiled), words, backward)
        if how.baseline and not backward and not compiled.options.erase:
            erasing = function.compiled_for(types, how.format, replace(compiled.options, erase=True))
            beside = run(erasing, batch.words(erasing), words, backward).total(erasing.program)
        program = compiled.program
    else:
        sought = _sought(batched.f)
        assert sought is not None
        p = plan(sought, args, keywords, batched.in_axes, batched.summed, how.format, how.options)
        shared = sum(a.type.size for a in p.compiled.arguments if a.name not in p.batch.columns)
        out = sum(a.type.size for a in p.wanted) + sought.value
        counted = run(p.program.compiled, p.loaded, out, False)
        program = p.program.compiled.program
    each = tuple(counted.each[i] for i in sorted(counted.each))
    by = how.context(program.format)
    return EnergyReport(f"vmap({batched.f.__name__})", by, counted.total(program), counted.engine, beside, each=each)
