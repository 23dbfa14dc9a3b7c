"""Functions that are nested deeper than Python's limit of frames, and functions that the compiler fails on."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from typing import Any

import pytest
from retrograd.compiler import deep_recursion
from retrograd.compiler.deep_recursion import collector_paused, with_deep_stack
from retrograd.compiler.frontends.python import allocation
from retrograd.isa.diagnostics import CompilerFault

import retrograd as rg
from retrograd.cli.main import main
from retrograd.derivatives import _requests
from retrograd.testing import check_inverse

HEAD = "from retrograd import fixed, reversible\n\n@reversible\ndef f(y: fixed, x: fixed, k: int):\n"


@pytest.fixture
def function(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function made of the text of its body."""

    def made(body: str) -> Any:
        (tmp_path / "deep_module.py").write_text(HEAD + body)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "deep_module", raising=False)
        import deep_module  # type: ignore[import-not-found]

        return deep_module.f

    return made


@pytest.mark.long
def test_a_chain_of_400_conditions(function: Any) -> None:
    branches = "".join(f"    {'el' if k else ''}if k == {k}:\n        y += {k} * x\n" for k in range(400))
    f = function(f"{branches}    else:\n        y -= x\n")
    for k, factor in ((0, 0), (7, 7), (399, 399), (400, -1)):
        done = rg.run(f, 0.0, 0.5, k)
        assert done.values.y == factor * 0.5
        assert done.erased_bits == 0
    check_inverse(f, 0.0, 0.5, 300)
    assert rg.grad(f, "x")(0.0, 0.5, 300) == 300.0


def test_a_sum_of_1200_terms(function: Any) -> None:
    assert function(f"    y += {' + '.join(['x'] * 1200)}\n")(0.0, 0.5, 0).y == 600.0


def test_the_call_behind_a_deep_one_begins_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The types of a function need the stack of its program, whose first try would be in vain."""
    monkeypatch.setattr(deep_recursion, "_next", threading.local())
    tries: list[int] = []

    def deep(n: int) -> int:
        tries.append(n) if n == 5000 else None
        return 0 if n == 0 else 1 + deep(n - 1)

    for counted in (2, 1, 2):
        tries.clear()
        assert with_deep_stack(lambda: deep(5000)) == 5000
        assert len(tries) == counted


def test_the_collector_is_as_it_was() -> None:
    """Blocks may overlap, as those of two threads do, and errors leave them."""
    assert gc.isenabled()
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    assert not gc.isenabled()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_errors_and_limits_are_those_of_the_caller() -> None:
    limit = sys.getrecursionlimit()

    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + deep(n - 1)

    assert with_deep_stack(lambda: deep(5000)) == 5000
    with pytest.raises(ZeroDivisionError):
        with_deep_stack(lambda: 1 // (deep(5000) - 5000))
    with pytest.raises(RecursionError):
        with_deep_stack(lambda: deep(10**6))
    assert sys.getrecursionlimit() == limit


# ---------------------------------------------------------------------- faults of the compiler, which its verification finds: RG0732

SQUARE = "    t = x * x\n    y += t\n"


def test_a_fault_has_its_place_and_its_cause(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f = function(SQUARE)
    monkeypatch.setattr(allocation, "release", lambda *_: ())
    with pytest.raises(CompilerFault, match=r"RG0732(.|\n)*the compiler fails on `f`: AssertionError: ") as found:
        f(0.0, 1.0, 0)
    assert not isinstance(found.value, rg.RetrogradError)
    assert isinstance(found.value.__cause__, AssertionError)
    assert found.value.diagnostics[0].span is not None
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)


def test_a_fault_in_a_gradient_program(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    f = function(SQUARE)
    f(0.0, 1.0, 0)
    monkeypatch.setattr(_requests, "emit_optimised", broken)
    with pytest.raises(CompilerFault, match="RG0732"):
        rg.grad(f)(0.0, 1.0, 0)


@pytest.mark.parametrize("more", ["", "f(0.0, 1.0, 0)\n"])
def test_a_fault_on_the_command_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    """The file is executed before its function is run, and is not at fault."""
    (tmp_path / "square.py").write_text(HEAD + SQUARE + more)
    monkeypatch.setattr(allocation, "release", lambda *_: ())
    assert main(["run", f"{tmp_path / 'square.py'}:f", "0.0", "1.0", "0"]) == 2
    printed = capsys.readouterr().err
    assert "RG0732" in printed
    assert "RG0508" not in printed
