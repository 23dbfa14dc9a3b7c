"""Hostile inputs of every reader (tools/long_runs/hostile_inputs.py): a few of each; 200,000 are a long run."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import retrograd as rg

LONG_RUNS = Path(__file__).resolve().parents[2] / "tools" / "long_runs"
#: found in the source, since the module itself takes a second to import
READERS = re.findall(
    r'^    "(.+)": Reader\(', (LONG_RUNS / "hostile_inputs.py").read_text(encoding="utf-8"), re.MULTILINE
)
COUNT = 60
#: readers that are slow, or whose inputs run programs
FEWER = {"VLAD": 15, "language server": 8, "reversible Python": 30, "commands on files": 40}


@pytest.fixture(scope="module")
def hostile(module: Callable[[str], ModuleType]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(LONG_RUNS)
        return module("tools/long_runs/hostile_inputs.py")


def test_every_reader_is_here(hostile: Any) -> None:
    assert list(hostile.READERS) == READERS


@pytest.mark.parametrize("name", READERS)
def test_inputs_are_read_or_refused(name: str, hostile: Any) -> None:
    count = FEWER.get(name, COUNT)
    went, faults = hostile.examined(name, 10**9, count)
    assert not faults, faults[0]
    # Inputs that are refused at their first line say nothing.
    assert went["accepted"] + went["late"] > count / 4, went


def test_seeds_are_valid(hostile: Any) -> None:
    """Of the seeds that no command runs, most are accepted as they are: otherwise a change of a refused text counts as late."""
    for name in ("assembly", "image", "PISA", "Janus of 1982", "technology", "debug adapter", "language server"):
        reader, accepted = hostile.READERS[name], 0
        with hostile.in_folder():
            for seed in reader.seeds()[:4]:
                with contextlib.suppress(rg.RetrogradError):
                    reader.read(seed)
                    accepted += 1
        assert accepted >= len(reader.seeds()[:4]) - 1, name


def test_a_reader_whose_seeds_are_refused_is_found(hostile: Any) -> None:
    assert not hostile.tried_in_depth(Counter(accepted=3, late=6, early=91))
    assert hostile.tried_in_depth(Counter(accepted=4, late=6, early=90))


def _ends(text: str) -> None:
    os._exit(3)


def test_the_end_of_a_process_is_a_fault_of_its_share(hostile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = hostile.Reader(1, lambda: ["start\nfinish\n"], hostile.damage.changed_text, _ends)
    monkeypatch.setitem(hostile.READERS, "assembly", reader)
    # Processes of the test are copies of it, so they have this reader.
    monkeypatch.setattr(hostile, "CONTEXT", multiprocessing.get_context("fork"))
    went, faults = hostile.in_process(("assembly", 0, 2))
    assert went == {"fault": 1}
    assert "ended" in faults[0]


def test_a_reader_gets_all_inputs_of_its_run(hostile: Any) -> None:
    assert hostile.shares(600, 7, "VLAD") == [("VLAD", 7, 500), ("VLAD", 507, 100)]
    assert {name for name, _, _ in hostile.shares(600, 0)} == set(READERS)


def test_an_input_is_late_if_half_of_its_seed_is_valid(hostile: Any) -> None:
    assert hostile.damage.valid_part("abcd", "abcx") == 0.75
    assert hostile.damage.valid_part(b"abcd", b"xbcd") == 0
    assert hostile.damage.valid_part(("ab", "cd"), ("ab", "cx")) == 0.75
    assert hostile.damage.valid_part(("ab", "cd"), ("ab",)) == 0.5


def _loops(text: str) -> None:
    while True:
        pass


def _foreign(text: str) -> None:
    raise KeyError(text)


def _raw(text: str) -> None:
    rg.assemble(text)


@pytest.mark.parametrize(
    ("read", "fault"),
    [(lambda t: f"\x1b[31m{t}", "Unprintable"), (_foreign, "KeyError"), (_loops, "Hangs"), (lambda t: "a\u202e", "Unprintable")],
)  # fmt: skip
def test_a_planted_fault_is_found(
    read: Callable[[str], Any], fault: str, hostile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "allowed", lambda data: 0.1)
    reader = hostile.Reader(1, lambda: ["start\nfinish\n"], hostile.damage.changed_text, read)
    monkeypatch.setitem(hostile.READERS, "assembly", reader)
    went, faults = hostile.examined("assembly", 0, 2)
    assert went == {"fault": 2}
    assert all(fault in text for text in faults)


def test_a_message_that_is_not_cleaned_is_found(hostile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.isa.diagnostics.printable", lambda text, **_: text)
    went, faults = hostile.examined("assembly", 0, 60)
    assert went["fault"]
    assert all("fault: " in text and "\\" in text for text in faults)
