"""SymbiYosys has the same opinion as our own prover: steps that are the table's pass, and another step is refuted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator
from retrograd.hdl.formal.claims import Claim, ClaimKind
from retrograd.hdl.formal.symbiyosys.bench import OPERATIONS, TransitionBench, _values, executed_opcode, step_of
from retrograd.hdl.formal.symbiyosys.runs import TOOLS, check, check_bench, folder_name, supported
from retrograd.hdl.netlist import found
from retrograd.isa.expr import evaluate, nodes
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

W = Format(8, 4)
NAMES = [opcode.name for opcode in TABLE]
SHORT = supported(W, NAMES)


def _lacking() -> str:
    for tool in TOOLS:
        try:
            found(tool)
        except FileNotFoundError:
            return f"{tool} is not installed: pip install 'retrograd[synth]' z3-solver"
    return ""


def test_the_claims_are_those_of_the_logic_unit() -> None:
    assert {claim.kind for claim in SHORT} == {ClaimKind.TRANSITION}
    names = {claim.opcode.name for claim in SHORT}
    assert {"mov.add", "ld.sub", "goto.lt", "cswap", "roli", "exch"} <= names
    assert not {"mul.add", "fexp.add", "rot", "fdiv.sub"} & names
    for claim in SHORT:
        step = step_of(executed_opcode(claim), W, claim.lifted, claim.same)
        assert {node.op for tree in step.after.values() for node in nodes(tree)} <= OPERATIONS


def test_each_claim_has_a_folder_of_its_own() -> None:
    assert len({folder_name(claim) for claim in SHORT}) == len(SHORT) > 400


def test_values_are_those_of_the_trees() -> None:
    """All trees of all claims, on words of their own."""
    rng = random.Random(3)
    trees = {
        tree
        for claim in SHORT
        for step in [step_of(executed_opcode(claim), W, claim.lifted, claim.same)]
        for tree in (*step.after.values(), *(predicate for _, predicate in step.guards))
    }
    places = sorted({str(node.param) for tree in trees for node in nodes(tree) if node.op == "input"})
    m, words = Module(), {place: Signal(W.width, name=f"word_{k}") for k, place in enumerate(places)}
    value = _values(m, W, words)
    made = {tree: value(tree) for tree in trees}
    seen = {node.op for tree in trees for node in nodes(tree)}
    assert seen == OPERATIONS

    async def compare(context):  # type: ignore[no-untyped-def]
        for _ in range(20):
            given = {place: rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.getrandbits(8))) for place in places}
            for place, word in given.items():
                context.set(words[place], word)
            await context.delay(1e-9)
            for tree, signal in made.items():
                assert context.get(signal) == evaluate(tree, W, given), tree

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()


def _claim(name: str, backward: bool = False, lifted: bool = False) -> Claim:
    (claim,) = (c for c in SHORT if (c.opcode.name, c.backward, c.lifted) == (name, backward, lifted))
    return claim


@pytest.mark.slow
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
@pytest.mark.parametrize(
    "claim", [_claim("mov.add"), _claim("goto.lt", backward=True), _claim("exch"), _claim("swap", lifted=True)], ids=lambda c: c.name
)  # fmt: skip
def test_a_step_is_the_tables(claim: Claim, tmp_path: Path) -> None:
    (result,) = check([claim], W, tmp_path)
    assert result.holds, result.counterexample
    assert result.witnessed


@pytest.mark.slow
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
@pytest.mark.parametrize(("name", "other"), [("mov.add", "mov.sub"), ("goto.lt", "goto.ltu"), ("swap", "exch")])
def test_another_step_is_refuted(name: str, other: str, tmp_path: Path) -> None:
    """The core executes an instruction, and the bench expects the step of another."""
    result = check_bench(TransitionBench(_claim(name), W, TABLE[other]), tmp_path, 600)
    assert not result.holds
    assert "counterexample" in result.counterexample


@pytest.mark.slow
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
def test_a_claim_without_time_does_not_hold(tmp_path: Path) -> None:
    (result,) = check([replace(_claim("mov.add"))], W, tmp_path, seconds=1)
    assert not result.holds or result.seconds < 5
