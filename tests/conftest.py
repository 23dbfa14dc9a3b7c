"""Fixtures for every folder of tests. Test files cannot import each other, so what they share comes from here."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

#: examples of a property that does not say how many it wants; none fails for being slow
settings.register_profile("retrograd", settings.default, max_examples=25, deadline=None)
settings.load_profile("retrograd")

_GENERATOR = Path(__file__).parent / "programs" / "generator.py"


@pytest.fixture(scope="session")
def generator() -> ModuleType:
    """The module tests/programs/generator.py: `generator.generate(seed)` is a random program that terminates."""
    name = "retrograd_tests_generator"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _GENERATOR)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by name while it is being executed.
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def every() -> Callable[[Callable[[Any], None], Iterable[Any]], None]:
    """every(check, cases): many small cases in one test, since a test costs more than they do. All that fail are named."""

    def run(check: Callable[[Any], None], cases: Iterable[Any]) -> None:
        failures: list[BaseException] = []
        count = 0
        for count, case in enumerate(cases, 1):  # noqa: B007 - told below
            try:
                check(case)
            except (Exception, pytest.fail.Exception) as error:
                error.add_note(f"case: {case}")
                failures.append(error)
        assert count, "there are no cases"
        if failures:
            raise BaseExceptionGroup(f"{len(failures)} of {count} cases", failures)

    return run


#: files of compiled code that are kept: those of a few versions of the sources
_KEPT = 5000


def pytest_configure(config: pytest.Config) -> None:
    """Code that tests compile lies in one folder, where the next run finds it, and not among the user's own.

    xdist's workers inherit the variable.
    """
    if "RETROGRAD_CACHE" in os.environ or not hasattr(config, "cache"):
        return
    folder = config.cache.mkdir("retrograd")
    os.environ["RETROGRAD_CACHE"] = str(folder)
    # Sources that change leave behind what nobody will ask for again.
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_KEPT:]:
        file.unlink(missing_ok=True)


def pytest_collection_finish() -> None:
    """What is there now stays. A collection of garbage, which tests and benchmarks ask for, need not look at it each time."""
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, metavar="N", help="of the tests marked slow, run one in N")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--every N`: the summary counts the others as deselected."""
    every: int = config.getoption("--every")
    slow = [item for item in items if item.get_closest_marker("slow")]
    left = [item for i, item in enumerate(slow) if i % every]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
