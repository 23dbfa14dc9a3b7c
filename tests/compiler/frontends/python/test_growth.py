"""No construct of the language costs the compiler more than quadratically: calls of Python functions at two doublings."""

from __future__ import annotations

import gc
import linecache
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from retrograd.library.dictionaries import empty_dictionary

pytestmark = pytest.mark.long

H = "import retrograd as rg\nfrom retrograd import Array, fixed, reversible\n"


def lines(n: int, line: Callable[[int], str]) -> str:
    return "".join(f"    {line(i)}\n" for i in range(n))


#: construct -> (size) -> (source of f with as many of them, arguments, the smallest size)
CONSTRUCTS: dict[str, Callable[[int], tuple[str, Any, int]]] = {
    "elif": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, k: int):\n"
        + "".join(f"    {'if' if i == 0 else 'elif'} k == {i}:\n        y += {i}\n" for i in range(n)),
        (0.0, 1),
        64,
    ),
    "statements": lambda n: (
        H + "@reversible\ndef f(y: fixed, x: fixed):\n" + lines(n, lambda i: f"y += x * {i + 1}"),
        (0.0, 1.0),
        256,
    ),
    "exchange": lambda n: (
        H + "@reversible\ndef f(y: fixed, x: fixed):\n" + lines(n, lambda i: "x, y = y, x" if i % 2 else "y += x * x"),
        (0.0, 1.0),
        128,
    ),
    "expression": lambda n: (
        H + "@reversible\ndef f(y: fixed, x: fixed):\n    y += " + " + ".join(f"x * {i + 1}" for i in range(n)) + "\n",
        (0.0, 1.0),
        64,
    ),
    "products": lambda n: (
        H + "@reversible\ndef f(y: fixed, x: fixed):\n    y += " + " * ".join("x" for i in range(n)) + "\n",
        (0.0, 1.0),
        32,
    ),
    "nested_calls": lambda n: (
        H
        + "@reversible\ndef g0(y: fixed, x: fixed):\n    y += x\n"
        + "".join(f"@reversible\ndef g{i + 1}(y: fixed, x: fixed):\n    g{i}(y, x)\n    y += x * x\n" for i in range(n))
        + f"@reversible\ndef f(y: fixed, x: fixed):\n    g{n}(y, x)\n",
        (0.0, 1.0),
        16,
    ),
    "many_calls": lambda n: (
        H
        + "@reversible\ndef g(y: fixed, x: fixed):\n    y += x * x\n@reversible\ndef f(y: fixed, x: fixed):\n"
        + lines(n, lambda i: "g(y, x)"),
        (0.0, 1.0),
        64,
    ),
    "values_of_calls": lambda n: (
        H
        + "@reversible\ndef g(y: fixed, x: fixed):\n    y += x * x\n@reversible\ndef f(y: fixed, x: fixed):\n"
        + lines(n, lambda i: f"y += g(x + {i}) * 2"),
        (0.0, 1.0),
        32,
    ),
    "variables": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + lines(n, lambda i: f"t{i} = x * {i + 1}")
        + lines(n, lambda i: f"y += t{i}"),
        (0.0, 1.0),
        64,
    ),
    "chained_variables": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n    t0 = x * 1\n"
        + "".join(f"    t{i + 1} = t{i} * 0.5\n" for i in range(n))
        + f"    y += t{n}\n",
        (0.0, 1.0),
        32,
    ),
    "parameters": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, "
        + ", ".join(f"x{i}: fixed" for i in range(n))
        + "):\n"
        + lines(n, lambda i: f"y += x{i} * x{i}"),
        tuple([0.0] + [1.0] * n),
        32,
    ),
    "nested_loops": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + "".join("    " * (i + 1) + f"for i{i} in range(2):\n" for i in range(n))
        + "    " * (n + 1)
        + "y += x\n",
        (0.0, 1.0),
        4,
    ),
    "loops": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed, n: int):\n"
        + "".join("    for i in range(n):\n        y += x * i\n" for i in range(n)),
        (0.0, 1.0, 2),
        32,
    ),
    "nested_if": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + "".join("    " * (i + 1) + f"if x > {i}:\n" for i in range(n))
        + "    " * (n + 1)
        + "y += x\n",
        (0.0, 1.0),
        8,
    ),
    "while": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + "".join(
            f"    k{i} = 0\n    while (k{i} < 2, k{i} > 0):\n        y += x\n        k{i} += 1\n    rg.free(k{i}, 2)\n"
            for i in range(n)
        ),
        (0.0, 1.0),
        16,
    ),
    "routines": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + "".join(
            f"    with rg.routine() as r{i}:\n        t{i} = x * {i}\n    y += t{i} * t{i}\n    ~r{i}\n"
            for i in range(n)
        ),
        (0.0, 1.0),
        32,
    ),
    "nested_routines": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + "".join(
            "    " + f"with rg.routine() as r{i}:\n        t{i} = {'x' if i == 0 else f't{i - 1}'} * 0.5\n"
            for i in range(n)
        )
        + f"    y += t{n - 1}\n"
        + "".join(f"    ~r{i}\n" for i in reversed(range(n))),
        (0.0, 1.0),
        16,
    ),
    "structs": lambda n: (
        H
        + "@rg.struct\nclass P:\n"
        + lines(n, lambda i: f"a{i}: fixed")
        + "@reversible\ndef f(y: fixed, p: P):\n"
        + lines(n, lambda i: f"y += p.a{i} * {i}"),
        (0.0, {f"a{i}": 1.0 for i in range(n)}),
        32,
    ),
    "struct_updates": lambda n: (
        H
        + "@rg.struct\nclass P:\n"
        + lines(n, lambda i: f"a{i}: fixed")
        + "@reversible\ndef f(p: P, q: P):\n    p += q * 2\n    p, q = q, p\n",
        tuple([{f"a{i}": 1.0 for i in range(n)}] * 2),
        32,
    ),
    "arrays": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, "
        + ", ".join(f"a{i}: Array[fixed, 4]" for i in range(n))
        + "):\n"
        + lines(n, lambda i: f"y += rg.sum(a{i} * a{i})"),
        tuple([0.0] + [[1.0] * 4] * n),
        16,
    ),
    "array_updates": lambda n: (
        H
        + "@reversible\ndef f(a: Array[fixed, 4], b: Array[fixed, 4], k: int):\n"
        + lines(n, lambda i: f"a[k] += b[{i % 4}] * a[(k + 1) % 4]"),
        ([1.0] * 4, [1.0] * 4, 0),
        32,
    ),
    "element_versions": lambda n: (
        H
        + f"@reversible\ndef f(p: Array[fixed, {n + 1}]):\n"
        + "".join(f"    t{i} = p[{i}] * 0.5\n    p[{i + 1}] += t{i}\n" for i in range(n)),
        ([1.0] * (n + 1),),
        32,
    ),
    "stacks": lambda n: (
        H
        + "@reversible\ndef f(x: fixed, s: rg.Stack[fixed, 400]):\n"
        + lines(n, lambda i: "rg.push(s, x)\n    x += 1"),
        (1.0, []),
        32,
    ),
    "dictionaries": lambda n: (
        H
        + "from retrograd.library.dictionaries import *\n@reversible\ndef f(d: Dictionary, x: fixed):\n"
        + lines(n, lambda i: f"insert(d, {i}, x)\n    x += {i + 1}"),
        (empty_dictionary(64), 1.0),
        4,
    ),
    "dict_size": lambda n: (
        H
        + "from retrograd.library.dictionaries import *\n@reversible\ndef f(d: Dictionary, x: fixed):\n    insert(d, 3, x)\n",
        (empty_dictionary(n), 1.0),
        32,
    ),
    "xs": lambda n: (
        H + "@reversible\ndef f(y: fixed, *xs: fixed):\n    for i, x in enumerate(xs):\n        y += x * i\n",
        tuple([0.0] + [1.0] * n),
        32,
    ),
    "xs_recursion": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, *xs: fixed):\n    if len(xs) > 0:\n        y += xs[0]\n        f(y, *xs[1:])\n",
        tuple([0.0] + [1.0] * n),
        8,
    ),
    "complex": lambda n: (
        H + "@reversible\ndef f(y: complex, z: complex):\n" + lines(n, lambda i: "y += z * z"),
        (0j, 1j),
        32,
    ),
    "complex_power": lambda n: (
        H + f"@reversible\ndef f(y: complex, z: complex):\n    y += z ** {n}\n",
        (0j, 0.5j),
        32,
    ),
    "views": lambda n: (
        H
        + "@reversible\ndef f(x: fixed, z: fixed):\n"
        + "".join(f"    with rg.view(-x) as m{i}:\n        m{i} += z\n" for i in range(n)),
        (0.0, 1.0),
        32,
    ),
    "inner_functions": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n"
        + "".join(f"    def g{i}(z: fixed):\n        z += x * {i}\n    g{i}(y)\n" for i in range(n)),
        (0.0, 1.0),
        16,
    ),
    "function_list": lambda n: (
        H
        + "".join(f"@reversible\ndef g{i}(y: fixed, x: fixed):\n    y += x * {i}\n" for i in range(n))
        + "@reversible\ndef f(y: fixed, x: fixed, k: int):\n    fs = ["
        + ", ".join(f"g{i}" for i in range(n))
        + "]\n    fs[k](y, x)\n",
        (0.0, 1.0, 1),
        16,
    ),
    "constants_loop": lambda n: (
        H + f"C = list(range({n}))\n@reversible\ndef f(y: fixed, x: fixed):\n    for c in C:\n        y += x * c\n",
        (0.0, 1.0),
        64,
    ),
    "run_arrays": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, n: int):\n"
        + lines(n, lambda i: f"w{i} = rg.zeros(n)")
        + lines(n, lambda i: f"y += rg.sum(w{i})"),
        (0.0, 2),
        16,
    ),
    "assertions": lambda n: (
        H + "@reversible\ndef f(y: fixed, x: fixed):\n" + lines(n, lambda i: f"assert x > {-i - 1}\n    y += x"),
        (0.0, 1.0),
        64,
    ),
    "conditions": lambda n: (
        H
        + "@reversible\ndef f(y: fixed, x: fixed):\n    if "
        + " and ".join(f"x > {-i - 1}" for i in range(n))
        + ":\n        y += x\n",
        (0.0, 1.0),
        32,
    ),
}


def calls(source: str, args: tuple[Any, ...], name: str) -> int:
    """The number of calls of Python functions that the compilation of f makes."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(source, file, "exec"), vars(module))
    f: rg.Reversible = vars(module)["f"]
    count = 0

    def counted(*_: Any) -> None:
        nonlocal count
        count += 1

    gc.disable()
    sys.setprofile(counted)
    try:
        f.program(*args)
    finally:
        sys.setprofile(None)
        gc.enable()
        del sys.modules[name], linecache.cache[file]
    return count


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_the_compiler_is_at_most_quadratic(construct: str) -> None:
    size = CONSTRUCTS[construct](2)[2]
    found = []
    for factor in (1, 2, 4):
        source, args, _ = CONSTRUCTS[construct](factor * size)
        found.append(calls(source, args, f"growth_of_{construct}_{factor}"))
    assert math.log2(found[2] / found[0]) / 2 <= 2, found
