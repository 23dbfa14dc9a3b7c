"""Instructions as trees, ready for code: guards and changed words, with cotangents if D = 1."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

from retrograd.isa import points
from retrograd.isa.derivatives import NOTHING, cotangent_step
from retrograd.isa.effects import Erase, Unerase, Update
from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import NOT_JUMPING, Entry, Function, Mode, Opcode
from retrograd.isa.expr import Expr, evaluate, inputs, nodes, place
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import ModuleBuilder

#: registers named by the fields of an instruction
REGISTERS = ("d", "a", "b")
MODES: tuple[Mode, ...] = ("always", "overflow", "strict")
#: operations of updates; the input that stands for what an update adds
OPERATIONS, VALUE = ("add", "sub", "xor"), "value"


@dataclass(frozen=True, eq=False)
class Step:
    """`after`: place -> its word after the instruction, as trees over the words before; `guards[mode]` must all hold.

    For a branch the words include BR. The guard that only a branch ends a jump is left out: control flow implies it.
    """

    opcode: Opcode
    format: Format
    differentiating: bool
    #: ra and rb are one register
    same: bool
    after: dict[str, Expr]
    guards: dict[Mode, tuple[Expr, ...]]
    #: cotangents that are dropped, and must be counted
    drops: tuple[str, ...]
    #: places whose words are lost
    erases: tuple[str, ...]
    #: places whose lost words would have to come back
    unerases: tuple[str, ...]

    @cached_property
    def roots(self) -> tuple[Expr, ...]:
        return (*self.after.values(), *(tree for trees in self.guards.values() for tree in trees))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The places and cotangents that the trees read, dropped and erased ones included."""
        return inputs(*self.roots) | set(self.drops) | set(self.erases)

    @cached_property
    def operands(self) -> list[str]:
        """The registers, memory words and cotangents that are read, in order."""
        return sorted(self.reads - {"imm", "br"})

    @cached_property
    def memory(self) -> bool:
        """Whether it has an address."""
        return "m" in self.opcode.reads or "m" in self.opcode.writes

    @cached_property
    def size(self) -> int:
        """Nodes of its trees, leaves not counted."""
        return sum(node.op not in ("const", "input") for node in nodes(*self.roots))

    @cached_property
    def update(self) -> Update | None:
        """d ⊕= value, where that is all of the step, and the value does not read d; `value` is its tree here."""
        if len(self.after) == 1:
            [(target, tree)] = self.after.items()
            if tree.op in OPERATIONS and tree.args[0] is place(target) and target not in tree.args[1].inputs:
                return Update(target, tree.op, tree.args[1])
        return None

    def around(self, tree: Expr) -> Expr:
        """The tree, over the input VALUE in place of the value of the update."""
        update = self.update
        assert update is not None
        done: dict[Expr, Expr] = {}
        for node in nodes(tree):
            args = tuple(done[arg] for arg in node.args)
            done[node] = place(VALUE) if node is update.value else Expr(node.op, args, node.param) if args else node
        return done[tree]


@cache
def step(
    opcode: Opcode,
    w: Format,
    differentiating: bool,
    same: bool,
    shift: int | None = None,
    case: tuple[bool, ...] = (),
) -> Step:
    """The opcode's step; `same`: ra and rb are one register, which matters to their cotangent.

    `shift`: its constant, if that is a known shift; `case`: which conditions on the constant hold, if only this is known.
    """
    companions = cotangent_step(opcode, w, same) if differentiating else NOTHING
    guards: dict[Mode, tuple[Expr, ...]] = dict.fromkeys(MODES, ())
    for guard in opcode.guards(w):
        if guard != NOT_JUMPING or "br" in opcode.writes:
            guards[guard.mode] += (opcode.guard_predicate(guard, w),)
    for guard in companions.guards:
        guards[guard.mode] += (guard.predicate,)
    effects = opcode.effects(w)
    after = opcode.transition(w) | companions.after
    if shift is not None:
        after = {name: points.at(tree, shift, w) for name, tree in after.items()}
        guards = {mode: tuple(points.at(tree, shift, w) for tree in trees) for mode, trees in guards.items()}
    if case:
        holds = dict(zip(_conditions(opcode.entry, w), case, strict=True))
        after = {name: points.case(tree, holds) for name, tree in after.items()}
        guards = {mode: tuple(points.case(tree, holds) for tree in trees) for mode, trees in guards.items()}
    return Step(
        opcode,
        w,
        differentiating,
        same,
        after,
        guards,
        companions.drops if differentiating else (),
        tuple(e.place for e in effects if isinstance(e, Erase)),
        tuple(e.place for e in effects if isinstance(e, Unerase)),
    )


@cache
def shifts(opcode: Opcode) -> bool:
    """Whether its constant is a difference of binary points, for which `step` has simpler trees."""
    return any(points.whole(node) for node in nodes(*opcode.transition(Format()).values()))


@cache
def _conditions(entry: Entry, w: Format) -> tuple[Expr, ...]:
    return points.conditions(entry.value(w)) if isinstance(entry, Function) else ()


@cache
def case_of(entry: Entry, w: Format, constant: int) -> tuple[bool, ...]:
    """Which of the conditions on the constant hold by which its function chooses.

    Of a move: its shift is to the right. Of a product: its shift is a word or more; it is no whole number of words.
    """
    return tuple(bool(evaluate(condition, w, {"imm": constant})) for condition in _conditions(entry, w))


@cache
def divides(opcode: Opcode) -> bool:
    """Whether its constant is a difference of binary points by which it divides or takes a root: the general tree divides a word more."""
    return shifts(opcode) and any(
        node.op in ("divshift", "sqrtround") for node in nodes(*opcode.transition(Format()).values())
    )


def step_of(i: Instruction, w: Format, differentiating: bool = False) -> Step:
    """The step of an instruction, whose constant and registers are known, as they are in compiled code."""
    return step(i.opcode, w, differentiating, differentiating and i.ra == i.rb, i.imm if shifts(i.opcode) else None)


# -----------------------------------------------------------------------------
# Spills of compiled code: the machine instructions that access the stack, by the place of the program for which they were emitted.
#
# Each LLVM instruction of a function gets a debug location whose line is a number that the emitter has noted (`FunctionBuilder.places`).
# LLVM keeps the lines of instructions through its passes, and prints them as `.loc` in assembly. Machine instructions that LLVM
# adds itself, such as a spill, have the line of the instruction before them, or at the top of a block, of the next one.
#
# Besides words that are spilled and reloaded, the stack holds the arrays of a function; their accesses count, too. Prologues (push, pop) and
# addresses that are only computed (lea) do not.

#: architecture -> an operand in the stack frame, and the instructions that have one without an access
_FRAMES = {"x86_64": (r"\(%rsp", r"\s*lea"), "aarch64": (r"\[sp", r"\s*add\b")}
#: numbers of metadata; those of the module itself begin at 0
_UNIT, _FILE, _FUNCTION, _TYPE, _NONE, _INFO, _DWARF, _FIRST = range(10, 18)
_DEFINITIONS = f"""
!llvm.dbg.cu = !{{!{_UNIT}}}
!llvm.module.flags = !{{!{_INFO}, !{_DWARF}}}
!{_INFO} = !{{i32 2, !"Debug Info Version", i32 3}}
!{_DWARF} = !{{i32 2, !"Dwarf Version", i32 4}}
!{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{_FILE}, emissionKind: LineTablesOnly)
!{_FILE} = !DIFile(filename: "program", directory: "")
!{_FUNCTION} = distinct !DISubprogram(name: "program", scope: !{_FILE}, file: !{_FILE}, line: 1, type: !{_TYPE}, unit: !{_UNIT}, spFlags: DISPFlagDefinition)
!{_TYPE} = !DISubroutineType(types: !{_NONE})
!{_NONE} = !{{}}
"""


def with_locations(module: ModuleBuilder, name: str) -> str:
    """The text of the module, where each instruction of the function has its place as the line of its debug location, plus one."""
    function = next(f for f in module.functions if f.callee.name == f"@{name}")
    lines, places = function.lines, [*function.places, (len(function.lines), 0)]
    located = lines[: places[0][0]]
    for (first, at), (last, _) in pairwise(places):
        located += [f"{line}, !dbg !{_FIRST + at}" if line.startswith("  ") else line for line in lines[first:last]]
    before = function.text()
    head, rest = before.split("\n", 1)
    after = f"{head.removesuffix('{')}!dbg !{_FUNCTION} {{\n{rest}".replace("\n".join(lines), "\n".join(located))
    used = sorted({place for _, place in function.places})
    locations = "\n".join(f"!{_FIRST + k} = !DILocation(line: {k + 1}, scope: !{_FUNCTION})" for k in used)
    return f"{module.text().replace(before, after)}{_DEFINITIONS}{locations}\n"


def stack_accesses(assembly: str, architecture: str) -> Counter[int] | None:
    """place -> machine instructions for it that read or write the stack; None for an architecture whose frames are not known."""
    if architecture not in _FRAMES:
        return None
    frame, computed = map(re.compile, _FRAMES[architecture])
    found: Counter[int] = Counter()
    line = pending = 0
    for text in assembly.splitlines():
        if text.startswith("\t.loc"):
            line = int(text.split()[2])
            if line:
                found[line - 1] += pending
                pending = 0
        elif text.startswith("\t.cfi_endproc"):
            line = pending = 0
        elif frame.search(text) and not computed.match(text):
            if line:
                found[line - 1] += 1
            else:
                pending += 1
    return +found
