"""check_inverse: that it holds where it should, and says what is wrong where it is made not to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import dot, logsumexp
from retrograd.runtime._execution import execute
from retrograd.testing import LawBroken, check_inverse, laws

X, Y = np.array([1.0, 2.5, -3.0]), np.array([0.25, 5.0, 6.0])


@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)


@reversible
def forgetful(y: fixed, x: fixed):
    t = x * x
    t += 1
    y += t
    rg.erase(t)


@reversible
def forgetful_then_stuck(y: fixed, x: fixed):
    t = x * x
    t += 1
    y += t
    rg.erase(t)
    y += 1 / x


@reversible
def countdown(n: int, limit: int):
    """Reached only with n ≤ limit: from elsewhere its inverse does not end soon, or at all."""
    while (n != limit, n != 0):
        n += 1


def test_it_holds_and_reports() -> None:
    report = check_inverse(dot, 0.0, X, Y)
    assert report.steps == rg.run(dot, 0.0, X, Y).steps
    assert report.memory_words == 7
    assert report.erased_bits == 0
    assert report.other_order
    # The middles of three equal parts of the run.
    assert report.stops == tuple(report.steps * k // 6 for k in (1, 3, 5))
    assert check_inverse(~dot, 0.0, X, Y, stops=1).stops == (report.steps // 2,)
    assert check_inverse(logsumexp, 0.5, X, stops=0).stops == ()
    assert check_inverse(dot, 0.0, y=Y, x=X) == report


def test_a_place_that_the_function_never_leaves_is_no_fault() -> None:
    assert not check_inverse(countdown, 0, 5).other_order


def test_an_erased_word_does_not_come_back() -> None:
    with pytest.raises(LawBroken) as caught:
        check_inverse(forgetful, 0.0, 2.0)
    assert caught.value.code == "RG0901"
    said = str(caught.value)
    assert "`~forgetful` does not run where `forgetful` has run" in said
    assert "def forgetful(y: fixed, x: fixed):" in said
    assert "rg.erase(t)" in said


def test_the_error_is_both_of_ours_and_of_pytests() -> None:
    with pytest.raises(AssertionError):
        check_inverse(forgetful, 0.0, 2.0)
    with pytest.raises(rg.RetrogradError):
        check_inverse(forgetful, 0.0, 2.0)


def poked(monkeypatch: pytest.MonkeyPatch, when: Any, poke: Any) -> None:
    """Machines that are poked after a run."""

    def faulty(compiled: Any, machine: Machine, max_steps: int | None = None) -> None:
        execute(compiled, machine, max_steps)
        if when(machine):
            poke(machine)

    monkeypatch.setattr(laws, "execute", faulty)


def test_a_poked_word_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def poke(machine: Machine) -> None:
        machine.memory[2] += 1 << 30

    poked(monkeypatch, lambda m: m.direction < 0, poke)
    with pytest.raises(LawBroken) as caught:
        check_inverse(dot, 0.0, X, Y)
    said = caught.value.diagnostics[0].message
    assert said == "after `dot` and then `~dot`: `x[1]` was 2.5 (0x280000000), and is 2.75 (0x2c0000000)"


def test_a_change_of_the_last_bit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def poke(machine: Machine) -> None:
        machine.memory[0] ^= 1

    poked(monkeypatch, lambda m: m.direction < 0, poke)
    with pytest.raises(LawBroken, match="`y` was"):
        check_inverse(root, 0.0, 2.0)


def test_a_poked_register_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def poke(machine: Machine) -> None:
        machine.registers[77] = 3

    poked(monkeypatch, lambda m: m.direction > 0, poke)
    with pytest.raises(LawBroken, match="after `root`: register r77 holds 0x3"):
        check_inverse(root, 0.0, 2.0)


def test_many_words_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def poke(machine: Machine) -> None:
        machine.memory[:] = [word + 1 for word in machine.memory]

    poked(monkeypatch, lambda m: m.direction < 0, poke)
    with pytest.raises(LawBroken, match="and 3 more words differ"):
        check_inverse(dot, 0.0, X, Y)


def test_a_machine_that_turns_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Machine.turn

    def faulty(machine: Machine) -> None:
        turn(machine)
        machine.memory[1] ^= 1 << 33

    monkeypatch.setattr(Machine, "turn", faulty)
    with pytest.raises(LawBroken, match=r"after \d+ steps of `root` and then back: `x` was 2.0 .*, and is 0.0"):
        check_inverse(root, 0.0, 2.0)


def test_a_function_without_a_value_here_has_to_run_back() -> None:
    with pytest.raises(rg.ProgramTrap, match=r"sqrt has no value at -2\.0"):
        check_inverse(root, 0.0, -2.0)
    with pytest.raises(LawBroken, match=r"stopped .*division by zero.*, and does not run back from there"):
        check_inverse(forgetful_then_stuck, 0.0, 0.0)


def test_running_back_from_a_trap_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    run_back = Machine.run_back

    def faulty(machine: Machine, *args: Any, **keywords: Any) -> Any:
        outcome = run_back(machine, *args, **keywords)
        machine.memory[0] += 1
        return outcome

    monkeypatch.setattr(Machine, "run_back", faulty)
    with pytest.raises(LawBroken, match=r"after `root` stopped .* and ran back: `y` was"):
        check_inverse(root, 0.0, -2.0)


@rg.struct
class Pair:
    a: fixed
    flag: bool


@reversible
def shuffled(ps: Array[Pair, 2, "n"], s: rg.Stack[int, 3], k: rg.lognum):
    for i in range(2):
        ps[i, 0].a += fixed(k)


def test_words_of_every_type_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    ps = [[Pair(1.0, True), Pair(2.0, False)], [Pair(3.0, True), Pair(4.0, False)]]
    check = (ps, [5], -4.0)
    for address, name in ((5, "ps[1, 0].flag"), (6, "ps[1, 1].a"), (8, "len(s)"), (10, "s[1]"), (12, "k")):

        def poke(machine: Machine, address: int = address) -> None:
            machine.memory[address] ^= 1

        poked(monkeypatch, lambda m: m.direction < 0, poke)
        with pytest.raises(LawBroken) as caught:
            check_inverse(shuffled, *check)
        assert f"`{name}` was" in str(caught.value)
