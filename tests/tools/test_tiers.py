"""Tiers of tests: which cases a run takes, by the budget, the seed and the measured seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import tiers
from support.tiers import BUDGETS, Cost, Tier

HERE = Path(__file__).parents[1]


def names(test: str, count: int) -> list[str]:
    return [f"{test}[{k}]" for k in range(count)]


def costs(budget: float) -> dict[str, Cost]:
    """Small tests, and two that are larger than the budget."""
    small = {f"tests/test_a.py::test_{k}": Cost(10, budget / 1000) for k in range(20)}
    return small | {
        "tests/test_b.py::test_many": Cost(10_000, budget / 1000),
        "tests/test_b.py::test_dear long": Cost(4, budget * 2),
    }


def split(name: str) -> tuple[str, str]:
    test, _, mark = name.partition(" ")
    return test, mark


def seconds(tier: Tier) -> float:
    return sum(len(tier.of(*split(name), names(name, cost.cases))) * cost.seconds for name, cost in tier.costs.items())


def test_small_tests_run_whole_and_what_they_leave_goes_to_large_ones() -> None:
    budget = BUDGETS["default"]
    tier = Tier("default", 0, costs(budget))
    for k in range(20):
        assert len(tier.of(f"tests/test_a.py::test_{k}", "", names("a", 10))) == 10
    assert len(tier.of("tests/test_b.py::test_many", "", names("b", 10_000))) in (799, 800, 801)
    assert budget * 0.99 <= seconds(tier) <= budget * 1.01


def test_the_default_tier_has_no_long_case_and_all_cases_marked_always() -> None:
    budget = BUDGETS["default"]
    always = {f"tests/test_c.py::test_{k} always": Cost(3, budget / 30) for k in range(5)}
    tier = Tier("default", 0, costs(budget) | always)
    assert tier.of("tests/test_b.py::test_dear", "long", names("d", 4)) == []
    assert [len(tier.of(*split(name), names("c", 3))) for name in always] == [3] * 5
    # Half of the budget is left for the others.
    assert seconds(tier) == pytest.approx(budget, rel=0.01)


def test_a_dear_test_is_taken_now_and_then() -> None:
    """t / c of the seeds take one of its cases."""
    known = {f"tests/test_a.py::test_{k} long": Cost(1, BUDGETS["full"] / 10) for k in range(40)}
    taken = [len(Tier("full", seed, known).of("tests/test_a.py::test_0", "long", ["x"])) for seed in range(200)]
    assert set(taken) == {0, 1}
    assert 30 <= sum(taken) <= 70  # a quarter of 200
    spent = [seconds(Tier("full", seed, known)) for seed in range(60)]
    assert sum(spent) / 60 == pytest.approx(BUDGETS["full"], rel=0.1)


def test_everything_is_everything() -> None:
    known = costs(1e9)
    assert seconds(Tier("everything", 0, known)) == sum(c.cases * c.seconds for c in known.values())


def test_the_choice_depends_on_names_and_seed_alone() -> None:
    known = costs(BUDGETS["default"])
    many = names("tests/test_b.py::test_many", 5000)

    def chosen(seed: int) -> list[str]:
        return Tier("default", seed, known).of("tests/test_b.py::test_many", "", reversed(many))

    assert chosen(1) == chosen(1)
    assert set(chosen(1)) < set(many)
    # Another seed chooses independently.
    both = len({*chosen(1)} & {*chosen(2)}) / len(chosen(1))
    assert 0.08 < both < 0.26
    # The full tier takes the cases of the default tier, and others.
    assert set(chosen(1)) <= set(Tier("full", 1, known).of("tests/test_b.py::test_many", "", many))


def test_a_test_without_seconds_has_a_default() -> None:
    tier = Tier("default", 0, costs(BUDGETS["default"]))
    assert len(tier.of("tests/test_new.py::test_new", "", names("n", 10_000))) == pytest.approx(
        tier.allowance / tiers.UNMEASURED[""], abs=1
    )
    assert tier.of("tests/test_new.py::test_new", "", ["n"]) == ["n"]


def test_the_file_keeps_costs_of_files_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").touch()
    known = {"tests/test_a.py::test_b": Cost(3, 0.5), "tests/test_a.py::test_b long": Cost(7, 40)}
    file = tmp_path / "tests" / "durations.json"
    tiers.write(known | {"tests/test_gone.py::test_b": Cost(1, 1)}, file)
    assert tiers.read(file) == known


# ---------------------------------------------------------------------- runs of pytest

TESTS = """
import pytest

@pytest.mark.parametrize("k", range(30))
def test_many(k):
    sum(range(10**6))

@pytest.mark.long
def test_long():
    pass

def test_small():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the tiers of this one."""
    (tmp_path / "tests" / "support").mkdir(parents=True)
    (tmp_path / "tests" / "support" / "tiers.py").write_text((HERE / "support" / "tiers.py").read_text())
    hooks = "".join(f"from support.tiers import {name}\n" for name in vars(tiers) if name.startswith("pytest_"))
    (tmp_path / "tests" / "conftest.py").write_text(hooks)
    (tmp_path / "tests" / "test_a.py").write_text(TESTS)
    seconds = {"test_many": [30, tiers.BUDGETS["default"] / 9], "test_small": [1, 0.1], "test_long long": [1, 0.1]}
    (tmp_path / "tests" / "durations.json").write_text(json.dumps({"tests/test_a.py": seconds}))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = tests\nmarkers = long: x\naddopts = --import-mode=importlib"
    )
    return tmp_path


def run(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "RETROGRAD_SEED": "0"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(("arguments", "passed", "left"), [
    ([], 10, 22),  # nine take the budget, and the small one
    (["-p", "xdist", "-n", "1"], 10, 22),
    (["--full"], 32, 0),
    (["--everything"], 32, 0),
    (["tests/test_a.py::test_long"], 1, 0),
    (["tests/test_a.py::test_long", "--full"], 1, 0),
])  # fmt: skip
def test_runs(project: Path, arguments: list[str], passed: int, left: int) -> None:
    found = run(project, *arguments)
    assert f"\n{passed} passed" in found, found
    assert f"seed 0: {left} of {passed + left} cases left out" in found


def test_the_seed_chooses(project: Path) -> None:
    first, again, other = (run(project, "--collect-only", f"--seed={seed}") for seed in (3, 3, 4))
    assert first.partition(" in ")[0] == again.partition(" in ")[0] != other.partition(" in ")[0]


def test_seconds_are_measured(project: Path) -> None:
    run(project, "--measure", "2")
    known = tiers.read(project / "tests" / "durations.json")
    assert {name: cost.cases for name, cost in known.items()} == {
        f"tests/test_a.py::{name}": count
        for name, count in (("test_many", 30), ("test_small", 1), ("test_long long", 1))
    }
    assert 0.001 <= known["tests/test_a.py::test_many"].seconds < 20
