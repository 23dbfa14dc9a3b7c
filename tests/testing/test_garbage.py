"""assert_no_garbage and assert_erased_bits_below."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.library import logsumexp
from retrograd.runtime._execution import execute
from retrograd.testing import LawBroken, assert_erased_bits_below, assert_no_garbage, laws


@reversible
def forgetful(y: fixed, x: fixed):
    for _ in range(3):
        t = x * x
        t += 1
        y += t
        rg.erase(t)


@reversible
def dirty(y: fixed, x: fixed, n: int):
    t = x * x
    for _ in range(n):
        t += 1
    y += t


def poked(monkeypatch: pytest.MonkeyPatch, poke: Any) -> None:
    """Machines that are poked after a run."""

    def faulty(compiled: Any, machine: Machine, max_steps: int | None = None) -> None:
        execute(compiled, machine, max_steps)
        poke(machine)

    monkeypatch.setattr(laws, "execute", faulty)


def test_clean_functions_pass() -> None:
    assert assert_no_garbage(logsumexp, 0.0, np.ones(3)).bits == 0
    assert assert_no_garbage(~logsumexp, 0.0, np.ones(3)).joules == 0
    assert assert_no_garbage(dirty, 0.0, 2.0, 0).steps > 0


def test_a_dirty_ancilla_is_garbage() -> None:
    with pytest.raises(LawBroken) as caught:
        assert_no_garbage(dirty, 0.0, 2.0, 3)
    assert caught.value.code == "RG0904"
    assert "`t` holds 7.0 when it is freed, and must hold 4.0" in str(caught.value)


def test_a_dirty_word_is_named_by_its_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def poke(machine: Machine) -> None:
        machine.memory[6] += 9

    poked(monkeypatch, poke)
    with pytest.raises(LawBroken, match=r"`largest\.most\[2\]` was 0 \(0x0\), and is 9 \(0x9\) after `logsumexp`"):
        assert_no_garbage(logsumexp, 0.0, np.ones(3))


def test_a_dirty_register_is_named_with_who_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # One step back is inside the program, where registers hold something.
    poked(monkeypatch, lambda machine: [machine.step_back() for _ in range(3)])
    with pytest.raises(LawBroken, match=r"register r\d+ holds 0x.*: `\w+`, written last in .*test_garbage\.py:\d+"):
        assert_no_garbage(dirty, 0.0, 2.0, 0)

    def poke(machine: Machine) -> None:
        machine.registers[99] = 1

    poked(monkeypatch, poke)
    with pytest.raises(LawBroken, match="register r99 holds 0x1 after `dirty`, which no instruction has written"):
        assert_no_garbage(dirty, 0.0, 2.0, 0)


def test_erased_bits_are_counted_by_line() -> None:
    report = assert_erased_bits_below(193, forgetful, 0.0, 2.0)
    assert report.bits == 192
    assert report.joules == pytest.approx(192 * 1.380649e-23 * 300 * math.log(2))
    ((where, bits),) = report.lines.items()
    assert where.endswith(f"test_garbage.py:{forgetful.fn.__code__.co_firstlineno + 6}")
    assert bits == 192


def test_too_many_erased_bits() -> None:
    with pytest.raises(LawBroken) as caught:
        assert_erased_bits_below(192, forgetful, 0.0, 2.0)
    assert caught.value.code == "RG0905"
    said = caught.value.diagnostics[0].message
    assert said.startswith("`forgetful` erases 192 bits, 5.5e-19 J at 300 K (192 in ")
    assert said.endswith("; allowed are fewer than 192")
    with pytest.raises(LawBroken, match="`forgetful` erases 192 bits"):
        assert_no_garbage(forgetful, 0.0, 2.0)


def test_a_trap_of_another_kind_is_not_taken_for_garbage() -> None:
    with pytest.raises(rg.ProgramTrap):
        assert_no_garbage(logsumexp, 0.0, np.array([-(2.0**31), 2.0**31 - 1]))
