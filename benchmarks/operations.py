"""Operations of the irreversible programs, counted exactly: the kernels of the peers in float64 run on numbers that count.

Each operation on numbers of the data counts once: + − × ÷, a power, a sign, a size, a comparison, a maximum, a
root, an exponential, a logarithm, a sine. Counters of loops and addresses of elements do not count, nor do loads and stores.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import itertools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks import primals, wave_primals
from retrograd.benchmarks.data import Bodies, Embeddings, Measurements, Mixture, Numbers, SparsePair, Wave

#: elements of a batch that are counted: all take about the same number of operations, but for numbers with loops of their own length
SAMPLE, NUMBERS = 10, 2000


class _Float(float):
    """A number whose operations count."""


class _Int(int):
    """The same for integers; as an index it is an integer."""


#: one number taken for each operation
_executed = itertools.count()


def _number(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return _Int(value) if isinstance(value, int | np.integer) else _Float(value)


def _counting(function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*operands: Any) -> Any:
        next(_executed)
        return _number(function(*(_plain(x) for x in operands)))

    return counted


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, int | np.integer) else float(value)


for _class in (_Float, _Int):
    for _name in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne", "neg", "abs"):
        _function = getattr(operator, _name)
        setattr(_class, f"__{_name}__", _counting(_function))
        if _name in ("add", "sub", "mul", "truediv", "pow"):
            setattr(_class, f"__r{_name}__", _counting(lambda x, y, f=_function: f(y, x)))

#: the modules and functions of the kernels, with results that count
_NAMES: dict[str, Any] = {
    "math": types.SimpleNamespace(
        pi=math.pi, **{name: _counting(getattr(math, name)) for name in ("sqrt", "exp", "log", "sin", "cos", "lgamma")}
    ),
    "np": types.SimpleNamespace(
        inf=math.inf,
        empty=lambda shape: np.full(shape, _Float(0), dtype=object),
        zeros=lambda shape: np.full(shape, _Float(0), dtype=object),
        zeros_like=lambda a: np.full(a.shape, _Float(0), dtype=object),
    ),
    "max": lambda x, y: x if x > y else y,
    "float": _Float,
}


class _Literals(ast.NodeTransformer):
    """Numbers with a point in a kernel's text count, too."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float):
            return ast.copy_location(ast.Call(ast.Name("float", ast.Load()), [node], []), node)
        return node


def count(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    """The operations of a kernel of `primals` on these arguments."""
    tree = ast.fix_missing_locations(_Literals().visit(ast.parse(inspect.getsource(kernel))))
    names = dict(_NAMES)
    exec(compile(tree, inspect.getfile(kernel), "exec", flags=__future__.annotations.compiler_flag), names)
    begun = next(_executed)
    names[kernel.__name__](*(_counted(a) for a in arguments))
    return next(_executed) - begun - 1


def _counted(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        out = np.empty(argument.shape, dtype=object)
        for i in np.ndindex(*argument.shape):
            out[i] = _number(argument[i])
        return out
    return _number(argument)


def _numbers(d: Numbers) -> float:
    z = d.z[:NUMBERS]
    return count(primals.bessel, (np.empty_like(z), z)) / len(z)


def _embeddings(d: Embeddings) -> float:
    x = d.x[:SAMPLE]
    return count(primals.embedding, (np.empty(len(x)), x, d.pairs, d.edges)) / len(x)


def _measurements(d: Measurements) -> float:
    few = tuple(part[:SAMPLE] for part in d.arguments)
    return count(primals.reprojection, (np.empty_like(few[3]), *few)) / len(few[3])


def _wave(d: Wave) -> float:
    """Each step has as many operations."""
    return count(wave_primals.wave, (d.q, d.p, d.c, 1)) / d.q.size


#: by kind of data: operations of one evaluation of the value
OPERATIONS: dict[type, Callable[[Any], float]] = {
    Numbers: _numbers,
    Embeddings: _embeddings,
    Measurements: _measurements,
    Mixture: lambda d: count(primals.mixture, d.arguments),
    SparsePair: lambda d: count(primals.sparse_trace, (d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b)),
    Bodies: lambda d: count(primals.leapfrog, (d.q, d.v, d.gm, d.steps, d.h)) / d.steps,
    Wave: _wave,
}


def operations(data: Any) -> float | None:
    """Operations of one evaluation of the value, for the data of a task; None for data without a kernel."""
    counting = OPERATIONS.get(type(data))
    return None if counting is None else counting(data)
