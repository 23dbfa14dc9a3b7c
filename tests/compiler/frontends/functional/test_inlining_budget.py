"""Inlined functions: the code grows with the text of a program, and sharing it changes no bit of a result."""

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from retrograd.compiler.frontends.functional import core, procedures

import retrograd as rg


def doubled(depth: int, folder: Path, result: str = "{}(x)") -> Any:
    """fₙ₊₁ = λt. fₙ(fₙ(t)), which calls f₀ 2ⁿ times. `result`: of the program, for the last name."""
    lines = ["import retrograd as rg", "from retrograd import fixed", "@rg.functional", "def f(x: fixed):"]
    lines.append("    f0 = lambda t: t * 0.9995 + 0.25 / (t * t + 1)")
    lines += [f"    f{k + 1} = lambda t: f{k}(f{k}(t))" for k in range(depth)]
    path = folder / f"doubled{depth}.py"
    path.write_text("\n".join([*lines, f"    return {result.format(f'f{depth}')}"]) + "\n")
    return run_path(str(path))["f"]


def size(f: Any) -> int:
    return len(f.compiled().program.code)


def test_the_code_of_doubled_functions_is_linear(tmp_path: Path) -> None:
    few, many = (size(doubled(depth, tmp_path)) for depth in (12, 18))
    assert many - few <= few / 2


def test_shared_code_has_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depth, x = 6, 0.375
    found = []
    for few, most in ((1 << 40, 1 << 40), (0, 0), (20, 60)):
        monkeypatch.setattr(procedures, "_FEW_STATEMENTS", few)
        monkeypatch.setattr(procedures, "_MOST_REPEATED", most)
        f = doubled(depth, tmp_path)
        value = f(x)
        undone = rg.run(~f, x, value)
        assert (undone.values.out, undone.erased_bits) == (0.0, 0)
        reference = rg.run(f, x, engine="reference")
        assert reference.values.out == value
        found.append((size(f), value, rg.grad(f, "x")(x)))
    inlined, shared, some = found
    assert shared[0] < some[0] < inlined[0]
    assert shared[1] == some[1] == inlined[1]
    t, slope = x, 1.0
    for _ in range(1 << depth):
        t, slope = t * 0.9995 + 0.25 / (t * t + 1), slope * (0.9995 - 0.5 * t / (t * t + 1) ** 2)
    assert inlined[1] == pytest.approx(t, abs=1e-6)
    for _, _, gradient in found:
        assert gradient == pytest.approx(slope, abs=1e-6)


def test_a_small_program_is_inlined_whole(tmp_path: Path) -> None:
    """Four levels have no procedure, so their instructions are those of sixteen bodies in a row."""
    assert not doubled(4, tmp_path).compiled().module.procedures


@pytest.mark.parametrize(
    ("result", "depth", "bound"),
    [("rg.grad({})(x)", 12, 5), ("rg.jvp({})(x, 1.0)", 12, 4), ("rg.grad(lambda s: rg.grad({})(s))(x)", 8, 8)],
    ids=["grad", "jvp", "second"],
)
def test_derivatives_count_against_the_budget(result: str, depth: int, bound: int, tmp_path: Path) -> None:
    """A statement of a function is several of its derivative: counted as one, 10, 11 and 44 times the budget."""
    assert size(doubled(depth, tmp_path, result)) <= bound * procedures._MOST_REPEATED


def test_the_functions_of_a_letrec_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each captures what all of them capture, which is found for all of them at once."""
    read: list[core.Core] = []
    found = core.free_bindings
    monkeypatch.setattr(core, "free_bindings", lambda e: read.append(e) or found(e))
    lines = ["import retrograd as rg", "from retrograd import fixed", "@rg.functional", "def f(x: fixed):"]
    for k in range(20):
        lines += [f"    def f{k}(t):", f"        return f{k - 1}(t + x)" if k else "        return t * x"]
    path = tmp_path / "letrec.py"
    path.write_text("\n".join([*lines, "    return f19(x)"]) + "\n")
    assert run_path(str(path))["f"](0.5) == 5.0
    assert 20 <= len(read) <= 60
