"""Cycles: counted on schedules that do what the machine does, the same there and back, and documented as they are."""

from __future__ import annotations

import random
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from retrograd.isa.derivatives import NoDerivative, cotangent_step, lift
from retrograd.isa.effects import Erase
from retrograd.isa.entries import NOT_JUMPING, Bijection, Function, Guard, Opcode, a, b, bar
from retrograd.isa.expr import apply_operation, evaluate, mul_shift
from retrograd.isa.microarchitecture.micro_operations import (
    CORES,
    FLAGGED,
    FUSED,
    SHIFTS,
    Input,
    Literal,
    MicroOperation,
    Source,
    Temporary,
    Unit,
    UnitResult,
    Units,
    _words,
    barrel_units,
    execute,
    unit_of,
)
from retrograd.isa.microarchitecture.rows import Row
from retrograd.isa.microarchitecture.schedule import (
    Execution,
    cycles,
    distinguishes,
    guards,
    microprograms,
    plain,
    row_program,
    schedule,
    total_cycles,
    trees,
)
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.semantics import handler, lifted_handler
from retrograd.simulator.stores import Cotangents, Fault

import retrograd as rg

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
OPCODES = list(TABLE)
FORMATS = [Format(64, 32), Format(32, 16), Format(8, 4)]
MODES = [(False, False), (True, False), (True, True)]
Q64, Q32, Q8 = FORMATS
OVERFLOW = frozenset({"overflow"})

# ---------------------------------------------------------------- the schedule does what the machine does

#: the registers that d, a and b name, with ra = rb and without
_FIELDS = {False: (1, 2, 3), True: (1, 2, 2)}
_ADDRESS = 2


class Words(NamedTuple):
    """A machine's words before or after an instruction."""

    registers: list[int]
    memory: list[int]
    cotangents: list[int]
    memory_cotangents: list[int]
    br: int

    def copy(self) -> Words:
        return Words(self.registers[:], self.memory[:], self.cotangents[:], self.memory_cotangents[:], self.br)


def some_state(opcode: Opcode, w: Format, rng: random.Random) -> tuple[Words, int]:
    """Random words of all sizes, and a constant."""

    def word() -> int:
        if rng.random() < 0.3:
            return rng.choice((0, 1, w.mask, w.sign, w.sign - 1, 1 << w.frac))
        return w.wrap(w.signed(rng.getrandbits(w.width)) >> rng.randrange(w.width))

    bound = min(w.sign, 1 << 31) - 1
    imm = rng.choice((0, 1, -1, 3, rng.randint(-bound, bound)))
    r, m, rc, mc = ([word() for _ in range(4)] for _ in range(4))
    found = Words(r, m, rc, mc, rng.choice((0, 0, 0, imm, -imm)))
    if opcode.name == "assertz" and rng.random() < 0.8:
        found.registers[1] = 0
    if "[ra+imm]" in opcode.operands:
        found.registers[2] = (_ADDRESS - imm) & w.mask
    return found, imm


def by_machine(opcode: Opcode, w: Format, differentiating: bool, same: bool, before: Words, imm: int) -> Words | str:
    """What the reference machine makes of the words, or the code of its trap."""
    words = before.copy()
    run = handler(opcode, w, OVERFLOW)
    if differentiating:
        moved = Cotangents(words.cotangents, words.memory_cotangents)
        run = lifted_handler(opcode, w, OVERFLOW, same, moved)
    try:
        br = run(words.registers, words.memory, words.br, *_FIELDS[same], imm & w.mask)
    except Fault as fault:
        return fault.code
    return words._replace(br=br)


def by_schedule(
    opcode: Opcode, w: Format, differentiating: bool, same: bool, before: Words, imm: int, units: Units
) -> Words | str:
    """What the micro-operations make of them, read and written back as docs/reference/timing.md says."""
    if before.br and NOT_JUMPING in opcode.guards(w):
        return NOT_JUMPING.code
    fields = dict(zip("dab", _FIELDS[same], strict=True))
    words = {name: before.registers[r] for name, r in fields.items()}
    words |= {bar(name): before.cotangents[r] for name, r in fields.items()}
    words |= {"m": before.memory[_ADDRESS], bar("m"): before.memory_cotangents[_ADDRESS]}
    words |= {"br": before.br & w.mask, "imm": imm & w.mask}
    found = microprograms(opcode.entry, w, differentiating, same, units)[opcode.name]
    after, predicates = execute(found.schedule, w, words)
    guards: list[Guard] = [g for g in opcode.guards(w) if g.mode != "strict" and g != NOT_JUMPING]
    if differentiating:
        guards += cotangent_step(opcode, w, same).guards
    for guard, holds in zip(guards, predicates, strict=True):
        if not holds:
            return guard.code
    out = before.copy()
    for name, word in after.items():
        if name == "br":
            out = out._replace(br=w.signed(word))
        elif name.startswith("m"):
            (out.memory if name == "m" else out.memory_cotangents)[_ADDRESS] = word
        else:
            (out.registers if len(name) == 1 else out.cotangents)[fields[name[0]]] = word
            assert f"r{name[0]}" in found.writes
    return out


class Turns:
    """Rows on a thread's places: all slots read, then all write, unless a guard has failed."""

    def __init__(self, w: Format, words: dict[str, int]) -> None:
        self.w, self.words = w, words
        self.temporaries: dict[int, int] = {}
        self.failed: set[int] = set()
        self.quotient: tuple[int, bool] | None = None

    def read(self, source: Source) -> int:
        match source:
            case Literal(word):
                return word
            case Temporary(number):
                return self.temporaries[number]
            case Input(place, negated):
                return (-self.words[place] if negated else self.words[place]) & self.w.mask
        raise AssertionError(source)

    def turn(self, row: Row) -> None:
        written = [(one, self.slot(one)) for one in row.slots]
        for one, word in written:
            if one.temporary is not None:
                self.temporaries[one.temporary] = word
            elif one.place and not self.failed:
                self.words[one.place] = word
        if row.lands and not self.failed:
            self.words["br"] = 0

    def slot(self, row: Row) -> int:
        """The result of a slot; guards that fail are noted."""
        w, v, word, holds = self.w, [self.read(x) for x in row.operands], 0, {"unit": True}
        if row.operation in FUSED:
            word = evaluate(FUSED[row.operation], w, {"x": v[0], "y": v[1]})
        elif row.operation in ("", "add", "or", "sub"):
            word = apply_operation(w, row.operation, 0, v) if row.operation else 0
        else:
            assert row.node is not None
            of = MicroOperation(0, Unit.ROM, row.operation, (), (UnitResult(row.node, 0, 1, 1),), 1)
            ((word, holds["unit"]),) = _words(of, w, v)
        quotient = (word, holds["unit"]) if row.operation and unit_of(row.operation) is Unit.DIVIDER else None
        if row.writer is Unit.DIVIDER:
            assert self.quotient is not None
            word, holds["unit"] = self.quotient
        self.quotient = quotient or (None if row.writer is Unit.DIVIDER else self.quotient)
        if row.chain:
            holds["chain"] = evaluate(FUSED[FLAGGED[row.chain]], w, {"x": v[2], "y": word}) != 0
            word = apply_operation(w, row.chain, 0, [v[2], word])
        if row.operation in FLAGGED:
            holds["sum"] = evaluate(FUSED[FLAGGED[row.operation]], w, {"x": v[0], "y": v[1]}) != 0
        holds |= {"result": word & 1 == 1, "zero": word & 1 == 0}
        self.failed |= {check.guard for check in row.checks if not holds[check.kind]}
        return word


def by_rows(
    opcode: Opcode, w: Format, differentiating: bool, same: bool, before: Words, imm: int, units: Units
) -> Words | str:
    """What the rows of the core barrel make of the words."""
    if before.br and NOT_JUMPING in opcode.guards(w):
        return NOT_JUMPING.code
    if Literal(0) in (
        check.predicate for check in schedule(*trees(opcode, w, differentiating, same, units), w, units).checks
    ):
        return by_schedule(opcode, w, differentiating, same, before, imm, units)
    fields = dict(zip("dab", _FIELDS[same], strict=True))
    words = {name: before.registers[r] for name, r in fields.items()}
    words |= {bar(name): before.cotangents[r] for name, r in fields.items()}
    words |= {"m": before.memory[_ADDRESS], bar("m"): before.memory_cotangents[_ADDRESS]}
    thread = Turns(w, words | {"br": before.br & w.mask, "imm": imm & w.mask})
    rows = row_program(opcode, w, differentiating, same, units)
    for row in rows:
        thread.turn(row)
    if thread.failed:
        return guards(opcode, w, differentiating, same)[min(thread.failed)].code
    out = before.copy()
    for name in {str(one.place) for row in rows for one in row.slots if one.place not in (None, "br")}:
        kind, own = ("cotangents", name[0]) if len(name) > 1 else ("registers", name)
        if own == "m":
            (out.memory if name == "m" else out.memory_cotangents)[_ADDRESS] = thread.words[name]
        else:
            getattr(out, kind)[fields[own]] = thread.words[name]
    return out._replace(br=w.signed(thread.words["br"]))


@pytest.mark.parametrize("slots", [1, 2])
def test_rows_keep_the_rules_of_the_hardware(slots: int) -> None:
    """Slots write different banks; places are written from the row that decides on; two slots save turns."""
    units, saved = barrel_units(slots=slots), 0
    for opcode, w, mode in product(OPCODES, (Q32, Q8), MODES):
        rows = row_program(opcode, w, *mode, units)
        saved += len(row_program(opcode, w, *mode, barrel_units())) - len(rows)
        decides = next(k for k, row in enumerate(rows) if row.decides)
        for k, row in enumerate(rows):
            assert k >= decides or not any(one.place for one in row.slots)
            assert k <= decides or not any(one.checks for one in row.slots)
            if row.second:
                second = row.second
                assert None is row.bank is not second.bank is not None or row.bank != second.bank
                assert unit_of(second.operation) is Unit.LOGIC
                assert second.operation not in ("select", *SHIFTS)
                assert len(second.operands) == 2
                assert second.operands[0] != Input("imm", True)
                assert second.operands[1] != Input("br")
                assert second.place is None or second.operands[0] in (Input(second.place), Literal(0))
    assert (saved > 0) == (slots > 1)


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda o: o.name)
def test_micro_operations_do_what_the_machine_does(opcode: Opcode) -> None:
    rng = random.Random(opcode.code)
    may_be_one = not {("ra", "rb"), ("rb", "ra")} & {*opcode.distinct}
    seen = Counter[bool]()
    for w in (Q32, Q8):
        for differentiating, same in MODES:
            for _ in range(8 if may_be_one or not same else 0):
                before, imm = some_state(opcode, w, rng)
                expected = by_machine(opcode, w, differentiating, same, before, imm)
                for core, units in CORES.items():
                    found = by_schedule(opcode, w, differentiating, same, before, imm, units)
                    assert found == expected, (core, w, differentiating, same, before, imm)
                for slots in (1, 2):
                    found = by_rows(opcode, w, differentiating, same, before, imm, barrel_units(slots=slots))
                    assert found == expected, (slots, w, differentiating, same, before, imm)
                seen[isinstance(found, str)] += 1
    assert seen[False] or opcode.name == "unerase"


# ---------------------------------------------------------------- laws of cycles


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_an_instruction_takes_as_long_as_its_inverse(w: Format) -> None:
    for opcode in OPCODES:
        for mode in MODES:
            for units in CORES.values():
                if not (units.overlapped and opcode.entry.name.startswith("goto")):
                    assert cycles(opcode, w, *mode, units) == cycles(TABLE.inverse(opcode), w, *mode, units), opcode


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_an_instruction_has_the_cycles_of_its_phases(w: Format) -> None:
    for opcode in OPCODES:
        on_memory = "[ra+imm]" in opcode.operands
        for mode in MODES:
            found = microprograms(opcode.entry, w, *mode)[opcode.name]
            inverse = microprograms(opcode.entry, w, *mode)[opcode.inverse_name]
            assert found.execute == max(1, found.schedule.length, inverse.schedule.length)
            assert found.memory == on_memory
            assert set(found.writes) <= opcode.fields
            assert cycles(opcode, w, *mode) == 3 + 2 * on_memory + found.execute + max(1, len(found.writes))


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_an_overlapped_instruction_has_the_cycles_in_which_it_is_alone(w: Format) -> None:
    fast = CORES["fast"]
    for opcode in OPCODES:
        for mode in MODES:
            found = microprograms(opcode.entry, w, *mode, fast)[opcode.name]
            changed = found.schedule.after.keys()
            writes = max(1, len(changed & {"d", "a", "b"}), len(changed & {bar("d"), bar("a"), bar("b")}))
            # Branches, and `swapbr`: the opcodes that execute while BR is not 0. Behind a `from` it is 0.
            lands = opcode.name.startswith("from")
            alone = "br" in opcode.writes and not lands
            assert found.lands == lands
            assert opcode.turns <= alone
            expected = (
                found.execute
                + writes
                - 1
                + ("[ra+imm]" in opcode.operands)
                + 3 * alone
                - opcode.name.startswith("goto")
            )
            assert found.redirects == alone, opcode.name
            assert cycles(opcode, w, *mode, fast) == expected
            assert cycles(opcode, w, *mode, fast) < cycles(opcode, w, *mode), opcode.name


@pytest.mark.parametrize(
    ("body", "lifted", "forward", "backward"),
    [
        # a sum, and a word from memory: its access is a cycle of its own, and the address waits for the sum; back, it comes first
        ("imm.add r2, 3\nld.add r1, [r2]", False, 1 + 1 + 2, 2 + 1),
        ("imm.add r3, 3\nld.add r1, [r2]", False, 1 + 2, 2 + 1),
        # two cycles, the last of which is also that of the access
        ("mul.add r3, r4, r4\nld.add r1, [r2]", False, 2 - 1 + 2, 2 + 2),
        ("mul.add r2, r4, r4\nld.add r1, [r2]", False, 2 + 1 + 2, 2 + 2),
        # r2 is written in the first or in the last of two cycles
        ("swap r2, r3\nld.add r1, [r2]", False, 2 + 2, 2 + 2),
        ("swap r3, r2\nld.add r1, [r2]", False, 2 + 1 + 2, 2 + 2),
        ("swap r3, r4\nld.add r1, [r2]", False, 2 - 1 + 2, 2 + 2),
        # A word that is written last is not read before.
        ("fmulst.add [r2 + 1], r5, r6\nld.add r1, [r2]", False, 3 + 2, 2 + 3),
        ("fmulst.add [r2 + 1], r5, r6\nld.add r1, [r2]", True, 5 - 1 + 2, 2 + 5),
        # No instruction is next of a branch in the code.
        ("top: goto.ne r2, r2, end\nld.add r1, [r2]\nend: from.ne r2, r2, top", False, 4 + 2, 2 + 3),
    ],
)
def test_the_cycles_of_two_depend_on_the_address_and_the_word(
    body: str, lifted: bool, forward: int, backward: int
) -> None:
    program, fast = rg.assemble(f".format 32, 16\nstart\n{body}\nfinish"), CORES["fast"]
    found = [
        sum(Execution.at(program, pc, lifted, way).cycles(program.format, fast) for pc in (1, 2)) for way in (+1, -1)
    ]
    assert found == [forward, backward]


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_differentiation_costs_time_where_there_is_a_derivative(w: Format) -> None:
    for opcode in OPCODES:
        with_values, with_cotangents = cycles(opcode, w, False, False), cycles(opcode, w, True, False)
        assert cycles(opcode, w, False, True) == with_values
        assert with_cotangents >= with_values
        try:
            lift(opcode, w)
        except NoDerivative:
            # An erased or freed register is written, once, with its cotangent.
            assert with_cotangents == with_values, opcode
        if not distinguishes(opcode, w):
            assert cycles(opcode, w, True, True) == with_cotangents


def test_one_register_matters_where_both_operands_have_a_share() -> None:
    found = {o.entry.name for o in OPCODES if distinguishes(o, Q64)}
    assert found == {"fmul", "fdiv", "fmulp", "fdivp", "fatan2", "ladd", "lsub", "lpow"}


@pytest.mark.parametrize(
    ("name", "plainly", "differentiating"),
    [
        # fetch, decode, read; execute; write
        ("mov.add", 3 + 1 + 1, 3 + 4 + 2),
        ("imm.xor", 3 + 1 + 1, 3 + 1 + 1),
        ("start", 3 + 1 + 1, 3 + 1 + 1),
        ("swap", 3 + 1 + 2, 3 + 1 + 2),
        ("exch", 3 + 2 + 1 + 1, 3 + 2 + 1 + 1),
        ("st.add", 3 + 2 + 1 + 1, 3 + 2 + 4 + 1),
        # compare, choose, add; its inverse tests BR = 0, too
        ("goto.lt", 3 + 4 + 1, 3 + 4 + 1),
        # a product of 3, and what is done with its low and its high word: add, does it fit; sign, does it agree
        ("fmul.add", 3 + 8 + 1, 3 + 22 + 3),
        # W + F digits, two a cycle
        # 97 digits, two a cycle: the last rounds.
        ("fdiv.xor", 3 + 2 + 49 + 4 + 1, 59),
    ],
)
def test_some_counts(name: str, plainly: int, differentiating: int) -> None:
    opcode = TABLE[name]
    assert (cycles(opcode, Q64, False, False), cycles(opcode, Q64, True, False)) == (plainly, differentiating)


def test_overflow_is_checked_whether_or_not_it_traps_and_strictness_costs_nothing() -> None:
    opcode = TABLE["fmov.add"]
    assert [g.mode for g in opcode.guards(Q64)] == ["always", "overflow"]
    assert len(plain(opcode, Q64).guards) == 1
    assert [g.mode for g in TABLE["erase"].guards(Q64)] == ["always", "strict"]
    assert plain(TABLE["erase"], Q64).guards == ()
    # The guard that a comefrom adds speaks of BR afterwards, and must be computed.
    assert len(plain(TABLE["from.lt"], Q64).guards) == 1


PROGRAM = """
        start
        add     r2, 5
        add     r4, 3
top:    from.ne r1, r0, bottom
        add     r1, 1
        mul.add r3, r1, r1
        fmul.add r5, r3, r4
        fmul.add r6, r1, r1
        exch    r5, [r4]
bottom: goto.lt r1, r2, top
        finish
"""


@pytest.mark.parametrize("differentiating", [False, True])
def test_a_run_back_takes_as_long_as_the_run(differentiating: bool) -> None:
    machine = rg.Machine(rg.assemble(PROGRAM), memory=8)
    machine.differentiating = differentiating
    machine.run()
    there = machine.executions()
    machine.run_back()
    back = machine.executions() - there
    assert {e.direction for e in there} == {+1}
    assert {e.direction for e in back} == {-1}
    assert {e.opcode for e in back} != {e.opcode for e in there}
    assert total_cycles(there, Q64) == total_cycles(back, Q64) > 5 * 7 * 5
    assert total_cycles(there, Q64) + total_cycles(back, Q64) == machine.cycles


def test_what_was_executed_is_told_with_the_mode_it_was_executed_in() -> None:
    """Cotangents on the way back only, then forward again: every execution is counted once, as it was."""
    machine = rg.Machine(rg.assemble(PROGRAM), memory=8)
    machine.run()
    machine.differentiating = True
    machine.run_back()
    machine.run(20)
    machine.differentiating = False
    machine.run()
    found = machine.executions()
    assert sum(found.values()) == machine.retired
    for way in (+1, -1):
        told = Counter[str]()
        for e, n in found.items():
            if e.direction == way:
                told[e.opcode.name] += n
        assert told == machine.counts(way)
    assert {(e.lifted, e.direction) for e in found} == {(False, +1), (True, +1), (True, -1)}
    assert {e.same for e in found if e.opcode.name == "mul.add"} == {True}


def test_the_total_is_a_sum() -> None:
    mul, mov = TABLE["fmul.add"], TABLE["mov.add"]
    assert total_cycles({}, Q64) == 0
    cases = {(mul, False, False): 3, (mul, True, False): 2, (mul, True, True): 1, (mov, False, True): 10}
    counts = {Execution(*case, +1): n for case, n in cases.items()}
    assert total_cycles(counts, Q64) == 3 * 12 + 2 * 28 + 24 + 10 * 5


def test_a_new_instruction_is_timed() -> None:
    half = Function(
        "fmhalf", TABLE.free_code(), "curious", lambda w: mul_shift(a, b, w.frac + 1), "Half a product.", ("add", "sub")
    )
    table = TABLE.extended(half)
    found = [cycles(table[name], Q64, True, True) for name in ("fmhalf.add", "fmhalf.sub")]
    assert (
        found[0]
        == found[1]
        > cycles(TABLE["mul.add"], Q64, False, False)
        == cycles(table["fmhalf.add"], Q64, False, False)
    )


def test_memory_that_is_written_and_not_read_takes_an_address_too() -> None:
    wipe = Bijection(
        "wipe", TABLE.free_code(), "curious", lambda w: (Erase("m"),), "Erase a memory word.", inverse_name="unwipe"
    )
    opcode = TABLE.extended(wipe)["wipe"]
    assert "m" not in opcode.reads
    assert cycles(opcode, Q64, False, False) == 3 + 2 + 1 + 1


def test_an_instruction_is_scheduled_while_one_waits() -> None:
    """Calls of Python functions of the longest schedule: 21,000, some hundredths of a second."""
    after, calls = trees(TABLE["lsub.mul"], Q64, True, True), Counter[str]()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: calls.update((event,)))
    try:
        schedule(*after, Q64)
    finally:
        sys.setprofile(before)
    assert 1000 < calls["call"] < 60_000


def test_dropped_cotangents_are_written() -> None:
    for name in ("assertz", "erase"):
        assert cotangent_step(TABLE[name], Q64, False).drops == (bar("d"),)
        found = microprograms(TABLE[name].entry, Q64, True, False)[name]
        assert bar("d") in found.schedule.after
        assert found.writes == ("rd",)
