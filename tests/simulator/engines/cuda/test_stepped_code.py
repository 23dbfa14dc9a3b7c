"""The loops of single runs on a device, and the text of their kernels. Needs no CUDA; simulated/test_single_runs.py runs them."""

from __future__ import annotations

import re

import pytest
from retrograd.simulator.engines.cuda.stepped_machine import (
    ADD,
    MEASURE,
    SLICE,
    STEPS,
    TEST,
    Plan,
    PlanSlot,
    device_loops,
    has_parallel_loops,
    stepped_ir,
)
from retrograd.simulator.engines.state import UNLIMITED, Exit
from retrograd.simulator.engines.translator.flow import Variant

import retrograd as rg
from tests.simulator.engines.test_parallel_loops import UPDATE, neighbours, nest

SINGLE = """
        .memory 400
        start
        add r250, 100
loop:   from.ne r7, r0, next
        add r7, 1
        ld.add r8, [r7 + 200]
        st.add [r7], r8
        ld.sub r8, [r7 + 200]
next:   goto.ne r7, r250, loop
        finish
"""


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("body", "expected"), [(UPDATE, [True, False]), (neighbours(20), [True, False])])
def test_nests_and_their_inner_loops(body: tuple[str, ...], expected: list[bool], backward: bool) -> None:
    """The rows of a nest, and the passes of its last row."""
    found = device_loops(nest(body), Variant(backward=backward))
    assert [bool(loop.before) for loop in found] == expected


def test_a_single_loop() -> None:
    (loop,) = device_loops(rg.assemble(SINGLE), Variant())
    assert not loop.before
    assert loop.start == loop.inner.start
    assert has_parallel_loops(rg.assemble(SINGLE))


@pytest.mark.parametrize("text", [SINGLE.replace("st.add", "st.xor"), SINGLE.replace("[r7 + 200]", "[r9 + 200]")])
def test_other_loops_are_left_to_one_thread(text: str) -> None:
    assert not has_parallel_loops(rg.assemble(text))


def test_the_kernels() -> None:
    text = stepped_ir(nest(UPDATE), Variant())
    assert re.findall(r"define ptx_kernel void @(\w+)\(", text) == [STEPS, TEST, ADD, MEASURE]
    add = text[text.index("@add0(") :]
    add = add[: add.index("\n}")]
    assert "atomicrmw add" in add
    test = text[text.index("@test0(") :]
    assert "atomicrmw" not in test[: test.index("\n}")]
    assert not re.search(r"^  store [^,]*, ptr %", test[: test.index("\n}")], re.MULTILINE)


def test_the_plan() -> None:
    loops = device_loops(nest(UPDATE), Variant())
    plan = Plan(loops)
    words = plan.new()
    assert (words[PlanSlot.WHY], words[PlanSlot.SLICE], words[PlanSlot.POINT]) == (Exit.PAUSED, SLICE, 0)
    assert [words[plan.pause(k)] for k in range(2)] == [UNLIMITED] * 2
    assert len(words) == plan.by + plan.registers
    assert plan.by - plan.first == max(len(loop.inside) for loop in loops)
