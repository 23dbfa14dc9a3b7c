"""Functions of the language on the co-processor: simulated, or on a bus.

    run_on_hardware(f, *args).values == run(f, *args).values,  bit for bit
    run_on_hardware(f, *args, loss="y").gradients == grad(f, loss="y")(*args),  bit for bit, at the same scale

The program is loaded and run forward, its results are copied out, and it runs back in differentiation mode. Nothing is stored
for the way back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.compiler.compiled import Precision
from retrograd.derivatives._arguments import OVERFLOW, Scale, at_scale, from_words, shaped, sizes
from retrograd.derivatives._requests import GradientRequest, by_choice, choose
from retrograd.hdl.bus.links import BusError, UnfinishedRun
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.runtime._execution import Unexplained, argument_words
from retrograd.runtime._marshal import Losses
from retrograd.runtime._marshal import from_words as values_of
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.stores import limit_of

if TYPE_CHECKING:
    from retrograd.hdl.bus.device import CoprocessorDriver, DeviceRun
    from retrograd.hdl.simulation.meters import Overwrites
    from retrograd.hdl.simulation.runs import SimulatedRun

__all__ = ["HardwareResult", "run_on_hardware", "state_entropies"]


@dataclass(frozen=True)
class HardwareResult:
    """A finished run on the co-processor.

    It differs from `Result` in that there is no machine to look at; it counts clock cycles and toggled bits, in both directions.
    """

    #: all arguments after the run, by position and by name
    values: Any
    #: ∂loss/∂(argument) by name; None without a loss
    gradients: Any
    #: clock cycles forward, and of the way back with cotangents; 0 without a loss
    cycles: int
    backward_cycles: int
    #: instructions executed forward, and on the way back
    steps: int
    backward_steps: int
    #: bits that changed in registers and memory, and bits that were erased, in both directions together
    toggled_bits: int
    erased_bits: int
    #: the format of its words
    format: Format
    #: the way back began with the loss's cotangent at 2^scale; 0 without a loss
    scale: int = 0
    #: bits of the core's state that were overwritten, forward and on the way back, if `erasure` was asked for
    overwrites: tuple[Overwrites, ...] = ()
    #: how often gates switched, as a document of schema retrograd.activity/1, if `activity` was asked for
    activity: dict[str, Any] | None = None


def run_on_hardware(
    f: Reversible | Inverse,
    *args: Any,
    format: Format | str | None = None,
    precision: Precision | None = None,
    loss: int | str | None = None,
    scale: Scale = "auto",
    device: CoprocessorDriver | None = None,
    verilator: Path | None = None,
    vcd: str | None = None,
    max_steps: int | None = 100_000,
    erasure: bool = False,
    activity: bool = False,
    core: str = "small",
    **keywords: Any,
) -> HardwareResult:
    """Run the function on a co-processor; with a loss, back again for the gradients of all arguments that have some.

    `device`: the co-processor; None simulates it, by Verilator with its libraries in the folder `verilator`, else by Amaranth, which needs
    no installation and takes seconds to begin. `format`, `precision`: see `run`; None stands for the device's, if there is one. `vcd`: a file for
    its waveforms. `max_steps`: None is no limit. `scale`: as in `grad`; `"auto"` is the scale of `rg.grad`, or
    the next at which no cotangent of a constant overflows either, since the co-processor carries those, too. `core`: "small" or "fast", of a simulated one. `erasure`: count the bits of state that each
    cycle overwrites; `activity`: count how often gates switch, for `rg.energy(activity=)`. Each is a simulator of its own. Raises CompileError; InputError,
    RG1009 for `erasure` or `activity` with another simulator or a device;
    UnfinishedRun, which is a BusError, for a trap and for
    more than `max_steps` instructions.
    """
    from retrograd.hdl.bus.device import need_steps

    for name in [name for name, wanted in (("erasure", erasure), ("activity", activity)) if wanted]:
        if device is not None or verilator is not None or vcd is not None or (erasure and activity):
            hint = f"Leave out the device, Verilator, waveforms and other counts, or {name}."
            raise InputError(Diagnostic("RG1009", f"{name} is counted by a simulator of its own", hint=hint))
        if core == "fast":
            raise InputError(
                Diagnostic("RG1009", f"{name} is counted on the core small only", hint='Write core="small".')
            )
    limit = need_steps(limit_of(max_steps))
    if core == LANES:
        raise InputError(Diagnostic("RG1125", "the core lanes executes batches", hint="Call run_batch_on_hardware."))
    core_units(core)
    request = request_of(
        f, format=device.format if device is not None and format is None else format, precision=precision
    )
    backward = request.backward
    values = request.values(args, keywords)
    if loss is not None:
        # With tests where active variables are freed, so that their cotangents are dropped.
        options = replace(request.options or request.function.options, cotangents=True)
        request = replace(request, options=options)
    compiled = request.compiled(values)
    w = compiled.format
    scales: tuple[int, ...] = (0,)
    wanted, seed = [], None
    if loss is not None:
        asked = GradientRequest(f, None, loss, scale, format=w, precision="ignore")
        wanted = choose(f, compiled.arguments, None, asked.loss)
        seed = asked.loss_of(compiled).address
        scales = scales_on_hardware(asked, values)
    memory = argument_words(compiled, values)

    def ran(scale: int, last: bool) -> tuple[_Ran, int]:
        with unexplained(last):
            if device is not None:
                return _on_device(device, compiled.program, memory, backward, seed, scale, limit), scale
            return _simulated(
                compiled.program, memory, backward, seed, scale, verilator, vcd, limit, erasure, activity, core
            ), scale

    (after, cotangents, ways), at = at_scale(scales, ran)
    gradients = None
    if seed is not None:
        found = {}
        for a in wanted:
            words = slice(a.address, a.address + a.type.size)
            found[a.name] = shaped(a.type, from_words(cotangents[words], sizes(a.type, memory[words], w), at, w))
        gradients = by_choice(None, found)
    there, back = ways[0], ways[1] if seed is not None else None
    return HardwareResult(
        request.function.results(
            *(values_of(a.type, after[a.address : a.address + a.type.size], w) for a in compiled.arguments)
        ),
        gradients,
        there.cycles,
        back.cycles if back else 0,
        there.retired,
        back.retired if back else 0,
        sum(way.toggled for way in ways),
        sum(way.erased for way in ways),
        w,
        at,
        tuple(one for way in ways if (one := getattr(way, "overwrites", None)) is not None),
        _activity(compiled.program, f, core, ways) if activity else None,
    )


def scales_on_hardware(asked: GradientRequest, values: list[Any]) -> tuple[int, ...]:
    """The scales to try for a gradient, from the scale at which its gradient program runs."""
    plan = asked.plan(asked.run.compiled(values))
    first = plan.scale_at(values)
    return tuple(k for k in plan.scales if k <= first)


@contextmanager
def unexplained(last: bool) -> Generator[None, None, None]:
    """Raise Unexplained for an overflow on the co-processor, unless it is that of the last scale."""
    try:
        yield
    except UnfinishedRun as error:
        if last or error.trap not in OVERFLOW:
            raise
        raise Unexplained from None


def _activity(program: Program, f: Reversible | Inverse, core: str, ways: Iterable[Any]) -> dict[str, Any]:
    from retrograd.hdl.simulation.meters import document

    return document(program, f.__name__, core, [way.activity for way in ways])


def logic_loss(w: Format) -> float | None:
    """Bits that the core's combinational gates lose in a cycle, for independent uniform inputs of each; None without gate counts."""
    from retrograd.simulator.energy.gates import MEMORY_BITS, lost_bits
    from retrograd.simulator.energy.pricing import gates_for

    gates = gates_for(w)
    if gates is None:
        return None
    return sum(lost_bits(kind) * n for kind, n in gates.cells().items() if kind not in ("DFF", MEMORY_BITS))


def state_entropies(
    f: Reversible | Inverse,
    rows: Iterable[Sequence[Any]],
    *,
    format: Format | str | None = None,
    precision: Precision | None = None,
    max_steps: int = 100_000,
) -> list[float]:
    """The entropy of the core's whole state, in bits, before each cycle and after the last, where all rows of arguments are equally likely.

        Σ p(state) log₂ 1/p(state);  it never rises, and a fall is a loss of the core as a whole

    The state is that of flip-flops and memories, so equal entropies mean that each state determines the arguments. Rows of arrays have
    one shape. Raises CompileError, InputError.
    """
    from retrograd.hdl.core.core import Core
    from retrograd.hdl.simulation.meters import ErasureMeter
    from retrograd.hdl.simulation.runs import orders_for, parameters_for

    request = request_of(f, format=format, precision=precision)
    values = [request.values(tuple(row), {}) for row in rows]
    if not values:
        return []
    compiled = request.compiled(values[0])
    losses = Losses()
    words = [dict(enumerate(argument_words(compiled, row, losses))) for row in values]
    losses.report(compiled)
    runs = [orders_for(compiled.program, memory=w, backward=request.backward, steps=max_steps) for w in words]
    return ErasureMeter(Core(parameters_for(compiled.program))).state_entropies(runs)


#: words of memory after the run, cotangents of memory, and the counts of each direction
_Ran = tuple[Sequence[int], Sequence[int], Sequence["SimulatedRun | DeviceRun"]]


def _simulated(
    program: Any,
    memory: list[int],
    backward: bool,
    seed: int | None,
    scale: int,
    verilator: Path | None,
    vcd: str | None,
    steps: int,
    erasure: bool,
    activity: bool,
    core: str,
) -> _Ran:
    from retrograd.hdl.simulation.runs import Place, run

    loss = None if seed is None else Place(seed)
    try:
        ran = run(
            program,
            memory=dict(enumerate(memory)),
            backward=backward,
            loss=loss,
            scale=scale,
            folder=verilator,
            vcd=vcd,
            steps=steps,
            erasure=erasure,
            activity=activity,
            core=core,
        )
    except ValueError as error:
        raise BusError(str(error)) from None
    for way, one in zip(("the run", "the run back"), ran, strict=False):
        if one.stop != "halted":
            why = one.code or f"it takes more than {steps} instructions"
            stopped = f"{way} ended at PC = {one.pc}: {why}"
            raise UnfinishedRun(stopped, _HINT, trapped=one.stop == "trap", trap=one.code)
    return ran[0].memory, ran[-1].memory_cotangents, ran


def _on_device(
    device: CoprocessorDriver, program: Any, memory: list[int], backward: bool, seed: int | None, scale: int, steps: int
) -> _Ran:
    device.load(program, memory, backward=backward)
    if seed is None:
        outcome = device.run(steps)
        device.need(outcome, "the run")
        return device.memory(), [], [outcome]
    found = device.gradient(seed, scale=scale, steps=steps)
    return found.memory, found.memory_cotangents, [found.forward, found.backward]


_HINT = "`retrograd explain` describes the code; rg.run of the same function shows the trap in the source."
