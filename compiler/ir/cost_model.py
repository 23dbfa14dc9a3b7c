"""The cost model of the optimiser: trip counts of loops, code size, executed instructions.

A loop of unknown bounds is taken to make ASSUMED_TRIPS passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from retrograd.compiler.ir import statements as ir
from retrograd.isa.words import Format

ASSUMED_TRIPS = 8


def trip_values(loop: ir.For, w: Format) -> range | None:
    """The values of the loop's variable in the order of the passes; None where the bounds are unknown.

    The stop may lie beyond the largest word, and is then less than the start: at 8 bits, range(100, 127, 5) stops at 130, which is −126.
    """
    if isinstance(loop.start, ir.Const) and isinstance(loop.stop, ir.Const):
        start, size = w.signed(loop.start.word), abs(loop.step)
        distance = (
            loop.stop.word - loop.start.word & w.mask if loop.step > 0 else loop.start.word - loop.stop.word & w.mask
        )
        passes, rest = divmod(distance if distance % size == 0 else distance + w.mask + 1, size)
        values = range(start, start + passes * loop.step, loop.step)
        if rest or (values and not -w.sign <= values[-1] < w.sign):
            return None
        return values[::-1] if loop.backward else values
    return range(0) if loop.start is loop.stop else None


def expected_trips(loop: ir.For, w: Format) -> int:
    """How many passes the loop makes, or is taken to make."""
    values = trip_values(loop, w)
    return ASSUMED_TRIPS if values is None else length(values)


def length(values: range) -> int:
    """The length of a range; `len` takes no range of 2^63 items."""
    return max(0, -((values.start - values.stop) // values.step))


def code_size(block: ir.Block) -> int:
    """About how many instructions the block becomes. Code is emitted for `compute` and for its inverse."""
    total = 0
    for node in block:
        match node:
            case ir.Op() | ir.Check() | ir.Call():
                total += 1
            case ir.Local(_, checked) | ir.Delocal(_, checked):
                total += checked
            case ir.Within(compute, body):
                total += 2 * code_size(compute) + code_size(body)
            case ir.If(_, then, orelse):
                total += 4 + code_size(then) + code_size(orelse)
            case ir.While(_, body):
                total += 2 + code_size(body)
            case ir.For(_, _, _, _, body):
                total += 6 + code_size(body)
            case ir.External():
                pass
    return total


def executed(block: Iterable[ir.Node], w: Format) -> int:
    """About how many instructions a run of the block executes."""
    total = 0
    for node in block:
        match node:
            case ir.Op() | ir.Call():
                total += 1
            case ir.Check():
                total += 2
            case ir.Local(_, checked) | ir.Delocal(_, checked):
                total += checked
            case ir.Within(compute, body):
                total += 2 * executed(compute, w) + executed(body, w)
            case ir.If(_, then, orelse):
                total += 2 + max(executed(then, w), executed(orelse, w))
            case ir.While(_, body):
                total += 2 + ASSUMED_TRIPS * (2 + executed(body, w))
            case ir.For(body=body):
                total += 2 + expected_trips(node, w) * (3 + executed(body, w))
            case ir.External():
                pass
    return total
