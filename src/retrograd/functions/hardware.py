"""Functions of the language on the co-processor: simulated, or on a bus.

    run_on_hardware(f, *args).values == run(f, *args).values,  bit for bit
    run_on_hardware(f, *args, loss="y").gradients == grad(f, loss="y")(*args)

The program is loaded, run forward, its results copied out, and run back with cotangents: nothing is stored on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.differentiation.arguments import direction_of, from_words, need_scale, position, shaped, sizes
from retrograd.differentiation.gradients import by_choice, choose, need_loss
from retrograd.functions.reversible import Inverse, Reversible, results
from retrograd.hdl.bus.links import BusError
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format
from retrograd.simulator.stores import limit_of
from retrograd.values.marshal import bind, located, to_words, types_of
from retrograd.values.marshal import from_words as values_of

if TYPE_CHECKING:
    from retrograd.hdl.bus.device import CoprocessorDriver

__all__ = ["HardwareResult", "run_on_hardware"]


@dataclass(frozen=True)
class HardwareResult:
    """A function that has run on the co-processor."""

    #: all arguments afterwards, by position and name
    values: Any
    #: ∂loss/∂(argument) by name, where a loss was named
    gradients: Any
    #: clock cycles of the run, and of the run back with cotangents
    cycles: int
    backward_cycles: int
    #: instructions of the run, and of the run back
    steps: int
    backward_steps: int
    #: bits that changed in registers and memory, and that were erased, both runs together
    toggled_bits: int
    erased_bits: int


@dataclass(frozen=True)
class _Ran:
    """One way: what the machine holds, and what it took."""

    memory: list[int]
    cotangents: list[int]
    cycles: int
    steps: int
    toggled: int
    erased: int


def run_on_hardware(
    f: Reversible | Inverse,
    *args: Any,
    format: Format | str | None = None,
    loss: int | str | None = None,
    scale: int = 0,
    device: CoprocessorDriver | None = None,
    verilator: Path | None = None,
    vcd: str | None = None,
    max_steps: int | None = 100_000,
    **keywords: Any,
) -> HardwareResult:
    """Run the function on a co-processor; with a loss, back again for the gradients of all arguments that have some.

    On `device`, or on one that is simulated: by Verilator, whose libraries are kept in the folder `verilator`, else by Amaranth, which needs
    nothing installed and takes seconds to begin. `vcd`: a file for its waveforms. Raises CompileError, InputError, BusError where
    a run traps or takes more than `max_steps` instructions; None is no limit.
    """
    from retrograd.hdl.bus.device import need_steps

    max_steps = need_steps(limit_of(max_steps))
    function, backward = direction_of(f)
    values = bind(function, args, keywords)
    types = types_of(function, values)
    if device is not None and format is None:
        format = device.format
    plain = function.compiled_for(types, format)
    compiled = function.compiled_for(types, format, replace(plain.options, cotangents=True))
    w = compiled.format
    wanted, seed = [], None
    if loss is not None:
        at = position(f, loss)
        need_loss(f, compiled.arguments[at])
        wanted = choose(f, compiled.arguments, None, at)
        scale = need_scale(scale, w)
        seed = compiled.arguments[at].address
    memory: list[int] = []
    for a, value in zip(compiled.arguments, values, strict=True):
        try:
            memory += to_words(a.type, value, w, a.name)
        except InputError as error:
            raise InputError(located(error.diagnostics[0], function, a.name)) from None
    if device is not None:
        ran = _on_device(device, compiled.program, memory, backward, seed, scale, max_steps)
    else:
        ran = _simulated(compiled.program, memory, backward, seed, scale, verilator, vcd, max_steps)
    there, back = ran[0], ran[1] if len(ran) > 1 else None
    after = [values_of(a.type, there.memory[a.address : a.address + a.type.size], w) for a in compiled.arguments]
    gradients = None
    if back is not None:
        found = {
            a.name: shaped(
                a.type,
                from_words(
                    back.cotangents[a.address : a.address + a.type.size],
                    sizes(a.type, memory[a.address : a.address + a.type.size], w),
                    scale,
                    w,
                ),
            )
            for a in wanted
        }
        gradients = by_choice(None, found)
    return HardwareResult(
        results(function, after),
        gradients,
        there.cycles,
        back.cycles if back else 0,
        there.steps,
        back.steps if back else 0,
        sum(one.toggled for one in ran),
        sum(one.erased for one in ran),
    )


def _simulated(
    program: Any,
    memory: list[int],
    backward: bool,
    seed: int | None,
    scale: int,
    verilator: Path | None,
    vcd: str | None,
    steps: int,
) -> list[_Ran]:
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
        )
    except ValueError as error:
        raise BusError(str(error)) from None
    for way, one in zip(("the run", "the run back"), ran, strict=False):
        if one.stop != "halted":
            why = one.code or f"it takes more than {steps} instructions"
            raise BusError(f"{way} ended at PC = {one.pc}: {why}", _HINT)
    return [_Ran(one.memory, one.memory_cotangents, one.cycles, one.retired, one.toggled, one.erased) for one in ran]


def _on_device(
    device: CoprocessorDriver, program: Any, memory: list[int], backward: bool, seed: int | None, scale: int, steps: int
) -> list[_Ran]:
    device.load(program, memory, backward=backward)
    if seed is None:
        outcome = device.run(steps)
        device.need(outcome, "the run")
        return [_Ran(device.memory(), [], outcome.cycles, outcome.retired, outcome.toggled, outcome.erased)]
    found = device.gradient(seed, scale=scale, steps=steps)
    there, back = found.forward, found.backward
    return [
        _Ran(found.memory, [], there.cycles, there.retired, there.toggled, there.erased),
        _Ran([], found.memory_cotangents, back.cycles, back.retired, back.toggled, back.erased),
    ]


_HINT = "`retrograd explain` tells what the code means; rg.run of the same tells it in terms of the source."
