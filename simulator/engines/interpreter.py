"""Tier 1: an interpreter in threaded code, with handlers compiled from the instruction table.

A decoded instruction holds the address of its handler, which executes it and jumps to the handler of the next. There is no
loop and no dispatcher. The code lies in memory twice, as it runs forward and, reversed, as it runs backward, so that the
next instruction is the next one in memory in either direction. Turning round is a reflection.

A handler computes all guards before it writes. Where a guard fails, the handler leaves the machine as it is and returns. The
reference machine then executes the instruction and raises the trap, so traps are defined in one place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import REGISTER_FIELDS, Entry, Mode, Opcode, bar, opcodes_of
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import (
    I8,
    I32,
    I64,
    POINTER,
    Block,
    Callee,
    FunctionBuilder,
    ModuleBuilder,
    Pointer,
    Type,
    Value,
    integer,
    storage,
)
from retrograd.simulator.engines.llvm.functions import Trees
from retrograd.simulator.engines.llvm.instructions import MODES, Step, case_of, divides, shifts, step
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.state import Exit, Flag, Slot

#: a decoded instruction: handler, rd, ra, rb, whether it takes a jump, imm, times executed
ENTRY_BYTES = 24
#: the offset of that last number
COUNT = 16
_OFFSETS = {"handler": 0, "rd": 8, "ra": 9, "rb": 10, "branches": 11, "imm": 12, "count": COUNT}


class Branching(IntEnum):
    """Properties of a branch that are known when it is decoded; 0 for all other instructions."""

    TAKES_JUMPS = 1
    #: a jump by its constant leads to a branch
    WELL = 2


class Kind(NamedTuple):
    """What the handlers of an entry of the table are made for."""

    entry: Entry
    format: Format
    differentiating: bool
    #: ra and rb are one register, which matters to cotangents
    same: bool
    #: the constant, where it is a known shift
    shift: int | None = None
    #: which of the conditions on the constant hold, where its trees choose by them
    case: tuple[bool, ...] = ()

    @property
    def text(self) -> str:
        lifted = f".lifted{'.same' * self.same}" if self.differentiating else ""
        shift = "" if self.shift is None else f".by{self.shift}"
        case = "".join(f".{holds:d}" for holds in self.case)
        return f"{self.format.width}.{self.format.frac}{lifted}{shift}{case}"


def kind_of(i: Instruction, w: Format, differentiating: bool) -> Kind:
    """The kind of handler that executes an instruction.

    Each shift by which it divides has a handler: the general one takes 20 times as long.

    Moves and products read their shift when they are executed. Moves to either side have a handler, and so have
    products by less and by more than a word: one handler for all would compute both.
    """
    entry, same = i.opcode.entry, differentiating and i.ra == i.rb
    if divides(i.opcode):
        return Kind(entry, w, differentiating, same, shift=i.imm)
    case = case_of(entry, w, i.imm) if shifts(i.opcode) else ()
    return Kind(entry, w, differentiating, same, case=case)


def handler_name(opcode: Opcode, kind: Kind) -> str:
    """The symbol of a handler."""
    return f"{opcode.name}.{kind.text}".replace(".", "_")


#: parameters of all handlers: the decoded instruction, steps left, registers, memory, its words, control block, cotangents
_PARAMETERS: dict[str, Type] = {
    "ip": POINTER, "left": I64, "R": POINTER, "M": POINTER, "n": I64, "ctl": POINTER, "C": POINTER, "N": POINTER,
}  # fmt: skip


def _call_handler(code: FunctionBuilder, ip: Pointer, arguments: dict[str, Value], convention: str, tail: str) -> Value:
    """Call the handler of the decoded instruction at `ip`."""
    handler = Callee(ip.of(POINTER).load().name, I64, tuple(_PARAMETERS.values()), convention=convention)
    arguments["ip"] = ip
    return code.call(handler, *[arguments[p] for p in _PARAMETERS], tail=tail)


def trampoline(convention: str, name: str = "run_threaded") -> str:
    """IR of the function that the host calls: run(ctl, R, M, n, C, N) -> Exit; and of the sentinel behind the code."""
    module = ModuleBuilder()
    given = ("ctl", "R", "M", "n", "C", "N")
    run = module.function(name, I64, {p: _PARAMETERS[p] for p in given}, "", linkage="")
    arguments = dict(zip(given, run.arguments, strict=True))
    control = arguments["ctl"].of(I64)
    ip = control.of(POINTER).load().of(I8)
    arguments["left"] = control[Slot.LEFT].load()
    why = _call_handler(run, ip, arguments, convention, "")
    control[Slot.WHY].store(why)
    run.ret(why)

    sentinel = module.function("sentinel", I64, _PARAMETERS, "", linkage="", convention=convention)
    ip_, left, _, _, _, ctl, _, _ = sentinel.arguments
    ctl.of(POINTER).store(ip_)
    ctl.of(I64)[Slot.LEFT].store(left)
    sentinel.ret(Exit.REFUSED)
    return module.text()


def emit_handler(module: ModuleBuilder, opcode: Opcode, kind: Kind, convention: str) -> FunctionBuilder:
    """Define the handler of an opcode in the module."""
    code = module.function(handler_name(opcode, kind), I64, _PARAMETERS, linkage="", convention=convention)
    found = step(opcode, kind.format, kind.differentiating, kind.same, kind.shift, kind.case)
    HandlerEmitter(code, found, convention).emit()
    return code


class HandlerEmitter:
    """Emits the handler of one opcode."""

    def __init__(self, code: FunctionBuilder, step: Step, convention: str) -> None:
        self.code, self.step, self.w, self.convention = code, step, step.format, convention
        self.word, self.stored = integer(self.w.width), storage(self.w)
        self.arguments = dict(zip(_PARAMETERS, code.arguments, strict=True))
        self.ip, self.left = self.arguments["ip"].of(I8), self.arguments["left"]
        self.control = self.arguments["ctl"].of(I64)
        #: whether the instruction is met by a jump; None for other instructions than branches
        self.landed: bool | None = None

    def emit(self) -> None:
        step, code = self.step, self.code
        if step.opcode.halts:
            self._leave(Exit.HALTED)
            return
        words = self._operands()
        if "br" not in step.reads:
            self._body(words)
            return
        # Most branches are met with BR = 0. In a path of their own, their targets depend on no data, and the processor runs ahead.
        br = self._slot(Slot.BR)
        fresh, landed = code.block("fresh"), code.block("landed")
        code.branch(br.eq(0), fresh, landed, likely=True)
        for by_jump, block, jump in ((False, fresh, code.constant(self.word, 0)), (True, landed, br)):
            self.landed = by_jump
            code.start(block)
            self._body(words | {"br": jump.to(self.word)})

    def _body(self, words: dict[str, Value]) -> None:
        step = self.step
        trees = Trees(self.code, self.w, words, step.roots)
        self._guards(trees)
        count = self._field("count", I64)
        more = count.load() + 1
        if step.erases:
            # Met while undoing, it is the inverse of an `unerase` that was refused, and did nothing.
            with self.code.when(self._has(Flag.LENIENT), "undone"):
                count.store(more)
                self._continue(self.ip[ENTRY_BYTES], self.left - 1)
        # All words are computed before the first is written.
        after = {place: trees.value(tree) for place, tree in step.after.items()}
        for place, value in after.items():
            if place != "br" and place not in step.unerases:
                self._store(place, value)
        for place in step.unerases:
            # Only reached while undoing. The word that was lost last comes back first.
            if step.differentiating:
                self._store(bar(place), self._from_log())
            self._store(place, self._from_log())
        for place in step.drops:
            self._store(place, self._drop(words[place]))
        count.store(more)
        self._go_on(after.get("br"), self.left - 1)

    # ------------------------------------------------------------------ operands

    def _field(self, name: str, type_: Type) -> Pointer:
        return self.ip[_OFFSETS[name]].of(type_)

    def _operands(self) -> dict[str, Value]:
        step, reads = self.step, self.step.reads
        files = {name: self.arguments[name].of(self.stored) for name in "RMCN"}
        self.places: dict[str, Pointer] = {}
        words: dict[str, Value] = {}
        if "imm" in reads or step.memory:
            words["imm"] = self._field("imm", I32).load().to(self.word, "sext")
        named = {p.removesuffix(bar("")) for p in (*reads, *step.after, *step.drops)}
        for place in REGISTER_FIELDS:
            if place in named or (place == "a" and step.memory):
                index = self._field(REGISTER_FIELDS[place], I8).load().to(I64)
                self.places[place], self.places[bar(place)] = files["R"][index], files["C"][index]
        if step.memory:
            address = (self._load("a") + words["imm"]).to(I64)
            inside = address.ltu(self.arguments["n"])
            with self._failing(inside, "outside") as (out, on):
                self.code.branch(self._has(Flag.LENIENT), on, out)
            # While undoing, an address out of range stands for one spare word, as it did on the way.
            address = inside.select(address, self.arguments["n"])
            self.places["m"], self.places[bar("m")] = files["M"][address], files["N"][address]
        return words | {place: self._load(place) for place in self.places if place in reads}

    def _load(self, place: str) -> Value:
        return self.places[place].load().to(self.word)

    def _store(self, place: str, value: Value) -> None:
        self.places[place].store(value.to(self.stored))

    def _slot(self, slot: Slot) -> Value:
        return self.control[slot].load()

    def _has(self, flag: Flag) -> Value:
        return (self._slot(Slot.FLAGS) & flag).ne(0)

    # ------------------------------------------------------------------ guards

    def _guards(self, trees: Trees) -> None:
        code = self.code
        hold: dict[Mode, Value] = {
            mode: code.all(trees.truth(tree) for tree in self.step.guards[mode])
            for mode in MODES
            if self.step.guards[mode]
        }
        if not hold:
            return
        with self._failing(code.all(hold.values()), "guard") as (out, on):
            # Which of the guards count depends on flags, which are read only here.
            counts: dict[Mode, Flag] = {"overflow": Flag.OVERFLOW, "strict": Flag.STRICT}
            fatal = code.any(
                ~truth & self._has(counts[mode]) if mode in counts else ~truth for mode, truth in hold.items()
            )
            code.branch(fatal & ~self._has(Flag.LENIENT), out, on)

    @contextmanager
    def _failing(self, holds: Value, name: str) -> Iterator[tuple[Block, Block]]:
        """Code emitted inside runs where a guard fails: it ends with a jump to either block, to refuse or to go on."""
        code = self.code
        cold, out, on = (code.block(f"{name}.{part}") for part in ("cold", "out", "on"))
        code.branch(holds, on, cold, likely=True)
        code.start(cold)
        yield out, on
        code.start(out)
        self._leave(Exit.REFUSED)
        code.start(on)

    def _leave(self, why: Exit, ip: Pointer | None = None, left: Value | None = None) -> None:
        """Return to the host, with the machine before the instruction at `ip`."""
        self.control[Slot.LEFT].store(self.left if left is None else left)
        self.control.of(POINTER).store(self.ip if ip is None else ip)
        self.code.ret(why)

    # ------------------------------------------------------------------ lost words

    def _from_log(self) -> Value:
        """The last word of the log, taken off."""
        count = self._slot(Slot.LOGGED) - 1
        self.control[Slot.LOGGED].store(count)
        return self._slot(Slot.LOG).of(self.stored)[count].load().to(self.word)

    def _drop(self, word: Value) -> Value:
        """`Cotangents.drop`: the cotangent of a freed ancilla, from here on."""
        code, control = self.code, self.control
        flags, way, crossed = self._slot(Slot.FLAGS), self._slot(Slot.WAY), self._slot(Slot.CROSSED)
        point = way.gt(0).select(crossed, crossed - 1)
        there, facing = self._slot(Slot.LOST_POINT).eq(point), self._slot(Slot.LOST_WAY).eq(-way)
        present, some = ~(there & facing), word.ne(0)
        special = flags & (Flag.STRICT | Flag.LENIENT | Flag.KEEP)
        blocks = ("drop.cold", "drop.unusual", "drop.refused", "drop.back", "drop.on", "drop.end")
        cold, unusual, refused, back, on, end = map(code.block, blocks)
        code.branch(special.eq(0) & present, on, cold, likely=True)
        code.start(cold)
        code.branch((flags & Flag.LENIENT).ne(0), back, unusual)
        # Strict, kept or lost: left to the reference machine, which must find nothing changed.
        code.start(unusual)
        code.branch(special.eq(Flag.STRICT) & ~some & present, on, refused)
        code.start(refused)
        self._leave(Exit.REFUSED)
        code.start(back)
        old = self._from_log()
        code.jump(end)
        code.start(on)
        control[Slot.CROSSED].store(crossed + way)
        control[Slot.DROPPED].store(self._slot(Slot.DROPPED) + some.to(I64))
        control[Slot.LOST_POINT].store(some.select(point, self._slot(Slot.LOST_POINT)))
        control[Slot.LOST_WAY].store(some.select(way, self._slot(Slot.LOST_WAY)))
        code.start(end)
        return code.phi((old, back), (0, on), type_=self.word)

    # ------------------------------------------------------------------ onward

    def _go_on(self, br: Value | None, left: Value) -> None:
        if br is None:
            self._continue(self.ip[ENTRY_BYTES], left)
            return
        code = self.code
        br, here = br.to(I64, "sext"), self.ip
        if self.step.opcode.turns:
            here = (self._slot(Slot.MIRROR) - here.convert("ptrtoint", I64)).of(I8)
        names = ("jump", "on", "check", "inside", "astray", "land", "refuse")
        jump, on, check, inside, astray, land, refuse = map(code.block, names)
        code.branch(br.ne(0), jump, on)

        code.start(jump)
        self.control[Slot.BR].store(br)
        to = here[br * ENTRY_BYTES]
        if "imm" in self.step.reads and not self.landed:
            # It jumps by its constant, and whether that leads to a branch was determined when the code was decoded.
            code.branch((self._field("branches", I8).load() & Branching.WELL).ne(0), land, check, likely=True)
        code.start(check)
        start, size = self._slot(Slot.BACKWARD), self._slot(Slot.BYTES)
        first = here.convert("ptrtoint", I64).geu(start).select(start, self._slot(Slot.FORWARD))
        within = (to.convert("ptrtoint", I64) - first).ltu(size)
        if self.w.width == 64:
            # A jump so long that its bytes wrap could seem to end in the code.
            within = within & (br + size).leu(size << 1)
        code.branch(within, inside, astray, likely=True)
        code.start(astray)
        self._leave(Exit.BAILOUT, here, left)
        code.start(inside)
        code.branch(to[_OFFSETS["branches"]].load().ne(0), land, refuse, likely=True)
        code.start(refuse)
        self._leave(Exit.REFUSED, to, left)
        code.start(land)
        self._continue(to, left)

        code.start(on)
        if self.landed:
            self.control[Slot.BR].store(0)
        self._continue(here[ENTRY_BYTES], left)

    def _continue(self, to: Pointer, left: Value) -> None:
        """Jump to the handler of the instruction at `to`, unless no steps are left."""
        with self.code.when(left.eq(0), "limit", likely=False):
            self._leave(Exit.LIMIT, to, left)
        why = _call_handler(self.code, to, self.arguments | {"left": left}, self.convention, "musttail ")
        self.code.ret(why)


# -----------------------------------------------------------------------------
# The interpreter's handlers, compiled and loaded, and programs decoded for them.

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
_loaded: set[Kind] = set()


@cache
def _handlers(kind: Kind) -> dict[str, int]:
    """opcode -> address of its handler, for the opcodes of an entry, which are compiled together."""
    opcodes = opcodes_of(kind.entry)
    names = {o.name: handler_name(o, kind) for o in opcodes}

    def emit() -> str:
        module = jit_compiler().module()
        for o in opcodes:
            emit_handler(module, o, kind, jit_compiler().convention)
        return module.text()

    # An entry of the table has a name for its key; an entry that was added is determined only by its code.
    key = _key(kind) if any(e is kind.entry for e in TABLE.entries) else emit()
    found = jit_compiler().load(key, names.values(), emit, level=1)
    _loaded.add(kind)
    return {name: found[symbol] for name, symbol in names.items()}


def _key(kind: Kind) -> str:
    return f"{source_digest()} {kind.entry.name} {kind.text}"


def handlers_to_load(program: Program, differentiating: bool) -> tuple[int, int]:
    """How many kinds of handlers are not loaded: (to compile, to read from the disk)."""
    to_compile = to_read = 0
    for kind in {kind_of(i, program.format, differentiating) for i in program.instructions}:
        if kind not in _loaded:
            kept = jit_compiler().has(_key(kind), level=1)
            to_read, to_compile = to_read + kept, to_compile + (not kept)
    return to_compile, to_read


def decode(program: Program, differentiating: bool, stops: Collection[int] = ()) -> NDArray[Any]:
    """The program's instructions, forward and then backward, each with a sentinel behind it; counts are zero.

    At the addresses of `stops`, in either direction, the sentinel's handler stands in place of the instruction's.
    """
    out, n = _decoded(program.code, program.format, program.table, differentiating).copy(), len(program.code)
    for at in stops:
        if 0 <= at < n:
            out["handler"][[at, 2 * n - at]] = entry()[1]
    return out


@lru_cache(maxsize=32)
def _decoded(words: tuple[int, ...], w: Format, table: Table, differentiating: bool) -> NDArray[Any]:
    program = Program(words, format=w, table=table)
    code = program.instructions
    n = len(code)
    out = np.zeros(2 * n + 2, dtype=_Entries)

    def fill(at: int, instructions: list[Instruction]) -> None:
        rows = out[at : at + n]
        rows["handler"] = [_handlers(kind_of(i, w, differentiating))[i.opcode.name] for i in instructions]
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
