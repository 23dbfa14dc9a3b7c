"""Which cases of the tests a run takes. No other file decides it.

    pytest               the default tier: three minutes on two idle cores
    pytest --full        the full tier: within half an hour on them
    pytest --everything  all cases, enumerations of hours among them

A tier has a budget B of processor seconds, and gives each test the same allowance t. Of a test with N cases of c seconds it takes

    k = min(N, ⌊t / c + u⌋),  0 ≤ u < 1,

so that a case of more than t seconds is taken with probability t / c. The expected seconds of all tests together are B: small tests
leave seconds to large ones. u is drawn by the seed and the name of the test, and the k cases by the seed and the names of the cases: a run
depends on the sources and the seed alone. Two marks: cases that are `long` are in no default tier, cases that are `always` are in every tier.

A case that the command line names by its whole id always runs. With --full, tests named as FILE::TEST run whole.
The seconds are in tests/durations.json: `pytest -n 0 --measure 4 [PATHS]` measures at most four cases of each test there anew.
Trap: a test never measures time for its own verdict; these seconds only choose cases.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FILE = Path(__file__).parents[1] / "durations.json"
#: processor seconds of a tier. Two cores have 360 in three minutes: collection, start and compiling the engines take the rest.
BUDGETS = {"default": 130.0, "full": 650.0, "everything": float("inf")}


class Cost(NamedTuple):
    """A test's number of cases, and the processor seconds of one."""

    cases: int
    seconds: float

    def expected(self, allowance: float) -> float:
        """Expected seconds of the cases that the allowance takes."""
        return min(self.cases * self.seconds, allowance)

    def taken(self, allowance: float, u: float) -> int:
        """k of the heading."""
        return int(min(allowance / self.seconds + u, self.cases))


#: marks, of which a case has one or none, and the seconds of a case of a test that is not in the file
UNMEASURED = {"": 0.05, "long": 5.0, "always": 1.0}


def drawn(*of: object) -> float:
    """A number in [0, 1) that depends on the arguments alone."""
    return int.from_bytes(blake2b("\0".join(map(str, of)).encode(), digest_size=6).digest()) / 2.0**48


def allowance(costs: Iterable[Cost], budget: float) -> float:
    """The t for which the expected seconds of all tests are the budget; infinite where all cases are within it."""
    costs = list(costs)
    if sum(cost.expected(float("inf")) for cost in costs) <= budget:
        return float("inf")
    low, high = 0.0, budget
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(c.expected(middle) for c in costs) <= budget else (low, middle)
    return low


class Tier:
    """A tier's choice: `of(test, mark, cases)` are the names of the cases that run."""

    def __init__(self, name: str, seed: int, costs: Mapping[str, Cost]) -> None:
        self.name, self.seed, self.costs = name, seed, costs
        always = sum(c.cases * c.seconds for test, c in costs.items() if test.endswith(" always"))
        without = (" always", " long") if name == "default" else (" always",)
        self.allowance = allowance((c for t, c in costs.items() if not t.endswith(without)), BUDGETS[name] - always)

    def of(self, test: str, mark: str, cases: Iterable[str]) -> list[str]:
        names = sorted(cases, key=lambda case: drawn(self.seed, case))
        if mark == "always" or (mark == "long" and self.name == "default"):
            return names if mark == "always" else []
        known = self.costs.get(key(test, mark))
        cost = Cost(len(names), known.seconds if known else UNMEASURED[mark])
        return names[: cost.taken(self.allowance, drawn(self.seed, test))]


def key(test: str, mark: str) -> str:
    """Cases of a test that have a mark are measured apart from its other cases."""
    return f"{test} {mark}".rstrip()


def read(file: Path = FILE) -> dict[str, Cost]:
    """Test -> cost. The file has them by the files of tests."""
    found: dict[str, Cost] = {}
    if file.is_file():
        for path, tests in json.loads(file.read_text()).items():
            for test, (cases, seconds) in tests.items():
                found[f"{path}::{test}"] = Cost(cases, seconds)
    return found


def write(costs: Mapping[str, Cost], file: Path = FILE) -> None:
    """One line a file of tests; files that are no more are left out."""
    by_path: dict[str, dict[str, Any]] = defaultdict(dict)
    for name in sorted(costs):
        path, _, test = name.partition("::")
        if (file.parents[1] / path).is_file():
            by_path[path][test] = [costs[name].cases, float(f"{costs[name].seconds:.3g}")]
    lines = (f"{json.dumps(path)}: {json.dumps(tests)}" for path, tests in by_path.items())
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


# Hooks of pytest, which tests/conftest.py imports.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which cases run: tests/support/tiers.py")
    group.addoption("--full", action="store_true", help="the full tier; tests named as FILE::TEST run whole")
    group.addoption("--everything", action="store_true", help="all cases of all tests: hours")
    seed = os.environ.get("RETROGRAD_SEED", "0")
    group.addoption("--seed", type=int, default=int(seed), help="draws the cases of a tier (0, or $RETROGRAD_SEED)")
    group.addoption("--measure", type=int, metavar="N", help="measure at most N cases of each test for durations.json")


def tier_name(config: pytest.Config) -> str:
    return next((name for name in ("everything", "full") if config.getoption(f"--{name}")), "default")


def pytest_report_header(config: pytest.Config) -> str:
    return f"tier: {tier_name(config)}, seed {config.getoption('--seed')}"


def split(items: Iterable[pytest.Item]) -> dict[tuple[str, str], list[pytest.Item]]:
    """(test, mark) -> cases."""
    tests: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = next((mark for mark in ("always", "long") if item.get_closest_marker(mark)), "")
        tests[item.nodeid.partition("[")[0], mark].append(item)
    return tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that the tier does not take; their number is in the summary."""
    tests, seed = split(items), config.getoption("--seed")
    if most := config.getoption("--measure"):
        config.pluginmanager.register(Measurement(tests))
        kept = {i.nodeid for c in tests.values() for i in sorted(c, key=lambda i: drawn(seed, i.nodeid))[:most]}
    else:
        name = tier_name(config)
        if name == "full" and any("::" in argument for argument in config.args):
            name = "everything"
        tier = Tier(name, seed, read())
        kept = {case for (test, mark), c in tests.items() for case in tier.of(test, mark, (i.nodeid for i in c))}
        kept.update(config.args)
    left = [item for item in items if item.nodeid not in kept]
    items[:] = [item for item in items if item.nodeid in kept]
    config.hook.pytest_deselected(items=left)
    config.stash[COUNTS] = len(left), len(left) + len(items)


#: cases left out, and cases in all
COUNTS = pytest.StashKey[tuple[int, int]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each of xdist's workers collects the same cases; the process that reports collects none."""
    if "left out" in getattr(node, "workeroutput", {}):
        node.config.stash[COUNTS] = tuple(node.workeroutput["left out"])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput") and COUNTS in session.config.stash:
        session.config.workeroutput["left out"] = session.config.stash[COUNTS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left, total = config.stash.get(COUNTS, (0, 0))
    more = " (more: --full, --everything)" if left else ""
    terminalreporter.write_line(f"{pytest_report_header(config)}: {left} of {total} cases left out{more}")


class Measurement:
    """Processor seconds of cases, those of ended children included, for the file of durations."""

    def __init__(self, tests: Mapping[tuple[str, str], list[pytest.Item]]) -> None:
        self.cases = {key(*test): len(items) for test, items in tests.items()}
        self.tests = {item.nodeid: key(*test) for test, items in tests.items() for item in items}
        self.seconds: dict[str, list[float]] = defaultdict(list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before = sum(os.times()[:4])
        result = yield
        self.seconds[self.tests[item.nodeid]].append(sum(os.times()[:4]) - before)
        return result

    def pytest_sessionfinish(self) -> None:
        """Tests of the measured files are replaced: entries of tests that were removed go."""
        files = {name.partition("::")[0] for name in self.seconds}
        costs = {name: cost for name, cost in read().items() if name.partition("::")[0] not in files}
        for name, seconds in self.seconds.items():
            # os.times counts hundredths.
            mean = max(sum(seconds) / len(seconds), 0.001)
            costs[name] = Cost(self.cases[name], mean)
        write(costs)
