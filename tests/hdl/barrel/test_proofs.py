"""Proofs of the core barrel, with one slot and with two: the order of turns, threads apart, steps, units and host
interface. Faults are refuted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from retrograd.hdl.bus import host_interface
from retrograd.hdl.formal.barrel import (
    COUNTS,
    MARKS,
    THREADS,
    TURNS,
    ThreadBusProver,
    ThreadsProver,
    ThreadUnitProver,
    TurnsProver,
    memories,
)
from retrograd.hdl.formal.claims import ClaimKind, claims
from retrograd.hdl.formal.proofs import Prover, part_claims, prove_parts, prove_with
from retrograd.hdl.formal.unit_proofs import UNITS
from retrograd.hdl.microcode import ROW_BITS, ROW_ENTRY, RowMicrocode, dispatch_address
from retrograd.hdl.parameters import Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.micro_operations import barrel_units
from retrograd.isa.microarchitecture.schedule import row_program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

z3 = pytest.importorskip("z3")
Q8 = Format(8, 4)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("w", [Q8, pytest.param(Format(32, 16), marks=pytest.mark.long)], ids=str)
def test_turns_and_threads(w: Format, slots: int) -> None:
    found = {proof.opcode: proof for proof in prove_parts(w, (TURNS, THREADS), core="barrel", slots=slots)}
    assert found.keys() == part_claims(w, (TURNS, THREADS), "barrel", slots).keys()
    assert len(found) == len(COUNTS) * (2 + 2 * len(memories(slots)) + len(MARKS))
    assert ("threads of 9: second_file read" in found) == (slots > 1)
    for name, proof in found.items():
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), name


#: the text of the core, the planted text, the claim that is refuted
FAULTS = [
    ("Mux(turn[0] == n - 1, 0, turn[0] + 1)", "turn[0] + 1", "turns of 9 threads: the next cycle"),
    ("self.selected, turn[k - 1])", "self.selected, turn[k])", "turns of 8 threads: the next cycle"),
    ("init=-k % n", "init=k % n", "turns of 8 threads: after a reset"),
    ("address_write.addr.eq(turn[10])", "address_write.addr.eq(turn[9])", "threads of 8: addresses written"),
    ("address_port.addr.eq(turn[3])", "address_port.addr.eq(turn[2])", "threads of 8: addresses read"),
    ("get.addr.eq(turn[2])", "get.addr.eq(turn[3])", "threads of 8: rbs read"),
    ("get.addr.eq(turn[9])", "get.addr.eq(turn[8])", "threads of 8: failed read"),
    ("Cat(later(target4, 7), turn[11])", "Cat(later(target4, 7), turn[10])", "threads of 8: file written"),
    ("Cat(later(data4, 7), turn[11])", "Cat(later(data4, 7), turn[12])", "threads of 8: data_m_bar written"),
    ("Cat(adr4[port], turn4)", "Cat(adr4[port], turn4[:-1])", "threads of 8: file read"),
    ("command.turned_of, turn[10])", "command.turned_of, turn[11])", "threads of 8: pcs written"),
    ("command.clear, command.of, turn[k])", "command.clear, command.of, 0)", "threads of 8: counter2 written"),
    ('m.If((turn[10] == i) & ok & row("turns", 10))', 'm.If(ok & row("turns", 10))', "threads of 8: backward"),
    ("m.If(turn[4] == i)", "m.If(turn[5] == i)", "threads of 8: mid"),
    ("cross11 & loses11 & (turn[11] == i)", "cross11 & loses11", "threads of 8: known"),
]  # fmt: skip


#: the same of two slots
OF_TWO_SLOTS = [
    ("Cat(later(self._address5[k], 6), turn[11])", "Cat(later(self._address5[k], 6), turn[10])", "second_file written"),
    ("Cat(adr4[port], turn4)", "Cat(adr4[port], turn4[:-1])", "second_file read"),
    ("Cat(adr4[port], turn4)", "Cat(adr4[port], turn4 & (7 - (port == 'second.x')))", "second_file read"),
    ("read.addr.eq(Cat(place6, turn[6]))", "read.addr.eq(Cat(place6, turn[5]))", "file read"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "old", "new", "claim"),
    [
        *(("core.barrel", *fault) for fault in FAULTS),
        *(("core.two_slots", old, new, f"threads of 8: {claim}") for old, new, claim in OF_TWO_SLOTS),
    ],
    ids=str,
)
def test_a_fault_is_refuted(
    planted: Callable[[str, str, str], type], module: str, old: str, new: str, claim: str
) -> None:
    planted(module, old, new)
    kind = TurnsProver if claim.startswith(TURNS) else ThreadsProver
    found = kind(Q8, slots=2 if module == "core.two_slots" else 1).prove(claim)
    assert not found.holds
    assert found.counterexample
    assert "undecided" not in found.counterexample


# ---------------------------------------------------------------- steps, units, host interface

Plant = Callable[[str, str, str], type]


@cache
def prover(slots: int) -> Prover:
    return Prover(Q8, core="barrel", slots=slots)


@pytest.mark.parametrize(("name", "slots"), [("goto.lt", 1), ("exch", 2)])
def test_a_step_is_the_tables(name: str, slots: int) -> None:
    found = [*prove_with(prover(slots), {name})]
    assert [proof.opcode for proof in found] == [claim.name for claim in claims(Q8, {name}, "barrel")]
    assert [(proof.holds, proof.counterexample, proof.witnessed) for proof in found] == [(True, "", True)] * 4


def rows(opcode: Opcode, slots: int) -> int:
    return max(len(row_program(opcode, Q8, lifted, False, barrel_units(slots=slots))) for lifted in (False, True))


@pytest.mark.long
@pytest.mark.parametrize(("name", "slots"), [(o.name, n) for n in (1, 2) for o in TABLE if rows(o, n) <= 45])
def test_every_step_is_the_tables(name: str, slots: int) -> None:
    wanted = claims(Q8, {name}, "barrel")
    assert {claim.kind for claim in wanted} == {ClaimKind.TRANSITION}
    for proof in prove_with(prover(slots), {name}):
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), proof.opcode


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("part", ["ROM", *(pytest.param(p, marks=pytest.mark.long) for p in (*UNITS[:2], "bus"))])
def test_units_and_host_interface(part: str, slots: int) -> None:
    found = {proof.opcode: proof for proof in prove_parts(Q8, (part,), core="barrel", slots=slots)}
    assert found.keys() == part_claims(Q8, (part,), "barrel", slots).keys()
    for name, proof in found.items():
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), name


_TWO = "core.two_slots"
#: module, the text there, the planted text, the opcode, D, whether it runs backward, what fails
OF_STEPS = [
    ("core.barrel", "Cat(back, step3 ^ back.replicate(p.pc_bits))", "Cat(back, step3)", "mov.add", 0, 1, "the address"),
    ("core.barrel", '~zero10 & ~row("lands", 10))', "~zero10)", "from.lt", 0, 0, "the mark of BR"),
    ("core.barrel", 'Mux(row("lands", 3) & ~self.idle, 1, Cat', "Mux(0, 1, Cat", "from.lt", 0, 0, "PC"),
    ("core.barrel", "base4 >= self.data_size", "base4 > self.data_size", "ld.add", 0, 0, "a trap before execution"),
    ("core.barrel", "(next4 < 0) | (next4 >= self.code_size)", "next4 >= self.code_size", "imm.add", 0, 0, "a trap before"),
    ("core.barrel", "~(later(same, 1) & h.distinct).any()", "1", "mov.add", 0, 0, "a trap before execution"),
    ("core.barrel", "~held.valid | (now.order < held.order)", "~held.valid", "lpow.mul", 0, 0, "the cause"),
    ("core.barrel", "sync += dead[i].eq(ended11)", "sync += dead[i].eq(0)", "swap", 0, 0, "registers.words"),
    ("core.barrel", "ok.eq(alive10 & ~self.fails)", "ok.eq(alive10)", "fdiv.add", 0, 0, "registers.words"),
    ("core.barrel", "^ negates.replicate(width))", ")", "call", 0, 0, ""),
    ("core.barrel", "later(back3, 1), entry7, turn)", "Const(0), entry7, turn)", "mov.add", 0, 1, "the microprogram"),
    ("core.units", "less.eq(word[-1] ^ overflow)", "less.eq(word[-1])", "goto.lt", 0, 0, "BR"),
    # two slots: operands and operation of the second logic unit, copies, banks read and written, and guards
    (_TWO, "logic.x.eq(self._second_x)", "logic.x.eq(x)", "ld.add", 1, 0, "d"),
    (_TWO, "logic.y.eq(self._second_y)", "logic.y.eq(y)", "mov.add", 1, 0, "d"),
    (_TWO, 'row("second.operation", 7)', 'row("operation", 7)', "st.sub", 1, 0, "the condition of a trap"),
    (_TWO, 'gated([(row("second.copies", 7), self._second_y)])', "0", "exch", 0, 0, "d"),
    (_TWO, "later(into[1], 6), later(self._second8, 1))", "later(into[1], 6), self._logic9)", "exch", 0, 0, "d"),
    (_TWO, "line.eq(second if k else ~aside & ~second)", "line.eq(0 if k else ~aside)", "exch", 1, 0, "m̄"),
    (_TWO, "number >> 6 == SECOND_BANK >> 6", "number >> 7 == SECOND_BANK >> 6", "cswap", 0, 0, "a"),
    (_TWO, "cotangent, temporary = (kind[:2] != 0)", "cotangent, temporary = (kind[:2] == 1)", "mov.add", 1, 0, ""),
    (_TWO, "Mux(self._later(into[1], 1), adr4", "Mux(self._later(into[0], 1), adr4", "exch", 1, 0, "d"),
    (_TWO, "(second if k else ~second)", "(~second if k else second)", "exch", 1, 0, "d"),
    (_TWO, "ok & (later(into[0], 7)", "(ok | later(into[1], 7)) & (later(into[0], 7)", "fmov.add", 1, 0, ""),
    (_TWO, "return kind[:2] != 0", "return kind[0]", "mov.add", 1, 0, "the condition of a trap"),
    (_TWO, "fails & (self.modes.overflow |", "fails & (1 |", "fmov.add", 1, 0, "the condition of a trap"),
    (_TWO, '(row(f"{at}result", 9) & ~holds9)', '(row(f"{at}result", 9) & holds9)', "div.add", 0, 0, "the condition"),
    (_TWO, '(row(f"{at}sum", 9) & ~fits9)', "0", "fmov.add", 1, 0, "the condition of a trap"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("module", "old", "new", "name", "lifted", "backward", "what"), OF_STEPS, ids=str)
def test_a_fault_of_a_step_is_refuted(
    planted: Plant, module: str, old: str, new: str, name: str, lifted: int, backward: int, what: str
) -> None:
    planted(module, old, new)
    two = Prover(Q8, core="barrel", slots=2 if module == _TWO else 1)
    found = two.prove_transition(TABLE[name], lifted=bool(lifted), backward=bool(backward))
    assert not found.holds
    assert found.counterexample.startswith(what)
    assert "undecided" not in found.counterexample


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2])
def test_exchanged_microprograms_are_refuted(slots: int) -> None:
    """Sum and difference: each is undone by the other, so only the table tells."""
    made = RowMicrocode(Parameters(Q8, code_words=8, data_words=4, core="barrel", lanes=8, slots=slots))
    for same in (False, True):
        places = [dispatch_address(TABLE[name].code, False, False, same) for name in ("mov.add", "mov.sub")]
        a, b = (made.dispatch[at] for at in places)
        made.dispatch[places[0]], made.dispatch[places[1]] = b, a
    found = Prover(Q8, microcode=made, core="barrel", slots=slots).prove_transition(TABLE["mov.add"])
    assert found.counterexample.startswith("d: ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "name", "what"),
    [("y", "mov.add", "d"), ("target", "st.sub", ""), ("write", "exch", ""), ("check", "fmov.add", "the condition")],
)
def test_a_second_micro_operation_that_lacks_a_field_is_refuted(field: str, name: str, what: str) -> None:
    """A field of the second slot is zero in the first row of the instruction, with D = 1."""
    made = RowMicrocode(Parameters(Q8, code_words=8, data_words=4, core="barrel", lanes=8, slots=2))
    entry = made.dispatch[dispatch_address(TABLE[name].code, False, True, False)]
    row = entry >> ROW_ENTRY["row"].offset & (1 << ROW_BITS) - 1
    second = made.layout["second"]
    place = second.shape[field]
    made.rows[row] &= ~((1 << place.width) - 1 << second.offset + place.offset)
    found = Prover(Q8, microcode=made, core="barrel", slots=2).prove_transition(TABLE[name], lifted=True)
    assert not found.holds
    assert found.counterexample.startswith(what)
    assert "undecided" not in found.counterexample


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        (
            "Cat(rest[-1], half[-1], state.signs[:-2])",
            "Cat(half[-1], rest[-1], state.signs[:-2])",
            "ring 0, quotient: stage 3",
        ),
        ("more.eq((negative & exact) | ", "more.eq(", "quotient: its result"),
        ("low.all(), high[1:].all(), ", "low.all(), high.all(), ", "quotient: its result"),
        ("Mux(more & low.all(), ", "Mux(more & low[1:].all(), ", "quotient: its result"),
        ("exact = (r == 0) | ", "exact = (r == 0) & ", "quotient: its result"),
        ("first.down.eq(x << (most - p.zeros))", "first.down.eq(x << most)", "its start"),
        ("after.down.eq(state.down << 2)", "after.down.eq(state.down << 1)", "root: stage 7"),
        ("Const(1, 1), state.remains[-1]", "Const(1, 1), ~state.remains[-1]", "root: stage 2"),
        # two slots: the division that returns beside the first stage
        ("first = self.returned", "first = stages[0]", "quotient: its result"),
        (
            "m.d.sync += [first.divisor.eq(_magnitude(self.y)), ",
            "m.d.sync += [self.returned.remains.eq(0), first.divisor.eq(_magnitude(self.y)), ",
            "quotient: stage 7",
        ),
    ],
)
def test_a_fault_of_the_ring_is_refuted(planted: Plant, old: str, new: str, claim: str) -> None:
    planted("core.divider.RingDivider", old, new)
    units = ThreadUnitProver(Q8, core="barrel", slots=2 if "returned" in old + new else 1)
    found = [units.prove(one) for one in units.claims() if claim in one.name]
    assert not all(proof.holds for proof in found)
    assert not any("undecided" in proof.counterexample for proof in found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("goes_on.eq(each & (thread != last))", "goes_on.eq(each & (thread < last - 1))", "all threads"),
        ("Mux(each, thread, self.lane.index)", "Mux(each, thread, 0)", "all threads"),
        ("waits = ~waited[-1]", "waits = ~waited[-2]", "halves read"),
        ("begins & ~self.accepted.valid", "begins", "answered"),
        ('("turn", "forget", "clear", "zero_cotangents")', '("turn", "forget", "clear")', "answered"),
        ("Mux(begins, Cat(1, waited), 0)", "Cat(begins, waited)", "answered"),
        ("running.any() | ~self.idle | self.zeroing", "~self.idle | self.zeroing", "answered"),
        ("reads = decides & allowed", "reads = begins", "zeroes"),
        ("decides = begins & waited[0]", "decides = begins", "busy"),
        ("Mux(high, kept.word, found[:32])", "Mux(high, found[32:], found[:32])", "halves read"),
        ("commanded.eq(Mux(lane.all, ~0, 1 << seen))", "commanded.eq(1 << seen)", "commands"),
        ("lane.index.eq(_at_most(written[:8], p.lanes - 1))", "lane.index.eq(written[:8])", "thread"),
        ("lane.all.eq(written[31])", "lane.all.eq(written[30])", "thread"),
    ],
)
def test_a_fault_of_the_host_interface_is_refuted(planted: Plant, old: str, new: str, claim: str) -> None:
    planted("bus.host_interface", old, new)
    found = ThreadBusProver(Q8, interface=host_interface.HostInterface).prove(f"host interface of threads: {claim}")
    assert not found.holds
    assert "undecided" not in found.counterexample
