"""Batches on the core lanes: simulated, or on a bus.

    run_batch_on_hardware(f, *args).values == run_batch(f, *args).values,  bit for bit
    run_batch_on_hardware(f, *args, loss="y").gradients == vmap(grad(f, loss="y"))(*args),  bit for bit, at the same scales

Each lane executes an element; lanes at one PC execute an instruction together (`isa/microarchitecture/lanes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Precision
from retrograd.derivatives._arguments import Scale, at_scale, from_words, shaped, sizes
from retrograd.derivatives._requests import GradientRequest, by_choice, choose
from retrograd.hardware.runs import scales_on_hardware, unexplained
from retrograd.hdl.bus.links import BusError, UnfinishedRun
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.microarchitecture.lanes import MAX_LANES
from retrograd.isa.words import Format
from retrograd.runtime._batch_arguments import Axes, Batch, stacked_values
from retrograd.runtime._execution import Unexplained, argument_words
from retrograd.runtime._marshal import Losses
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.engines.batch.layout import ResultArray
from retrograd.simulator.stores import limit_of

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
    #: the scale of each element: see `HardwareResult`
    scales: NDArray[np.int64]


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
    scale: Scale = "auto",
    device: CoprocessorDriver | None = None,
    verilator: Path | None = None,
    max_steps: int | None = 100_000,
    **keywords: Any,
) -> BatchHardwareResult:
    """Run the function on each element of a batch, `lanes` elements at a time; with a loss, back again for the gradients.

    `lanes`: data paths of the simulated core, by default one for each element, at most 8. `in_axes`: see `run_batch`. `max_steps`: for
    each element. `device`, `verilator`, `format`, `precision`, `loss`, `scale`: see `run_on_hardware`; elements of different scales run one after the other, as
    batches of their own. Raises CompileError; InputError,
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
    tried: list[tuple[int, ...]] = [(0,)] * batch.length
    if loss is not None:
        asked = GradientRequest(f, None, loss, scale, format=w, precision="ignore")
        wanted = choose(f, compiled.arguments, None, asked.loss)
        seed = asked.loss_of(compiled).address
        tried = [scales_on_hardware(asked, batch.element(i)) for i in range(batch.length)]
    losses = Losses()
    rows = [argument_words(compiled, batch.element(i), losses) for i in range(batch.length)]
    losses.report(compiled)
    if not rows:
        raise InputError(Diagnostic("RG1009", "the batch has no element", hint="Give arrays of at least one element."))

    def ran(which: Sequence[int], scale: int) -> _Ran:
        some = [rows[i] for i in which]
        if device is not None:
            return _on_device(device, compiled.program, some, request.backward, seed, scale, limit)
        several = min(len(rows), 8) if lanes is None else lanes
        return _simulated(compiled.program, some, which, several, request.backward, seed, scale, verilator, limit)

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


def _at_scales(ran: Callable[[Sequence[int], int], _Ran], tried: Sequence[tuple[int, ...]]) -> tuple[_Ran, list[int]]:
    """(the runs of all elements, the scale of each); `tried`: the scales of each element, from the first to try.

    Elements of one scale run together. Where some element of them overflows, each is run alone to find its scale.
    """
    scales = [own[0] for own in tried]
    together: dict[int, list[int]] = {}
    for i, k in enumerate(scales):
        together.setdefault(k, []).append(i)
    parts: list[tuple[list[int], _Ran]] = []
    for k, which in together.items():
        try:
            with unexplained(all(tried[i] == (k,) for i in which)):
                parts.append((which, ran(which, k)))
        except Unexplained:
            for i in which:

                def alone(k: int, last: bool, i: int = i) -> tuple[_Ran, int]:
                    with unexplained(last):
                        return ran([i], k), k

                found, scales[i] = at_scale(tried[i], alone)
                parts.append(([i], found))
    return _joined(parts), scales


def _joined(parts: Sequence[tuple[list[int], _Ran]]) -> _Ran:
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


def _simulated(
    program: Any, rows: list[list[int]], which: Sequence[int], lanes: int, backward: bool, seed: int | None, scale: int,
    verilator: Path | None, steps: int,
) -> _Ran:  # fmt: skip
    """`which`: the numbers of the elements, for messages."""
    from retrograd.hdl.simulation.runs import Place, run_batch

    try:
        ran: list[SimulatedBatch] = run_batch(
            program, [dict(enumerate(row)) for row in rows], lanes, backward=backward, steps=steps,
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
