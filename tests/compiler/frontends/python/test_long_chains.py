"""Chains of hundreds of conditions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import retrograd as rg


@pytest.mark.parametrize("level", [0, 1])
def test_a_chain_of_four_hundred_conditions(
    level: int, tmp_path: Path, written: Callable[[Path, str], ModuleType]
) -> None:
    chain = "".join(f"    elif x == {k}:\n        y += {k * k}\n" for k in range(1, 400))
    head = "from retrograd import reversible\n\n\n@reversible\ndef f(y: int, x: int):\n    if x == 0:\n        y -= 1\n"
    module = written(tmp_path / "chain.py", f"{head}{chain}    else:\n        y += 7\n")
    f = module.f.with_options(level=level)
    for x, y in ((0, -1), (1, 1), (200, 40000), (399, 159201), (400, 7)):
        out = rg.run(f, 0, x, engine="reference").values
        assert out == (y, x)
        assert rg.run(f, *out, engine="reference", backward=True).values == (0, x)
