"""Random structured programs that terminate and can run backward, from a seed.

`generate(seed)` gives a verified-by-construction Program with initial registers and memory. It is the one suite
of programs that every machine runs: the reference machine, the engines, the hardware.

What makes a random program reversible: registers that hold control state (counters, limits, links, flags) are
kept apart from those that hold data; what a condition reads is not written between the branch and its join;
scratch registers are zero outside the construct that uses them. Straight-line instructions come from the whole
table, their operands computed from the entry, so a new entry is covered from the day it is added.

Domains are mostly kept: instructions with guards read `tame` registers (small, positive, never written) and
write `calm` ones (moderate, written by such instructions only). Sometimes they read anything, and trap.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from retrograd.isa.encoding import CODE_SHIFT, RA_SHIFT, RB_SHIFT, RD_SHIFT
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Opcode
from retrograd.isa.laws import execute
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format

#: (format, weight)
FORMATS: tuple[tuple[Format, int], ...] = (
    (Format(64, 32), 10),
    (Format(32, 16), 4),
    (Format(16, 8), 2),
    (Format(8, 4), 2),
    (Format(64, 0), 1),
    (Format(64, 63), 1),
)
#: words of memory that programs read and write as data; those above are the stack
DATA_WORDS = 32
STACK_WORDS = 24
#: instructions of main and steps of the whole run that a program is drawn for
SIZES = (16, 90)
STEPS = (100, 1500)

_SHIFTS = {"rd": RD_SHIFT, "ra": RA_SHIFT, "rb": RB_SHIFT}
_M32 = 0xFFFFFFFF
_COMPLEMENT = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "ltu": "geu", "geu": "ltu"}
#: condition -> the function that is 1 where it holds
_FLAG = {"eq": "seq", "lt": "slt", "ltu": "sltu"}


@dataclass(frozen=True)
class Case:
    """A program and what to put into the machine before it starts; it halts or traps within `bound` steps."""

    seed: int
    program: Program
    registers: dict[int, int]
    #: words to load at address 0
    memory: list[int]
    bound: int

    def load(self, registers: list[int], memory: list[int]) -> None:
        """Put the initial words where a machine keeps its own."""
        for number, word in self.registers.items():
            registers[number] = word
        memory[: len(self.memory)] = self.memory


@dataclass(frozen=True)
class Shape:
    """An opcode with the places of its operands: what it takes to draw an instruction."""

    name: str
    bits: int
    written: tuple[int, ...]
    read: tuple[int, ...]
    memory: bool
    constant: bool
    #: with guards that hold for small integers, and not for numbers about one
    integer: bool = False
    #: with guards that may fail where it reads one register twice, such as the logarithm of x − x
    apart: bool = False
    #: the constants to draw from, where its tree has a meaning for some alone: those at which the guards hold for
    #: numbers about one
    constants: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shapes:
    """The data instructions of a table."""

    plain: tuple[Shape, ...]
    #: with guards: domains, overflow
    guarded: tuple[Shape, ...]
    #: with guards that the format, or an operand of moderate size, fails
    risky: tuple[Shape, ...]
    #: writing nothing, trapping where a register is not zero
    promises: tuple[Shape, ...]
    #: guarded, with an operand in memory
    untamed: tuple[Shape, ...]
    #: the ones of `plain` with a memory operand
    memory: tuple[Shape, ...]


def is_data(opcode: Opcode, table: Table) -> bool:
    """Neither a branch nor the start or end of a program, and not an erasure met either way."""
    if "br" in opcode.writes or "br" in opcode.reads or getattr(opcode.entry, "halts", None) is not None:
        return False
    return not opcode.erased_words and not table.inverse(opcode).erased_words


def shape_of(opcode: Opcode) -> Shape:
    """Operands by what happens to them."""
    # rd differs from all other registers, also where it is only read.
    changed = {REGISTER_FIELDS[p] for p in opcode.writes if p in REGISTER_FIELDS} | ({"rd"} & opcode.fields)
    fields = [kind for kind in opcode.operands if kind in _SHIFTS]
    return Shape(
        opcode.name,
        opcode.code << CODE_SHIFT,
        tuple(_SHIFTS[f] for f in fields if f in changed),
        tuple(_SHIFTS[f] for f in fields if f not in changed),
        "[ra+imm]" in opcode.operands,
        "imm" in opcode.operands,
    )


def _ones(w: Format) -> tuple[int, int]:
    """The least and the greatest of the tame words that stand for numbers about one: 1/2 to 4."""
    high = max(3, min(4 << w.frac, w.sign >> 5))
    return max(1, high >> 3), high


def _holds(opcode: Opcode, w: Format, words: tuple[int, int], constant: int = 1) -> bool:
    """Every guard holds, those of all modes too, for different operands from these words."""
    low, high = words
    for a, b in ((low, high), (high, low), (low, low + high >> 1)):
        state = {"d": low, "a": a, "b": b if a != b else high, "m": a, "imm": constant & w.mask, "br": 0}
        if isinstance(execute(opcode, state, w, ("always", "overflow")), str):
            return False
    return True


@cache
def shapes(table: Table, w: Format, allow: Callable[[Opcode], bool] | None = None) -> Shapes:
    """The data instructions of the table, sorted by what drawing one must mind."""
    kinds: dict[str, list[Shape]] = {
        "plain": [],
        "guarded": [],
        "risky": [],
        "untamed": [],
        "promises": [],
        "memory": [],
    }
    for opcode in table:
        if not is_data(opcode, table) or (allow is not None and not allow(opcode)):
            continue
        shape = shape_of(opcode)
        if any(guard != NOT_JUMPING for guard in opcode.guards(w)):
            shape = replace(shape, apart=len(shape.read) == 2)
        legal = opcode.constants(w)
        if legal is not None:
            held = tuple(c for c in legal if _holds(opcode, w, _ones(w), c))
            shape = replace(shape, constants=held or tuple(legal))
        if not opcode.writes:
            kinds["promises"].append(shape)
        elif any(guard != NOT_JUMPING for guard in opcode.guards(w)):
            if shape.memory:
                # Words of memory are not tame.
                kinds["untamed"].append(shape)
            elif _holds(opcode, w, _ones(w), shape.constants[0] if shape.constants else 1):
                kinds["guarded"].append(shape)
            elif _holds(opcode, w, (1, 3)):
                kinds["guarded"].append(replace(shape, integer=True))
            else:
                kinds["risky"].append(shape)
        else:
            kinds["plain"].append(shape)
            if shape.memory:
                kinds["memory"].append(shape)
    return Shapes(**{kind: tuple(found) for kind, found in kinds.items()})


@cache
def _names(table: Table) -> dict[str, int]:
    return {opcode.name: opcode.code << CODE_SHIFT for opcode in table}


@cache
def _conditions(table: Table) -> tuple[str, ...]:
    return tuple(o.name[5:] for o in table if o.name.startswith("goto.") and o.name[5:] in _COMPLEMENT)


@cache
def _inverses(table: Table) -> dict[int, tuple[int, bool]]:
    """opcode -> (opcode of the inverse, whether the constant changes sign)."""
    return {o.code: (table.inverse(o).code << CODE_SHIFT, o.negates_immediate) for o in table}


@cache
def _constants(w: Format) -> tuple[int, ...]:
    """Constants worth drawing, as the 32-bit field holds them, within the word and within 32 bits."""
    high = min(w.sign, 1 << 31)
    values = [0, 1, -1, 2, -2, 3, 5, 7, w.width - 1, w.width, w.width // 2, high - 1, -high, high // 2, -high + 1]
    values += [1 << k for k in range(min(w.width, 32) - 1)]
    return tuple(v & _M32 for v in values if -high <= v < high)


@dataclass
class _Procedure:
    entry: int
    #: data registers that it may write
    wild: int
    cost: int
    #: the register that bounds its recursion, and the steps by depth
    depth_register: int | None = None
    costs: list[int] = field(default_factory=list)


class _Writer:
    """Code under construction. Every method that emits returns the steps that it costs at most."""

    def __init__(self, rng: random.Random, table: Table, w: Format, kinds: Shapes) -> None:
        self.rng, self.r, self.w, self.kinds = rng, rng.random, w, kinds
        self.op = _names(table)
        self.table = table
        self.conditions = _conditions(table)
        self.constants = _constants(w)
        self.code: list[int] = []
        #: (address, is an uncall, procedure)
        self.calls: list[tuple[int, bool, int]] = []
        self.procedures: list[_Procedure] = []
        # An odd step visits every register once: cheap, and different in every program.
        first, step = int(self.r() * 256), 2 * int(self.r() * 128) + 1
        order = [(first + step * i) & 255 for i in range(256)]
        self.wild = order[:8]
        self.calm = order[8:12]
        self.tame = order[12:15]
        self.integers = order[15:17]
        self.zero, self.address, self.stack, self.shared_link = order[17:21]
        self.free = order[:20:-1]
        self.readable = [*self.wild, *self.calm, *self.tame, *self.integers, self.zero]
        #: what may be written now: conditions in force freeze what they read
        self.wild_now, self.calm_now = self.wild, self.calm
        self.use_stack = self.r() < 0.5

    # ------------------------------------------------------------ straight line

    def constant(self) -> int:
        x = self.r()
        if x < 0.4:
            return self.constants[int(x * 2.5 * len(self.constants))]
        if x < 0.7:
            return int((x - 0.4) * 213) - 32 & _M32 if self.w.width > 4 else 1
        width = min(self.w.width, 32)
        return int((x - 0.7) * 3.3333 * (1 << width)) - (1 << width - 1) & _M32

    def draw(self, shape: Shape, writable: Sequence[int], readable: Sequence[int], base: int, offset: int) -> int:
        """An instruction of the shape: what it writes is named once."""
        r = self.r
        word = shape.bits
        used: tuple[int, ...] = ()
        for shift in shape.written:
            number = writable[int(r() * len(writable))]
            while number in used:
                number = writable[int(r() * len(writable))]
            used = *used, number
            word |= number << shift
        for shift in shape.read:
            number = readable[int(r() * len(readable))]
            while number in used:
                number = readable[int(r() * len(readable))]
            word |= number << shift
            if shape.apart and r() < 0.95:
                used = *used, number
        if shape.constants:
            word |= shape.constants[int(r() * len(shape.constants))] & _M32
        elif shape.constant:
            word |= self.constant()
        elif shape.memory:
            word |= base << RA_SHIFT | offset
        return word

    def data(self, count: int) -> int:
        """Straight-line instructions from the whole table."""
        r, kinds, out = self.r, self.kinds, self.code
        guarded, plain = kinds.guarded, kinds.plain
        share = len(guarded) / (len(guarded) + len(plain))
        for _ in range(count):
            offset = int(r() * DATA_WORDS)
            if r() < share:
                shape = guarded[int(r() * len(guarded))]
                x = r()
                tame = self.integers if shape.integer else self.tame
                readable = tame if x < 0.9 else self.calm + tame if x < 0.98 else self.readable
                if kinds.risky and r() < 0.01:
                    shape = kinds.risky[int(r() * len(kinds.risky))]
                if kinds.untamed and r() < 0.02:
                    shape = kinds.untamed[int(r() * len(kinds.untamed))]
                out.append(self.draw(shape, self.calm_now, readable, self.zero, offset))
            else:
                shape = plain[int(r() * len(plain))]
                out.append(self.draw(shape, self.wild_now, self.readable, self.zero, offset))
        return count

    def promise(self) -> int:
        """An ancilla freed, one of the registers that are zero here; or a comparison that holds of them."""
        shape = self.kinds.promises[int(self.r() * len(self.kinds.promises))]
        zeros = (self.zero, self.address)
        if shape.name in ("assert.ne", "assert.lt", "assert.ltu"):
            above = self.integers[int(self.r() * len(self.integers))]
            self.code.append(shape.bits | self.zero << _SHIFTS["ra"] | above << _SHIFTS["rb"])
            return 1
        self.code.append(self.draw(shape, zeros, zeros, self.zero, 0))
        return 1

    def traffic(self) -> int:
        """Memory through an address computed from data: masked, so that it is in range; uncomputed at the end."""
        r, op, out = self.r, self.op, self.code
        index = self.readable[int(r() * len(self.readable))]
        bias = int(r() * 100) if r() < 0.5 else 0
        mask = (7, 15, DATA_WORDS - 1)[int(r() * 3)]
        room = DATA_WORDS - 1 - mask
        masked = self.address << RD_SHIFT | index << RA_SHIFT | mask
        setting = self.address << RD_SHIFT | bias
        out.append(op["andi.add"] | masked)
        out.append(op["imm.add"] | setting)
        count = 1 + int(r() * 3)
        # The index is what uncomputes the address, so nothing here may write it.
        writable = [x for x in self.wild_now if x != index]
        for _ in range(count):
            offset = int(r() * (room + 1)) - bias
            if r() < 0.01:
                offset += DATA_WORDS + STACK_WORDS
            shape = self.kinds.memory[int(r() * len(self.kinds.memory))]
            out.append(self.draw(shape, writable, self.readable, self.address, offset & _M32))
        out.append(op["imm.sub"] | setting)
        out.append(op["andi.sub"] | masked)
        return count + 4

    # ------------------------------------------------------------ branches

    def branch(self, name: str, x: int = 0, y: int = 0) -> int:
        """Emit one end of a pair, its distance to be filled in; its address."""
        self.code.append(self.op[name] | x << RA_SHIFT | y << RB_SHIFT)
        return len(self.code) - 1

    def pair(self, source: int, target: int) -> None:
        self.code[source] |= target - source & _M32
        self.code[target] |= source - target & _M32

    def operands(self) -> tuple[int, int]:
        """Two registers to compare; equal ones and the zero register too."""
        r = self.r
        x = self.readable[int(r() * len(self.readable))]
        return (x, self.zero) if r() < 0.2 else (x, self.readable[int(r() * len(self.readable))])

    def freeze(self, *registers: int) -> tuple[list[int], list[int]] | None:
        """Take registers out of those that may be written; what to restore, or None where too few remain."""
        before = self.wild_now, self.calm_now
        wild = [x for x in before[0] if x not in registers]
        calm = [x for x in before[1] if x not in registers]
        if len(wild) < 4 or len(calm) < 3:
            return None
        self.wild_now, self.calm_now = wild, calm
        return before

    def decide(self, size: int, budget: int, depth: int) -> int:
        """if, with or without else, joined by the same condition or by a flag."""
        x, y = self.operands()
        before = self.freeze(x, y)
        if before is None:
            return self.data(size)
        r = self.r
        condition = self.conditions[int(r() * len(self.conditions))]
        other = _COMPLEMENT[condition]
        form = r()
        if form < 0.35:
            source = self.branch(f"goto.{condition}", x, y)
            cost = self.block(size, budget, depth + 1)
            self.pair(source, self.branch(f"from.{condition}", x, y))
            cost += 2
        elif form < 0.7 or other not in _FLAG:
            source = self.branch(f"goto.{condition}", x, y)
            cost = self.block(size // 2, budget, depth + 1)
            leave = self.branch("goto")
            self.pair(source, self.branch("from"))
            cost = max(cost, self.block(size - size // 2, budget, depth + 1)) + 4
            self.pair(leave, self.branch(f"from.{other}", x, y))
        else:
            # The path that falls through raises a flag; the comefrom asks for it, and a function takes it back.
            flag = self.free.pop()
            source = self.branch(f"goto.{condition}", x, y)
            cost = self.block(size // 2, budget, depth + 1)
            self.code.append(self.op["imm.add"] | flag << RD_SHIFT | 1)
            leave = self.branch("goto")
            self.pair(source, self.branch("from"))
            cost = max(cost, self.block(size - size // 2, budget, depth + 1)) + 6
            self.pair(leave, self.branch("from.ne", flag, self.zero))
            self.code.append(self.op[f"{_FLAG[other]}.sub"] | flag << RD_SHIFT | x << RA_SHIFT | y << RB_SHIFT)
        self.wild_now, self.calm_now = before
        return cost

    def loop(self, size: int, budget: int, depth: int) -> int:
        """A loop counted up or down, tested at the end or in the middle, the limit constant or from data."""
        r, op, out, zero = self.r, self.op, self.code, self.zero
        counter, limit = self.free.pop(), self.free.pop()
        most = 2 + int(r() * 6)
        source = self.readable[int(r() * len(self.readable))] if r() < 0.5 else None
        before = None if source is None else self.freeze(source)
        if before is None:
            source = None
        else:
            most = (2, 4, 8)[int(r() * 3)]
        setting = [op["imm.add"] | limit << RD_SHIFT | (most if source is None else 1)]
        if source is not None:
            setting.append(op["andi.add"] | limit << RD_SHIFT | source << RA_SHIFT | most - 1)
        out += setting
        # The instruction and its inverse differ in their update: `add` and `sub`.
        clearing = [self.inverse(word) for word in reversed(setting)]
        copy = counter << RD_SHIFT | limit << RA_SHIFT
        inside = max(4, budget // most - 6)
        form = r()
        if form < 0.35:
            entered = (("ne", counter, zero), ("ne", zero, counter), ("lt", zero, counter), ("ltu", zero, counter))
            again = (("ne", counter, limit), ("lt", counter, limit), ("ltu", counter, limit), ("ne", limit, counter))
            name, x, y = entered[int(r() * 4)]
            top = self.branch(f"from.{name}", x, y)
            cost = self.block(size, inside, depth + 1)
            out.append(op["imm.add"] | counter << RD_SHIFT | 1)
            name, x, y = again[int(r() * 4)]
            self.pair(top, self.branch(f"goto.{name}", x, y))
            out.append(op["mov.sub"] | copy)
        elif form < 0.65:
            out.append(op["mov.add"] | copy)
            top = self.branch("from.ne", counter, limit)
            out.append(op["imm.sub"] | counter << RD_SHIFT | 1)
            cost = self.block(size, inside, depth + 1)
            self.pair(top, self.branch("goto.ne", *((counter, zero) if r() < 0.5 else (zero, counter))))
        else:
            name = ("eq", "ge", "geu")[int(r() * 3)]
            top = self.branch("from.ne", counter, zero)
            cost = self.block(size // 2, inside, depth + 1)
            test = self.branch(f"goto.{name}", counter, limit)
            cost += self.block(size - size // 2, inside, depth + 1) + 2
            out.append(op["imm.add"] | counter << RD_SHIFT | 1)
            self.pair(top, self.branch("goto"))
            self.pair(test, self.branch("from"))
            out.append(op["mov.sub"] | copy)
            most += 1
        out += clearing
        if before is not None:
            self.wild_now, self.calm_now = before
        return (cost + 4) * most + 6

    def bits(self, size: int, budget: int, depth: int) -> int:
        """while (x >> c) != 0: a loop whose end is found by looking at data; c is uncounted by its inverse."""
        r, op, out, zero = self.r, self.op, self.code, self.zero
        source = self.readable[int(r() * len(self.readable))]
        before = self.freeze(source)
        if before is None:
            return self.data(size)
        value, counter, rest = self.free.pop(), self.free.pop(), self.free.pop()
        setting = op["andi.add"] | value << RD_SHIFT | source << RA_SHIFT | 31
        shifted = rest << RD_SHIFT | value << RA_SHIFT | counter << RB_SHIFT
        out.append(setting)

        def body(inner: Callable[[], int]) -> int:
            top = self.branch("from.ne", counter, zero)
            out.append(op["shr.add"] | shifted)
            test = self.branch("goto.eq", rest, zero)
            out.append(op["shr.sub"] | shifted)
            cost = inner()
            out.append(op["imm.add"] | counter << RD_SHIFT | 1)
            self.pair(top, self.branch("goto"))
            self.pair(test, self.branch("from"))
            return cost

        cost = body(lambda: self.block(size, max(4, budget // 6 - 8), depth + 1))
        begin = len(out)
        body(lambda: 0)
        out[begin:] = [self.inverse(word) for word in reversed(out[begin:])]
        out.append(self.inverse(setting))
        self.wild_now, self.calm_now = before
        return 6 * (cost + 14) + 10

    def inverse(self, word: int) -> int:
        """The inverse instruction, encoded."""
        code, negates = _inverses(self.table)[word >> CODE_SHIFT]
        operands = word & (1 << CODE_SHIFT) - 1
        return code | (operands & ~_M32 | -operands & _M32 if negates else operands)

    def jumps(self, size: int, budget: int, depth: int) -> int:
        """Two pieces in the wrong order, joined by unconditional jumps forward and backward."""
        first = self.branch("goto")
        second = self.branch("from")
        cost = self.block(size // 2, budget // 2, depth + 1)
        last = self.branch("goto")
        self.pair(first, self.branch("from"))
        cost += self.block(size - size // 2, budget // 2, depth + 1)
        self.pair(self.branch("goto"), second)
        self.pair(last, self.branch("from"))
        return cost + 6

    # ------------------------------------------------------------ subroutines

    def call(self, budget: int) -> int:
        """Call or uncall a procedure that writes nothing frozen; 0 where there is none that is cheap enough."""
        r, out = self.r, self.code
        if not self.procedures:
            return 0
        index = int(r() * len(self.procedures))
        procedure = self.procedures[index]
        if not all(x in self.wild_now for x in self.wild[: procedure.wild]) or self.calm_now is not self.calm:
            return 0
        deepest = procedure.depth_register
        depth, cost = 0, procedure.cost
        if deepest is not None:
            fits = [k for k, c in enumerate(procedure.costs) if c + 2 <= budget]
            if not fits:
                return 0
            depth = int(r() * len(fits))
            cost = procedure.costs[depth] + 2
            out.append(self.op["imm.add"] | deepest << RD_SHIFT | depth)
        if cost > budget:
            return 0
        self.emit_call(index)
        if deepest is not None:
            out.append(self.op["imm.sub"] | deepest << RD_SHIFT | depth)
        return cost

    def emit_call(self, index: int) -> None:
        backward = self.r() < 0.45
        self.calls.append((len(self.code), backward, index))
        self.code.append(self.op["uncall" if backward else "call"])

    def procedure(self, size: int, budget: int) -> None:
        """from bottom; [pop;] entry: swapbr link; neg link; [push;] body; goto top."""
        r, op, out = self.r, self.op, self.code
        recursive = r() < 0.4
        stacked = recursive or self.use_stack
        link = self.shared_link if self.use_stack else self.free.pop()
        index = len(self.procedures)
        wild = min(4 + index, len(self.wild))
        top = self.branch("from")
        moves = (op["imm.sub"] | self.stack << RD_SHIFT | 1, op["exch"] | link << RD_SHIFT | self.stack << RA_SHIFT)
        if stacked:
            out += moves
        entry = len(out)
        out += (op["swapbr"] | link << RD_SHIFT, op["neg"] | link << RD_SHIFT)
        if stacked:
            out += (moves[1], op["imm.add"] | self.stack << RD_SHIFT | 1)
        self.wild_now = self.wild[:wild]
        around = 12
        cost = self.block(size // 2 if recursive else size, budget, 1) + around
        procedure = _Procedure(entry, wild, cost)
        if recursive:
            deep = procedure.depth_register = self.free.pop()
            end = self.branch("goto.eq", deep, self.zero)
            out.append(op["imm.sub"] | deep << RD_SHIFT | 1)
            times = 1 + int(r() * 2)
            between = 0
            for _ in range(times):
                self.emit_call(index)
                between += self.data(int(r() * 3))
            out.append(op["imm.add"] | deep << RD_SHIFT | 1)
            self.pair(end, self.branch("from.eq", deep, self.zero))
            cost += self.block(size - size // 2, budget, 1) + 4
            procedure.costs = [cost]
            for _ in range(4):
                procedure.costs.append(cost + between + times * procedure.costs[-1])
        self.pair(top, self.branch("goto"))
        self.wild_now = self.wild
        self.procedures.append(procedure)

    # ------------------------------------------------------------ everything

    def block(self, size: int, budget: int, depth: int) -> int:
        """About `size` instructions that take about `budget` steps at most."""
        r, out = self.r, self.code
        end = len(out) + size
        cost = 0
        while (left := end - len(out)) > 0:
            room = budget - cost
            x = r()
            if depth > 3 or left < 5 or x < 0.24 or room < 40:
                cost += self.data(min(left, 1 + int(r() * 6)))
            elif x < 0.34:
                cost += self.traffic()
            elif x < 0.36:
                cost += self.promise() if self.kinds.promises else 0
            elif x < 0.56:
                cost += self.call(room)
            else:
                part = max(2, int(left * (0.3 + 0.5 * r())))
                if x < 0.7:
                    cost += self.decide(part, room, depth)
                elif x < 0.9:
                    cost += self.loop(part, room, depth)
                elif x < 0.95:
                    cost += self.bits(part, room, depth)
                else:
                    cost += self.jumps(part, room, depth)
        return cost

    def whole(self, size: int, budget: int) -> int:
        """Procedures on both sides of main; the most steps that a run takes."""
        r = self.r
        count = int(r() * 4)
        before = int(r() * (count + 1))
        for _ in range(before):
            self.procedure(3 + int(r() * size / 4), 20 + int(r() * budget / 6))
        main = len(self.code)
        self.code.append(self.op["start"])
        body = len(self.code)
        # Main calls the procedures below it too, so they are made first, and put after it.
        tail, calls = self.code[main:], len(self.calls)
        del self.code[main:]
        for _ in range(count - before):
            self.procedure(3 + int(r() * size / 4), 20 + int(r() * budget / 6))
        behind, behind_calls = self.code[main:], self.calls[calls:]
        del self.code[main:], self.calls[calls:]
        self.code += tail
        cost = self.block(size, budget, 0)
        self.code.append(self.op["finish"])
        moved = len(self.code) - main
        self.code += behind
        self.calls += [(at + moved, backward, index) for at, backward, index in behind_calls]
        for procedure in self.procedures[before:]:
            procedure.entry += moved
        for at, backward, index in self.calls:
            distance = self.procedures[index].entry - at
            self.code[at] |= (-distance if backward else distance) & _M32
        assert body == main + 1
        return cost + 2

    def word(self) -> int:
        """A word of any length, corners often."""
        w, x = self.w, self.r()
        if x < 0.3:
            return (0, 1, w.mask, w.sign, w.sign - 1, w.mask ^ 1, 2, w.sign + 1)[int(x / 0.3 * 8)]
        bits = self.rng.getrandbits(w.width)
        return bits if x < 0.6 else bits >> int((x - 0.6) * 2.4999 * w.width)

    def initial(self) -> dict[int, int]:
        """Words for the registers: any for wild, small and positive for tame, moderate for calm; sp above data."""
        r, w = self.r, self.w
        registers = {x: self.word() for x in self.wild}
        for x in self.calm:
            registers[x] = (self.word() >> 4 if r() < 0.97 else self.word()) & w.mask
        low, high = _ones(w)
        for x in self.tame:
            registers[x] = low + int(r() * (high - low))
        for x in self.integers:
            registers[x] = 1 + int(r() * 3)
        registers[self.stack] = DATA_WORDS
        return registers


def _pick(rng: random.Random, formats: Sequence[tuple[Format, int]]) -> Format:
    at = rng.random() * sum(weight for _, weight in formats)
    for w, weight in formats:
        at -= weight
        if at < 0:
            return w
    return formats[-1][0]


def generate(
    seed: int,
    *,
    table: Table = TABLE,
    formats: Sequence[tuple[Format, int]] = FORMATS,
    sizes: tuple[int, int] = SIZES,
    steps: tuple[int, int] = STEPS,
    allow: Callable[[Opcode], bool] | None = None,
) -> Case:
    """The program of this seed. `allow` leaves opcodes out of the straight-line instructions."""
    rng = random.Random(seed)
    w = _pick(rng, formats)
    size = rng.randint(*sizes)
    budget = rng.randint(*steps)
    kinds = shapes(table, w, allow)
    while True:
        writer = _Writer(rng, table, w, kinds)
        bound = writer.whole(size, budget)
        # BR is a word: a jump must not be longer than the words of the format can say.
        if len(writer.code) <= w.sign - 1:
            break
        size = size * 2 // 3
    registers = writer.initial()
    memory = [writer.word() for _ in range(DATA_WORDS)]
    # Part of the data comes with the program, and part is loaded.
    data = [writer.word() for _ in range(int(rng.random() * DATA_WORDS))]
    program = Program(writer.code, data, DATA_WORDS + STACK_WORDS, w, table=table)
    return Case(seed, program, registers, memory, bound)


#: words of memory, and registers, of a program of `hostile_addresses`
HOSTILE_WORDS, HOSTILE_REGISTERS = 6, 5


def hostile_addresses(seed: int, w: Format, rows: int) -> tuple[str, list[list[int]]]:
    """(a program as text, words for as many instances of it): addresses are words of memory, some of them out of range.

    Its arithmetic overflows, its loop goes round once to four times, and it halts unless it traps.
    """
    rng = random.Random(seed)
    size, registers = HOSTILE_WORDS, range(1, 1 + HOSTILE_REGISTERS)

    def place(written: int = 0) -> str:
        base = rng.choice([r for r in (0, 1, 2) if not r or r != written])
        return f"[r{base} + {rng.randrange(2 if base else size)}]"

    def one() -> str:
        # Two registers are mostly addresses, the others are mostly data.
        a, b = rng.sample(registers if rng.random() < 0.1 else registers[2:], 2)
        kinds = ("exch", "ld.add", "ld.xor", "st.add", "st.xor", "fmul.add", "fmul.sub", "add", "sub", "xor", "assertz")
        kind = rng.choice(kinds)
        match kind.split(".")[0]:
            case "exch" | "ld":
                return f"{kind} r{a}, {place(a)}"
            case "st":
                return f"{kind} {place()}, r{a}"
            case "fmul":
                return f"{kind} r{a}, r{b}, r{b}"
            case "assertz":
                return f"assertz r{a}"
            case _:
                return f"{kind} r{a}, r{b}"

    load = [f"ld.add r{k}, [r0 + {k - 1}]" for k in registers]
    before, looped, after = ([one() for _ in range(rng.randint(1, 6))] for _ in range(3))
    loop = [
        f"add r8, {rng.randint(1, 4)}",
        "top: from.ne r9, r0, bottom",
        "add r9, 1",
        *looped,
        "bottom: goto.ne r9, r8, top",
    ]
    if rng.random() < 0.5:
        loop = looped
    lines = [f".format {w.width}, {w.frac}", f".memory {size}", ".text", "start", *load, *before, *loop, *after]
    lines += [f"st.xor [r0 + {k}], r{k + 1}" for k in range(HOSTILE_REGISTERS)]

    def word() -> int:
        x = rng.random()
        if x < 0.9:
            return rng.randrange(size)
        return rng.choice([size, size + 1, w.mask, w.sign, w.sign - 1, rng.getrandbits(w.width)])

    return "\n".join([*lines, "finish"]), [[word() for _ in range(size)] for _ in range(rows)]
