"""Proofs on the netlist: what an instruction did is taken back, on all words at once. Wrong hardware is refuted."""

from __future__ import annotations

import pytest
from retrograd.hdl.microcode import DISPATCH, Microcode
from retrograd.hdl.microword import MICROWORD, Operation
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.proofs import Prover, provable, prove_all
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

Q8, Q16 = Format(8, 4), Format(16, 8)
#: one of each kind of step
NAMES = ["mov.add", "ld.add", "fmul.sub", "rol", "cswap", "exch", "goto.lt", "uncall", "lmov.mul"]


#: functions of so many micro-operations that their proofs take minutes
LONG = {"fexp", "flog", "fsin", "fcos", "fatan2", "ltof", "ftol", "ladd", "lsub", "rot"}


@pytest.fixture(scope="module")
def prover() -> Prover:
    return Prover(Q8)


@pytest.mark.parametrize("name", NAMES)
def test_an_instruction_is_taken_back(prover: Prover, name: str) -> None:
    for backward in (False, True):
        found = prover.prove(TABLE[name], backward=backward, lifted=backward)
        assert found.holds, found


@pytest.mark.slow
@pytest.mark.parametrize("w", [Q8, Q16, Format(32, 16)], ids=str)
@pytest.mark.parametrize("name", [o.name for o in TABLE if provable(o)])
def test_every_instruction_is_taken_back(w: Format, name: str) -> None:
    # At 16 and 32 bits those that are no long functions: of these the solver takes minutes.
    if w != Q8 and TABLE[name].entry.name in LONG:
        w = Q8
    assert all(result.holds for result in prove_all(w, {name}))


def test_one_register_read_twice(prover: Prover) -> None:
    assert prover.prove(TABLE["fmul.add"], lifted=True, same=True).holds


@pytest.mark.parametrize(("name", "old", "new"), [
    ("mov.add", Operation.SUB, Operation.ADD),
    pytest.param("lmov.mul", Operation.OR, Operation.AND, marks=pytest.mark.slow),
    pytest.param("roli", Operation.SHR, Operation.SAR, marks=pytest.mark.slow),
])  # fmt: skip
def test_wrong_hardware_is_refuted(name: str, old: Operation, new: Operation) -> None:
    code = Microcode(Parameters(Q8, code_words=8, data_words=4))
    at = MICROWORD["operation"].offset
    for address, row in enumerate(code.dispatch):
        shift = DISPATCH["word"].offset + at
        if row >> shift & 31 == old.value:
            code.dispatch[address] ^= (old.value ^ new.value) << shift
    for index, row in enumerate(code.rows):
        if row >> at & 31 == old.value:
            code.rows[index] ^= (old.value ^ new.value) << at
    found = Prover(Q8, code).prove(TABLE[name])
    assert not found.holds
    assert found.counterexample


def test_what_loses_words_cannot_be_proved(prover: Prover) -> None:
    assert [o.name for o in TABLE if not provable(o)] == ["erase", "unerase", "start", "finish"]
    with pytest.raises(ValueError, match="cannot be taken back"):
        prover.prove(TABLE["erase"])


def test_all_modes_of_some_opcodes() -> None:
    found = list(prove_all(Q8, {"not"}))
    assert [result.opcode for result in found] == [f"not D={d} DIR={way}" for d in (0, 1) for way in (1, -1)]
    assert all(result.holds for result in found)
