"""Functions of the language on the co-processor, simulated or on a bus: one run, then batches on threads.

    run_on_hardware(f, *args).values == run(f, *args).values,  bit for bit
    run_on_hardware(f, *args, loss="y").gradients == grad(f, loss="y")(*args),  bit for bit, at the same scale
    run_batch_on_hardware(f, *args).values == run_batch(f, *args).values,  bit for bit
    run_batch_on_hardware(f, *args, loss="y").gradients == vmap(grad(f, loss="y"))(*args),  bit for bit, at the same scales

The program is loaded and run forward, its results are copied out, and it runs back in differentiation mode. Nothing is stored
for the way back. Of a batch, each thread executes an element.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Precision
from retrograd.derivatives._arguments import OVERFLOW, at_scale, differentiable, from_words, shaped, sizes
from retrograd.derivatives._requests import by_choice, loss_of, plan_of, wanted_of
from retrograd.hdl.bus.links import BusError, UnfinishedRun
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.microarchitecture.micro_operations import (
    BARREL,
    MAX_SLOTS,
    MAX_THREADS,
    MIN_THREADS,
    core_units,
)
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.runtime._batch_arguments import Axes, Batch, stacked_values
from retrograd.runtime._execution import Request, Scale, Unexplained, argument_words
from retrograd.runtime._marshal import Losses
from retrograd.runtime._marshal import from_words as values_of
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.engines.batch.layout import ResultArray
from retrograd.simulator.stores import limit_of

if TYPE_CHECKING:
    from retrograd.hdl.bus.device import BatchRun, CoprocessorDriver, DeviceRun
    from retrograd.hdl.simulation.meters import Overwrites
    from retrograd.hdl.simulation.runs import SimulatedBatch, SimulatedRun


# -----------------------------------------------------------------------------
# One run.

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
    if core == BARREL:
        raise InputError(Diagnostic("RG1125", f"the core {core} executes batches", hint="Call run_batch_on_hardware."))
    core_units(core)
    request = request_of(
        f, format=device.format if device is not None and format is None else format, precision=precision
    )
    backward = request.backward
    values = request.values(args, keywords)
    if loss is not None:
        request = request.with_cotangents()
    request = request.for_whole_memory(request.compiled(values))
    compiled = request.compiled(values)
    w = compiled.format
    scales: tuple[int, ...] = (0,)
    wanted, seed = [], None
    if loss is not None:
        asked = differentiable(f, scale, format=w, precision="ignore", loss=loss)
        wanted = wanted_of(asked, compiled.arguments)
        seed = loss_of(asked, compiled).address
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


def scales_on_hardware(asked: Request, values: list[Any]) -> tuple[int, ...]:
    """The scales to try for a gradient, from the scale at which its gradient program runs."""
    plan = plan_of(asked, asked.compiled(values))
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
    request = request.for_whole_memory(request.compiled(values[0]))
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


# -----------------------------------------------------------------------------
# Batches on the core barrel.

__all__ = ["BatchHardwareResult", "run_batch_on_hardware"]


@dataclass(frozen=True)
class BatchHardwareResult:
    """Finished runs of a batch on the co-processor."""

    #: all arguments after the runs, stacked along axis 0, by position and by name
    values: Any
    #: ∂loss/∂(argument) of each element, by name; None without a loss
    gradients: Any
    #: clock cycles of the batch forward, and of the way back with cotangents; 0 without a loss
    cycles: int
    backward_cycles: int
    #: instructions of all elements
    issued: int
    backward_issued: int
    #: instructions of each element, forward and on the way back
    steps: NDArray[np.int64]
    backward_steps: NDArray[np.int64]
    #: bits that changed, and bits that were erased, of each element, in both directions together
    toggled_bits: NDArray[np.int64]
    erased_bits: NDArray[np.int64]
    #: the format of its words
    format: Format
    #: the scale of each element: see `HardwareResult`
    scales: NDArray[np.int64]


#: the words of memory after the runs, and the cotangents of memory, a row for each element; the runs of each direction
_RanBatch = tuple[list[list[int]], list[list[int]], Sequence[tuple[Sequence["DeviceRun | SimulatedRun"], int, int]]]


def run_batch_on_hardware(
    f: Reversible | Inverse,
    *args: Any,
    in_axes: Axes = 0,
    lanes: int | None = None,
    slots: int = 1,
    format: Format | str | None = None,
    precision: Precision | None = None,
    loss: int | str | None = None,
    scale: Scale = "auto",
    device: CoprocessorDriver | None = None,
    verilator: Path | None = None,
    max_steps: int | None = 100_000,
    core: str = BARREL,
    **keywords: Any,
) -> BatchHardwareResult:
    """Run the function on each element of a batch, `lanes` elements at a time; with a loss, back again for the gradients.

    `core`: "barrel", the only one that executes a batch. `lanes`: its threads, 8 to 16, by default 8; a batch may have
    fewer elements, or more. `slots`: micro-operations of a thread in a turn, 1 or 2. A device has its own lanes and
    slots. `in_axes`: see `run_batch`. `max_steps`: for each element. `device`, `verilator`, `format`, `precision`,
    `loss`, `scale`: see `run_on_hardware`; elements of different scales run one after the other, as batches of their
    own. Raises CompileError; InputError, RG1009 for a number of lanes or slots that no core has; UnfinishedRun, which
    is a BusError, naming the element that traps or takes more than `max_steps` instructions.
    """
    from retrograd.hdl.bus.device import need_steps

    if core != BARREL:
        core_units(core)
        hint = f"Call run_on_hardware; the core for a batch is {BARREL}."
        raise InputError(Diagnostic("RG1125", f"there is no core `{core}` for a batch", hint=hint))
    if lanes is not None:
        hint = f"The core has at least {MIN_THREADS}." if device is None else "Leave out lanes: the device has its own."
        _need_number("lanes", lanes, MIN_THREADS, MAX_THREADS, hint)
    _need_number("slots", slots, 1, MAX_SLOTS, "Leave out slots: a core has one, and a device its own.")
    limit = need_steps(limit_of(max_steps))
    request = request_of(
        f, format=device.format if device is not None and format is None else format, precision=precision
    )
    if loss is not None:
        request = request.with_cotangents()
    batch = Batch(request, args, keywords, in_axes)
    compiled = batch.compiled(whole_memory=True)
    w, wanted, seed = compiled.format, [], None
    tried: list[tuple[int, ...]] = [(0,)] * batch.length
    if loss is not None:
        asked = differentiable(f, scale, format=w, precision="ignore", loss=loss)
        wanted = wanted_of(asked, compiled.arguments)
        seed = loss_of(asked, compiled).address
        tried = [scales_on_hardware(asked, batch.element(i)) for i in range(batch.length)]
    losses = Losses()
    rows = [argument_words(compiled, batch.element(i), losses) for i in range(batch.length)]
    losses.report(compiled)
    if not rows:
        raise InputError(Diagnostic("RG1009", "the batch has no element", hint="Give arrays of at least one element."))

    def ran(which: Sequence[int], scale: int) -> _RanBatch:
        some = [rows[i] for i in which]
        if device is not None:
            return _batch_on_device(device, compiled.program, some, request.backward, seed, scale, limit)
        return _batch_simulated(
            compiled.program, some, which, lanes or MIN_THREADS, slots, request.backward, seed, scale, verilator, limit
        )

    (after, cotangents, ways), scales = _at_scales(ran, tried)
    words = np.array(after, np.uint64)
    values = [
        stacked_values(a.type, ResultArray(words[:, a.address : a.address + a.type.size], None, w), w)
        for a in compiled.arguments
    ]
    gradients = None
    if seed is not None:
        found = {}
        for a in wanted:
            place = slice(a.address, a.address + a.type.size)
            each = [
                shaped(a.type, from_words(bars[place], sizes(a.type, row[place], w), k, w))
                for bars, row, k in zip(cotangents, rows, scales, strict=True)
            ]
            found[a.name] = np.stack([np.asarray(one) for one in each])
        gradients = by_choice(None, found)
    (there, cycles, issued), back = ways[0], ways[1] if seed is not None else None

    def counts(name: str, runs: Sequence[Any] | None) -> NDArray[np.int64]:
        return np.array([getattr(run, name) for run in runs or ()] or [0] * len(rows), np.int64)

    returned = None if back is None else back[0]
    return BatchHardwareResult(
        request.function.results(*values), gradients, cycles, back[1] if back else 0, issued, back[2] if back else 0,
        counts("retired", there), counts("retired", returned),
        counts("toggled", there) + counts("toggled", returned), counts("erased", there) + counts("erased", returned), w, np.array(scales),
    )  # fmt: skip


def _need_number(what: str, number: Any, least: int, most: int, hint: str) -> None:
    """Raises InputError RG1009 for a number that no core has."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        said = f"the number of {what} is {number!r:.40}, and not an integer from {least} to {most}"
        raise InputError(Diagnostic("RG1009", said, hint=hint))


def _at_scales(
    ran: Callable[[Sequence[int], int], _RanBatch], tried: Sequence[tuple[int, ...]]
) -> tuple[_RanBatch, list[int]]:
    """(the runs of all elements, the scale of each); `tried`: the scales of each element, from the first to try.

    Elements of one scale run together. Where some element of them overflows, each is run alone to find its scale.
    """
    scales = [own[0] for own in tried]
    together: dict[int, list[int]] = {}
    for i, k in enumerate(scales):
        together.setdefault(k, []).append(i)
    parts: list[tuple[list[int], _RanBatch]] = []
    for k, which in together.items():
        try:
            with unexplained(all(tried[i] == (k,) for i in which)):
                parts.append((which, ran(which, k)))
        except Unexplained:
            for i in which:

                def alone(k: int, last: bool, i: int = i) -> tuple[_RanBatch, int]:
                    with unexplained(last):
                        return ran([i], k), k

                found, scales[i] = at_scale(tried[i], alone)
                parts.append(([i], found))
    return _joined(parts), scales


def _joined(parts: Sequence[tuple[list[int], _RanBatch]]) -> _RanBatch:
    """The runs of all elements, from those of some elements each."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort([i for which, _ in parts for i in which])

    def in_order(of: Iterable[Sequence[Any]]) -> list[Any]:
        whole = [one for part in of for one in part]
        return [whole[i] for i in order] if whole else []

    ways = [
        (in_order(runs for runs, _, _ in way), sum(cycles for _, cycles, _ in way), sum(issued for _, _, issued in way))
        for way in zip(*(found[2] for _, found in parts), strict=True)
    ]
    return in_order(found[0] for _, found in parts), in_order(found[1] for _, found in parts), ways


def _batch_simulated(
    program: Any, rows: list[list[int]], which: Sequence[int], lanes: int, slots: int, backward: bool, seed: int | None,
    scale: int, verilator: Path | None, steps: int,
) -> _RanBatch:  # fmt: skip
    """`which`: the numbers of the elements, for messages."""
    from retrograd.hdl.simulation.runs import Place, run_batch

    try:
        ran: list[SimulatedBatch] = run_batch(
            program, [dict(enumerate(row)) for row in rows], lanes, slots=slots, backward=backward, steps=steps,
            loss=None if seed is None else Place(seed), scale=scale, folder=verilator,
        )  # fmt: skip
    except ValueError as error:
        raise BusError(str(error)) from None
    for way, batch in zip(("the run", "the run back"), ran, strict=False):
        for i, one in zip(which, batch.runs, strict=True):
            if one.stop != "halted":
                why = one.code or f"it takes more than {steps} instructions"
                hint = "`retrograd explain` describes the code; rg.run of the element shows the trap in the source."
                stopped = f"{way} of element {i} ended at PC = {one.pc}: {why}"
                raise UnfinishedRun(stopped, hint, trapped=one.stop == "trap", trap=one.code)
    ways = [(batch.runs, batch.cycles, batch.issued) for batch in ran]
    return [run.memory for run in ran[0].runs], [run.memory_cotangents for run in ran[-1].runs], ways


def _batch_on_device(
    device: CoprocessorDriver, program: Any, rows: list[list[int]], backward: bool, seed: int | None, scale: int, steps: int
) -> _RanBatch:  # fmt: skip
    after: list[list[int]] = []
    cotangents: list[list[int]] = []
    parts: list[list[BatchRun]] = []
    for first in range(0, len(rows), device.lanes):
        device.load_batch(program, rows[first : first + device.lanes], backward=backward)
        if seed is None:
            outcome = device.run_batch(steps)
            device.need_batch(outcome, "the run")
            after += device.memories()
            parts.append([outcome])
        else:
            found = device.gradient_batch(seed, scale=scale, steps=steps)
            after += [lane.memory for lane in found.lanes]
            cotangents += [lane.memory_cotangents for lane in found.lanes]
            parts.append([found.forward, found.backward])
    ways = [
        ([run for one in way for run in one.lanes], sum(one.cycles for one in way), sum(one.issued for one in way))
        for way in zip(*parts, strict=True)
    ]
    return after, cotangents, ways
