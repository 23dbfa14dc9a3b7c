"""The functions that the language has of its own: `rg.sqrt`, `rg.rot` and the like.

They are names for the compiler. A call by Python raises RG0701. A function of values has a host: the function of Python that gives its value
where all operands are constants, which are computed when the program is compiled.
"""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np
from retrograd.isa.diagnostics import CompileError, Diagnostic, api_boundary
from retrograd.isa.words import Format

#: roles: a value, a statement, a new variable, or a block
EXPRESSION, STATEMENT, CONSTRUCTOR, CONTEXT = "expression", "statement", "constructor", "context"
#: the function of Python that gives the value of a function of the language for constants
Host = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


class Intrinsic:
    """A name that means something in reversible functions only. `host`: see the module; None where operands are no constants.

    `arity`: the number of its arguments. `inverse`: of a statement, None where it has no inverse.
    """

    inverse: Intrinsic | None

    def __init__(self, name: str, role: str, doc: str, host: Host | None = None, arity: int = 1) -> None:
        self.__name__ = name
        self.role = role
        self.host = host
        self.arity = arity
        self.inverse = self
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"<retrograd.{self.__name__}>"

    def __reduce__(self) -> str:
        # Compared by identity: a pickle names it in this module.
        return self.__name__

    @api_boundary
    def __call__(self, *_: Any, **__: Any) -> Any:
        message = f"rg.{self.__name__} is part of the language: it is compiled within @reversible functions"
        raise CompileError(Diagnostic("RG0701", message, hint="call it inside a function decorated with @reversible"))

    def __enter__(self) -> NoReturn:
        self()
        raise AssertionError

    def __exit__(self, *_: object) -> None: ...


class NoForm(ValueError):
    """A function of the library has no values in a format."""

    hint = "Choose a format with two bits or more before the point, such as {}."

    def __init__(self, name: str, w: Format) -> None:
        super().__init__(f"rg.{name} has no values in {w}, where 1 does not fit")
        self.hint = self.hint.format(Format(w.width, w.width - 2))


#: (name of a function of the library, format) → the function that computes it in the format, None for the function itself. Raises NoForm.
Form = Callable[[str, Format], Any]


def hosted(name: str, form: Form) -> Callable[[F], F]:
    """A mark for a function of the library: its host is the function of this name of `math` and `cmath`."""

    def mark(function: F) -> F:
        function.__retrograd_host__ = host_of(name)  # type: ignore[attr-defined]
        function.__retrograd_form__ = partial(form, name)  # type: ignore[attr-defined]
        return function

    return mark


#: imports the module of the library's functions; the package sets it, since the compiler imports nothing of the library
load_library: Callable[[], Any] = dict


def library_function(host: Any) -> Any:
    """The function of the library with the values of a function of `math`; None where it has none."""
    name = getattr(host, "__name__", "")
    if getattr(host, "__module__", None) != "math":
        return None
    library = load_library()
    return getattr(library, name) if name in getattr(library, "__all__", ()) else None


def host_of(name: str) -> Host:
    """The function of `math`, and of `cmath` where an operand is complex."""
    real, wide = getattr(math, name), getattr(cmath, name, None)

    def host(*operands: Any) -> Any:
        if not any(isinstance(v, complex) for v in operands):
            return real(*operands)
        if wide is None:
            raise TypeError(f"rg.{name} is not defined for complex numbers")
        return wide(*operands)

    return host


def _sum(values: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    # Integers of Python do not overflow.
    found = np.sum(values.astype(object) if values.dtype.kind in "iub" else values, axis=axes)
    return np.array(found.tolist()) if isinstance(found, np.ndarray) else found


def _mean(values: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    return _sum(values, axes) / math.prod(values.shape[axis] for axis in axes)


def _expression(name: str, doc: str, host: Host | None) -> Intrinsic:
    return Intrinsic(name, EXPRESSION, doc, host)


def _statement(name: str, doc: str, arity: int) -> Intrinsic:
    return Intrinsic(name, STATEMENT, doc, None, arity)


sqrt = _expression("sqrt", "√x, to nearest; x ≥ 0.", host_of("sqrt"))
exp = _expression("exp", "e^x.", host_of("exp"))
log = _expression("log", "ln x; x > 0.", host_of("log"))
sin = _expression("sin", "sin x, x in radians.", host_of("sin"))
cos = _expression("cos", "cos x, x in radians.", host_of("cos"))
tan = _expression("tan", "sin x / cos x.", host_of("tan"))
atan2 = _expression("atan2", "The angle of the vector (x, y): atan2(y, x).", host_of("atan2"))
atan = _expression("atan", "atan2(x, 1).", host_of("atan"))
select = _expression(
    "select", "select(c, x, y): x if c else y; only the one chosen is computed.", lambda c, x, y: x if c else y
)
top = _expression("top", "top(stack): the last word of a stack, which stays there.", None)
floor = _expression("floor", "⌊x⌋ of a fixed, as an int.", host_of("floor"))
sum = _expression("sum", "Σ of an array's elements; axis=k sums along one axis.", _sum)
mean = _expression("mean", "Σ of an array's elements over their number; axis=k along one axis.", _mean)
min = _expression(
    "min", "The smallest element of an array; axis=k along one axis.", lambda values, axes: np.min(values, axis=axes)
)
max = _expression(
    "max", "The largest element of an array; axis=k along one axis.", lambda values, axes: np.max(values, axis=axes)
)

rot = _statement("rot", "rot(x, y, t): (x, y) turned by the angle t, exactly undone by irot.", 3)
irot = _statement("irot", "irot(x, y, t): (x, y) turned by −t; the inverse of rot, bit for bit.", 3)
neg = _statement("neg", "neg(x): x := −x. Its own inverse.", 1)
flip = _statement("flip", "flip(x): x := not x, of a bool or of each bit of an int. Its own inverse.", 1)
swap = _statement("swap", "swap(x, y): exchange two variables, elements, or whole arrays. Its own inverse.", 2)
cswap = _statement("cswap", "cswap(c, x, y): exchange x and y if c (the Fredkin gate). Its own inverse.", 3)
rol = _statement("rol", "rol(x, k): rotate the bits of an int to the left by k. Inverse: ror.", 2)
ror = _statement("ror", "ror(x, k): rotate the bits of an int to the right by k. Inverse: rol.", 2)
push = _statement("push", "push(stack, x): x goes on the stack and becomes zero. Inverse: pop.", 2)
pop = _statement(
    "pop", "pop(stack, x): x, which must be zero, takes the top of the stack; x = pop(stack) makes x. Inverse: push.", 2
)
free = _statement("free", "free(x, e): free x, which must hold the value of e. Inverse: x = e.", 2)
erase = _statement("erase", "erase(x): x := 0, at the price of a word of bits. It has no inverse.", 1)
for _f, _g in ((rot, irot), (rol, ror), (push, pop)):
    _f.inverse, _g.inverse = _g, _f
free.inverse = erase.inverse = None

zeros = Intrinsic("zeros", CONSTRUCTOR, "zeros(n, m, …, dtype=fixed): a new array of zeros.")
zeros_like = Intrinsic("zeros_like", CONSTRUCTOR, "zeros_like(x): a new array of zeros, of x's shape and type.")
copy = Intrinsic("copy", CONSTRUCTOR, "copy(x): a new array, struct or number with the values of x.")
stack = Intrinsic("stack", CONSTRUCTOR, "stack(fixed, capacity): a new empty stack.")

routine = Intrinsic("routine", CONTEXT, "`with routine() as r: …` computes; `~r` uncomputes.")
repeat = Intrinsic(
    "repeat",
    CONTEXT,
    "`for _ in repeat(start, until=done): …` runs its body until `done`; `start` is true before the first pass only.",
)
external = Intrinsic(
    "external", CONTEXT, "`with external(): …`: statements for the host, such as print; machines skip them."
)
unchecked = Intrinsic(
    "unchecked",
    CONTEXT,
    "`with unchecked(): …`: without tests that freed variables are zero and that second conditions hold; never without those of memory.",
)
view = Intrinsic(
    "view",
    CONTEXT,
    "`with view(-x) as m: …`: x is changed through m. Views are bijections: -x, 2 * x, int(x), x.T, and their like.",
)
forget = Intrinsic(
    "forget",
    CONTEXT,
    "`with forget(): …` in functional functions: the values that are named inside are kept, all else of the run is uncomputed.",
)

#: functions of Python's own that mean the same here
FOREIGN: dict[Callable[..., Any], Intrinsic] = {
    math.sqrt: sqrt, math.exp: exp, math.log: log, math.sin: sin, math.cos: cos, math.tan: tan, math.atan2: atan2,
    math.atan: atan, math.floor: floor, builtins.sum: sum,
    np.sum: sum, np.mean: mean, np.min: min, np.max: max,
}  # fmt: skip

#: name of a function of numbers in the arithmetic → its host
HOSTS: dict[str, Host] = {
    **{f.__name__: f.host for f in (sqrt, exp, log, sin, cos, tan, atan, atan2, select, floor) if f.host is not None},
    "abs": builtins.abs, "round": builtins.round, "min": builtins.min, "max": builtins.max,
}  # fmt: skip

#: name that `retrograd` does not have → the way to write it here
NOT_HERE: dict[str, str] = {
    "abs": "write `abs(x)`", "round": "write `round(x)`", "pow": "write `x ** n`", "len": "write `len(x)`", "range": "write `range(n)`",
    "print": "write `print(…)` in a block `with rg.external():`", "dot": "write `a @ b`", "matmul": "write `a @ b`",
    "transpose": "write `x.T`", "pi": "write `math.pi`", "e": "write `math.e`", "inf": "numbers are finite; give the largest that may occur",
    "ones": "for a constant array write `np.ones(n)`; for one that changes, `t = rg.zeros(n)` and `t += 1` in a routine", "full": "for a constant array write `np.full(n, 0.5)`; for one that changes, `t = rg.zeros(n)` and `t += x` in a routine",
    "array": "fill an array in a routine: `t = rg.zeros(2)`, `t[0] += x`, `t[1] += y`", "empty": "write `t = rg.zeros(n)`",
    "eye": "for a constant array write `np.eye(n)`",
    "relu": "write `max(x, 0)`", "sigmoid": "write `1 / (1 + rg.exp(-x))`", "norm": "write `rg.sqrt(rg.sum(x * x))`",
    "uncall": "write `~f(x, y)`", "inv": "write `~f(x, y)`", "call": "write `f(x, y)`", "delete": "write `del x`",
    "append": "write `rg.push(s, x)`", "xor": "write `x ^= y`", "not_": "write `rg.flip(x)`", "toffoli": "write `z ^= x & y`",
    "parity": "sum up the bits in a loop: `for i in range(64): y ^= x >> i & 1`", "popcount": "sum up the bits in a loop: `for i in range(64): y += x >> i & 1`",
    "cnot": "write `y ^= x`", "cx": "write `y ^= x`", "ccx": "write `z ^= x & y`", "fredkin": "write `rg.cswap(c, x, y)`",
    "int": "write `int`, Python's own", "bool": "write `bool`, Python's own", "float": "write `fixed`", "complex": "write `rg.library.Complex`",
}  # fmt: skip

INTRINSICS: dict[str, Intrinsic] = {v.__name__: v for v in list(globals().values()) if isinstance(v, Intrinsic)}
