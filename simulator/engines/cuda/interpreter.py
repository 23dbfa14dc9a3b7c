"""An interpreter as source for numba-cuda: fetch, decode by a binary tree of comparisons, execute. Compiled once, it runs every program.

Each handler is computed from the expression trees of an opcode (`numba_source.py`). A handler evaluates all guards before it writes, and the
loop ends where one fails. A trap therefore leaves the instance before the instruction at fault, as the reference machine does,
which raises the trap.

    interpret(code, memory, t, stride, n, limit, modes) -> (why, steps, lost, cycles)          an instance of a batch, registers begin as zeros
    resume(code, registers, memory, cotangents, memory_cotangents, control, executed, t, stride, n, modes)         a whole machine

Word a of an instance, or of a machine, lies at `memory[a · stride + t]`, so neighbouring threads read neighbouring words. Branches and
instructions of programs are data, so nothing in the code of a program can make a thread read or write outside its words.

A decoded instruction is a row of two int64s, `handler | rd << 8 | ra << 16 | rb << 24 | imm << 32` and its cycles. The rows are those of the code as it
runs forward, a sentinel, those of the code as it runs backward, a sentinel, and a header: (first row, number of registers).
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from enum import IntEnum, IntFlag
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.derivatives import NoDerivative, lift
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import REGISTER_FIELDS, Mode, Opcode, bar, opcodes_of
from retrograd.isa.expr import Expr, nodes
from retrograd.isa.folds import is_truth
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.layout import ARRAY, ARRAYS_HEAD, EXACT
from retrograd.simulator.engines.batch.loops import REFUSED
from retrograd.simulator.engines.cuda.kernels import Mark
from retrograd.simulator.engines.cuda.numba_source import NumbaSource, Tables, arithmetic_source
from retrograd.simulator.engines.cuda.runtime import compiled_by_numba, memory_access, numba_cuda, simulated
from retrograd.simulator.engines.llvm.instructions import Step, step
from retrograd.simulator.engines.llvm.jit import answer, background, jit_compiler, package_digest
from retrograd.simulator.machine import REGISTERS

#: handlers of rows that are no instructions
HALT, SENTINEL, FIRST_HANDLER = 0, 1, 2
#: numbers of handlers: a row has eight bits for them
HANDLERS = 256
#: rows behind those of the instructions: two sentinels and the header
EXTRA_ROWS = 3
#: words behind the registers: words lost, cycles. Few instances change them, so they take no register of the device.
_LOST, _CYCLES, _LOCAL = REGISTERS, REGISTERS + 1, REGISTERS + 2
#: nodes of a tree from which on an opcode is a function of its own
OUT_OF_LINE = 24


class Modes(IntFlag):
    """The guards that count, and whether cycles are counted."""

    #: all guards except those of OVERFLOW and STRICT; without it, only addresses and conditions of branches
    CHECKS = 1
    OVERFLOW = 2
    #: the cycles of an instance of a batch are added up
    CYCLES = 4
    STRICT = 8
    #: dropped cotangents are kept: left to the reference machine
    KEEP = 16


class End(IntEnum):
    """Why the loop ended."""

    HALTED = 0
    #: the reference machine has to execute the instruction at PC, or to raise its trap
    REFUSED = 1
    LIMIT = 2
    #: the jump from PC leads out of the code
    ASTRAY = 3


class Control(IntEnum):
    """Words of `control` for a machine: control[slot · stride + t]."""

    #: a row of the code
    ROW = 0
    BR = 1
    LEFT = 2
    WHY = 3
    #: +1, or −1 after `Machine.turn`
    WAY = 4
    CROSSED = 5
    LOST_POINT = 6
    #: 0 where nothing is lost
    LOST_WAY = 7
    DROPPED = 8


#: the account of dropped cotangents: variable -> slot
_ACCOUNT = {
    "way": Control.WAY, "crossed": Control.CROSSED, "lost_point": Control.LOST_POINT, "lost_way": Control.LOST_WAY, "dropped": Control.DROPPED,
}  # fmt: skip

#: (opcode, whether ra and rb are one register)
Case = tuple[Opcode, bool]
#: the opcodes of an interpreter: those of a table, with or without the user's own
Opcodes = tuple[Opcode, ...]


def all_opcodes(table: Table = TABLE) -> Opcodes:
    """The opcodes of a table, without instructions that `rg.instruction` has added."""
    return tuple(o for o in table if o.entry not in table.own)


def opcodes_for(program: Program) -> Opcodes:
    """The opcodes of the interpreter that runs a program: with the user's own instructions only if the program has one of them.

    Other programs therefore use one interpreter, which stays compiled when an instruction is added.
    """
    table = program.table
    own = set(table.own)
    if own and any(i.opcode.entry in own for i in program.instructions):
        return tuple(table)
    return all_opcodes(table)


@cache
def cases(differentiating: bool, opcodes: Opcodes) -> tuple[Case, ...]:
    """The handlers in the order of their numbers: branches come last. With cotangents, an opcode that reads one register twice has a handler of its own.

    Raises ValueError if there are more handlers than a row can number.
    """
    found = [(o, False) for o in opcodes if not o.halts]
    if differentiating:
        found += [(o, True) for o in opcodes if may_be_same(o)]
    if FIRST_HANDLER + len(found) > HANDLERS:
        raise ValueError(f"{len(found)} handlers: a row has numbers for {HANDLERS - FIRST_HANDLER}")
    found.sort(key=lambda case: "br" in case[0].writes)
    return tuple(found)


def may_be_same(opcode: Opcode) -> bool:
    """Whether ra and rb may name one register, whose cotangent then gets both contributions."""
    if not {"ra", "rb"} <= opcode.fields or any({"ra", "rb"} == set(pair) for pair in opcode.distinct):
        return False
    try:
        return bool(lift(opcode, Format()))
    except NoDerivative:
        return False


# ---------------------------------------------------------------- decoded programs


def decoded(
    program: Program,
    *,
    backward: bool = False,
    cycles: bool = False,
    core: str = "small",
    differentiating: bool = False,
    renumbered: bool = True,
) -> NDArray[np.int64]:
    """The rows of a program. `cycles`: the second number of a row is the instruction's cycles, those of a core.

    `renumbered`: registers are numbered from 0 in the order of their first use, so that an instance of a batch clears only the registers it has.
    """
    w, table = program.format, program.table
    handlers = cases(differentiating, opcodes_for(program))
    numbers = {case: FIRST_HANDLER + k for k, case in enumerate(handlers)}
    forward = list(program.instructions)
    count = len(forward)
    out = np.zeros((2 * count + EXTRA_ROWS, 2), dtype=np.int64)
    out[:, 0] = SENTINEL
    registers: dict[int, int] = {}

    def number(register: int) -> int:
        return registers.setdefault(register, len(registers)) if renumbered else register

    def row(code: Sequence[Instruction], at: int) -> tuple[int, int]:
        i = code[at]
        same = differentiating and i.ra == i.rb and may_be_same(i.opcode)
        handler = HALT if i.opcode.halts else numbers[i.opcode, same]
        named = [number(getattr(i, f)) if f in i.opcode.fields else 0 for f in ("rd", "ra", "rb")]
        packed = handler | named[0] << 8 | named[1] << 16 | named[2] << 24 | w.signed(i.imm) << 32
        return packed, _cycles(code, at, w, differentiating, core) if cycles and not i.opcode.halts else 0

    for first, code in ((0, forward), (count + 1, [inverse(i, table) for i in reversed(forward)])):
        for at in range(count):
            out[first + at] = row(code, at)
    out[-1] = row_of(count, program.finish if backward else program.start, -1 if backward else 1), len(registers) or 1
    return out


def row_of(count: int, pc: int, direction: int) -> int:
    """The row of the instruction at PC, of a program of `count` instructions, as it runs in a direction."""
    return pc if direction > 0 else 2 * count - pc


def _cycles(code: Sequence[Instruction], at: int, w: Format, differentiating: bool, core: str) -> int:
    # Imported here: the schedule is computed only where cycles are counted.
    from retrograd.isa.microarchitecture.micro_operations import core_units
    from retrograd.isa.microarchitecture.schedule import addressing, cycles

    i, fact = code[at], addressing(code, at, at + 1)
    return cycles(i.opcode, w, differentiating, i.ra == i.rb, core_units(core), fact)


# ---------------------------------------------------------------- handlers


class Handlers:
    """The handlers of a format as lines, and the functions that they call."""

    def __init__(self, w: Format, differentiating: bool, local: bool) -> None:
        self.w, self.differentiating, self.local = w, differentiating, local
        self.tables = Tables(w)
        #: where words lost are counted, and how the loop goes on behind an instruction that is no branch
        self.lost, self.advance = f"R[{_LOST}]" if local else "", ["pc += 1"]
        self.functions: dict[str, str] = {}
        #: place -> its word, as source
        register = "R[U({})]" if local else "registers[U({} * stride + t)]"
        shadow = "cotangents[U({} * stride + t)]"
        self.places = {p: register.format(field) for p, field in REGISTER_FIELDS.items()} | {"m": "memory[position]"}
        self.places |= {bar(p): shadow.format(field) for p, field in REGISTER_FIELDS.items()}
        self.places[bar("m")] = "memory_cotangents[position]"

    def lines(self, case: Case) -> list[str]:
        """The handler: it breaks out of the loop with `why`, or leaves the next row in `pc`."""
        found = step(case[0], self.w, self.differentiating, case[1])
        if found.unerases:
            return ["why = 1", "break"]
        branch = "br" in found.opcode.writes
        code = NumbaSource(self.w, self._words(found), self.tables, prefix=f"h{case[0].code}_")
        code.lines += self._operands(found)
        after, failing = self._evaluated(case, found, code)
        lines = code.lines
        if branch:
            hard = [failing.pop("always")] if "always" in failing else []
        else:
            hard = []
        soft = {"always": "checks", "overflow": "overflow", "strict": "strict"}
        hard += [f"({soft[mode]} & ({text}))" for mode, text in failing.items()]
        if hard:
            lines += [f"if {' | '.join(hard)}:", " why = 1", " break"]
        lines += self._dropped(found)
        lines += [f"{self.places[place]} = {text}" for place, text in after.items() if place != "br"]
        lines += [f"{self.places[place]} = 0" for place in found.drops]
        if found.erases and self.lost:
            lines.append(f"{self.lost} += {len(found.erases)}")
        return [*lines, *(self.jump(found, after["br"]) if branch else self.advance)]

    @property
    def counted(self) -> list[str]:
        """Lines that count an instruction that has executed."""
        return ["left -= 1"] if self.local else ["left -= 1", "executed[U(at * stride + t)] += 1"]

    def _words(self, found: Step) -> dict[str, str]:
        """place -> the variable that holds its word."""
        return {p: f"x_{p}" if not p.endswith(bar("")) else f"c_{p[0]}" for p in self.places} | {
            "imm": "imm",
            "br": "br",
        }

    def _operands(self, found: Step) -> list[str]:
        """Load the words that the instruction reads, after a test of its address."""
        lines, w = [], self.w
        if found.memory:
            sum_ = f"{self.places['a']} + imm"
            lines.append(f"address = {sum_}" if w.width == 64 else f"address = ({sum_}) & {w.mask}")
            lines += ["if (address ^ MIN) >= (n ^ MIN):", " why = 1", " break", "position = U(address * stride + t)"]
        words = self._words(found)
        read = found.reads | ({"d"} if found.erases else set())
        return [*lines, *(f"{words[p]} = {self.places[p]}" for p in self.places if p in read)]

    def _evaluated(self, case: Case, found: Step, code: NumbaSource) -> tuple[dict[str, str], dict[Mode, str]]:
        """(place -> its word after the instruction, mode -> whether one of its guards fails), as source."""
        places = self._words(found)
        shared = _shared_by_entry(case, self.w, self.differentiating)
        if shared:
            name = f"value_{_identifier(case)[0]}"
            truths = [node for node in shared if is_truth(node)]
            results = self._function(name, shared, code, places)
            code.give(
                {node: text for node, text in zip(shared, results, strict=True) if node not in truths},
                {node: text for node, text in zip(shared, results, strict=True) if node in truths},
            )
        failing: dict[Mode, str] = {}
        for mode, guards in found.guards.items():
            if guards:
                failing[mode] = "not (" + " & ".join(code.truth(guard) for guard in guards) + ")"
        return {place: code.word(tree) for place, tree in found.after.items()}, failing

    def _function(self, name: str, roots: Sequence[Expr], code: NumbaSource, places: dict[str, str]) -> list[str]:
        """Call the function of these trees, which is defined once; returns the variables of its results."""
        given = sorted(frozenset().union(*(root.inputs for root in roots)))
        if name not in self.functions:
            inner = NumbaSource(self.w, places, self.tables)
            results = [inner.truth(root) if is_truth(root) else inner.word(root) for root in roots]
            body = "".join(f"    {line}\n" for line in inner.lines)
            head = f"@device\ndef {name}({', '.join(places[p] for p in given)}):\n"
            self.functions[name] = f"{head}{body}    return {', '.join(results)}\n\n"
        names = [code.fresh() for _ in roots]
        code.lines.append(f"{', '.join(names)} = {name}({', '.join(places[p] for p in given)})")
        return names

    def jump(self, found: Step, jump: str) -> list[str]:
        """Follow a branch that leaves BR = `jump`."""
        return [
            *(["pc = mirror - pc"] if found.opcode.turns else []),
            f"br = S({jump})",
            "if br == 0:",
            " pc += 1",
            "else:",
            " side = 0 if pc <= count else count + 1",
            " target = pc + br",
            # Unsigned, so that a sum that wraps is outside as well.
            " if ((target - side) ^ MIN) >= (count ^ MIN):",
            *(f"  {line}" for line in self.counted),
            f"  why = {End.ASTRAY:d}",
            "  break",
            " pc = target",
        ]

    def _dropped(self, found: Step) -> list[str]:
        """`Cotangents.drop`: the account of the cotangent of a freed ancilla."""
        lines: list[str] = []
        for place in found.drops:
            word = self._words(found)[place]
            lines += [
                "point = crossed if way > 0 else crossed - 1",
                f"if keep | ((lost_point == point) & (lost_way == -way)) | (strict & ({word} != 0)):",
                " why = 1",
                " break",
                "crossed += way",
                f"if {word} != 0:",
                " dropped += 1",
                " lost_point = point",
                " lost_way = way",
            ]
        return lines


def _identifier(case: Case) -> tuple[str, str]:
    entry = case[0].entry.name.replace(".", "_") + "_same" * case[1]
    return entry, case[0].name.replace(".", "_") + "_same" * case[1]


@cache
def _shared_by_entry(case: Case, w: Format, differentiating: bool) -> tuple[Expr, ...]:
    """The trees over unwritten operands that the opcodes of an entry share: d += f(a, b), d −= f(a, b) and d ^= f(a, b) share f(a, b).

    Empty where they are small.
    """
    pure = {"a", "b", "m", "imm"}
    inside: set[Expr] = set()
    wanted: dict[Expr, None] = {}
    for opcode in opcodes_of(case[0].entry):
        found = step(opcode, w, differentiating, case[1])
        every = tuple(nodes(*found.roots))
        inside |= {node for node in every if node.inputs and node.inputs <= pure and node.args}
        outer = [node for node in every if node not in inside]
        wanted |= dict.fromkeys(arg for node in outer for arg in node.args if arg in inside)
        wanted |= dict.fromkeys(root for root in found.roots if root in inside)
    return tuple(wanted) if len(set(nodes(*wanted)) & inside) >= OUT_OF_LINE else ()


# ---------------------------------------------------------------- the loop


def _loop(handlers: Handlers, chosen: Sequence[tuple[int, Case]], indent: str) -> str:
    """The loop, as text: it ends with `why`, at row `pc`."""
    # Cycles are counted when an instruction is fetched, so that no register of the device has to keep its row.
    steps = [" if counting:", f"  R[{_CYCLES}] += code[U(pc), 1]"] if handlers.local else [" at = pc"]
    lines = [
        "while True:",
        " row = code[U(pc), 0]",
        " handler = row & 255",
        " if left <= 0:",
        f"  why = {End.HALTED:d} if (handler == {HALT}) & (br == 0) else {End.LIMIT:d}",
        "  break",
        " rd, ra, rb, imm = (row >> 8) & 255, (row >> 16) & 255, (row >> 24) & 255, row >> 32",
        *steps,
    ]

    def tree(cases: Sequence[tuple[int, Case]], depth: str) -> None:
        if len(cases) == 1:
            lines.extend(depth + line for line in handlers.lines(cases[0][1]))
            return
        middle = len(cases) // 2
        lines.append(f"{depth}if handler < {cases[middle][0]}:")
        tree(cases[:middle], depth + " ")
        lines.append(f"{depth}else:")
        tree(cases[middle:], depth + " ")

    branches = [found for found in chosen if "br" in found[1][0].writes]
    plain = [found for found in chosen if found not in branches]
    first = branches[0][0] if branches else HANDLERS
    lines += [f" if handler < {first}:", "  if br != 0:", f"   why = {End.REFUSED:d}", "   break"]
    lines += [
        f"  if handler < {FIRST_HANDLER}:",
        f"   why = {End.HALTED:d} if handler == {HALT} else {End.REFUSED:d}",
        "   break",
    ]
    if plain:
        tree(plain, "  ")
    if branches:
        lines.append(" else:")
        tree(branches, "  ")
    lines += [f" {line}" for line in handlers.counted]
    return "".join(f"{indent}{line}\n" for line in lines)


def _module(
    w: Format,
    local: bool,
    differentiating: bool,
    opcodes: Opcodes | None,
    only: Collection[str] | None,
    text: Callable[[str], str],
) -> str:
    handlers = Handlers(w, differentiating, local)
    numbered = list(enumerate(cases(differentiating, opcodes or all_opcodes()), FIRST_HANDLER))
    chosen = [found for found in numbered if only is None or found[1][0].name in only]
    body = text(_loop(handlers, chosen, "    "))
    return f"{arithmetic_source('@device')}\n{handlers.tables.source()}\n{''.join(handlers.functions.values())}{body}"


#: which guards count, as a prologue
GUARDS = f"""
    checks = (modes & {Modes.CHECKS:d}) != 0
    overflow = (modes & {Modes.OVERFLOW:d}) != 0
    strict = (modes & {Modes.STRICT:d}) != 0
    why = 0
"""
_BEGIN = f"""
    last = code.shape[0] - 1
    count = S((last - 2) // 2)
    mirror = 2 * count{GUARDS}"""


def interpreter_source(w: Format, opcodes: Opcodes | None = None, *, only: Collection[str] | None = None) -> str:
    """The module of `interpret`; `device` and `cuda` must be defined in front of it. `opcodes`: those of `opcodes_for`, by default `all_opcodes()`.

    `only`: names of the opcodes that have handlers (default: all). Trap: a program with another opcode is undefined.
    """

    def text(loop: str) -> str:
        return f"""@device
def interpret(code, memory, t, stride, n, limit, modes):{_BEGIN}
    R = cuda.local.array({_LOCAL}, np.int64)
    R[{_LOST}] = R[{_CYCLES}] = 0
    for k in range(code[U(last), 1]):
        R[U(k)] = 0
    pc = code[U(last), 0]
    left = S(limit)
    br = S(0)
    counting = (modes & {Modes.CYCLES:d}) != 0
{loop}    if counting & (why == {End.REFUSED:d}):
        R[{_CYCLES}] -= code[U(pc), 1]
    return why, limit - left, R[{_LOST}], R[{_CYCLES}]
"""

    return _module(w, True, False, opcodes, only, text)


def machine_source(w: Format, differentiating: bool, opcodes: Opcodes | None = None) -> str:
    """The module of `resume`, which runs a machine on from its state, for at most control[LEFT] steps. D is fixed.

    `executed` has a number for each row. Arrays of cotangents are not read without D.
    """

    def text(loop: str) -> str:
        account = "".join(f"    {name} = control[U({slot:d} * stride + t)]\n" for name, slot in _ACCOUNT.items())
        kept = "".join(f"    control[U({slot:d} * stride + t)] = {name}\n" for name, slot in _ACCOUNT.items())
        state = {"pc": Control.ROW, "br": Control.BR, "left": Control.LEFT}
        given = "".join(f"    {name} = control[U({slot:d} * stride + t)]\n" for name, slot in state.items())
        back = "".join(
            f"    control[U({slot:d} * stride + t)] = {name}\n" for name, slot in (state | {"why": Control.WHY}).items()
        )
        return f"""@device
def resume(code, registers, memory, cotangents, memory_cotangents, control, executed, t, stride, n, modes):{_BEGIN}
    keep = (modes & {Modes.KEEP:d}) != 0
{given}{account}{loop}{back}{kept}"""

    return _module(w, False, differentiating, opcodes, None, text)


# -----------------------------------------------------------------------------
# Interpreter kernel: the batch loop around `interpreter.interpret`, as a kernel of numba.cuda. It runs every program of a format.
#
#     kernel(arrays, count, shared, n, memory, stride, limit, status, sums, marks, code, length, modes)
#
# The first ten parameters and the effect are those of `kernels.emit_kernel_loop`, except that words of memory are
# int64s;
# `code` has the decoded program. A device compiles the kernel once for each format, and once more for programs with instructions of the user's own.
# The CUDA simulator runs the same source.
#
# Summed words of a block are added in shared memory, halving the number of threads that add, and one thread of a block adds the
# total to global memory. Sums are those of integers, so neither the size of blocks nor their order changes them.

#: the most threads in a block of a CUDA device
MOST_THREADS = 1024
#: words of the kernel's name in PTX
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")

_KERNEL = """
@device
def nearest(x):
    size = abs(x)
    if size < 4503599627370496.0:
        size = (size + 4503599627370496.0) - 4503599627370496.0
    return size if x >= 0.0 else -size


def batch(arrays, count, shared, n, memory, stride, limit, status, sums, marks, code, length, modes):
    columns, shared, memory = view(arrays, 1), view(shared, 1), view(memory, 1)
    status, sums, marks, code = view(status, 1), view(sums, 1), view(marks, 1), view(code, (length, 2))
    lower = cuda.shared.array({threads}, np.int64)
    upper = cuda.shared.array({threads}, np.int64)
    thread = cuda.threadIdx.x
    t = cuda.grid(1)
    i = t
    # All threads of a block go on as long as one of them has an instance, because they add up together. The table is read where it is
    # needed, so that what it holds takes no registers while an instance runs.
    while i - thread < count:
        good = False
        if i < count:
            fits = True
            for k in range(columns[0]):
                c = {head} + {array} * k
                source = columns[c + 2] + i * columns[c + 3]
                wide = columns[c + 6] == 8
                for a in range(columns[c], columns[c] + columns[c + 1]):
                    word = S(0)
                    if columns[c + 5] == 0:
                        word = load_word(source) if wide else S(load_narrow(source))
                    else:
                        scaled = (load_real(source) if wide else np.float64(load_float(source))) * {scale}
                        inside = False
                        if scaled >= -9223372036854775808.0 and scaled < 9223372036854775808.0:
                            rounded = nearest(scaled)
                            if rounded >= {low} and rounded < {high}:
                                inside = True
                                word = S(rounded)
                            if abs(rounded - scaled) * {few} > abs(scaled):
                                marks[{lossy}] = 1
                        fits = fits and inside
                    memory[a * stride + t] = (word << {shift}) >> {shift}
                    source += columns[c + 4]
            if fits:
                at = {head} + {array} * columns[0]
                for k in range(columns[1]):
                    first = columns[at + 2 * k]
                    for a in range(first, first + columns[at + 2 * k + 1]):
                        memory[a * stride + t] = (np.int64(shared[a]) << {shift}) >> {shift}
                why, steps, lost, cycles = interpret(code, memory, t, stride, n, limit, modes)
                if columns[4] != 0:
                    store_word(columns[4] + 8 * i, S(steps))
                if columns[5] != 0:
                    store_word(columns[5] + 8 * i, S(lost))
                if columns[6] != 0:
                    store_word(columns[6] + 8 * i, S(cycles))
                good = why == 0
                status[i] = 0 if good else 1
            else:
                status[i] = {refused}
                marks[{marked_refused}] = 1
            if good:
                at = {head} + {array} * columns[0] + 2 * columns[1]
                for k in range(columns[2]):
                    c = at + {array} * k
                    words, reals = columns[c + 2] + i * columns[c + 3], columns[c + 4] + i * columns[c + 1] * 8
                    for a in range(columns[c], columns[c] + columns[c + 1]):
                        word = memory[a * stride + t]
                        if columns[c + 2] != 0:
                            if columns[c + 6] == 8:
                                store_word(words, word{mask})
                            else:
                                store_narrow(words, narrow(word{mask}))
                            words += columns[c + 6]
                        if columns[c + 4] != 0:
                            # The factor is a power of two, whose exponent its bits have.
                            store_real(reals, np.float64(math.ldexp(np.float64(word), int((columns[c + 5] >> 52) - 1023))))
                            reals += 8
                            if word > {exact} or word < -{exact}:
                                marks[{large} + k] = 1
            else:
                marks[{marked_failed}] = 1
        c = 0
        at = {head} + {array} * (columns[0] + columns[2]) + 2 * columns[1]
        for k in range(columns[3]):
            first = columns[at + 2 * k]
            for a in range(first, first + columns[at + 2 * k + 1]):
                lower[thread] = memory[a * stride + t] & 0xFFFFFFFF if good else 0
                upper[thread] = memory[a * stride + t] >> 32 if good else 0
                half = {threads} // 2
                while half > 0:
                    cuda.syncthreads()
                    if thread < half and thread + half < cuda.blockDim.x:
                        lower[thread] += lower[thread + half]
                        upper[thread] += upper[thread + half]
                    half //= 2
                if thread == 0:
                    cuda.atomic.add(sums, 2 * c, lower[0])
                    cuda.atomic.add(sums, 2 * c + 1, upper[0])
                cuda.syncthreads()
                c += 1
        i += stride
"""


def kernel_source(w: Format, opcodes: Opcodes) -> str:
    """The module of the kernel, for a format.

    `view` makes an array of a pointer; `device`, `cuda` and functions of memory are defined in front of it.
    """
    width = max(8, w.width)
    mask = "" if w.width == width else f" & {w.mask}"
    loop = _KERNEL.format(
        threads=MOST_THREADS, head=ARRAYS_HEAD, array=ARRAY, shift=64 - w.width, mask=mask, scale=repr(2.0**w.frac),
        low=-float(w.sign), high=float(w.sign), few=float(w.few), exact=1 << EXACT, refused=REFUSED, lossy=int(Mark.LOSSY),
        large=int(Mark.LARGE), marked_failed=int(Mark.FAILED), marked_refused=int(Mark.REFUSED),
    )  # fmt: skip
    return interpreter_source(w, opcodes) + loop


def _defined(text: str, width: int, view: Callable[..., Any]) -> Any:
    """The kernel of a module as a Python function."""
    cuda = numba_cuda()
    name = f"<interpreter {sha256(text.encode()).hexdigest()[:12]}>"
    # Numba reads the text of a function from its file.
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    narrow = DTYPES[width]
    scope: dict[str, Any] = {"cuda": cuda, "device": cuda.jit(device=True), "view": view, "__name__": __name__}
    scope |= memory_access(word=np.int64, narrow=narrow, real=np.float64, float=np.float32) | {"narrow": narrow}
    exec(compile(text, name, "exec"), scope)
    return scope["batch"]


@cache
def simulated_kernel(w: Format, opcodes: Opcodes) -> Any:
    """The kernel for the CUDA simulator, which is given arrays."""
    return numba_cuda().jit(_defined(kernel_source(w, opcodes), w.width, lambda array, shape: array))


def _key(w: Format, target: str, opcodes: Opcodes) -> str:
    known = opcodes == all_opcodes()
    sources = package_digest() if known else kernel_source(w, opcodes)
    return f"interpreter kernel {sources} {w} {target}"


def is_compiled(w: Format, target: str, opcodes: Opcodes) -> bool:
    """Whether the kernel for an architecture is kept on disk; otherwise it takes about a minute to compile."""
    return simulated() or jit_compiler().has(_key(w, target, opcodes), 0)


def _compiled(text: str, width: int, target: str) -> str:
    """PTX of the kernel of a module."""
    word, many, number = DTYPES[width], np.int64, None
    parameters = [many, number, word, number, many, number, number, np.uint8, many, many, many, number, number]
    return compiled_by_numba(lambda view: _defined(text, width, view), parameters, target)


def interpreter_ptx(w: Format, target: str, opcodes: Opcodes) -> tuple[str, str]:
    """(PTX, name of the kernel in it) for an architecture. It is compiled once, then kept on disk. Needs no device."""
    text = jit_compiler().kept(_key(w, target, opcodes), lambda: _compiled(kernel_source(w, opcodes), w.width, target))
    found = _ENTRY.search(text)
    if found is None:
        raise AssertionError("the PTX of the interpreter has no kernel")
    return text, found[1]


_begun: set[tuple[Format, str, Opcodes]] = set()


def begin_interpreter(w: Format, target: str, opcodes: Opcodes) -> None:
    """Compile the kernel in another process, at low priority, and keep it on disk for batches from then on. Later calls do nothing."""
    if (w, target, opcodes) in _begun:
        return
    _begun.add((w, target, opcodes))
    key = _key(w, target, opcodes)
    program = f"from {__name__} import serve; serve({w.width}, {target!r})"
    future = background("interpreter").run(lambda: kernel_source(w, opcodes), program)

    def keep(found: Future[bytes]) -> None:
        # A kernel that cannot be compiled is left out: batches stay with their translations.
        if not found.cancelled() and found.exception() is None:
            jit_compiler().kept(key, found.result().decode)

    future.add_done_callback(keep)


def serve(width: int, target: str) -> None:
    """The program of the other process: a module from stdin, its PTX to stdout."""
    answer(lambda text: _compiled(text, width, target).encode())
