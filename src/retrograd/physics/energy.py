"""`rg.energy`: a run is counted and priced, beside the same source in erase mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from retrograd.compiler.compiled import Compiled, Options, Precision
from retrograd.isa.words import Format
from retrograd.physics.report import EnergyReport, Pricing, report_of, with_way_back
from retrograd.runtime._execution import Request, execute
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.energy.counts import Ledger, counts_of, host_traffic
from retrograd.simulator.energy.gates import Activity, Gates
from retrograd.simulator.energy.pricing import Figures, Quantity
from retrograd.simulator.energy.technology import Technology
from retrograd.simulator.machine import Machine

if TYPE_CHECKING:
    from retrograd.physics._derived import Netlist, NetlistEnergy
    from retrograd.simulator.energy.netlists import Garbage


@overload
def energy(
    f: Netlist,
    /,
    *,
    tech: str | Path | Technology = "landauer",
    temperature: Quantity | None = None,
    frequency: Quantity | None = None,
    figures: Figures | None = None,
    garbage: Garbage = "erased",
) -> NetlistEnergy: ...


@overload
def energy(
    f: Reversible | Inverse | Callable[..., Any],
    /,
    *args: Any,
    tech: str | Path | Technology = "landauer",
    temperature: Quantity | None = None,
    frequency: Quantity | None = None,
    figures: Figures | None = None,
    gates: str | Path | Gates | None = None,
    activity: str | Path | Activity | Mapping[str, Any] | None = None,
    engine: str = "auto",
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    baseline: bool = True,
    timeline: bool = False,
    **keywords: Any,
) -> EnergyReport: ...


def energy(
    f: Netlist | Reversible | Inverse | Callable[..., Any],
    /,
    *args: Any,
    tech: str | Path | Technology = "landauer",
    temperature: Quantity | None = None,
    frequency: Quantity | None = None,
    figures: Figures | None = None,
    gates: str | Path | Gates | None = None,
    activity: str | Path | Activity | Mapping[str, Any] | None = None,
    engine: str = "auto",
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    baseline: bool = True,
    timeline: bool = False,
    **keywords: Any,
) -> EnergyReport | NetlistEnergy:
    """E = Σ count · figure: run a reversible function, count its work, and price the counts by a technology model.

    `f`: a reversible function, or a result of `rg.grad`, `rg.value_and_grad` or `rg.vmap`. A gradient is one program on one machine: forward
    with D = 0, back with D = 1. In a batch each element runs by itself; `each` has its counts, and the report has their sum.
    `tech`: the name of a model (landauer, landauer_finite, cmos45, cmos7, cmos_switching, adiabatic_rc, aqfp), or the path of a model file. `temperature`, `frequency`:
    numbers in K and Hz, or text with a unit, "4.2 K", "5 GHz"; by default the model's own. `figures`: the figures that the model leaves
    open, {"resistance": "10 kohm"}. `gates`: a file of gate counts; by default the counts of the hardware in this format.
    `activity`: how often gates switched in a run of this program, in place of the activity that the model assumes: a file of `retrograd hdl run
    --activity`, or the `activity` of `run_on_hardware`.
    `engine`, `format`, `options`, `precision`, `max_steps`: as for `rg.run`. `baseline`: run the same source in erase mode, too; not for gradients,
    because erased values have no way back. `timeline`: record bits toggled, live and erased after each step; not for batches.
    A netlist (`rg.netlist(f)`, its `circuit` or its `irreversible` netlist) takes `tech`, `temperature`, `frequency` and `figures`, and
    `garbage`: "erased", or "left" where its erasure is not to be priced.
    Raises CompileError, InputError, ProgramTrap, ElementTrap.

        >>> print(rg.energy(f, 0.0, 3.0, tech="cmos45", engine="threaded", format="Q16.16"))
    """
    how = Pricing(tech, temperature, frequency, figures, gates, activity, baseline, timeline)
    settings: dict[str, Any] = {
        "engine": engine, "format": format, "options": options, "precision": precision, "max_steps": max_steps,
    }  # fmt: skip
    if not isinstance(f, Reversible | Inverse):
        # Loaded for netlists, gradients and batches only: they import the hardware, the differentiation and the batch engines.
        from retrograd.physics._derived import energy_of

        return energy_of(f, args, keywords, how, settings)
    request = request_of(f, **settings)
    values = request.values(args, keywords)

    def run(request: Request, how: Pricing) -> tuple[Compiled, Machine, Ledger | None]:
        compiled = request.compiled(values)
        machine = request.machine(compiled, values)
        ledger = how.ledger(machine, range(compiled.argument_words))
        execute(compiled, machine, max_steps, ledger)
        return compiled, machine, ledger

    compiled, machine, ledger = run(request, how)
    words = compiled.argument_words
    beside = None
    if baseline and not request.backward and not compiled.options.erase:
        options = replace(compiled.options, erase=True)
        erasing, other, seen = run(replace(request, options=options), how._replace(timeline=False))
        beside = counts_of(other, host_traffic(erasing.program, words, words))
        beside = beside if seen is None else seen.counted(beside)
    name = f"~{request.function.__name__}" if request.backward else request.function.__name__
    host = host_traffic(compiled.program, words, words)
    report = report_of(machine, name, how.context(compiled.format), host, beside, ledger)
    return report if report.ledger is None else with_way_back(report, machine, report.ledger)
