"""Lengths of axes: integers, or the values of expressions where they are known only when the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeGuard

from retrograd.compiler.ir.expressions import E, Length, Ranges, RunLength, apply, const, loads, sub
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.isa.words import Format

#: elements along an axis whose length is known only when the program runs
LARGEST = 1 << 24


def is_known(lengths: Sequence[Length]) -> TypeGuard[Sequence[int]]:
    """Whether all lengths are known when the program is compiled."""
    return all(isinstance(n, int) for n in lengths)


def known(lengths: Sequence[Length]) -> tuple[int, ...]:
    """The shape of an array that a caller has found to be known."""
    assert is_known(lengths)
    return tuple(lengths)


def bound(length: Length) -> int:
    """A number that the length does not exceed."""
    return length if isinstance(length, int) else length.most


def value_of(length: Length) -> E:
    """The length as an expression."""
    return const(length, Kind.INT) if isinstance(length, int) else length.e


def is_empty(lengths: Sequence[Length]) -> bool:
    """Whether an array of this shape certainly has no element."""
    return prod(map(bound, lengths)) == 0


def merged(lengths: Sequence[Length]) -> Length:
    """Equal lengths as one, with the checks of all."""
    first, *_ = lengths
    if isinstance(first, int):
        return first
    found = [n for n in lengths if isinstance(n, RunLength)]
    checks = tuple(dict.fromkeys(c for n in found for c in n.checks))
    return replace(first, most=min(n.most for n in found), checks=checks)


def note_range(ranges: Ranges, var: Var, length: Length, w: Format) -> None:
    """Record that an index goes through an axis."""
    ranges[var] = (0, max(0, bound(length) - 1))
    if isinstance(length, RunLength) and not loads(length.e):
        ranges.between[var] = (const(0, Kind.INT), sub(length.e, const(1, Kind.INT), w))


def words_of(lengths: Sequence[Length]) -> Length:
    """The product of lengths of which one at most is known only when the program runs."""
    factor = prod(n for n in lengths if isinstance(n, int))
    run = next((n for n in lengths if isinstance(n, RunLength)), None)
    if run is None or factor == 1:
        return factor if run is None else run
    return replace(run, e=apply("mul", Kind.INT, run.e, const(factor, Kind.INT)), most=run.most * factor)


def operands(lengths: Sequence[Length]) -> tuple[E, ...]:
    """The expressions on which the lengths and their checks depend."""
    return tuple(e for n in lengths if isinstance(n, RunLength) for e in (n.e, *(c.value for c in n.checks)))


def sum_over(body: E, indices: Sequence[Var], shape: Sequence[Length]) -> E:
    """Σ body over all indices."""
    return E("total", body.kind, (body, *operands(shape)), (tuple(indices), tuple(shape)))
