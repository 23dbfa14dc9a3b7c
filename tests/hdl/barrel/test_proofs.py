"""Proofs of the core barrel: the order of turns, and that no state of a thread reaches another one. Faults are refuted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.hdl.formal.barrel import COUNTS, MARKS, MEMORIES, THREADS, TURNS, ThreadsProver, TurnsProver
from retrograd.hdl.formal.proofs import part_claims, prove_parts
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
