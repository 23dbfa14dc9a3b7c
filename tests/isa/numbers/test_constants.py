"""isa/constants.py: what tools/derive_constants.py derives, and, by another route, the numbers that it names."""

from __future__ import annotations

import importlib.util
import math
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import mpmath as mp
import pytest
from retrograd.isa import constants, functions
from retrograd.isa.expr import nodes, place
from retrograd.isa.words import Format

ROOT = Path(__file__).resolve().parents[3]
N = 1 << constants.BITS


def load_tool() -> ModuleType:
    path = ROOT / "tools" / "derive_constants.py"
    spec = importlib.util.spec_from_file_location("retrograd_derive_constants", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_fresh() -> None:
    assert (ROOT / "isa" / "constants.py").read_text("utf-8") == load_tool().derive(), "run the tool again"


def test_the_tool_finds_a_stale_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool, path = load_tool(), tmp_path / "constants.py"
    assert tool.main([str(path)]) == 0
    assert tool.main(["--check", str(path)]) == 0
    text = path.read_text("utf-8")
    path.write_text(text.replace(f"{constants.EXP2[9]:034x}", f"{constants.EXP2[9] ^ 1:034x}"), "utf-8")
    assert path.read_text("utf-8") != text
    assert tool.main(["--check", str(path)]) == 1
    assert "stale" in capsys.readouterr().err


# The definitions below share nothing with the tool's: roots by exact integer arithmetic, π and logarithms by series.


def nearest(x: Fraction) -> int:
    return math.floor(x * (1 << constants.PLACES) + Fraction(1, 2))


def arctan_of_inverse(n: int) -> Fraction:
    """atan(1/n) to 2^-200."""
    total, k, power = Fraction(0), 0, Fraction(1, n)
    while power > Fraction(1, 1 << 200):
        total += power / (2 * k + 1) * (-1) ** k
        power, k = power / (n * n), k + 1
    return total


def logarithm(x: Fraction) -> Fraction:
    """ln x by 2·artanh((x − 1)/(x + 1)), for x in [1/2, 2], to 2^-180 or so."""
    y = (x - 1) / (x + 1)
    total, k, power = Fraction(0), 0, y
    while abs(power) > Fraction(1, 1 << 200):
        total += 2 * power / (2 * k + 1)
        power = Fraction(math.floor(power * y * y * (1 << 220)), 1 << 220)
        k += 1
    return total


def test_numbers() -> None:
    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    ln2 = logarithm(Fraction(2))
    assert nearest(pi) == constants.PI
    assert nearest(ln2) == constants.LN_2
    assert nearest(1 / ln2) == constants.LOG2_E
    assert nearest(1 / (2 * pi)) == constants.TURNS_PER_RADIAN


def test_powers_of_two() -> None:
    """The n-th power of an entry brackets the power of two that it is a root of."""
    assert len(constants.EXP2) == N
    for j, x in enumerate(constants.EXP2):
        exact = 1 << (j + N * (constants.PLACES + 1))
        assert (2 * x - 1) ** N <= exact <= (2 * x + 1) ** N, j


def test_reciprocals_and_their_logarithms() -> None:
    ln2 = logarithm(Fraction(2))
    unit = 1 << constants.PLACES
    assert len(constants.RECIPROCAL) == len(constants.LOG2_RECIPROCAL) == N
    for j, (x, log) in enumerate(zip(constants.RECIPROCAL, constants.LOG2_RECIPROCAL, strict=True)):
        c = Fraction(x, unit)
        assert c.denominator <= 4096
        # Over its whole segment, the entry leaves a remainder below 2^-K.
        for end in (Fraction(N + j, N), Fraction(N + j + 1, N)):
            assert abs(end * c - 1) < Fraction(1, N)
        assert nearest(-logarithm(c) / ln2) == log


def test_angles() -> None:
    """By the angle-addition theorem from one entry to the next, and the ends exactly."""
    unit = mp.mpf(2) ** constants.PLACES
    with mp.workprec(400):
        assert (constants.SIN[0], constants.SIN[N]) == (0, 1 << constants.PLACES)
        assert constants.TAN_HALF[0] == constants.ATAN[0] == 0
        assert len(constants.SIN) == len(constants.ATAN) == N + 1
        assert len(constants.TAN_HALF) == N // 2 + 1
        for j, x in enumerate(constants.SIN):
            # sin = Im e^(ijπ/2N), by squaring a root of i log2 N times: no sine is called.
            root = mp.mpc(0, 1)
            for _ in range(constants.BITS):
                root = mp.sqrt(root)
            assert abs((root**j).imag * unit - x) <= mp.mpf("0.5"), j
        for j, x in enumerate(constants.TAN_HALF):
            root = mp.mpc(0, 1)
            for _ in range(constants.BITS + 1):
                root = mp.sqrt(root)
            z = root**j
            assert abs(z.imag / z.real * unit - x) <= mp.mpf("0.5"), j
        for j, x in enumerate(constants.ATAN):
            # The angle whose tangent is j/N, back through the tangent.
            assert abs(mp.tan(x / unit) - mp.mpf(j) / N) * unit <= 2, j


@pytest.mark.parametrize("w", [Format(64, 32), Format(32, 16)], ids=str)
def test_tables_in_the_trees_are_these(w: Format) -> None:
    """High words of the tables as the trees hold them: the entries cut to the word's places."""

    def tables(*roots: object) -> set[tuple[int, ...]]:
        return {n.param for n in nodes(*roots) if n.op == "table" and isinstance(n.param, tuple)}  # type: ignore[arg-type]

    a, b = place("a"), place("b")
    cut = constants.PLACES - (w.width - 2)
    found = tables(functions.exp(a, w)[0])
    assert tuple(x >> cut for x in constants.EXP2) in found
    assert tuple(x >> cut for x in constants.RECIPROCAL) in tables(functions.log(a, w)[0])
    assert tuple(x >> cut for x in constants.SIN[:-1]) in tables(functions.sin(a, w))
    assert tuple(x >> cut for x in constants.SIN[:0:-1]) in tables(functions.sin(a, w))
    assert any(len(t) == 2 * N and t[1] == functions.to_places(constants.ATAN[1], t[N].bit_length())
               for t in tables(functions.atan2(a, b, w)[0]))  # fmt: skip
