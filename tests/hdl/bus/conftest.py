"""Shared by the tests of the bus: the module bench.py, and the square of a word, which is the smallest program with a gradient."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from retrograd.isa.words import Format

import retrograd as rg

SQUARE = """
        .data
x:      .word 1.5q
y:      .word 0
        .text
        start
        ld.add  r1, [r0 + x]
        fmul.add r2, r1, r1
        st.add  [r0 + y], r2
        finish
"""


@pytest.fixture(scope="session")
def bench(module: Callable[[str], ModuleType]) -> ModuleType:
    """The module tests/hdl/bus/bench.py."""
    return module("tests/hdl/bus/bench.py")


@pytest.fixture(scope="session")
def square_program() -> Callable[[Format], rg.Program]:
    """The program M[1] += M[0]² for words of a format, with 1.5 in M[0]."""
    return lambda w: rg.assemble(f".format {w.width}, {w.frac}\n{SQUARE}")
