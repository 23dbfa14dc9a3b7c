"""Proofs of a lane: its steps are the table's in any state of the other lane, and a masked lane keeps its state. Planted faults are refuted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from random import Random

import pytest
from retrograd.hdl.core.cores import lanes_of
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import proofs, terms
from retrograd.hdl.formal.claims import Claim, ClaimKind, claims
from retrograd.hdl.formal.lanes import COUNT, COUNTS, MASK, ORDER, Choice, LaneExecution, MaskProver, OrderProver
from retrograd.hdl.formal.proofs import Prover, Stuck, part_claims, prove_parts
from retrograd.hdl.formal.solving import truth
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.lanes import DEPTH, LANES, Position, issued_lanes
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

z3 = pytest.importorskip("z3")
Q8 = Format(8, 4)


@cache
def prover() -> Prover:
    return Prover(Q8, core=LANES)


def all_hold(prover: Prover, wanted: list[Claim]) -> None:
    for claim in wanted:
        found = prover.prove_claim(claim)
        assert found.holds, (claim.name, found.counterexample)
        assert found.witnessed, claim.name


@pytest.mark.long
def test_a_step_of_a_lane_is_the_tables_and_is_undone() -> None:
    all_hold(prover(), [claim for claim in claims(Q8, {"exch"}) if claim.lifted])


@pytest.mark.long
@pytest.mark.parametrize("name", [o.name for o in TABLE])
def test_every_claim_holds(name: str) -> None:
    all_hold(prover(), claims(Q8, {name}))


@pytest.mark.long
def test_the_other_lane_is_like_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "LaneExecution", partial(LaneExecution, own=1))
    all_hold(Prover(Q8, core=LANES), claims(Q8, {"exch", "goto.lt", "assertz"}))


def test_a_masked_lane_keeps_its_state() -> None:
    found = {proof.opcode: proof for proof in prove_parts(Q8, (MASK,), core=LANES)}
    assert found.keys() == part_claims(Q8, (MASK,), LANES).keys()
    assert len(found) == COUNT * len(Phase)
    for name, proof in found.items():
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), name


@pytest.mark.parametrize("count", [COUNTS[0], *(pytest.param(count, marks=pytest.mark.long) for count in COUNTS[1:])])
def test_the_lanes_of_the_first_rank_execute(count: int) -> None:
    prover = OrderProver(Q8)
    names = [name for name in prover.claims() if name.startswith(f"order of {count} lanes")]
    assert len(names) == count + 1
    assert {*names} <= part_claims(Q8, (ORDER,), LANES).keys()
    for name in names:
        proof = prover.prove(name)
        assert (proof.holds, proof.counterexample, proof.witnessed) == (True, "", True), name


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
def test_the_order_that_is_proved_is_that_of_the_definition(count: int) -> None:
    """On random lanes, many of them equal in depth, direction or PC."""
    core = lanes_of(Parameters(Q8, code_words=64, data_words=4, core=LANES, lanes=count))
    choice, rng, width = Choice(core), Random(count), len(core.lanes[0].pc)
    met = set()
    for _ in range(300):
        depths, directions = rng.choice(((1,), (1, 255))), rng.choice(((1,), (-1,), (1, -1)))
        positions = [Position(rng.choice((0, 64, 5)), rng.choice(directions), rng.choice(depths)) for _ in range(count)]
        able = rng.getrandbits(count)
        words = [(terms.unknown("able", count), able, count)]
        for i, at in enumerate(positions):
            words += [
                (terms.unknown(f"pc{i}", width), at.pc, width),
                (terms.unknown(f"back{i}", 1), int(at.direction < 0), 1),
                (terms.unknown(f"depth{i}", DEPTH), at.depth, DEPTH),
            ]
        solver = z3.Solver()
        solver.add(*(truth(terms.equal(word, known, size)) for word, known, size in words))
        assert solver.check() == z3.sat
        expected = issued_lanes([at if able >> i & 1 else None for i, at in enumerate(positions)], choice.bits)
        for lanes in (choice.first, choice.chosen):
            found = [i for i in range(count) if solver.model().eval(truth(lanes(i)), model_completion=True)]
            assert found == expected
        met.add(tuple(expected))
    assert len(met) == 1 << count  # each set of lanes executes once, none among them


@pytest.mark.long
def test_no_proof_is_only_of_a_lane_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of a proof allow that the other lane executes the instruction too, to its end, and that it does not."""
    seen: list[int] = []

    class Watched(LaneExecution):
        def _ended(self) -> bool:
            ended = super()._ended()
            if ended:
                other = terms.piece_of(self.hardware.peek(self.lanes.live), 1, 1)
                for live in (0, 1):
                    found = self.definitions.check([*self.run.known, terms.equal(other, live, 1)], 60)
                    seen.append(live if isinstance(found, z3.ModelRef) else -1)
            return ended

    monkeypatch.setattr(proofs, "LaneExecution", Watched)
    assert Prover(Q8, core=LANES).prove(TABLE["imm.xor"]).holds
    assert seen == [0, 1] * 2


# ---------------------------------------------------------------- faults

_CORE, _LANES = "core.core", "core.lanes"
#: the changes of state of the instruction, without the mask
_UNMASKED = "(sequencer.now.commit.{} & (self.phase == Phase.RUN) & writes)"
#: module, the text there, the planted text, the claim that is refuted, the fact that is false: of a cycle of a masked lane
MASKS = [
    *(
        (_CORE, f"{port}.eq(commit.{field} & writes)", f"{port}.eq({_UNMASKED.format(field)})", "lane 1: run", place)
        for port, field, place in (
            ("registers.write_word", "word", "registers.words"),
            ("registers.write_cotangent", "cotangent", "registers.cotangents"),
            ("memory.write_word", "memory", "memory.words"),
            ("memory.write_cotangent", "memory_cotangent", "memory.cotangents"),
            ("branch.commit", "first", "PC"),
        )
    ),
    (_CORE, "ledger.cross.eq(commit.first & writes & commit.drop)", f"ledger.cross.eq({_UNMASKED.format('drop')})", "lane 0: run", "crossings"),
    (_CORE, "retires.eq(commit.last & writes)", f"retires.eq({_UNMASKED.format('last')})", "lane 0: run", "counter 0"),
    (_LANES, "apart=leaves | ~live[i]", "apart=leaves", "lane 0: decode", "no trap"),
    (_LANES, "live.eq(stays)", "live.eq(~stays)", "lane 0: access", "the mask"),
]  # fmt: skip
#: text of the core, the planted text, the claim on the order that is refuted
ORDERS = [
    # the least depth goes first
    ("~self.depths[i], ~able[i]", "self.depths[i], ~able[i]", "2 lanes: lane 0"),
    # the least PC goes first backward, too
    ("address ^ lane.backward.replicate(bits), lane", "address, lane", "2 lanes: lane 1"),
    # backward goes before forward
    ("lane.backward, ~self.depths", "~lane.backward, ~self.depths", "2 lanes: lane 0"),
    # a lane that does not run stands before the others, or executes
    ("~able[i]))", "0))", "2 lanes: some lane is first"),
    ("chosen.eq(able & Cat", "chosen.eq(Cat", "2 lanes: lane 1"),
    # the last of three lanes is never first; of two lanes the greater is first
    ("[*winners, *words[len(winners) * 2 :]]", "winners", "3 lanes: lane 2"),
    ("Mux(b < a, b, a)", "Mux(b < a, a, b)", "4 lanes: lane 3"),
]
#: the same of a step, with its opcode
STEPS = [
    # the trap of a lane stops the others
    (_LANES, "& ~stays.any())", "& Cat(self.leaves).any())", "fdiv.add", "the instruction goes on"),
    # a lane that traps goes on, and traps of lanes are never noticed
    (_LANES, "live.eq(stays)", "live.eq(live)", "exch", "the instruction goes on"),
    # lanes elsewhere in the code, or in the other direction, execute the instruction
    (_LANES, "chosen.eq(able & Cat(rank == first for rank in ranks))", "chosen.eq(able)", "goto", "the address"),
    (_LANES, "lane.backward.replicate(bits), lane.backward, ~self", "lane.backward.replicate(bits), 0, ~self", "goto", "the"),
    (_LANES, "backward.eq(first[bits])", "backward.eq(0)", "goto", "the direction"),
    # a lane that executes changes nothing
    (_LANES, "Mux(live[i], Value.cast(sequencer.commit), 0)", "Mux(live.all(), Value.cast(sequencer.commit), 0)", "mov.xor", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "old", "new", "claim", "fact"),
    [pytest.param(*case, marks=[] if k in (0, 7) else [pytest.mark.long]) for k, case in enumerate(MASKS)],
    ids=[new for _, _, new, _, _ in MASKS],
)
def test_a_fault_of_the_mask_is_refuted(
    planted: Callable[[str, str, str], type], unit: str, old: str, new: str, claim: str, fact: str
) -> None:
    planted(unit, old, new)
    found = MaskProver(Q8).prove(claim)
    assert not found.holds
    assert found.counterexample.startswith(fact)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [pytest.param(*case, marks=[] if k in (0, 4) else [pytest.mark.long]) for k, case in enumerate(ORDERS)],
    ids=[new for _, new, _ in ORDERS],
)
def test_a_fault_of_the_order_is_refuted(
    planted: Callable[[str, str, str], type], old: str, new: str, claim: str
) -> None:
    planted(_LANES, old, new)
    found = OrderProver(Q8).prove(f"order of {claim}")
    assert not found.holds
    assert "executes" in found.counterexample


@pytest.mark.long
@pytest.mark.parametrize(("unit", "old", "new", "name", "fact"), STEPS, ids=[new for _, _, new, _, _ in STEPS])
def test_a_fault_of_a_step_is_refuted(
    planted: Callable[[str, str, str], type], unit: str, old: str, new: str, name: str, fact: str
) -> None:
    planted(unit, old, new)
    again = Prover(Q8, core=LANES)
    wrong = []
    for claim in claims(Q8, {name}):
        if claim.kind is ClaimKind.TRANSITION and not claim.lifted:
            with suppress(Stuck):
                wrong.append(again.prove_claim(claim).counterexample)
    assert any(wrong)
    assert any(text.startswith(fact) for text in wrong if text), wrong
