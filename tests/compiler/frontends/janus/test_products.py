"""`x *= e` and `x /= e`, against the integers of Python: exact, or a trap."""

from __future__ import annotations

import pytest
from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.janus.parser import read
from retrograd.isa.words import Format

from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import JanusFunction, run

#: the type → its least and its greatest number
RANGES = {
    "int": (-(2**31), 2**31 - 1),
    "i8": (-128, 127),
    "i16": (-(2**15), 2**15 - 1),
    "u8": (0, 255),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
}
PROGRAM = "procedure f({type} x, {type} a[2], {type} e)\n    x {op} e\n    a[e - e + 1] {op} e\n"


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("op", ["*=", "/="])
def test_products_and_quotients_are_exact_or_trap(op: str, name: str, level: int) -> None:
    low, high = RANGES[name]
    f = JanusFunction(read(PROGRAM.format(type=name, op=op), "f.ja"), "f", Format(32, 0), Options(level=level))
    traps = 0
    for e in sorted({-1, 0, 1, 2, 3, -2, 16, low, high, high // 2 + 1}):
        for x in (low, high, -1, 0, 1, 6, 48, high // 2 + 1, high // 3):
            if not (low <= e <= high and low <= x <= high):
                continue
            exact = e != 0 and (op == "*=" or x % e == 0)
            wanted = 0 if not exact else x * e if op == "*=" else x // e
            if not exact or not low <= wanted <= high:
                with pytest.raises(ProgramTrap, match="RG0816" if e else "RG0402"):
                    run(f, x, [0, x], e)
                traps += 1
                continue
            found = run(f, x, [0, x], e).values
            assert (int(found.x), [int(v) for v in found.a]) == (wanted, [0, wanted]), (x, e)
            back = run(~f, *found).values
            assert (int(back.x), [int(v) for v in back.a]) == (x, [0, x]), (x, e)
    assert traps > 5
