"""The overlapped core against the reference machine in directed states, and with planted faults; random ones are in ../test_lockstep.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.overlapped import OverlappedCore
from retrograd.hdl.core.ports import Space
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import Order, OrderReport
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import lockstep

import retrograd as rg

Execute = Callable[[Sequence[Order]], list[OrderReport]]
FORMATS = [Format(8, 4), Format(16, 8), Format(32, 16), Format(64, 32)]
Q32 = FORMATS[2]


def new(w: Format) -> OverlappedCore:
    made = core_of(Parameters(w, code_words=256, data_words=64, core="fast"))
    assert isinstance(made, OverlappedCore)
    return made


@cache
def simulation(w: Format) -> Simulation:
    return Simulation(new(w))


@pytest.fixture(scope="module")
def directed(module: Callable[[str], ModuleType]) -> ModuleType:
    """The directed states of the small core."""
    return module("tests/hdl/core/test_directed.py")


# ---------------------------------------------------------------- directed


@pytest.mark.long
@pytest.mark.parametrize(
    ("w", "name"),
    [pytest.param(w, name, marks=[] if w == Q32 else pytest.mark.long) for w in FORMATS[::2] for name in
     ("ends_of_the_code", "least_branch_register", "turned_and_back", "first_of_two_guards")],
    ids=str,
)  # fmt: skip
def test_directed_states(directed: Any, w: Format, name: str) -> None:
    assert getattr(directed, name)(simulation(w).run, w)


def code(w: Format, *body: Instruction) -> rg.Program:
    return rg.Program([encode(i) for i in (Instruction(TABLE["start"]), *body, Instruction(TABLE["finish"]))], [], 8, w)


def of(name: str, **fields: int) -> Instruction:
    return Instruction(TABLE[name], **fields)


def chains() -> Iterator[tuple[str, list[Instruction]]]:
    """Instructions that read the words that earlier instructions write: words, cotangents, memory, addresses."""
    yield (
        "sums",
        [of("mov.add", rd=1, ra=2), of("mov.add", rd=2, ra=1), of("mov.add", rd=3, ra=1), of("mov.add", rd=1, ra=2)],
    )
    yield (
        "both operands",
        [of("imm.add", rd=1, imm=3), of("mul.add", rd=2, ra=1, rb=1), of("mul.add", rd=3, ra=2, rb=1)],
    )
    yield "two writes", [of("swap", rd=1, ra=2), of("mov.add", rd=3, ra=1), of("swap", rd=1, ra=3), of("mov.add", rd=2, ra=1), of("mov.add", rd=1, ra=3)]  # fmt: skip
    yield "far writes", [of("mov.add", rd=1, ra=2), of("imm.add", rd=4, imm=1), of("mov.add", rd=3, ra=1), of("swap", rd=1, ra=3), of("imm.add", rd=4, imm=1), of("mov.add", rd=2, ra=3)]  # fmt: skip
    yield "memory", [of("st.add", rb=1, ra=5, imm=1), of("ld.add", rd=2, ra=5, imm=1), of("exch", rd=2, ra=5, imm=1), of("exch", rd=3, ra=5, imm=1), of("st.add", rb=3, ra=5, imm=1)]  # fmt: skip
    yield "addresses", [of("imm.add", rd=5, imm=2), of("ld.add", rd=1, ra=5), of("imm.sub", rd=5, imm=1), of("st.add", rb=1, ra=5), of("exch", rd=2, ra=5, imm=1)]  # fmt: skip
    yield "fixed point", [of("fmul.add", rd=1, ra=2, rb=3), of("fmul.add", rd=2, ra=1, rb=3), of("fmul.sub", rd=3, ra=1, rb=2), of("fmov.add", rd=1, ra=3)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("lifted", [False, True])
def test_each_instruction_gets_what_the_last_one_wrote(lifted: bool) -> None:
    """In both directions, turned after every number of steps, and one step at a time."""
    for _, body in chains():
        both = lockstep.Lockstep(code(Q32, *body), range(8))
        both.differentiate(lifted)
        for r in range(1, 5):
            both.set(Space.REGISTERS, r, 3 * r << 13)
            if lifted:
                both.set(Space.REGISTER_COTANGENTS, r, r << 16)
        for n in range(1, len(body) + 2):
            both.place(0, 0, 1)
            both.run(n)
            both.turn()
            both.run(n)
        for _ in range(len(body) + 1):
            both.run(1)
        both.turn()
        both.run(99)
        executed, traps = both.check(simulation(Q32).run)
        assert not traps
        assert executed.total() > len(body) ** 2


def on_memory() -> Iterator[list[Instruction]]:
    """Instructions on memory behind others that write the address register, or the word. r5 and r6 are 0; memory holds 1, 2, 3, …"""
    add, mul, load = of("imm.add", rd=4, imm=1), of("mul.add", rd=7, ra=1, rb=2), of("ld.add", rd=1, ra=5)
    # The register is written last, by one cycle and by several; first of two; and two instructions before.
    yield [
        of("imm.add", rd=5, imm=2),
        load,
        add,
        of("ld.xor", rd=2, ra=5, imm=1),
        of("imm.sub", rd=5, imm=1),
        of("st.add", rb=1, ra=5),
    ]
    yield [of("mul.add", rd=5, ra=1, rb=2), load, of("swap", rd=5, ra=6), load, of("swap", rd=6, ra=5), load]
    yield [of("imm.add", rd=5, imm=3), add, load, mul, of("imm.sub", rd=5, imm=1), mul, load, add]
    # A word is stored before it is read, at once and later, and another is.
    for store in (
        of("st.add", rb=2, ra=5, imm=1),
        of("exch", rd=2, ra=5, imm=1),
        of("fmulst.add", rd=3, ra=5, rb=4, imm=1),
    ):
        yield [store, of("ld.add", rd=1, ra=5, imm=1), store, of("ld.add", rd=1, ra=5, imm=2), mul, store, add, load]
        yield [
            store,
            of("exch", rd=1, ra=5, imm=1),
            mul,
            of("exch", rd=2, ra=5, imm=1),
            mul,
            of("ld.add", rd=2, ra=6, imm=1),
        ]
    # The register and the word are written by one instruction.
    yield [
        of("exch", rd=5, ra=6),
        load,
        of("exch", rd=5, ra=6),
        of("exch", rd=6, ra=5, imm=1),
        of("exch", rd=2, ra=6, imm=-1),
    ]
    # behind a branch, and outside of memory
    yield [
        of("goto.ne", ra=5, rb=6, imm=3),
        load,
        of("goto.ne", ra=5, rb=6, imm=1),
        of("from.ne", ra=5, rb=6, imm=3),
        load,
    ]
    yield [mul, of("ld.add", rd=1, ra=5, imm=9), add]
    yield [add, of("ld.add", rd=1, ra=5, imm=-1), add]


def branching() -> Iterator[list[Instruction]]:
    """Jumps that are taken and that are not, and the instructions at their targets: BR is written while these begin. r5, r6 and r7 are 0."""
    add, load, other = of("imm.add", rd=4, imm=1), of("ld.add", rd=1, ra=5), of("imm.add", rd=2, imm=1)
    yield [
        of("goto", imm=2),
        add,
        of("from", imm=-2),
        other,
        add,
        of("goto", imm=3),
        add,
        add,
        of("from", imm=-3),
        load,
    ]
    yield [
        of("goto", imm=2),
        add,
        of("from", imm=-2),
        of("from.ne", ra=5, rb=6, imm=-2),
        of("swapbr", rd=7),
        of("goto", imm=0),
        other,
    ]
    yield [of("goto", imm=2), add, of("from", imm=-2), of("swapbr", rd=7), other]
    # A `call` behind a `from` reads BR in its first row.
    yield [of("goto", imm=2), add, of("from", imm=-2), of("call", imm=2), add, of("swapbr", rd=7), other]
    for name in ("eq", "ne", "lt", "geu"):
        yield [of(f"goto.{name}", ra=5, rb=6, imm=3), add, load, of(f"from.{name}", ra=5, rb=6, imm=-3), load, other]
    yield [of("from.ne", ra=3, rb=4, imm=-1), add, of("goto.lt", ra=4, rb=3, imm=0), other]


def behind_the_end(execute: Execute) -> None:
    """A program without an end, behind which the end of an earlier program stands."""
    *words, end = code(Q32, of("mov.add", rd=1, ra=2)).code
    both = lockstep.Lockstep(rg.Program(words, [], 8, Q32), range(8))
    both.leave(end)
    both.run(99)
    both.check(execute)


def run_through(execute: Execute, bodies: Iterator[list[Instruction]], lifted: bool) -> None:
    """There and back, at once and in steps; and from each place with a jump under way."""
    for body in bodies:
        for steps, runs in ((99, 1), (1, 4)):
            both = lockstep.Lockstep(code(Q32, *body), range(8))
            both.differentiate(lifted)
            for r in range(1, 5):
                both.set(Space.REGISTERS, r, r)
            for at in range(8):
                both.set(Space.DATA, at, at + 1)
                if lifted:
                    both.set(Space.REGISTER_COTANGENTS, at, 0 if at in (0, 7) else at << 16)
                    both.set(Space.DATA_COTANGENTS, at, at << 17)
            for _ in range(2):
                for _ in range(runs):
                    both.run(steps)
                both.turn()
            jumps = any("br" in i.opcode.writes for i in body)
            for pc, i in enumerate(both.program.instructions if jumps and steps == 1 else ()):
                both.run(0)
                for br in {0, i.imm & Q32.mask}:
                    both.place(pc, br, +1)
                    both.run(1)
            both.check(execute)


@pytest.mark.parametrize("lifted", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize("bodies", [on_memory, branching])
def test_each_instruction_gets_the_words_of_memory_and_br(
    bodies: Callable[[], Iterator[list[Instruction]]], lifted: bool
) -> None:
    """The word that is stored, the address that is written, and BR behind a jump, in the instructions behind."""
    run_through(simulation(Q32).run, bodies(), lifted)


def dropped() -> Iterator[list[Instruction]]:
    """Instructions after which the fetched instructions are not executed: jumps, turns and traps."""
    add, other = of("imm.add", rd=1, imm=1), of("imm.add", rd=2, imm=1)
    # from.eq at the target of a taken goto.eq; behind it, instructions that must not be executed
    yield [of("goto.eq", ra=3, rb=4, imm=3), add, add, of("from.eq", ra=3, rb=4, imm=3), other]
    yield [of("goto.ne", ra=3, rb=4, imm=3), add, add, of("from.ne", ra=3, rb=4, imm=3), other]
    yield [of("assertz", rd=3), add, of("assertz", rd=2), of("assertz", rd=1), other, add]
    yield [add, of("ld.add", rd=2, ra=6, imm=7), of("ld.add", rd=2, ra=6, imm=9), add, other]
    yield [add, other, of("fdiv.add", rd=2, ra=1, rb=3), add, other]


@pytest.mark.long
@pytest.mark.parametrize("lifted", [False, True])
def test_what_was_fetched_ahead_is_dropped(lifted: bool) -> None:
    traps = 0
    for body in dropped():
        both = lockstep.Lockstep(code(Q32, *body), range(8))
        both.differentiate(lifted)
        for start in range(0, len(body) + 2, 2):
            for direction in (1, -1):
                for n in (1, 9):
                    both.place(start, 0, direction)
                    both.run(n)
                    both.turn()
                    both.run(2)
        _, found = both.check(simulation(Q32).run)
        traps += found.total()
    assert traps > 25


#: a, b: products and quotients that are the least or the greatest of a word, and those beyond; x / 0
ENDS = [
    (1 << 17, 1 << 30),
    (1 << 17, (1 << 30) - 1),
    (-1 << 17, 1 << 30),
    (1 << 30, 1 << 15),
    (-1 << 30, 1 << 15),
    (1 << 30, 0),
]


def ends(execute: Execute, lifted: bool) -> None:
    """Flags of products, quotients and sums at the ends of a word, where one of three products is beyond them, with D = 1 in a cotangent."""
    for name in ("fmul.add", "fdiv.sub", "fdiv.xor"):
        both = lockstep.Lockstep(code(Q32, of(name, rd=1, ra=2, rb=3)), range(8))
        both.differentiate(lifted)
        for a, b in (*ENDS, *((b, a) for a, b in ENDS)):
            for cotangent in (0, 1 << 17) if lifted else (0,):
                for r, word, shadow in ((1, 0, cotangent), (2, a, 0), (3, b, 5)):
                    both.set(Space.REGISTERS, r, word & Q32.mask)
                    if lifted:
                        both.set(Space.REGISTER_COTANGENTS, r, shadow)
                both.place(1, 0, 1)
                both.run(1)
        both.check(execute)


@pytest.mark.parametrize("lifted", [False, True])
def test_flags_at_the_ends_of_a_word(lifted: bool) -> None:
    ends(simulation(Q32).run, lifted)


def test_the_end_of_an_earlier_program_is_outside_of_the_code() -> None:
    behind_the_end(simulation(Q32).run)


# ---------------------------------------------------------------- the checks can fail

_CORE, _SEQUENCER, _NETWORK = "core.overlapped", "core.overlapped", "core.overlapped"
_PORT = "core.memories"
#: addresses and memory words that are read too early, in both directions or backward; cycles that are counted for the other instruction;
#: BR before it is written, and the wrong of two targets
EARLY_FAULTS = [
    (_CORE, "sequencer.unknown.eq(hits[-1])", "sequencer.unknown.eq(0)"),
    (_CORE, "sequencer.unknown.eq(hits[-1])", "sequencer.unknown.eq(hits[-1] & ~self.branch.backward)"),
    (_SEQUENCER, "(self.stale | self.unknown | stores)", "(self.stale | self.unknown)"),
    (_SEQUENCER, "(self.stale | self.unknown | stores)", "(self.unknown | stores)"),
    (_PORT, "Mux(passes & (self.passing_target == place), passing, found)", "found"),
    (_PORT, "Mux(wrote & (target == place), written, found)", "found"),
    (_CORE, "stored_at.eq(running_address)", "stored_at.eq(memory.address)"),
    (_CORE, "(phase == Phase.ACCESS) | sequencer.ready", "(phase == Phase.ACCESS)"),
    (_CORE, "Mux(sequencer.unknown, 1, ", "Mux(sequencer.unknown, 0, "),
    (_CORE, "sequencer.ending & ~running.redirects & read_inside", "sequencer.ending & read_inside"),
    (_CORE, "~running.lands & ~landing &", "~running.lands &"),
    (_CORE, "(operands.entering, running.lands | landing)", "(operands.entering, 0)"),
    (_CORE, "(operands.latches, landing)", "(operands.latches, 0)"),
    (_CORE, "m.d.sync += running.lands.eq(0)", "pass"),
    (_CORE, "jumps & (chosen | ~running.chooses)", "(chosen | ~running.chooses)"),
    (_CORE, "(chosen | ~running.chooses)", "chosen"),
    (_CORE, "(chosen | ~running.chooses)", "1"),
    (_CORE, "Mux(branch.backward, read_at - step, read_at + step)", "read_at + step"),
]  # fmt: skip
#: unit, the text there, the planted text: stale operands, instructions that are not dropped, and traps that are not precise
FAULTS = [
    (_NETWORK, "for s in latches if s.value in use.first}", "for s in latches if s.value < 0}"),
    (_NETWORK, "any_of([line, hit & other])", "line"),
    (_NETWORK, "pairs.append((hit, writes[half].word))", "pass"),
    (_NETWORK, "first[i] & ~self.hits[HITS.index(Select(i))]", "first[i]"),
    (_NETWORK, "Cat(source.ahead[: len(read.addr) - 1], ~line)", "source.ahead[: len(read.addr) - 1]"),
    (_CORE, "names(closing[_NAMED[what]], pairs", "names(closing.field, pairs"),
    (_CORE, "kept = Mux(hit, passing, latch)", "kept = latch"),
    (_CORE, "for name, cause in reversed(causes.items())", "for name, cause in causes.items()"),
    (_CORE, "running.halts & ~Cat(running[name] for name in causes).any()", "running.halts"),
    (_CORE, "found = Mux(stale, passing,", "found = Mux(0, passing,"),
    (_CORE, "names(written[_NAMED[what]], pairs", "names(written.field, pairs"),
    ("core.overlapped", "Mux(self.launch, ahead, behind)", "behind"),
    ("core.overlapped", "Mux(self.launch, ahead, behind)", "ahead"),
    ("core.overlapped", "Mux(self.advance, self.running[x] == self.decoded[y], known)", "known"),
    ("core.overlapped", "self.of_writing[i][j].eq(behind)", "self.of_writing[i][j].eq(known)"),
    (_NETWORK, "(Select.EARLIER, slot)] = earlier[slot]", '(Select.EARLIER, slot)] = getattr(self, f"last{slot}")'),
    (_NETWORK, "write.data.eq(last)", 'write.data.eq(getattr(self, f"result{k}"))'),
    ("core.memories", "Mux(wrote & (target == numbers[place]), written, found)", "found"),
    (_CORE, "MemoryPort(width, p.data_words, ahead=True)", "MemoryPort(width, p.data_words)"),
    (_CORE, "commit[_NAMED[what]] == field", "commit.field == field"),
    (_CORE, "lane.window.write_address, numbers[1])", "lane.window.write_address, numbers[0])"),
    (_CORE, "DiscardedCotangents(width, chained=True)", "DiscardedCotangents(width)"),
    (_CORE, "Cat(fits)", "Cat(fits[:1] * self.slots)"),
    (_CORE, "Mux(slot.chain, chained.fits, logic.fits)", "Mux(slot.chain, logic.fits, logic.fits)"),
    (_CORE, "Mux(slot.chain, chained.fits, logic.fits)", "Mux(slot.chain, chained.fits, 1)"),
    ("core.units", "(check.sum & over[k])", "(check.sum & 0)"),
    ("core.units", "(check.unit & units_over[k])", "(check.unit & over[k])"),
    ("core.units", "(other.order <= guard.order)", "(other.order >= guard.order)"),
    (_CORE, "chained.chain.eq(slot.chain)", "chained.chain.eq(0)"),
    (_CORE, "chained.subtract.eq(slot.difference)", "chained.subtract.eq(0)"),
    (_CORE, "chained.x.eq(z)", "chained.x.eq(x)"),
    (_CORE, "eq(word[0])", "eq(word[1])"),
    (_NETWORK, "files.append((hit, writes[half].files))", "pass"),
    (_NETWORK, "files = [(~fresh, words[i])", "files = [(Const(1), words[i])"),
    ("core.units", "aligned.eq(_row(partials, 0, limb))", "aligned.eq(_row(partials, 0, limb - 1))"),
    (_CORE, "unit_fits = Mux(slot.writer == Writer.DIVIDER, divider.fits, unit_fits)", "pass"),
    (_CORE, "logic.fits), multiplier.fits", "logic.fits), Const(1)"),
    ("core.units", "above = word[width - 1 :]", "above = word[width:]"),
    (_SEQUENCER, "Mux(self.redirects, again, Mux(waits,", "Mux(0, again, Mux(waits,"),
    (_SEQUENCER, "(self.ending & ~self.redirects)", "self.ending"),
    (_SEQUENCER, "with m.If(self.abandon):", "with m.If(0):"),
    (_SEQUENCER, "self.launch.eq(self.run & (", "self.launch.eq(("),
    (_CORE, "guards.overflow.eq(writing.modes.overflow)", "guards.overflow.eq(~writing.modes.overflow)"),
    (_CORE, "backward.eq(Mux(commit.first, branch.next_backward, branch.backward))", "backward.eq(0)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "old", "new_text"),
    [
        pytest.param(*fault, marks=[] if k in (0, 1, 4, 10) else pytest.mark.long)
        for k, fault in enumerate(EARLY_FAULTS)
    ],
)
def test_a_fault_of_what_is_early_is_found(
    planted: Callable[[str, str, str], type], unit: str, old: str, new_text: str
) -> None:
    planted(unit, old, new_text)
    execute = Simulation(new_planted()).run

    def both_checked() -> None:
        for lifted in (True, False):
            for bodies in (
                (branching, on_memory) if "chosen" in old or "land" in old or "step" in old else (on_memory, branching)
            ):
                run_through(execute, bodies(), lifted)

    with pytest.raises(AssertionError):
        both_checked()


@pytest.mark.long
@pytest.mark.parametrize(
    ("unit", "old", "new_text"), [pytest.param(*fault, marks=pytest.mark.long if k else []) for k, fault in enumerate(FAULTS)]
)  # fmt: skip
def test_a_planted_fault_is_found(planted: Callable[[str, str, str], type], unit: str, old: str, new_text: str) -> None:
    planted(unit, old, new_text)
    hardware = Simulation(new_planted()).run

    def checked(body: list[Instruction], lifted: bool) -> None:
        both = lockstep.Lockstep(code(Q32, *body), range(8))
        both.differentiate(lifted)
        for r in range(1, 5):
            both.set(Space.REGISTERS, r, 3 * r << 13)
            if lifted:
                both.set(Space.REGISTER_COTANGENTS, r, r << 16)
        for n in (99, 2, 99):
            both.run(n)
            both.turn()
        both.check(hardware)

    def all_checked() -> None:
        ends(hardware, True)
        behind_the_end(hardware)
        for body in [*dropped(), *(body for _, body in chains())]:
            checked(body, True)
        lockstep.sequences(hardware, Q32, True, 4, states=40, programs=2, entries=("assertz",))
        lockstep.sequences(hardware, Q32, False, 3, states=40, programs=2, entries=("fmov", "fmul"))
        lockstep.sequences(hardware, Q32, True, 5, states=20, programs=3)

    with pytest.raises((AssertionError, TimeoutError)):
        all_checked()


def new_planted() -> Any:
    """A core with the planted text."""
    from retrograd.hdl.core import cores

    return cores.core_of(Parameters(Q32, code_words=256, data_words=64, core="fast"))
