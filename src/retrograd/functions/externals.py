"""`with rg.external():` blocks: Python reads the variables of a running program, and the program continues unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from traceback import walk_tb
from typing import Any

import numpy as np

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir.statements import Const, Var
from retrograd.compiler.language.types import ArrayType, ScalarType
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    MeasuredArray,
    Scalar,
    StackValue,
    StructValue,
    Value,
)
from retrograd.isa.diagnostics import Diagnostic, RetrogradError, Span
from retrograd.simulator.machine import REGISTERS, Machine, Outcome, Stop
from retrograd.values.marshal import from_words


def run_with_externals(
    compiled: Compiled,
    machine: Machine,
    max_steps: int | None,
    observe: Callable[[Machine, int], None] | None = None,
) -> Outcome:
    """Run to the end, and execute a block each time the machine reaches its mark, in either direction.

    `observe` is called after every step, as by `Machine.run`.
    """
    marks = compiled.externals
    taken = 0
    while True:
        if machine.pc in marks and machine.br == 0:
            block = compiled.lowered.externals[marks[machine.pc]]
            words = iter([_word(machine, x) for x in compiled.emitted.watched[machine.pc]])
            scope = {name: _seen(compiled, machine, value, words) for name, value in block.watched.items()}
            try:
                block.run(scope)
            except RetrogradError:
                raise
            except Exception as error:
                raise RetrogradError(_failed(compiled, block.file, error)) from error
        left = None if max_steps is None else max_steps - taken
        outcome = machine.run(left, breakpoints=marks, observe=observe)
        taken += outcome.steps
        if outcome.stop is not Stop.BREAKPOINT:
            return Outcome(outcome.stop, taken)


def _failed(compiled: Compiled, file: str, error: Exception) -> Diagnostic:
    """The diagnostic of an exception in a block."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    lines = [at for frame, at in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if not lines:
        return Diagnostic("RG0808", message)
    text = compiled.program.source.line(Span(file, lines[-1])) or ""
    begin = len(text) - len(text.lstrip())
    return Diagnostic("RG0808", message, Span(file, lines[-1], begin + 1, len(text.rstrip()) + 1), line=text)


def _word(machine: Machine, place: int | Const) -> int:
    if isinstance(place, Const):
        return place.word
    return machine.registers[place] if place < REGISTERS else machine.memory[place - REGISTERS]


def _seen(compiled: Compiled, machine: Machine, value: Value, words: Iterator[int]) -> Any:
    """The value of a name at this point of the run; `words` are those of the operands, in order."""
    w = compiled.format
    match value:
        case Constant(v):
            return v
        case Scalar(e, place):
            word = next(words)
            # The operand of a value in memory is its address.
            stored = machine.memory[word] if place is not None and not isinstance(place, Var) else word
            return from_words(ScalarType(e.kind), [stored], w)
        case ArrayView(element, lengths, strides):
            base = next(words)
            shape = tuple(n if isinstance(n, int) else next(words) for n in lengths)
            out = []
            for index in np.ndindex(*shape):
                at = base + sum(i * s for i, s in zip(index, strides, strict=True))
                out += machine.memory[at : at + element.size]
            return from_words(ArrayType(element, shape), out, w)
        case MeasuredArray(element, known):
            base = next(words)
            measured = tuple(next(words) if n is None else n for n in known)
            t = ArrayType(element, measured)
            return from_words(t, machine.memory[base : base + t.size], w)
        case StackValue(t):
            base = next(words)
            return from_words(t, machine.memory[base : base + t.size], w)
        case StructValue(t, fields):
            return t.cls(**{name: _seen(compiled, machine, inner, words) for name, inner in fields.items()})
    raise TypeError(value)
