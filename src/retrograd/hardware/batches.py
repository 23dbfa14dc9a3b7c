"""Batches on the core lanes: simulated, or on a bus.

    run_batch_on_hardware(f, *args).values == run_batch(f, *args).values,  bit for bit
    run_batch_on_hardware(f, *args, loss="y").gradients == vmap(grad(f, loss="y"))(*args),  bit for bit

Each lane executes an element; lanes at one PC execute an instruction together (`isa/microarchitecture/lanes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrograd.batch.arguments import Axes, Batch, stacked_values
from retrograd.compiler.compiled import Precision
from retrograd.differentiation.arguments import from_words, need_scale, shaped, sizes
from retrograd.differentiation.gradient_requests import by_choice, choose, need_loss
from retrograd.differentiation.parts import loss_part
from retrograd.functions.execution import argument_words
from retrograd.functions.reversible import Inverse, Reversible, request_of
from retrograd.hdl.bus.links import BusError, UnfinishedRun
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.microarchitecture.lanes import MAX_LANES
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.results import ResultArray
from retrograd.simulator.stores import limit_of
from retrograd.values.precision import Losses

if TYPE_CHECKING:
    from retrograd.hdl.bus.device import BatchRun, CoprocessorDriver, DeviceRun
    from retrograd.hdl.simulation.runs import SimulatedBatch, SimulatedRun

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
    #: instructions that were issued: each is executed by one or several lanes
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


#: the words of memory after the runs, and the cotangents of memory, a row for each element; the runs of each direction
_Ran = tuple[list[list[int]], list[list[int]], Sequence[tuple[Sequence["DeviceRun | SimulatedRun"], int, int]]]


def run_batch_on_hardware(
    f: Reversible | Inverse,
    *args: Any,
    in_axes: Axes = 0,
    lanes: int | None = None,
    format: Format | str | None = None,
    precision: Precision | None = None,
    loss: int | str | None = None,
    scale: int = 0,
    device: CoprocessorDriver | None = None,
    verilator: Path | None = None,
    max_steps: int | None = 100_000,
    **keywords: Any,
) -> BatchHardwareResult:
    """Run the function on each element of a batch, `lanes` elements at a time; with a loss, back again for the gradients.

    `lanes`: data paths of the simulated core, by default one for each element, at most 8. `in_axes`: see `run_batch`. `max_steps`: for
    each element. `device`, `verilator`, `format`, `precision`, `loss`, `scale`: see `run_on_hardware`. Raises CompileError; InputError,
    RG1009 for a number of lanes that no core has; UnfinishedRun, which is a BusError, naming the element that traps or takes more than `max_steps` instructions.
    """
    from retrograd.hdl.bus.device import need_steps

    if lanes is not None and (isinstance(lanes, bool) or not isinstance(lanes, int) or not 1 <= lanes <= MAX_LANES):
        hint = "A core has at least one lane." if device is None else "Leave out lanes: the device has its own."
        said = f"the number of lanes is {lanes!r:.40}, and not an integer from 1 to {MAX_LANES}"
        raise InputError(Diagnostic("RG1009", said, hint=hint))
    limit = need_steps(limit_of(max_steps))
    request = request_of(
        f, format=device.format if device is not None and format is None else format, precision=precision
    )
    if loss is not None:
        # With tests where active variables are freed, so that their cotangents are dropped.
        options = replace(request.options or request.function.options, cotangents=True)
        request = replace(request, options=options)
    batch = Batch(request, args, keywords, in_axes)
    compiled = batch.compiled()
    w, wanted, seed = compiled.format, [], None
    if loss is not None:
        part = loss_part(f, loss)
        wanted = choose(f, compiled.arguments, None, part.position)
        scale, seed = need_scale(scale, w), need_loss(f, part, compiled.arguments).address
    losses = Losses()
    rows = [argument_words(compiled, batch.element(i), losses) for i in range(batch.length)]
    losses.report(compiled)
    if not rows:
        raise InputError(Diagnostic("RG1009", "the batch has no element", hint="Give arrays of at least one element."))
    if device is not None:
        after, cotangents, ways = _on_device(device, compiled.program, rows, request.backward, seed, scale, limit)
    else:
        several = min(len(rows), 8) if lanes is None else lanes
        after, cotangents, ways = _simulated(
            compiled.program, rows, several, request.backward, seed, scale, verilator, limit
        )
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
                shaped(a.type, from_words(bars[place], sizes(a.type, row[place], w), scale, w))
                for bars, row in zip(cotangents, rows, strict=True)
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
        counts("toggled", there) + counts("toggled", returned), counts("erased", there) + counts("erased", returned), w,
    )  # fmt: skip


def _simulated(
    program: Any, rows: list[list[int]], lanes: int, backward: bool, seed: int | None, scale: int, verilator: Path | None, steps: int
) -> _Ran:  # fmt: skip
    from retrograd.hdl.simulation.runs import Place, run_batch

    try:
        ran: list[SimulatedBatch] = run_batch(
            program, [dict(enumerate(row)) for row in rows], lanes, backward=backward, steps=steps,
            loss=None if seed is None else Place(seed), scale=scale, folder=verilator,
        )  # fmt: skip
    except ValueError as error:
        raise BusError(str(error)) from None
    for way, batch in zip(("the run", "the run back"), ran, strict=False):
        for i, one in enumerate(batch.runs):
            if one.stop != "halted":
                why = one.code or f"it takes more than {steps} instructions"
                hint = "`retrograd explain` describes the code; rg.run of the element shows the trap in the source."
                raise UnfinishedRun(
                    f"{way} of element {i} ended at PC = {one.pc}: {why}", hint, trapped=one.stop == "trap"
                )
    ways = [(batch.runs, batch.cycles, batch.issued) for batch in ran]
    return [run.memory for run in ran[0].runs], [run.memory_cotangents for run in ran[-1].runs], ways


def _on_device(
    device: CoprocessorDriver, program: Any, rows: list[list[int]], backward: bool, seed: int | None, scale: int, steps: int
) -> _Ran:  # fmt: skip
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
