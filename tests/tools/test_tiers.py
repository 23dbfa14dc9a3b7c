"""Tiers of tests: each case is in the default tier or in the rest, and is drawn by its name."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Modules = Callable[[str], ModuleType]


class Item:
    """A case of a test, as `pytest_collection_modifyitems` sees it."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = nodeid
        self.marks = {mark.name: mark for mark in marks}

    def get_closest_marker(self, name: str) -> pytest.MarkDecorator | None:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name)


def tiers(module: Modules, items: list[Item], *arguments: str, every: int = 1) -> tuple[set[str], set[str]]:
    """(names of the default tier, names of the rest)"""
    dropped: list[Item] = []
    hook = SimpleNamespace(pytest_deselected=lambda *, items: dropped.extend(items))
    config: Any = SimpleNamespace(args=arguments, hook=hook, getoption=lambda name: every)
    module("tests/conftest.py").pytest_collection_modifyitems(config, items)
    assert not {item.nodeid for item in dropped} & {item.nodeid for item in items}
    return {i.nodeid for i in items if "slow" not in i.marks}, {i.nodeid for i in items if "rest" in i.marks}


def cases(n: int, count: int = 10) -> list[Item]:
    return [Item(f"tests/test_a.py::test_a[{k}]", pytest.mark.share(n)) for k in range(count)]


@pytest.mark.parametrize(("n", "kept"), [(0, 0), (1, 10), (3, 4), (8, 2), (10, 1), (11, 1)])
def test_one_case_in_n_is_in_the_default_tier(module: Modules, n: int, kept: int) -> None:
    names = {item.nodeid for item in cases(n)}
    quick, rest = tiers(module, cases(n))
    assert (len(quick), quick | rest, quick & rest) == (kept, names, set())
    # The order does not matter, nor do other tests.
    other = Item("tests/test_b.py::test_b"), Item("tests/test_b.py::test_c", pytest.mark.slow, pytest.mark.share(2))
    again = tiers(module, [*other, *reversed(cases(n))])
    assert again == (quick | {"tests/test_b.py::test_b"}, rest)


def test_tests_that_are_named_run_whole(module: Modules) -> None:
    assert len(tiers(module, cases(8), "tests/test_a.py::test_a")[0]) == 10


def test_a_share_of_the_slow_ones(module: Modules) -> None:
    quick, rest = tiers(module, cases(5), every=4)
    assert (len(quick), len(rest)) == (2, 2)
