"""Faults of the compiler, which its verification finds, are reported as faults of its own: RG0732."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from retrograd.compiler.frontends.python import allocation
from retrograd.isa.diagnostics import CompilerFault

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.cli.main import main
from retrograd.derivatives import _programs


@reversible
def square(y: fixed, x: fixed):
    t = x * x
    y += t


def test_the_place_and_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "release", lambda *_: ())
    with pytest.raises(CompilerFault, match=r"RG0732(.|\n)*the compiler fails on `square`: AssertionError: ") as found:
        square.with_options(level=0)(0.0, 1.0)
    error = found.value
    assert not isinstance(error, rg.RetrogradError)
    assert isinstance(error.__cause__, AssertionError)
    assert error.diagnostics[0].span is not None
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_gradient_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    square(0.0, 1.0)
    monkeypatch.setattr(_programs, "emit_optimised", broken)
    with pytest.raises(CompilerFault, match="RG0732"):
        rg.grad(square.with_options(format=rg.Format(64, 31)))(0.0, 1.0)


def test_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is executed before its function is run, and is not the fault."""
    path = tmp_path / "square.py"
    head = (
        "from retrograd import fixed, reversible\n@reversible\ndef f(y: fixed, x: fixed):\n    t = x * x\n    y += t\n"
    )
    monkeypatch.setattr(allocation, "release", lambda *_: ())
    for more in ("", "f(0.0, 1.0)\n"):
        path.write_text(head + more)
        assert main(["run", f"{path}:f", "0.0", "1.0"]) == 2
        printed = capsys.readouterr().err
        assert "RG0732" in printed
        assert "RG0508" not in printed
