"""Mutation testing (tools/long_runs/mutants.py): what counts as held, and that no verdict outlives its line."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def mutants(module: Callable[[str], ModuleType]) -> ModuleType:
    """tools/long_runs/mutants.py"""
    return module("tools/long_runs/mutants.py")


def result(before: str, outcome: str) -> dict[str, object]:
    return {"file": "a.py", "before": before, "after": "y", "outcome": outcome}


def test_a_survivor_needs_a_verdict(mutants: ModuleType) -> None:
    killed = [result("x", "killed")] * 97
    assert mutants.summary(killed, {})[1]
    lines, held = mutants.summary([*killed, result("z", "survived")], {})
    assert not held
    assert "no verdict  a.py: z → y" in lines
    assert mutants.summary([*killed, result("z", "survived")], {"a.py: z → y": {"verdict": "missed"}})[1]


def test_the_bar_is_of_mutants_that_change_behaviour(mutants: ModuleType) -> None:
    survivors = [result(name, "survived") for name in "uvwz"]
    missed = {f"a.py: {name} → y": {"verdict": "missed"} for name in "uvwz"}
    equivalent = {key: {"verdict": "equivalent"} for key in missed}
    results = [*[result("x", "killed")] * 96, *survivors]
    assert not mutants.summary(results, missed)[1]
    assert mutants.summary(results, equivalent)[1]
    assert not mutants.summary([], {})[1]


def test_annotations_are_not_mutated(mutants: ModuleType) -> None:
    source = "if TYPE_CHECKING:\n    import x\ndef f(a: int | None = 1) -> int | None:\n    b: int | None = 2\n"
    lines = source.splitlines()
    silent = {lines[y - 1][x:stop] for (y, x), (_, stop) in mutants.not_executed(ast.parse(source))}
    assert silent == {"TYPE_CHECKING", "import x", "int | None"}


def test_verdicts_are_of_lines_that_are_there(mutants: ModuleType) -> None:
    verdicts = tomllib.loads(mutants.VERDICTS.read_text())
    assert verdicts
    for key, entry in verdicts.items():
        file, _, fault = key.partition(": ")
        before, arrow, _ = fault.partition(" → ")
        assert arrow, key
        assert before in [line.strip() for line in (ROOT / file).read_text().splitlines()], key
        assert entry["verdict"] in ("equivalent", "missed"), key
        assert entry["reason"], key
