"""Translated programs, compiled and loaded; each is compiled once, then kept in the process and on disk."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.llvm.tiered_code import TieredCode
from retrograd.simulator.engines.tiering import level_for
from retrograd.simulator.engines.translator.flow import Flow, Variant, flow_of
from retrograd.simulator.engines.translator.loops import find_vector_loops
from retrograd.simulator.engines.translator.parallel_loops import find_parallel_loops
from retrograd.simulator.engines.translator.translate import translate

Translated = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, *[ctypes.c_void_p] * 3)


@dataclass(frozen=True)
class LoadedTranslation:
    """A program's code for a variant."""

    flow: Flow
    variant: Variant
    code: TieredCode

    @property
    def address(self) -> int:
        """The address of the fastest code that is loaded."""
        return self.code.address

    @cached_property
    def shares_rows(self) -> bool:
        """A second thread can execute a part of its loops."""
        unit = jit_compiler().vector_unit
        if not (unit.threads and unit.masks and self.variant.vector_loops):
            return False
        loops = [
            found.loop for found in find_vector_loops(self.flow, self.variant, unit.lanes) if found.loop is not None
        ]
        return any(True for _ in find_parallel_loops(self.flow, loops))

    @cached_property
    def executed(self) -> Executed:
        """See `executed_by`."""
        return executed_by(self.flow)

    @property
    def losses(self) -> int:
        """See `most_lost_words`."""
        return most_lost_words(self.flow)


#: addresses of instructions, and the counter of each
Executed = tuple[NDArray[np.intp], NDArray[np.intp]]


def executed_by(flow: Flow) -> Executed:
    """(addresses of the instructions that counters count, the counter of each)"""
    found = [(at, k) for k, run in enumerate(flow.counters) for at in run if not flow.code[at].opcode.halts]
    places, counters = np.array(found, dtype=np.intp).reshape(-1, 2).T
    return places, counters


def most_lost_words(flow: Flow) -> int:
    """The most words that are lost between two safepoints: of each instruction one, and its cotangent."""
    return 2 * sum(map(len, flow.blocks.values()))


def is_translated(program: Program, variant: Variant, level: int | None) -> bool:
    """Whether code for the program is kept, in this process or on disk: optimised code, or first code."""
    key = _key(program.code, program.format, program.table, variant)
    return any(jit_compiler().has(key, at) for at in {0, _level(program, level)})


def translation_is_loaded(program: Program, variant: Variant, level: int | None) -> bool:
    """Whether the program's code is ready to run."""
    return (program.code, program.format, program.table, variant, level) in _loaded


def _level(program: Program, level: int | None) -> int:
    return level_for(len(program.code)) if level is None else level


#: translations that this process has made or read
_loaded: set[tuple[Any, ...]] = set()


def _key(code: Sequence[int], w: Format, table: Table, variant: Variant) -> str:
    if table is not TABLE:
        # The meaning of an entry that was added is only in the code.
        return _text(code, w, table, variant)[1]
    return f"{source_digest()} {w} {variant} {sha256(repr(code).encode()).hexdigest()}"


def _text(code: Sequence[int], w: Format, table: Table, variant: Variant) -> tuple[Flow, str]:
    module = jit_compiler().module()
    flow = translate(Program(code, format=w, table=table), variant, module)
    return flow, module.text()


def translation(program: Program, variant: Variant, level: int | None) -> LoadedTranslation:
    """The program translated, compiled and loaded. `level` None: by the program's length, in the background where that takes long."""
    return _translation_of(program.code, program.format, program.table, variant, level)


@cache
def _translation_of(
    code: tuple[int, ...], w: Format, table: Table, variant: Variant, level: int | None
) -> LoadedTranslation:
    program = Program(code, format=w, table=table)
    price = 0.0 if level is not None else tiering.policy.costs.optimised_translation(len(code), variant.differentiating)
    found = TieredCode(
        _key(code, w, table, variant),
        "translated",
        lambda: _text(code, w, table, variant)[1],
        _level(program, level),
        price,
    )
    _loaded.add((code, w, table, variant, level))
    return LoadedTranslation(flow_of(program, variant), variant, found)
