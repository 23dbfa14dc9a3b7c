"""What the simulator counts, the co-processor's own counters count."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.hardware import run_on_hardware


@reversible
def length(r: fixed, x: fixed, y: fixed) -> None:
    with rg.routine() as square:
        s = x * x + y * y
    r += rg.sqrt(s)
    ~square


@reversible
def forget(y: fixed, x: fixed) -> None:
    t = x * x
    t += 1
    y += t
    rg.erase(t)


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "args", "w"),
    [
        (forget, (0.5, -2.0), rg.Format(16, 8)),
        pytest.param(forget, (0.5, -2.0), rg.Format(32, 16), marks=pytest.mark.long),
        pytest.param(length, (0.0, 3.0, 4.0), rg.Format(32, 16), marks=pytest.mark.long),
    ],
)
def test_bits_and_cycles(function: rg.Reversible, args: tuple[float, ...], w: rg.Format) -> None:
    on_hardware = run_on_hardware(function, *args, format=w)
    found = rg.energy(function, *args, format=w, baseline=False, timeline=True).counts
    assert found.cycles == on_hardware.cycles
    assert found.toggled_bits == on_hardware.toggled_bits
    assert found.erased_bits == on_hardware.erased_bits
