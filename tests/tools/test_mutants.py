"""Mutation testing (tools/long_runs/mutants.py): what counts as held, and that no verdict outlives its line."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

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


def mutant(mutants: ModuleType, file: str, line: int) -> Any:
    return mutants.Mutant(file, "operator", 0, line, f"line {line}", "changed")


@pytest.mark.parametrize("each", [1, 3, 5])
def test_each_folder_has_its_share(mutants: ModuleType, each: int) -> None:
    """Also a small folder behind a large one; places that give no mutant are passed over, and no mutant is drawn twice."""
    drawn = (
        [("large/a.py", n) for n in range(50)] + [("large/small/b.py", n // 2) for n in range(20)] + [("large/c.py", 0)]
    )
    planted: list[int] = []

    def plant(place: int) -> Any:
        planted.append(place)
        return (
            mutant(mutants, "large/a.py" if len(planted) <= 2 * each else "large/small/b.py", place)
            if place % 2
            else None
        )

    found = mutants.of_each_folder(drawn, plant, each)
    assert [m.file for m in found] == ["large/a.py"] * each + ["large/small/b.py"] * each
    assert len({m.key for m in found}) == 2 * each
    assert len(planted) <= 6 * each


def test_tests_of_the_folder_follow_those_that_execute_the_line(mutants: ModuleType) -> None:
    """They may execute it in another process."""
    covered = object.__new__(mutants.Coverage)
    covered.seconds = {
        "tests/hdl/test_c.py::test_c": 0.1,
        "tests/isa/test_a.py::test_a": 0.2,
        "tests/isa/test_b.py::test_b": 0.3,
        "tests/isabelle/test_d.py::test_d": 0.1,
    }
    line = next(n for n, text in enumerate((ROOT / "isa/words.py").read_text().splitlines(), 1) if "return" in text)
    contexts = {line: ["tests/isa/test_b.py::test_b|run", "tests/hdl/test_c.py::test_c|run"]}
    covered.data = SimpleNamespace(contexts_by_lineno=lambda _: contexts)
    assert covered.tests(mutant(mutants, "isa/words.py", line)) == [
        "tests/isa/test_b.py::test_b", "tests/hdl/test_c.py::test_c", "tests/isa/test_a.py::test_a",
    ]  # fmt: skip
    # The docstring runs at import: all tests, first of all those that execute another line of the file.
    assert covered.tests(mutant(mutants, "isa/words.py", 1)) == [
        "tests/isa/test_b.py::test_b", "tests/hdl/test_c.py::test_c", "tests/isa/test_a.py::test_a",
        "tests/isabelle/test_d.py::test_d",
    ]  # fmt: skip
