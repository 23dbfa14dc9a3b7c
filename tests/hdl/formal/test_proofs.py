"""Proofs on the netlist: what an instruction did is taken back, on all states at once. Wrong hardware is refuted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache

import pytest
from retrograd.hdl.formal import proofs
from retrograd.hdl.formal.claims import (
    Claim,
    ClaimKind,
    always_traps,
    claims,
    classes,
    distinguishes,
    jumps,
    provable,
    trap_codes,
)
from retrograd.hdl.formal.proofs import Prover, prove_all, prove_with
from retrograd.hdl.microcode import ADDRESS_BITS, DISPATCH, FORBIDDEN, Microcode, dispatch_address, microcode_for
from retrograd.hdl.microword import COMMIT, MICROWORD, Field, Operation, TrapCause
from retrograd.hdl.parameters import Parameters
from retrograd.isa import functions
from retrograd.isa.expr import ZERO
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

from retrograd.cli.main import main

Q8, Q16, Q32 = Format(8, 4), Format(16, 8), Format(32, 16)
Plant = Callable[[Parameters], Microcode]
#: one of each kind of step
NAMES = ["ld.add", "exch", "mov.add", "fmul.sub", "cswap", "uncall"]


@cache
def prover_of(w: Format) -> Prover:
    return Prover(w)


def undoing(w: Format, opcodes: Collection[str]) -> list[Claim]:
    """The claims but those on the table's transition, which test_transitions.py proves."""
    return [claim for claim in claims(w, opcodes) if claim.kind is not ClaimKind.TRANSITION]


@pytest.fixture(scope="module")
def prover() -> Prover:
    return prover_of(Q8)


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])])
def test_an_instruction_is_taken_back(prover: Prover, name: str) -> None:
    backward = len(name) % 2 == 1
    found = prover.prove(TABLE[name], backward=backward, lifted=not backward)
    assert found.holds, found
    assert found.witnessed


def test_a_jump_and_its_partner_are_taken_back(prover: Prover) -> None:
    found = prover.prove_pair(TABLE["goto.lt"])
    assert (found.opcode, found.holds, found.cycles) == ("goto.lt, from.lt", True, 16)
    with pytest.raises(ValueError, match=r"from\.lt begins no jump"):
        prover.prove_pair(TABLE["from.lt"])


@pytest.mark.long
@pytest.mark.parametrize("w", [Q8, Q16, Q32], ids=str)
@pytest.mark.parametrize("name", [o.name for o in TABLE if provable(o)])
def test_every_instruction_is_taken_back(w: Format, name: str) -> None:
    prover = prover_of(w)
    prover.seconds = 300
    wanted = undoing(w, {name})
    found = [prover.prove_claim(claim) for claim in wanted]
    assert not [result for result in found if not result.holds]
    assert w != Q8 or all(result.witnessed for result in found)


def test_classes_are_of_the_table() -> None:
    found = classes(Q8)
    assert sorted(o.name for opcodes in found.values() for o in opcodes) == sorted(o.name for o in TABLE if provable(o))
    assert [o.name for o in found["Bijections: rd, memory by no unit"]] == ["exch"]
    assert found["Memory: memory by logic unit"][0].name == "st.xor"
    assert {o.name for o in found["Branches: BR by logic unit"]} >= {"goto", "from.lt", "uncall"}
    assert [o.name for o in TABLE if jumps(o, Q8, False)] == [o.name for o in TABLE if o.name.startswith("goto")]
    assert [o.name for o in TABLE if jumps(o, Q8, True)] == [o.name for o in TABLE if o.name.startswith("from")]


@pytest.mark.parametrize(
    "w",
    [
        Q8,
        Format(8, 0),
        *(pytest.param(Format(*w), marks=pytest.mark.long) for w in ((16, 8), (32, 16), (64, 32), (32, 31))),
    ],
    ids=str,
)
def test_claims_are_of_the_table(w: Format) -> None:
    found = undoing(w, [o.name for o in TABLE])
    names = [claim.name for claim in found]
    assert len(set(names)) == len(names)
    modes = {(claim.opcode.name, claim.lifted, claim.backward) for claim in found if claim.kind is not ClaimKind.JUMP}
    assert modes == {(o.name, d, way) for o in TABLE if provable(o) for d in (False, True) for way in (False, True)}
    # Every opcode of a format that has no room for its function traps; and the difference of a lognum and itself, which is none.
    traps = {claim.opcode.name for claim in found if claim.kind is ClaimKind.TRAP and not claim.same}
    refused = {
        o.name for o in TABLE if provable(o) and any(g.predicate is ZERO and g.mode == "always" for g in o.guards(w))
    }
    assert traps == refused
    assert bool(traps) == (not functions.available(w))
    one = {claim.opcode.name for claim in found if claim.kind is ClaimKind.TRAP and claim.same}
    assert one == {"lsub.mul", "lsub.div"} | {claim.opcode.name for claim in found if claim.same} & refused
    # Where ra = rb is a proof of its own is where the microcode makes a difference of it.
    code = microcode_for(Parameters(w, code_words=8, data_words=4))
    for opcode in filter(provable, TABLE):
        for lifted in (False, True):
            rows = [
                [code.dispatch[dispatch_address(opcode.code, backward, lifted, same)] for backward in (False, True)]
                for same in (False, True)
            ]
            assert (rows[0] != rows[1]) == distinguishes(opcode, w, lifted)


def test_there_are_about_four_proofs_an_opcode() -> None:
    """As docs/coprocessor.md states."""
    opcodes = [o.name for o in TABLE if provable(o)]
    assert len(undoing(Q32, opcodes)) / len(opcodes) == pytest.approx(4, abs=0.5)


NO_ROOM = Format(8, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", [o.name for o in TABLE if provable(o) and always_traps(o, NO_ROOM)])
def test_a_function_that_the_format_has_no_room_for_traps(name: str) -> None:
    found = list(prove_with(prover_of(NO_ROOM), {name}))
    assert [result.opcode for result in found] == [claim.name for claim in claims(NO_ROOM, {name})]
    assert not [result for result in found if not result.holds]


@pytest.mark.long
def test_one_register_read_twice(prover: Prover) -> None:
    assert prover.prove(TABLE["fmul.add"], lifted=True, same=True).holds


@pytest.mark.long
def test_an_ancilla_freed_with_its_cotangent(prover: Prover) -> None:
    # The machine is strict: a cotangent other than zero, which could not come back, traps.
    assert prover.prove(TABLE["assertz"], lifted=True).holds


# ---------------------------------------------------------------- the proofs can fail


def everywhere(code: Microcode, old: Operation, new: Operation) -> None:
    """Plant an operation wherever another one stands."""
    at = MICROWORD["operation"].offset
    for address, row in enumerate(code.dispatch):
        shift = DISPATCH["word"].offset + at
        if row >> shift & 31 == old.value:
            code.dispatch[address] ^= (old.value ^ new.value) << shift
    for index, row in enumerate(code.rows):
        if row >> at & 31 == old.value:
            code.rows[index] ^= (old.value ^ new.value) << at


def one_way(code: Microcode, name: str, backward: bool, change: Callable[[int], int]) -> None:
    """Change the microwords of an opcode in one direction, all but the first. Programs that were one stay one."""
    last = 1 << MICROWORD["commit"].offset + COMMIT["last"].offset
    copies: dict[int, int] = {}
    for same in (False, True):
        at = dispatch_address(TABLE[name].code, backward, False, same)
        start = code.dispatch[at] >> DISPATCH["start"].offset & ((1 << ADDRESS_BITS) - 1)
        if start not in copies:
            copies[start] = len(code.rows)
            end = next(n for n in range(start, len(code.rows)) if code.rows[n] & last)
            code.rows += [change(row) for row in code.rows[start : end + 1]]
        code.dispatch[at] ^= (start ^ copies[start]) << DISPATCH["start"].offset


@pytest.mark.parametrize(("name", "old", "new"), [
    ("mov.add", Operation.SUB, Operation.ADD),
    pytest.param("lmov.mul", Operation.OR, Operation.AND, marks=pytest.mark.long),
    pytest.param("roli", Operation.SHR, Operation.SAR, marks=pytest.mark.long),
])  # fmt: skip
def test_wrong_hardware_is_refuted(microcode: Plant, name: str, old: Operation, new: Operation) -> None:
    code = microcode(Parameters(Q8, code_words=8, data_words=4))
    everywhere(code, old, new)
    found = Prover(Q8, code).prove(TABLE[name])
    assert not found.holds
    assert found.counterexample


def field_to(new: Field) -> Callable[[int], int]:
    """Another register is written."""
    shift = MICROWORD["commit"].offset + COMMIT["field"].offset

    def change(row: int) -> int:
        return row ^ (Field.RD.value ^ new.value) << shift if row >> shift & 3 == Field.RD.value else row

    return change


def guard_of_nothing(row: int) -> int:
    """Whatever is checked is the result of a comparison of bits with themselves."""
    shift = MICROWORD["operation"].offset
    return row ^ (Operation.EQ.value ^ Operation.NE.value) << shift if row >> shift & 31 == Operation.EQ.value else row


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        # The way back traps, or another register comes back than went.
        ("goto.lt", guard_of_nothing, "a trap"),
        ("fmul.xor", field_to(Field.RA), "registers.words"),
    ],
    ids=["guard", "register"],
)
def test_a_way_back_that_is_another_is_refuted(
    microcode: Plant, name: str, change: Callable[[int], int], said: str
) -> None:
    code = microcode(Parameters(Q8, code_words=8, data_words=4))
    one_way(code, name, True, change)
    found = Prover(Q8, code).prove(TABLE[name])
    assert not found.holds
    assert found.counterexample.startswith(said)


def test_what_loses_words_cannot_be_proved(prover: Prover) -> None:
    assert [o.name for o in TABLE if not provable(o)] == ["erase", "unerase", "start", "finish"]
    with pytest.raises(ValueError, match="cannot be taken back"):
        prover.prove(TABLE["erase"])


@pytest.mark.long
def test_all_modes_of_some_opcodes() -> None:
    found = list(prove_all(Q8, {"not", "from.eq"}))
    assert [result.opcode for result in found if ", table" not in result.opcode] == [
        *(f"not D={d} DIR={way}" for d in (0, 1) for way in (1, -1)),
        *(
            f"{what} D={d} DIR={way}"
            for d in (0, 1)
            for way, names in ((1, ["from.eq"]), (-1, ["from.eq", "from.eq, goto.eq"]))
            for what in names
        ),
    ]
    assert all(result.holds for result in found)


# ---------------------------------------------------------------- hardware that does nothing


def verdicts(w: Format, name: str) -> dict[str, str]:
    """claim -> why it does not hold, by a core made now; or nothing."""
    found = {result.opcode: result.counterexample for result in prove_with(Prover(w), {name}) if not result.holds}
    assert set(found) <= {claim.name for claim in claims(w, {name})}
    return found


INSIDE = "(self.pc >= 0) & (self.pc < self.size)"
#: (unit, what stands there, what is planted, why no opcode's proof holds then)
DEAD = [
    ("core.units", INSIDE, "(self.pc >= self.size) & (self.pc < self.size)", "traps in all states"),
    ("core.units", INSIDE, "Const(0)", "traps in all states"),
    (
        "core.sequencer",
        "m.d.sync += self.phase.eq(Phase.FETCH)",
        "m.d.sync += self.phase.eq(Phase.IDLE)",
        "does not begin",
    ),
    ("core.sequencer", "Case(Phase.RUN), m.If(self.now.commit.last)", "Case(Phase.RUN), m.If(0)", "does not end"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("unit", "old", "new", "why"),
    [pytest.param(*case, marks=pytest.mark.long if k > 0 else []) for k, case in enumerate(DEAD)],
)
def test_dead_hardware_is_refuted(
    planted: Callable[[str, str, str], type], unit: str, old: str, new: str, why: str
) -> None:
    planted(unit, old, new.replace("Const(0)", "(self.pc != self.pc)"))
    found = verdicts(Q8, "neg")
    assert list(found) == [claim.name for claim in claims(Q8, {"neg"})]
    # A proof that the step is the table's may find the fault itself.
    assert all(why in said or "table" in name for name, said in found.items()), found


@pytest.mark.long
def test_the_command_refutes_dead_hardware(
    planted: Callable[[str, str, str], type], capsys: pytest.CaptureFixture[str]
) -> None:
    planted("core.units", INSIDE, "(self.pc >= self.size) & (self.pc < self.size)")
    proofs._prover.cache_clear()
    try:
        assert main(["hdl", "formal", "neg"]) == 1
    finally:
        proofs._prover.cache_clear()
    assert capsys.readouterr().out.endswith("0 of 8 hold at Q4.4\n")


@pytest.mark.long
@pytest.mark.parametrize("backward", [False, True])
def test_the_difference_of_a_lognum_and_itself_traps(prover: Prover, backward: bool) -> None:
    claim = Claim(TABLE["lsub.mul"], ClaimKind.TRAP, lifted=True, backward=backward, same=True)
    assert claim in claims(Q8, {"lsub.mul"})
    assert prover.prove_claim(claim).holds
    # Of other operands it does not.
    assert not prover.prove_claim(replace(claim, same=False)).holds


@pytest.mark.long
def test_dead_hardware_does_not_pass_for_a_function_without_room(planted: Callable[[str, str, str], type]) -> None:
    planted("core.units", INSIDE, "(self.pc >= self.size) & (self.pc < self.size)")
    found = verdicts(NO_ROOM, "fexp.xor")
    assert {said for name, said in found.items() if "table" not in name} == {"traps in all states"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "change", "why"),
    [
        # Its guard is taken from it; the trap is another than its own.
        ("valid", 1, "it retires"),
        pytest.param(
            "trap", TrapCause.DOMAIN.value ^ TrapCause.JUMP.value, "a trap of the table's", marks=pytest.mark.long
        ),
    ],
)
def test_a_function_without_room_that_does_not_trap_is_refuted(
    microcode: Plant, field: str, change: int, why: str
) -> None:
    code = microcode(Parameters(NO_ROOM, code_words=8, data_words=4))
    claim = Claim(TABLE["fexp.xor"], ClaimKind.TRAP)
    assert trap_codes(claim.opcode, NO_ROOM) == ["RG0403"]
    for same in (False, True):
        at = dispatch_address(claim.opcode.code, False, False, same)
        code.dispatch[at] ^= change << DISPATCH["forbidden"].offset + FORBIDDEN[field].offset
    found = Prover(NO_ROOM, code).prove_claim(claim)
    assert not found.holds
    assert found.counterexample.startswith(why)
