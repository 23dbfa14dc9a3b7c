"""One tree, the same bits from every evaluator: the definition, the emitted Python, and numba's machine code."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from numba import njit
from retrograd.isa.entries import opcodes_of
from retrograd.isa.expr import Expr, evaluate
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: the functions that go by tables, which have partial derivatives or a lift of their own
BY_TABLES = [e for e in TABLE.entries if getattr(e, "partials", None) or getattr(e, "lift", None)]
#: every opcode whose value goes by a function of this folder, once for each function
NAMES = [
    *("fsqrt.add", "fdiv.add", "lmov.mul"),
    *(o.name for e in BY_TABLES for o in opcodes_of(e) if o.update in ("add", "mul", None)),
]
PLACES = ("d", "a", "b", "br", "imm")
FORMATS = [Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4), Format(64, 48), Format(32, 24)]


def roots(name: str, w: Format, guarded: bool = True) -> list[Expr]:
    """What the opcode writes, and what its guards say."""
    opcode = TABLE[name]
    guards = [opcode.guard_predicate(g, w) for g in opcode.guards(w)]
    return [*opcode.transition(w).values(), *(guards if guarded else [])]


def source(name: str, w: Format, guarded: bool = True) -> str:
    statements, out = emit(roots(name, w, guarded), w, {p: p for p in PLACES})
    body = [*statements, f"return ({', '.join(out)},)"]
    return f"def run({', '.join(PLACES)}):\n" + "".join(f"    {line}\n" for line in body)


def python(name: str, w: Format, guarded: bool = True) -> Callable[..., tuple[int, ...]]:
    scope: dict[str, Any] = {}
    exec(source(name, w, guarded), {"isqrt": math.isqrt}, scope)
    return scope["run"]  # type: ignore[no-any-return]


@njit  # type: ignore[untyped-decorator]
def isqrt(x: int) -> int:
    """The integer square root, for numba, which has none."""
    r = int(math.sqrt(x))
    while r * r > x:
        r -= 1
    while (r + 1) * (r + 1) <= x:
        r += 1
    return r


def samples(w: Format, seed: str, count: int) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    corners = [0, 1, w.mask, w.sign, w.sign - 1, w.sign // 2, 1 << w.frac]

    def word() -> int:
        if rng.random() < 0.1:
            return rng.choice(corners)
        return w.wrap(rng.randrange(-w.sign, w.sign) >> rng.randrange(w.width))

    return [(word(), word(), word(), 0, w.wrap(rng.randrange(-w.width, 2 * w.width))) for _ in range(count)]


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_emitted_python_is_the_definition(name: str, w: Format) -> None:
    run, trees = python(name, w), roots(name, w)
    for state in samples(w, name, 25):
        env = dict(zip(PLACES, state, strict=True))
        assert run(*state) == tuple(evaluate(tree, w, env) for tree in trees), state


def machine_code_differs(name: str, guarded: bool) -> list[tuple[int, ...]]:
    """In int64, at 32 bits: every value in between fits, or the bits would differ."""
    w = Format(32, 16)
    scope: dict[str, Any] = {"isqrt": isqrt}
    exec(source(name, w, guarded), scope)
    compiled, run = njit(scope["run"]), python(name, w, guarded)
    return [state for state in samples(w, name, 3000) if tuple(compiled(*state)) != run(*state)]


#: compiling takes a second each: here one by tables, one by digits, one of lognums; in the long tier all, with their guards
@pytest.mark.parametrize("name", ["fexp.add", "fsqrt.add", "ftol.mul"])
def test_machine_code_is_the_emitted_python(name: str) -> None:
    assert machine_code_differs(name, guarded=False) == []


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_machine_code_of_guards_too(name: str) -> None:
    assert machine_code_differs(name, guarded=True) == []


def test_the_functions_by_tables_are_here() -> None:
    assert {"fexp.add", "flog.add", "fatan2.add", "ltof.add", "ftol.mul", "lsub.mul", "rot", "irot"} <= set(NAMES)
    assert len(BY_TABLES) >= 10
