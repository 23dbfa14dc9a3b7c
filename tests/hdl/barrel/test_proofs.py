"""Proofs of the core barrel: the order of turns, threads apart, steps, units and host interface. Faults are refuted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from retrograd.hdl.bus import host_interface
from retrograd.hdl.formal.barrel import (
    COUNTS,
    MARKS,
    MEMORIES,
    THREADS,
    TURNS,
    ThreadBusProver,
    ThreadsProver,
    ThreadUnitProver,
    TurnsProver,
)
from retrograd.hdl.formal.claims import ClaimKind, claims
from retrograd.hdl.formal.proofs import Prover, part_claims, prove_parts, prove_with
from retrograd.hdl.formal.unit_proofs import UNITS
from retrograd.hdl.microcode import RowMicrocode, dispatch_address
from retrograd.hdl.parameters import Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.micro_operations import barrel_units
from retrograd.isa.microarchitecture.schedule import row_program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

z3 = pytest.importorskip("z3")
Q8 = Format(8, 4)


@pytest.mark.parametrize("w", [Q8, pytest.param(Format(32, 16), marks=pytest.mark.long)], ids=str)
def test_turns_and_threads(w: Format) -> None:
    found = {proof.opcode: proof for proof in prove_parts(w, (TURNS, THREADS), core="barrel")}
    assert found.keys() == part_claims(w, (TURNS, THREADS), "barrel").keys()
    assert len(found) == len(COUNTS) * (2 + 2 * len(MEMORIES) + len(MARKS))
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


@pytest.mark.parametrize(("old", "new", "claim"), FAULTS, ids=[new for _, new, _ in FAULTS])
def test_a_fault_is_refuted(planted: Callable[[str, str, str], type], old: str, new: str, claim: str) -> None:
    planted("core.barrel", old, new)
    found = (TurnsProver if claim.startswith(TURNS) else ThreadsProver)(Q8).prove(claim)
    assert not found.holds
    assert found.counterexample
    assert "undecided" not in found.counterexample


# ---------------------------------------------------------------- steps, units, host interface

Plant = Callable[[str, str, str], type]


@cache
def prover() -> Prover:
    return Prover(Q8, core="barrel")


def test_a_step_is_the_tables() -> None:
    found = [*prove_with(prover(), {"goto.lt"})]
    assert [proof.opcode for proof in found] == [claim.name for claim in claims(Q8, {"goto.lt"}, "barrel")]
    assert [(proof.holds, proof.counterexample, proof.witnessed) for proof in found] == [(True, "", True)] * 4


def rows(opcode: Opcode) -> int:
    return max(len(row_program(opcode, Q8, lifted, False, barrel_units())) for lifted in (False, True))


@pytest.mark.long
@pytest.mark.parametrize("name", [o.name for o in TABLE if rows(o) <= 45])
def test_every_step_is_the_tables(name: str) -> None:
    wanted = claims(Q8, {name}, "barrel")
    assert {claim.kind for claim in wanted} == {ClaimKind.TRANSITION}
    for proof in prove_with(prover(), {name}):
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), proof.opcode


@pytest.mark.parametrize("part", ["ROM", *(pytest.param(p, marks=pytest.mark.long) for p in (*UNITS[:2], "bus"))])
def test_units_and_host_interface(part: str) -> None:
    found = {proof.opcode: proof for proof in prove_parts(Q8, (part,), core="barrel")}
    assert found.keys() == part_claims(Q8, (part,), "barrel").keys()
    for name, proof in found.items():
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), name


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
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("module", "old", "new", "name", "lifted", "backward", "what"), OF_STEPS, ids=str)
def test_a_fault_of_a_step_is_refuted(
    planted: Plant, module: str, old: str, new: str, name: str, lifted: int, backward: int, what: str
) -> None:
    planted(module, old, new)
    found = Prover(Q8, core="barrel").prove_transition(TABLE[name], lifted=bool(lifted), backward=bool(backward))
    assert not found.holds
    assert found.counterexample.startswith(what)
    assert "undecided" not in found.counterexample


@pytest.mark.long
def test_exchanged_microprograms_are_refuted() -> None:
    """Sum and difference: each is undone by the other, so only the table tells."""
    made = RowMicrocode(Parameters(Q8, code_words=8, data_words=4, core="barrel", lanes=8))
    for same in (False, True):
        places = [dispatch_address(TABLE[name].code, False, False, same) for name in ("mov.add", "mov.sub")]
        a, b = (made.dispatch[at] for at in places)
        made.dispatch[places[0]], made.dispatch[places[1]] = b, a
    found = Prover(Q8, microcode=made, core="barrel").prove_transition(TABLE["mov.add"])
    assert found.counterexample.startswith("d: ")


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
    ],
)
def test_a_fault_of_the_ring_is_refuted(planted: Plant, old: str, new: str, claim: str) -> None:
    planted("core.divider.RingDivider", old, new)
    units = ThreadUnitProver(Q8, core="barrel")
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
