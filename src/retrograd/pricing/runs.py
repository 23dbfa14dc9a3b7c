"""`rg.energy`: a function run, counted and priced, with the same source in erase mode beside it; a gradient, or a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from retrograd.compiler.compiled import Compiled, Options
from retrograd.functions.execution import execute, load
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.words import Format
from retrograd.pricing.context import EnergyRequest, Figures, Quantity
from retrograd.pricing.report import EnergyReport, report_of, with_way_back
from retrograd.simulator.energy.counting import counts_of, host_traffic
from retrograd.simulator.energy.gates import Gates
from retrograd.simulator.energy.ledger import Ledger
from retrograd.simulator.energy.technology import Technology
from retrograd.simulator.machine import Machine
from retrograd.values.binding import bind, types_of


def energy(
    f: Reversible | Inverse | Callable[..., Any],
    /,
    *args: Any,
    tech: str | Path | Technology = "landauer",
    temperature: Quantity | None = None,
    frequency: Quantity | None = None,
    figures: Figures | None = None,
    gates: str | Path | Gates | None = None,
    engine: str = "auto",
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    baseline: bool = True,
    timeline: bool = False,
    **keywords: Any,
) -> EnergyReport:
    """Run a reversible function, count what it does, and price that by a technology model.

    `f`: also what `rg.grad` and `rg.value_and_grad` give: one machine with one program, there with D = 0 and back with D = 1. And what
    `rg.vmap` makes of functions and gradients: every element run by itself, `each` has its counts; their sum is the report's.
    `tech`: a model's name, such as landauer, cmos45, cmos7, adiabatic_rc, aqfp, or the path of a file of one's own. `temperature`,
    `frequency`: numbers in K and Hz, or text with a unit, "4.2 K", "5 GHz"; else the model's own. `figures`: what the model leaves
    open, {"resistance": "10 kohm"}. `gates`: a file of gate counts; else those that come with the hardware for this format.
    `baseline`: run the same source in erase mode, too; gradients have none, since what was erased has no way back. `timeline`: look at
    every step, for bits toggled, live and erased over time; not of batches. Raises CompileError, InputError, ProgramTrap, ElementTrap.
    """
    request = EnergyRequest(
        tech, temperature, frequency, figures, gates, engine, max_steps, format, options, baseline, timeline
    )
    if not isinstance(f, Reversible | Inverse):
        # Loaded for gradients and batches only: it imports the differentiation and the batch engines.
        from retrograd.pricing.derived import energy_of

        return energy_of(f, args, keywords, request)
    function, backward = (~f, True) if isinstance(f, Inverse) else (f, False)
    values = bind(function, args, keywords)
    types = types_of(function, values)
    compiled = function.compiled_for(types, format, options)
    by = request.context(compiled.format)

    def run(compiled: Compiled, look: bool) -> tuple[Machine, Ledger | None]:
        machine = load(compiled, values, backward=backward, engine=engine)
        ledger = Ledger(machine, range(sum(a.type.size for a in compiled.arguments))) if look else None
        execute(compiled, machine, max_steps, ledger)
        return machine, ledger

    machine, ledger = run(compiled, timeline)
    words = sum(a.type.size for a in compiled.arguments)
    counts = counts_of(machine, host_traffic(compiled.program, words, words))
    beside = None
    if baseline and not backward and not compiled.options.erase:
        erasing = function.compiled_for(types, format, replace(compiled.options, erase=True))
        beside = counts_of(run(erasing, False)[0], host_traffic(erasing.program, words, words))
    name = f"~{function.__name__}" if backward else function.__name__
    report = report_of(machine, name, by, counts.host, beside, ledger)
    return report if ledger is None else with_way_back(report, machine, ledger)
