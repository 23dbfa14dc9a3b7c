"""Fixtures for every folder of tests, and the hooks of the tiers. Modules that test files share are in `support`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support.files import module_at, module_written
from support.tiers import (  # noqa: F401 - hooks of pytest
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_report_header,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

#: Examples of a property that does not give their number; no example fails for its time. The examples are the same in each run,
#: so that a run depends on the sources alone; `--hypothesis-profile random` draws others.
settings.register_profile(
    "random", max_examples=25, deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("retrograd", settings.get_profile("random"), derandomize=True, database=None)
settings.load_profile("retrograd")


@pytest.fixture(scope="session")
def module() -> Callable[[str], ModuleType]:
    """module("tools/long_runs/mutants.py"): see `module_at`."""
    return module_at


@pytest.fixture(scope="session")
def written() -> Callable[[Path, str], ModuleType]:
    """written(path, text): see `module_written`."""
    return module_written


@pytest.fixture(scope="session")
def interpreter() -> ModuleType:
    """tests/compiler/interpreter.py: `interpret(module, memory)` runs the IR itself."""
    return module_at("tests/compiler/interpreter.py")


@pytest.fixture(scope="session")
def routes() -> ModuleType:
    """tests/compiler/routes.py: `compare` computes cotangents by both routes from one state."""
    return module_at("tests/compiler/routes.py")


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
    # No progress is drawn on a terminal without cursor movement.
    os.environ["TERM"] = "xterm"
    if "RETROGRAD_CACHE" in os.environ or not hasattr(config, "cache"):
        return
    folder = config.cache.mkdir("retrograd")
    os.environ["RETROGRAD_CACHE"] = str(folder)
    # Sources that change leave behind what nobody will ask for again.
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_KEPT:]:
        file.unlink(missing_ok=True)


def pytest_collection_finish() -> None:
    """Objects made so far live to the end, so the garbage collector, which tests and benchmarks run, is told to skip them."""
    gc.freeze()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `auto` change engines in the midst of short runs: Python takes 12 steps, the interpreter the 6 after it.

    Each run decides anew: it does not depend on other runs and tests.
    """
    # Imported here, since few tests need the engines.
    from retrograd.simulator.engines import native, tiering

    costs = tiering.Costs(python_step=1.0, python_lifted_step=1.0, interpreter_step=1.0, enter=0.0, share=2.0)
    monkeypatch.setattr(tiering, "policy", tiering.Policy(costs))
    monkeypatch.setattr(tiering.Policy, "account", lambda *_, **__: tiering.Account())
    monkeypatch.setattr(tiering.Policy, "to_import", lambda _: 0.0)
    monkeypatch.setattr(native, "ready", lambda *_: tiering.Ready(interpreter=6.0, translation=18.0))
