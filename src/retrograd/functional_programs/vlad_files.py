"""Runs of VLAD files: the value of each expression, forward and back, and the comparison with `===> datum`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrograd.assembler.lexer import decode_text
from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.vlad.reader import Datum, Items, Literal, Symbol
from retrograd.compiler.frontends.vlad.translation import Expression, File, Lengths, read_vlad
from retrograd.functional_programs.vlad import VladFunction, value_of
from retrograd.isa.files import read_file
from retrograd.isa.words import Format
from retrograd.runtime._binding import bind
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import run
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Machine

#: frames of Python
_FRAMES = 6000
#: words of the heap that are tried one after the other; recursion has as many
_SIZES = (1 << 16, 1 << 20, 1 << 24)
#: difference of a real from the expected one
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Evaluated:
    """The value of an expression. `restored`: whether the run back left zeros, as it always must; None where it was not run."""

    expression: Expression
    value: Any
    steps: int
    erased_bits: int
    restored: bool | None = None

    @property
    def agrees(self) -> bool:
        """Whether the value is the expected one, reals within TOLERANCE."""
        assert self.expression.expected is not None
        return alike(self.value, self.expression.expected)


def load_vlad(path: str) -> File:
    """The definitions and expressions in a file. Raises InputError, CompileError."""
    return read_vlad(decode_text(read_file(Path(path)), path), path)


def evaluations(
    file: File, *, format: Format | str | None = None, engine: str = "auto", back: bool = False, **settings: Any
) -> Iterator[Evaluated]:
    """The values of a file's expressions, in order. `back`: each is also run back. Raises CompileError, ProgramTrap."""
    for e in file.expressions:
        with deep_recursion():
            found = _evaluated(e, format or file.format, engine, back, settings)
        yield found


@contextmanager
def deep_recursion() -> Iterator[None]:
    """The compiler works by recursion, through each call of a recursion over a list whose length is known."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _evaluated(
    e: Expression, format: Format | str | None, engine: str, back: bool, settings: dict[str, Any]
) -> Evaluated:
    function, found, steps, erased = _settled(e, format, engine, settings)
    restored = None
    if back:
        undone = run(~function, *found.values, engine=engine, **settings)
        steps, erased = steps + undone.steps, erased + undone.erased_bits
        restored = not any(undone.values)
    return Evaluated(e, value_of(function.result_type, iter(found.values)), steps, erased, restored)


def _settled(
    e: Expression, format: Format | str | None, engine: str, settings: dict[str, Any]
) -> tuple[VladFunction, Any, int, int]:
    """(the function with all lengths of its lists, its run, the steps and erased bits of all runs that were needed)."""
    steps = erased = 0
    lengths: Lengths = {}
    while True:
        function, found = _run(VladFunction(e, format, lengths=lengths), engine, settings)
        steps, erased = steps + found.steps, erased + found.erased_bits
        # The type of the result is inferred here, where `asks` is found.
        function.result_type  # noqa: B018
        if function.asks is None:
            return function, found, steps, erased
        lengths[function.asks] = int(found.values[0])


def machine_of(
    e: Expression, *, format: Format | str | None = None, engine: str = "auto", overflow: bool = True
) -> Machine:
    """The machine of an expression at its beginning, with a heap that is large enough; a trap is still ahead of it.

    The expression is run once, to find the lengths of its lists. Raises CompileError.
    """
    with deep_recursion():
        try:
            function, *_ = _settled(e, format, engine, {"overflow": overflow})
            values = bind(function, (), {})
            program = function.compiled_for(function.types_of(values), function.format_for()).emitted.program
        except ProgramTrap as trap:
            program = trap.machine.program
    # All arguments of an expression are results, which begin as zeros.
    return machine_for(program, engine, overflow=overflow)


def _run(function: VladFunction, engine: str, settings: dict[str, Any]) -> tuple[VladFunction, Any]:
    """The function and its run, with the smallest heap and stack that are large enough."""
    for size in _SIZES:
        sized = function.sized(Options(stack=size, heap=size))
        try:
            return sized, run(sized, engine=engine, **settings)
        except ProgramTrap as trap:
            if trap.code not in ("RG0807", "RG0811") or size == _SIZES[-1]:
                raise
    raise AssertionError


def alike(value: Any, datum: Datum) -> bool:
    """Whether a value is that of a datum, as it is written or quoted."""
    match value, datum:
        case _, Items((Symbol("quote"), quoted)):
            return alike(value, quoted)
        case bool(), Literal(bool() as other):
            return value is other
        case (bool(), _) | (_, Literal(bool())):
            return False
        case float() | int(), Literal(other):
            return abs(float(value) - other) <= TOLERANCE
        case str(), Symbol(name):
            return value == name
        case (), Items((), tail=None):
            return True
        case (head, tail), Items((first, *others)):
            if not others and datum.tail is not None:
                rest: Datum = datum.tail
            else:
                rest = Items(tuple(others), datum.at, datum.tail)
            return alike(head, first) and alike(tail, rest)
    return False
