"""Compiled loops over rows: a program's translation with its batch loop, compiled once, then kept in the process and on disk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch.array_loop import emit_array_loop
from retrograd.simulator.engines.batch.converged_lanes import translate_converged
from retrograd.simulator.engines.batch.instances import translate_instance
from retrograd.simulator.engines.batch.lane_loop import emit_lane_loop
from retrograd.simulator.engines.batch.lanes import translate_lanes
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.llvm.tiered_code import TieredCode
from retrograd.simulator.engines.tiering import level_for
from retrograd.simulator.engines.translator.flow import Variant, flow_of
from retrograd.simulator.engines.translator.ghost_uncompute import ghosts_of
from retrograd.simulator.engines.translator.mirrors import boundaries_of

#: instructions of the longest program that is translated for lanes
LONGEST_FOR_LANES = 3000


def batch_ir(program: Program, *, backward: bool = False, overflow: bool = True, checks: bool = True) -> str:
    """The batch's code as LLVM IR: `instance` runs one instance, `batch` all instances of a range of rows."""
    return _ir(program, variant_of(program, backward, overflow, checks))


def variant_of(
    program: Program, backward: bool, overflow: bool, checks: bool, cycles: bool = False, core: str = "small"
) -> Variant:
    """The translation of an instance of a batch."""
    # On an overlapped core an uncompute block takes other cycles than its compute block, so it is executed where they are counted.
    ghosts = None if cycles and core_units(core).overlapped else ghosts_of(program)
    return Variant(
        backward=backward, overflow=overflow, checks=checks, whole=False, cycles=cycles, core=core, ghosts=ghosts
    )


def _ir(program: Program, variant: Variant, lanes: int = 1) -> str:
    module = jit_compiler().module()
    if lanes == 1:
        translate_instance(program, variant, module, "instance")
        emit_array_loop(module, program.format, "instance", "batch")
    elif len(program.code) > LONGEST_FOR_LANES:
        raise NotImplementedError("the code for lanes is several times as long")
    else:
        translate_converged(program, variant, module, lanes, "converged")
        if jit_compiler().diverging:
            # Without masks, lanes that diverge take longer than instances alone.
            translate_lanes(program, replace(variant, ghosts=None), module, lanes, "diverging")
        emit_lane_loop(module, program.format, "converged", "diverging", "batch", lanes)
    return module.text()


class _Parts(NamedTuple):
    code: tuple[int, ...]
    format: Format
    table: Table
    variant: Variant
    lanes: int


class Key(_Parts):
    """All that the code of a loop depends on. Its hash is computed once, since a program may be long."""

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash


#: the code of loops over batches; None for a loop that lanes cannot run
_loops: dict[Key, TieredCode | None] = {}


def key_of(program: Program, variant: Variant, lanes: int) -> Key:
    """The key of a loop."""
    if lanes > 1:
        variant = replace(variant, tables=tables_of(program))
    return Key(tuple(program.code), program.format, program.table, variant, lanes)


def tables_of(program: Program) -> tuple[tuple[int, int], ...]:
    """The regions that begin with words of the program that are not all zero."""
    return tuple((start, end) for start, end in pairwise(boundaries_of(program)) if any(program.data[start:end]))


def loop_of(program: Program, variant: Variant) -> TieredCode:
    """The loop over a batch, one instance after the other."""
    found = _loop(key_of(program, variant, 1))
    assert found is not None
    return found


def lane_loop_of(key: Key) -> TieredCode | None:
    """The loop over a batch in lanes; None if they cannot run the program. Its code may come from the background."""
    return _loop(key)


def _loop(key: Key) -> TieredCode | None:
    if key in _loops:
        return _loops[key]
    code, w, table, variant, lanes = key
    bare = Program(code, format=w, table=table)

    def emit() -> str:
        return _ir(bare, variant, lanes)

    name = _name(key) if table is TABLE else f"{lanes} {_ir(bare, variant)}"
    found: TieredCode | None = None
    # Code for lanes is longer.
    price = tiering.policy.costs.optimised_translation(len(code)) * (1 + (lanes > 1))
    with suppress(NotImplementedError):
        if lanes > 1:
            emit()
        found = TieredCode(name, "batch", emit, level_for(len(code)), price, first=lanes == 1)
    _loops[key] = found
    return found


def is_loaded(key: Key) -> bool:
    """Whether a loop is loaded."""
    return key in _loops


def give_up(key: Key) -> None:
    """Run batches without the loop from now on."""
    _loops[key] = None


def _name(key: Key) -> str:
    code, w, _, variant, lanes = key
    return f"{source_digest()} batch {w} {variant} {lanes} {sha256(repr(code).encode()).hexdigest()}"


def price(
    program: Program, *, backward: bool, overflow: bool, checks: bool, cycles: bool, core: str = "small"
) -> float:
    """Seconds until the code of such a batch is loaded."""
    costs, n = tiering.policy.costs, len(program.code)
    key = key_of(program, variant_of(program, backward, overflow, checks, cycles, core), 1)
    kept = program.table is TABLE and any(jit_compiler().has(_name(key), level) for level in (level_for(n), 0))
    return costs.load_translation if kept else costs.translation(n)


def at_hand(
    program: Program, *, backward: bool, overflow: bool, checks: bool, cycles: bool, core: str = "small"
) -> bool:
    """Whether the code of such a batch is loaded."""
    return key_of(program, variant_of(program, backward, overflow, checks, cycles, core), 1) in _loops


def longest_stretch(program: Program, backward: bool) -> int:
    """More steps than an instance takes between two tests of its limit, which are at back edges. An instance with fewer steps left
    is not begun."""
    return stretch_and_losses(tuple(program.code), program.format, program.table, backward)[0]


@cache
def stretch_and_losses(code: tuple[int, ...], w: Format, table: Table, backward: bool) -> tuple[int, bool]:
    """(`longest_stretch`, whether some instruction loses words)"""
    flow = flow_of(Program(code, format=w, table=table), Variant(backward=backward, whole=False))
    loses = any(flow.code[at].opcode.erased_words for run in flow.blocks.values() for at in run)
    return sum(map(len, flow.blocks.values())) + 1, loses
