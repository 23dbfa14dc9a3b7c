"""Every transformation, on and off, on random programs: see switches.py. `tools/long_runs/random_programs.py` runs more of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.ir.statements import Module, Op
from retrograd.compiler.ir.traversal import map_blocks, map_bodies
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.machine import Trap
from support import switches

#: programs in the default tier, and in the full one by shares
QUICK, SLOW, CHUNK = 60, 100_000, 1000


@pytest.fixture(scope="session")
def given(module: Any, interpreter: ModuleType) -> tuple[ModuleType, ...]:
    return module("tests/compiler/random_ir.py"), module("tests/compiler/random_sums.py"), interpreter


def run(given: tuple[ModuleType, ...], seeds: range) -> Counter[str]:
    went: Counter[str] = Counter()
    for seed in seeds:
        try:
            went += switches.check(seed, *given)
        except Exception as error:
            error.add_note(f"switches.check({seed})")
            raise
    return went


@pytest.mark.long
def test_every_transformation_on_and_off(given: tuple[ModuleType, ...]) -> None:
    went = run(given, range(QUICK))
    assert went["ended"] > QUICK // 2
    names = (*switches.COMPILER, *switches.DERIVED)
    assert [sign + name for name in names for sign in "+-" if not went[sign + name]] == []


@pytest.mark.long
def test_every_transformation_of_engines(given: tuple[ModuleType, ...]) -> None:
    case = given[0].generate(7)
    for off in ({"optimised_code"}, {*switches.ENGINES}):
        went = switches.check_module(case.module, case.memory, off, given[2], engines=True)
        assert went == Counter(["ended", "engines"])


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, CHUNK))
def test_every_transformation_at_length(given: tuple[ModuleType, ...], first: int) -> None:
    went = run(given, range(first, first + CHUNK))
    names = (*switches.COMPILER, *switches.DERIVED)
    assert all(went[sign + name] > CHUNK // 20 for name in names for sign in "+-")


def test_every_pass_has_a_switch() -> None:
    assert {name for name, _ in pipeline.PASSES} < {*switches.SWITCHES}
    assert len({*switches.SWITCHES}) == len(switches.SWITCHES)
    # The kinds of translated code that are no transformations are the caller's choice.
    chosen = {
        "differentiating",
        "backward",
        "checks",
        "overflow",
        "strict",
        "whole",
        "device",
        "cycles",
        "tables",
        "core",
        "stops",
        "team",
        "zeros",
    }
    assert {f.name for f in fields(Variant)} - chosen == {"vector_loops", "ghosts", "clears"}


def test_a_wrong_pass_is_found(given: tuple[ModuleType, ...]) -> None:
    """A pass that adds where the program subtracts fails on the programs that run it, and on no others."""

    def wrong(module: Module) -> Module:
        def rewrite(block: Any) -> Any:
            return tuple(
                n._replace(opcode=TABLE["mov.add"]) if isinstance(n, Op) and n.opcode.name == "mov.sub" else n
                for n in block
            )

        return map_bodies(module, lambda body: map_blocks(body, rewrite))

    passes = [(name, wrong if name == "eliminate_dead_code" else run) for name, run in pipeline.PASSES]
    with patch.object(pipeline, "PASSES", passes), pytest.raises((AssertionError, Trap)) as failure:
        run(given, range(QUICK))
    assert "switches.check(" in failure.value.__notes__[0]
