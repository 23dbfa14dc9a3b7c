"""Chains of hundreds of conditions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import retrograd as rg


@pytest.mark.share(2)
@pytest.mark.parametrize("level", [0, 1])
def test_a_chain_of_four_hundred_conditions(level: int, tmp_path: Path) -> None:
    chain = "".join(f"    elif x == {k}:\n        y += {k * k}\n" for k in range(1, 400))
    head = "from retrograd import reversible\n\n\n@reversible\ndef f(y: int, x: int):\n    if x == 0:\n        y -= 1\n"
    path = tmp_path / "chain.py"
    path.write_text(f"{head}{chain}    else:\n        y += 7\n")
    spec = importlib.util.spec_from_file_location("chain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    f = module.f.with_options(level=level)
    for x, y in ((0, -1), (1, 1), (200, 40000), (399, 159201), (400, 7)):
        out = rg.run(f, 0, x, engine="reference").values
        assert out == (y, x)
        assert rg.run(f, *out, engine="reference", backward=True).values == (0, x)
