"""Compile time of every construct grows at most with the square of a program's length, counted in calls of Python functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

HEAD = """import retrograd as rg
from retrograd import Array, fixed, lognum, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def shift(y: fixed, x: fixed):
    y += x / 8


"""


def repeated(line: str, n: int) -> list[str]:
    return [line.replace("#", str(k)) for k in range(n)]


def nested(line: str, n: int, inner: str) -> list[str]:
    return [*("    " * k + line.replace("#", str(k)) for k in range(n)), "    " * n + inner]


#: construct → the lines of a body with n of them
CONSTRUCTS: dict[str, Callable[[int], list[str]]] = {
    "updates": lambda n: repeated("y += x * #", n),
    "terms of a sum": lambda n: ["y += " + " + ".join(repeated("x * (# + 0.5)", n))],
    "factors of a product": lambda n: ["y += " + " * ".join(repeated("(x + #)", n))],
    "variables": lambda n: repeated("t# = x * #", n),
    "variables made from each other": lambda n: ["t0 = x * x", *(f"t{k + 1} = t{k} * x" for k in range(n))],
    "variables freed": lambda n: [*repeated("t# = x * #", n), *repeated("del t#", n)],
    "elif": lambda n: ["if i == -1:", "    y += 1", *(s for k in range(n) for s in (f"elif i == {k}:", f"    y += {k}"))],
    "branches": lambda n: [s for k in range(n) for s in (f"if i == {k}:", "    y += x", "else:", "    y -= x")],
    "nested branches": lambda n: nested("if i > #:", n // 4, "y += x"),
    "pairs of conditions": lambda n: [s for k in range(n) for s in (f"if (x > {k}, y > {k}):", "    pass")],
    "loops": lambda n: [s for k in range(n) for s in (f"for k{k} in range(i):", "    y += x")],
    "nested loops": lambda n: nested("for k# in range(i):", n // 4, "y += x"),
    "loops over constants": lambda n: [f"for k in {[*range(n)]}:", "    y += x * k"],
    "repeated bodies": lambda n: [s for k in range(n) for s in (f"for _ in rg.repeat(i == 0, until=i > {k}):", "    i += 1")],
    "routines": lambda n: [s for k in range(n) for s in (f"with rg.routine() as r{k}:", f"    t{k} = x * {k}", f"y += t{k}", f"~r{k}")],
    "nested routines": lambda n: [
        *(s for k in range(n // 2) for s in (f"with rg.routine() as r{k}:", f"    t{k} = x * {k}")),
        "y += x",
        *(f"~r{k}" for k in reversed(range(n // 2))),
    ],
    "calls": lambda n: repeated("shift(y, x)", n),
    "calls in expressions": lambda n: repeated("y += shift(x) * #", n),
    "elements": lambda n: repeated("a[#] += a[# + 1]", n),
    "elements by index": lambda n: repeated("a[i] += a[i + # + 1]", n),
    "variables made from elements": lambda n: [s for k in range(n) for s in (f"t{k} = a[{k}] * x", f"a[{k} + 1] += t{k}")],
    "whole arrays": lambda n: repeated("a += b * #", n),
    "arrays of the run": lambda n: repeated("t# = rg.zeros(i + #)", n),
    "slices of the run": lambda n: repeated("y += rg.sum(a[: i + #])", n),
    "copied arrays": lambda n: repeated("t# = b * #", n),
    "reductions": lambda n: repeated("y += rg.max(a) * #", n),
    "structs": lambda n: repeated("p += q * #", n),
    "constructed structs": lambda n: repeated("t# = Point(x, #)", n),
    "stacks": lambda n: [*repeated("t# = x * #", n), *(f"rg.push(s, t{k})" for k in range(n)), *(f"rg.pop(s, t{k})" for k in reversed(range(n)))],
    "exchanges": lambda n: repeated("a[#], a[# + 1] = a[# + 1], a[#]", n),
    "inner functions": lambda n: [s for k in range(n) for s in (f"def g{k}(z: fixed):", f"    z += x * {k}", f"g{k}(y)")],
    "lognums": lambda n: repeated("l *= lognum(x + #)", n),
    "assertions": lambda n: repeated("assert i > #", n),
    "unchecked blocks": lambda n: [s for k in range(n) for s in ("with rg.unchecked():", f"    t{k} = x * {k}")],
}  # fmt: skip
_COUNTER = [0]


def compiled_calls(body: list[str], folder: Path) -> int:
    """The number of calls of Python functions that compiling a function with this body takes."""
    _COUNTER[0] += 1
    name = f"growth_{_COUNTER[0]}"
    parameters = "y: fixed, x: fixed, i: int, a: Array[fixed, 200], b: Array[fixed, 200], p: Point, q: Point, s: rg.Stack[fixed, 100], l: lognum"
    source = HEAD + f"@reversible\ndef f({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        module.f.program()
    finally:
        sys.setprofile(None)
        del sys.modules[name]
    return calls


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_compile_time_is_at_most_quadratic(construct: str, tmp_path: Path) -> None:
    n = 10
    made = CONSTRUCTS[construct]
    compiled_calls(made(2), tmp_path)
    small, large = compiled_calls(made(n), tmp_path), compiled_calls(made(2 * n), tmp_path)
    # Doubling a quadratic cost is fourfold at most; a cubic one approaches eightfold.
    assert large < 4.2 * small, f"{small} calls for {n}, {large} for {2 * n}"
