"""Python's functions that a program cannot call: the message names an expression, and it has the function's value."""

from __future__ import annotations

import builtins
import linecache
import math
import re
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.language.intrinsics import ALTERNATIVES

import retrograd as rg
from retrograd import Array, fixed, reversible

MODULES = {"": builtins, "math.": math, "np.": np}
CALLS = [
    (prefix, name, 3 if "{z}" in template else 2 if "{y}" in template else 1)
    for name, template in sorted(ALTERNATIVES.items())
    for prefix, module in MODULES.items()
    if hasattr(module, name) and "{x}" in template and "@" not in template and name not in ("divmod", "float")
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


@pytest.mark.share(10)
@pytest.mark.parametrize(("prefix", "name", "count"), CALLS)
def test_the_expression_in_the_advice_has_the_value_of_the_function(prefix: str, name: str, count: int) -> None:
    expression = f"{prefix}{name}({', '.join(('u', 'v - 1', 'v')[:count])})"
    found = re.fullmatch("write `(.*)`", advice(expression))
    assert found is not None
    f = defined(found[1])
    for u, v in ((0.4, 1.5), (0.8, 2.25)):
        value = float(eval(expression, {"u": u, "v": v, "math": math, "np": np}))
        assert abs(f(0.0, u, v, [0.0] * 3).y - value) < 1e-8


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("np.dot(a, a)", "`a @ a`"),
        ("math.gamma(u)", "docs/language.md"),
        ("divmod(u, v)", "`u // v` and `u % v`"),
        ("reversed(a)", "for … in reversed(a):"),
        ("rg.sum(zip(a, a))", "for … in zip(a, a):"),
        ("np.max(a)", "rg.max"),
    ],
)
def test_the_advice_is_of_use(expression: str, named: str) -> None:
    said = advice(expression)
    assert named in said
    assert "@reversible" not in said
