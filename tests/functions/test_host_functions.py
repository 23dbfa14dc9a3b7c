"""Functions of Python and NumPy on values of a run: taken with their values, or refused with an expression that has the value."""

from __future__ import annotations

import builtins
import linecache
import math
import re
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.language.foreign import ALTERNATIVES, OF_ARRAYS, WRITTEN

import retrograd as rg
from retrograd import Array, fixed, reversible

MODULES = {"": builtins, "math.": math, "np.": np}
#: their tests are those of arrays, below and in compiler/frontends/python
_OF_ARRAYS = {*(f.__name__ for f in OF_ARRAYS), "full_like", "norm", "std", "trace"}
CALLS = [
    (prefix, name, 3 if "{z}" in template else 2 if "{y}" in template else 1)
    for name, template in sorted(ALTERNATIVES.items())
    for prefix, module in MODULES.items()
    if hasattr(module, name) and "{x}" in template and name not in {"divmod", "float", *_OF_ARRAYS}
]


def defined(expression: str) -> Any:
    text = f"@reversible\ndef f(y: fixed, u: fixed, v: fixed, a: Array[fixed, 3]):\n    y += {expression}\n"
    linecache.cache[f"<{expression}>"] = (len(text), None, text.splitlines(keepends=True), f"<{expression}>")
    names = {"rg": rg, "math": math, "np": np, "reversible": reversible, "Array": Array, "fixed": fixed}
    exec(compile(text, f"<{expression}>", "exec"), names)
    return names["f"]


def advice(expression: str) -> str:
    """What is said of an expression that calls what no machine has."""
    with pytest.raises(rg.CompileError) as refused:
        defined(expression).lower()
    assert refused.value.code == "RG0701"
    return str(refused.value.diagnostics[0].hint)


def test_there_are_calls_to_check() -> None:
    assert len(CALLS) > 40


@pytest.mark.parametrize(("prefix", "name", "count"), CALLS)
def test_the_function_or_the_expression_in_the_advice_has_its_value(prefix: str, name: str, count: int) -> None:
    expression = f"{prefix}{name}({', '.join(('u', 'v - 1', 'v')[:count])})"
    f = defined(expression)
    try:
        f.lower()
    except rg.CompileError:
        found = re.fullmatch("write `(.*)`", advice(expression))
        assert found is not None
        f = defined(found[1])
    for u, v in ((0.4, 1.5), (0.8, 2.25)):
        value = float(eval(expression, {"u": u, "v": v, "math": math, "np": np}))
        assert abs(f(0.0, u, v, [0.0] * 3).y - value) < 1e-8


@pytest.mark.parametrize("expression", ["np.std(a)", "np.linalg.norm(a)", "np.trace(np.outer(a, a))"])
def test_the_advice_for_a_function_of_arrays_has_its_value(expression: str) -> None:
    a = np.array([1.5, -2.0, 4.0])
    found = re.fullmatch("write `(.*)`", advice(expression))
    assert found is not None
    assert defined(found[1])(0.0, 0.5, 0.25, a).y == pytest.approx(eval(expression, {"a": a, "np": np}), abs=1e-8)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("np.repeat(a, 2)[0]", "docs/language.md"),
        ("math.gamma(u)", "docs/language.md"),
        ("reversed(a)", "for … in reversed(a):"),
        ("rg.sum(zip(a, a))", "for … in zip(a, a):"),
        ("np.prod(a)", "docs/language.md"),
    ],
)
def test_the_advice_is_of_use(expression: str, named: str) -> None:
    said = advice(expression)
    assert named in said
    assert "@reversible" not in said


def test_the_advice_follows_from_the_functions_that_are_taken() -> None:
    """One table: each function that is taken has its advice, over its own arguments, and the advice names nothing that must be imported."""
    for f, text in (WRITTEN | OF_ARRAYS).items():
        if f is not np.mod:
            advised = ALTERNATIVES[f.__name__]
            assert {name for name in "xyz" if f"{{{name}}}" in advised} == {
                name for name in "xyz" if re.search(rf"\b{name}\b", text)
            }
            assert not re.search(r"\bfixed\b", advised)
    assert ALTERNATIVES.get("remainder") is None  # of `math` it is another function than of NumPy
