"""Decoding: the instructions of a program as Python functions with their operands, in each direction.

Decoded code without cotangents holds no state of a machine, so all machines of one program share it.
"""

from __future__ import annotations

from functools import lru_cache

from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import Opcode
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from retrograd.simulator.cotangents import Cotangents
from retrograd.simulator.semantics import Handler, handler, lifted_handler

#: kinds of instructions: the direction turns, the machine halts, or neither
PLAIN, TURNS, HALTS = 0, 1, 2
#: handler, rd, ra, rb, imm as a word, and the kind
Decoded = tuple[Handler, int, int, int, int, int]


def decode(p: Program, modes: frozenset[str], cotangents: Cotangents | None) -> dict[int, list[Decoded]]:
    """direction -> the decoded instructions by address; their handlers move `cotangents` too, unless it is None."""
    if cotangents is None:
        return _shared(tuple(p.code), p.format, p.table, modes)
    return _decode(p, modes, cotangents)


@lru_cache(maxsize=32)
def _shared(code: tuple[int, ...], w: Format, table: Table, modes: frozenset[str]) -> dict[int, list[Decoded]]:
    return _decode(Program(code, format=w, table=table), modes, None)


def _decode(p: Program, modes: frozenset[str], cotangents: Cotangents | None) -> dict[int, list[Decoded]]:
    w, code = p.format, p.instructions
    made: dict[tuple[Opcode, bool], Handler] = {}

    def decoded(i: Instruction) -> Decoded:
        o, same = i.opcode, cotangents is not None and i.ra == i.rb
        execute = made.get((o, same))
        if execute is None:
            execute = handler(o, w, modes) if cotangents is None else lifted_handler(o, w, modes, same, cotangents)
            made[o, same] = execute
        kind = HALTS if o.halts else TURNS if o.turns else PLAIN
        return execute, i.rd, i.ra, i.rb, i.imm & w.mask, kind

    return {+1: [decoded(i) for i in code], -1: [decoded(inverse(i, p.table)) for i in code]}
