"""The interpreter's handlers, compiled and loaded, and programs decoded for them."""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import Entry, Opcode, opcodes_of
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.interpreter.threaded import (
    ENTRY_BYTES,
    Branching,
    emit_handler,
    handler_name,
    trampoline,
)
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest

_Entries = np.dtype(
    {
        "names": ["handler", "rd", "ra", "rb", "branches", "imm", "count"],
        "formats": ["u8", "u1", "u1", "u1", "u1", "i4", "i8"],
        "itemsize": ENTRY_BYTES,
    }
)

_Run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, *[ctypes.c_void_p] * 2)


@cache
def entry() -> tuple[Any, int]:
    """(the function that runs threaded code, address of the sentinel behind the last instruction)."""
    convention = jit_compiler().convention
    found = jit_compiler().load(f"{source_digest()} run", ("run_threaded", "sentinel"), lambda: trampoline(convention))
    return _Run(found["run_threaded"]), found["sentinel"]


#: handlers that this process has loaded
_loaded: set[tuple[Entry, Format, bool, bool]] = set()


@cache
def _handlers(instruction: Entry, w: Format, differentiating: bool, same: bool) -> dict[str, int]:
    """opcode -> address of its handler, for the opcodes of an entry, which are compiled together."""
    opcodes = opcodes_of(instruction)
    names = {o.name: handler_name(o, w, differentiating, same) for o in opcodes}

    def emit() -> str:
        module = jit_compiler().module()
        for o in opcodes:
            emit_handler(module, o, w, differentiating, same, jit_compiler().convention)
        return module.text()

    # An entry of the table has a name for its key; an entry that was added is determined only by its code.
    key = _key(instruction, w, differentiating, same) if any(e is instruction for e in TABLE.entries) else emit()
    found = jit_compiler().load(key, names.values(), emit, level=1)
    _loaded.add((instruction, w, differentiating, same))
    return {name: found[symbol] for name, symbol in names.items()}


def _key(instruction: Entry, w: Format, differentiating: bool, same: bool) -> str:
    return f"{source_digest()} {instruction.name} {w.width}.{w.frac} {differentiating} {same}"


def handler_of(opcode: Opcode, w: Format, differentiating: bool, same: bool) -> int:
    """The address of an opcode's handler."""
    return _handlers(opcode.entry, w, differentiating, same and differentiating)[opcode.name]


def handlers_to_load(program: Program, differentiating: bool) -> tuple[int, int]:
    """How many entries' handlers are not loaded: (to compile, to read from the disk)."""
    to_compile = to_read = 0
    w = program.format
    for instruction, same in {(i.opcode.entry, i.ra == i.rb and differentiating) for i in program.instructions}:
        if (instruction, w, differentiating, same) not in _loaded:
            kept = jit_compiler().has(_key(instruction, w, differentiating, same), level=1)
            to_read, to_compile = to_read + kept, to_compile + (not kept)
    return to_compile, to_read


def decode(program: Program, differentiating: bool) -> NDArray[Any]:
    """The program's instructions, forward and then backward, each with a sentinel behind it; counts are zero."""
    return _decoded(program.code, program.format, program.table, differentiating).copy()


@lru_cache(maxsize=32)
def _decoded(words: tuple[int, ...], w: Format, table: Table, differentiating: bool) -> NDArray[Any]:
    program = Program(words, format=w, table=table)
    code = program.instructions
    n = len(code)
    out = np.zeros(2 * n + 2, dtype=_Entries)

    def fill(at: int, instructions: list[Instruction]) -> None:
        rows = out[at : at + n]
        rows["handler"] = [handler_of(i.opcode, w, differentiating, i.ra == i.rb) for i in instructions]
        rows["rd"] = [i.rd for i in instructions]
        rows["ra"] = [i.ra for i in instructions]
        rows["rb"] = [i.rb for i in instructions]
        rows["branches"] = [_branching(instructions, at) for at in range(n)]
        rows["imm"] = [i.imm for i in instructions]
        out[at + n]["handler"] = entry()[1]

    fill(0, list(code))
    fill(n + 1, [inverse(i, program.table) for i in reversed(code)])
    return out


def _branching(instructions: list[Instruction], at: int) -> int:
    i = instructions[at]
    if "br" not in i.opcode.writes:
        return 0
    # A turning branch jumps in the mirror image.
    start = len(instructions) - 1 - at if i.opcode.turns else at
    to = start + i.imm
    if not 0 <= to < len(instructions):
        return Branching.TAKES_JUMPS
    met = instructions[len(instructions) - 1 - to if i.opcode.turns else to]
    return Branching.TAKES_JUMPS | Branching.WELL * ("br" in met.opcode.writes)
