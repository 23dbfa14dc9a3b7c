"""What users store in a machine, and the limits that they give: the same on every machine, before its first step and after."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.simulator.engines.batch import cpu as batch
from retrograd.simulator.engines.choice import machine_for

import retrograd as rg
from retrograd import fixed, reversible

Make = Callable[..., rg.Machine]

#: a loop that reads and writes registers and memory, and takes no notice of the others
LOOP = """
        .memory 4
        .text
        start
        add r2, 20
top:    from.ne r1, r0, bottom
        add r1, 1
        ld.add r3, [r0]
        st.add [r0 + 1], r3
bottom: goto.ne r1, r2, top
        finish
"""
#: what refers to words of a machine
STORES = ("registers", "memory", "cotangents", "memory_cotangents")

integers = st.one_of(
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from([-1, 1 << 63, (1 << 64) - 1, 1 << 64, 10**400]),
    st.booleans(),
    st.integers(0, (1 << 64) - 1).map(np.uint64),
    st.integers(-128, 127).map(np.int8),
)
others = st.sampled_from(
    [1.5, 2.0, np.float64(3), Fraction(3), "7", None, b"1", np.True_, 1j, np.datetime64(3, "s"), [1]]
)


def stand(machine: rg.Machine, moment: str) -> None:
    """Bring the machine to where words are stored: before its first step, in the midst, after the last."""
    machine.differentiating = True
    if moment != "before":
        machine.differentiating = False
        machine.run(30 if moment == "midst" else None)
        machine.differentiating = True


MOMENTS = ("before", "midst", "after")


@pytest.mark.parametrize("w", [rg.Format(), rg.Format(8, 4)], ids=str)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_integer_is_stored_mod_2_to_the_w(make: Make, moment: str, w: rg.Format) -> None:
    machine = make(rg.assemble(LOOP, format=w))
    stand(machine, moment)

    @settings(max_examples=8, database=None)
    @given(st.sampled_from(STORES), st.integers(0, 3), st.lists(integers, min_size=2, max_size=2))
    def check(name: str, at: int, values: list[Any]) -> None:
        words = getattr(machine, name)
        expected = [int(value) & w.mask for value in values]
        words[at] = values[0]
        assert words[at] == expected[0]
        words[1:3] = values
        assert words[1:3] == expected
        words[1:3] = iter(reversed(values))
        assert words[1:3] == expected[::-1]
        assert {type(word) for word in words} == {int}
        assert getattr(machine, name) == list(words)
        machine.load(at % 3, values)
        assert machine.memory[at % 3 : at % 3 + 2] == expected

    check()
    machine.memory[:] = np.array([1, 255, 3, 4], dtype=np.uint8)
    machine.registers = [-1] * 256
    assert (machine.memory, machine.registers) == ([1, 255, 3, 4], [w.mask] * 256)


def store(machine: rg.Machine, name: str, part: int | slice, value: Any) -> None:
    """Store a value; of a slice, behind a word that is one."""
    if name == "load":
        machine.load(*(2, [5, value]) if isinstance(part, slice) else (value, [5]))
    elif name in STORES:
        getattr(machine, name)[part] = [5, value] if isinstance(part, slice) else value
    else:
        setattr(machine, name, value)


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_is_no_integer_is_refused(make: Make, moment: str) -> None:
    machine = make(rg.assemble(LOOP))
    stand(machine, moment)
    before = machine.state()

    @settings(max_examples=12, database=None)
    @given(others, st.sampled_from([*STORES, "pc", "br", "direction", "load"]))
    def check(value: Any, name: str) -> None:
        for part in (1, slice(1, 3)):
            with pytest.raises(rg.InputError, match="RG0603"):
                store(machine, name, part, value)
        assert machine.state() == before

    check()
    for wrong in (0, 2, -2):
        with pytest.raises(rg.InputError, match="RG0603"):
            machine.direction = wrong
    with pytest.raises(TypeError):
        machine.memory[0:2] = [1]
    with pytest.raises(TypeError):
        machine.registers[:] = [1, 2]
    with pytest.raises(rg.InputError, match="RG0603"):
        machine.memory[0:2] = 5  # type: ignore[call-overload]
    assert machine.state() == before


@pytest.mark.parametrize("moment", MOMENTS)
def test_machines_go_on_alike_from_what_is_stored(make: Make, moment: str) -> None:
    @settings(max_examples=10, database=None)
    @given(
        st.sampled_from([(name, k) for name in STORES for k in (0, 1, 3)] + ["pc", "br"]),
        st.one_of(st.integers(-12, 12), integers),
    )
    def check(where: Any, value: Any) -> None:
        ends = []
        for machine in (rg.Machine(rg.assemble(LOOP)), make(rg.assemble(LOOP))):
            stand(machine, moment)
            if isinstance(where, tuple):
                getattr(machine, where[0])[where[1]] = value
            else:
                setattr(machine, where, value)
            seen = machine.state()
            try:
                machine.run(200)
                machine.turn()
                machine.run(200)
                ends.append((seen, machine.state()))
            except rg.Trap as trap:
                ends.append((seen, machine.state(), str(trap)))
        assert ends[0] == ends[1]

    check()


def test_br_is_a_signed_word(make: Make) -> None:
    machine = make(rg.assemble(LOOP, format="Q4.4"))
    for value in (-1, 200, 256, np.int64(-128), True):
        machine.br = value
        assert (machine.br, type(machine.br)) == ((int(value) + 128) % 256 - 128, int)


def test_a_view_shows_the_words_for_as_long_as_the_machine_lives() -> None:
    """Also after the machine has moved them to where compiled code finds them."""
    machine = machine_for(rg.assemble(LOOP), "native")
    registers, memory, before = machine.registers, machine.memory, machine.registers[:]
    memory[0] = 3
    machine.run()
    assert registers is machine.registers
    assert registers[1] == 20
    assert memory == machine.memory
    assert memory[1] == 3 * 20 * 21 // 2
    assert registers != before
    assert repr(memory) == repr(list(memory))


# ---------------------------------------------------------------- limits


@reversible
def square(y: fixed, x: fixed):
    y += x * x


def in_a_batch(limit: Any) -> Any:
    return batch.run_batch(rg.assemble(LOOP), np.zeros((3, 4), dtype=np.uint64), limit=limit)


LIMITED: dict[str, Callable[[Any], Any]] = {
    "run": lambda n: rg.run(square, 0.0, 1.0, max_steps=n),
    "run on native": lambda n: rg.run(square, 0.0, 1.0, max_steps=n, engine="native"),
    "run_batch": lambda n: rg.run_batch(square, [0.0], [1.0], max_steps=n),
    "run_batch on native": lambda n: rg.run_batch(square, [0.0], [1.0], max_steps=n, engine="native"),
    "energy": lambda n: rg.energy(square, 0.0, 1.0, max_steps=n),
    "energy of a gradient": lambda n: rg.energy(rg.grad(square), 0.0, 1.0, max_steps=n),
    "energy of a batch": lambda n: rg.energy(rg.vmap(square), [0.0], [1.0], max_steps=n),
    "energy_sweep": lambda n: rg.energy_sweep(square, [(0.0, 1.0)], max_steps=n),
    "advise": lambda n: rg.advise(square, 0.0, 1.0, max_steps=n),
    "a batch": in_a_batch,
}
WRONG = [-1, 2.5, 1e3, -(10**30), "7", np.float64(5), [3]]


@pytest.mark.parametrize("what", LIMITED)
def test_limits(what: str) -> None:
    for wrong in WRONG:
        with pytest.raises(rg.InputError, match="RG0603"):
            LIMITED[what](wrong)
    for right in (None, 1000, np.int32(1000), 10**30):
        LIMITED[what](right)


def test_limits_of_machines(make: Make) -> None:
    machine = make(rg.assemble(LOOP))
    before = machine.state()
    for wrong in WRONG:
        for move in (machine.run, machine.run_back):
            for options in ({}, {"breakpoints": [3]}):
                with pytest.raises(rg.InputError, match="RG0603"):
                    move(wrong, **options)
        with pytest.raises(rg.InputError, match="RG0603"):
            make(rg.assemble(LOOP), memory=wrong)
    assert machine.state() == before
    assert machine.run(0).steps == 0
    assert machine.run(np.int64(7)).steps == 7
    assert machine.run_back(True).steps == 1
    assert machine.run(10**30).stop is rg.Stop.HALTED
