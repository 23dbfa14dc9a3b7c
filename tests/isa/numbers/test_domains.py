"""Where a function has no value, the machine traps before it, with the operand, and can go on either way."""

from __future__ import annotations

import math
from typing import Any

import pytest
from retrograd.isa import functions
from retrograd.isa.entries import Function
from retrograd.isa.table import TABLE
from retrograd.isa.words import WIDTHS, Format

import retrograd as rg

FORMATS = [Format(64, 32), Format(32, 16), Format(16, 8)]
formats = pytest.mark.parametrize("w", FORMATS, ids=str)

#: functions that exist only where the format has room for them: name -> (an argument, another) that they take
LIMITED = ["fexp", "flog", "fsin", "fcos", "fatan2", "ltof", "ftol", "ladd", "lsub"]


def machine(line: str, w: Format, a: int, b: int = 0, d: int = 0, **options: Any) -> rg.Machine:
    """Standing before the instruction, with r1 = d, r2 = a, r3 = b."""
    out = rg.Machine(rg.assemble(f"start\n{line}\nfinish", format=w), **options)
    out.registers[1:4] = [d & w.mask, a & w.mask, b & w.mask]
    out.step()
    return out


def traps(m: rg.Machine, code: str, value: int, shown: str) -> None:
    """The step traps, precisely: the state is as before, and the machine can go back."""
    before, format_ = m.state(), m.format
    with pytest.raises(rg.Trap) as caught:
        m.step()
    trap = caught.value
    assert trap.diagnostics[0].code == code
    assert trap.value == value & format_.mask
    assert (trap.pc, trap.direction) == (1, 1)
    assert "pc 1" in str(trap)
    assert shown in trap.diagnostics[0].message
    assert m.state() == before
    assert m.step_back()
    assert m.at_origin


def real(w: Format, word: int) -> str:
    return str(float(w.to_real(word)))


@formats
@pytest.mark.parametrize("update", ["add", "sub", "xor"])
def test_log_of_zero_and_below(w: Format, update: str) -> None:
    for x in (0, -1, -(1 << w.frac), -w.sign):
        traps(machine(f"flog.{update} r1, r2", w, x), "RG0403", x, f"argument {real(w, x)} ")
    assert machine(f"flog.{update} r1, r2", w, 1).step()


@formats
@pytest.mark.parametrize("update", ["add", "sub", "xor"])
def test_root_of_less_than_zero(w: Format, update: str) -> None:
    for x in (-1, -(1 << w.frac), -w.sign):
        traps(machine(f"fsqrt.{update} r1, r2", w, x), "RG0403", x, f"argument {real(w, x)} ")
    assert machine(f"fsqrt.{update} r1, r2", w, 0).step()


@formats
@pytest.mark.parametrize("name", ["fdiv", "div", "mod"])
def test_division_by_zero(w: Format, name: str) -> None:
    for x in (0, 5, -w.sign):
        for overflow in (True, False):
            traps(machine(f"{name}.add r1, r2, r3", w, x, 0, overflow=overflow), "RG0402", 0, "division by zero")


@formats
def test_the_angle_of_nothing(w: Format) -> None:
    traps(machine("fatan2.add r1, r2, r3", w, 0, 0), "RG0403", 0, "argument 0.0 ")
    for y, x in ((0, 1), (0, -1), (1, 0), (-1, 0), (-w.sign, -w.sign)):
        assert machine("fatan2.add r1, r2, r3", w, y, x).step()


@formats
@pytest.mark.parametrize("update", ["mul", "div"])
def test_lognum_of_zero(w: Format, update: str) -> None:
    for overflow in (True, False):
        traps(machine(f"ftol.{update} r1, r2", w, 0, d=77, overflow=overflow), "RG0411", 0, "lognum of zero")
    assert machine(f"ftol.{update} r1, r2", w, 1).step()


@formats
def test_a_sum_of_opposite_lognums(w: Format) -> None:
    x = 3 << w.frac
    traps(machine("ladd.mul r1, r2, r3", w, x, x | w.sign), "RG0411", x, "lognum of zero")
    traps(machine("lsub.mul r1, r2, r3", w, x | w.sign, x | w.sign), "RG0411", x | w.sign, "lognum of zero")


@formats
def test_exp_overflows_where_it_must_and_nowhere_else(w: Format) -> None:
    one = 1 << w.frac
    border = math.floor((w.width - 1 - w.frac) * math.log(2) * one)
    # The float's error is far below a word here, and the word below the border still fits.
    assert machine("fexp.add r1, r2", w, border - 1).step()
    for x in (border + 1, border + 2, border + one, w.sign - 1):
        traps(machine("fexp.add r1, r2", w, x), "RG0404", x, f"operand {real(w, x)}")
        assert machine("fexp.add r1, r2", w, x, overflow=False).step()
    # However far below zero, the power is a small number, not an error.
    for x in (-w.sign, -w.sign + 1, -one * (w.frac + 3)):
        m = machine("fexp.add r1, r2", w, x)
        assert m.step()
        assert m.registers[1] == 0
    assert machine("fexp.add r1, r2", w, -1).step()


@formats
def test_a_lognum_too_large_for_fixed_point(w: Format) -> None:
    bits = (w.width - 1 - w.frac) << w.frac
    assert machine("ltof.add r1, r2", w, bits - 2).step()
    traps(machine("ltof.add r1, r2", w, bits), "RG0404", bits, "overflow")
    traps(machine("ltof.add r1, r2", w, bits | w.sign), "RG0404", bits | w.sign, "overflow")
    # A lognum too small is not.
    m = machine("ltof.add r1, r2", w, w.sign // 2)
    assert m.step()
    assert m.registers[1] == 0


@formats
def test_quotients_overflow(w: Format) -> None:
    top = w.sign - 1
    for a, b in ((top, 1), (-w.sign, -1), (-w.sign, -(1 << w.frac)), (top, (1 << w.frac) - 1)):
        traps(machine("fdiv.add r1, r2, r3", w, a, b), "RG0404", a, f"operand {real(w, a)}")
        assert machine("fdiv.add r1, r2, r3", w, a, b, overflow=False).step()
    assert machine("fdiv.add r1, r2, r3", w, -w.sign, 1 << w.frac).step()


@formats
def test_an_update_that_overflows_though_the_function_does_not(w: Format) -> None:
    one = 1 << w.frac
    traps(machine("fcos.add r1, r2", w, 0, d=w.sign - 1), "RG0404", one, f"operand {real(w, one)}")
    traps(machine("fcos.sub r1, r2", w, 0, d=-w.sign), "RG0404", one, f"operand {real(w, one)}")
    assert machine("fcos.xor r1, r2", w, 0, d=w.sign - 1).step()
    assert machine("fcos.add r1, r2", w, 0, d=w.sign - 1, overflow=False).step()


# ------------------------------------------------------------------ formats without the functions


def without() -> list[Format]:
    return [Format(n, f) for n in WIDTHS for f in range(n) if not 2 <= f <= n - 2]


def test_which_formats_have_the_functions() -> None:
    for n in WIDTHS:
        for f in range(n):
            assert functions.available(Format(n, f)) == (2 <= f <= n - 2)
    assert {Format(4, 1), Format(8, 7), Format(64, 63)} <= set(without())
    assert not {Format(4, 2), Format(8, 4), Format(32, 16), Format(64, 32)} & set(without())


@pytest.mark.long
@pytest.mark.parametrize("w", without(), ids=str)
def test_other_formats_refuse_them(w: Format) -> None:
    """In either mode, on any operand, and going backward too."""
    for name in LIMITED:
        entry = next(e for e in TABLE.entries if e.name == name)
        assert isinstance(entry, Function)
        operands = "r1, r2, r3" if "rb" in TABLE[f"{name}.{entry.updates[0]}"].fields else "r1, r2"
        # The formats with no lognum but zero are told so before; what counts is that none goes through.
        for a, b in ((1, 0), (3, 5)):
            m = machine(f"{name}.{entry.updates[0]} {operands}", w, a, b, d=1, overflow=False)
            before = m.state()
            with pytest.raises(rg.Trap) as caught:
                m.step()
            assert caught.value.diagnostics[0].code == "RG0403", (name, a, b)
            assert caught.value.value == a & w.mask
            assert m.state() == before
    for name in ("rot", "irot"):
        m = machine(f"{name} r1, r2, r3", w, 1, 1, d=1, overflow=False)
        with pytest.raises(rg.Trap) as caught:
            m.step()
        assert caught.value.diagnostics[0].code == "RG0403"
