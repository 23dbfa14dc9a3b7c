"""The functions that the language has of its own: `rg.sqrt`, `rg.rot` and the like.

They are names for the compiler. A call by Python raises RG0701. A function of values has a host: the function of Python that gives its value
where all operands are constants, which are computed when the program is compiled.
"""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.values import Constant, Value
from retrograd.isa.diagnostics import CompileError, Diagnostic, api_boundary
from retrograd.isa.words import Format

#: roles: a value, a statement, a new variable, or a block
EXPRESSION, STATEMENT, CONSTRUCTOR, CONTEXT = "expression", "statement", "constructor", "context"
#: the function of Python that gives the value of a function of the language for constants
Host = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


class Intrinsic:
    """A name that means something in reversible functions only, with all that the language has of it.

    `arity`: the arguments of a call. `host`: see the module. `foreign`: functions of Python and NumPy that mean the same.
    `inverse`: of a statement, None where it has none.

    A function of numbers is computed by an `instruction` of the table on operands of one `kind`, which is also that of its value, or by
    `value`, an expression of the language: (arithmetic, *operands) → value. Its derivative is the instruction's, or follows from the
    expression by the chain rule. Functional functions take it by the same entry. `lognums`: it is defined for these, too.
    """

    def __init__(
        self,
        name: str,
        role: str,
        doc: str,
        host: Host | None = None,
        arity: int = 1,
        *,
        instruction: str | None = None,
        kind: Kind = Kind.FIXED,
        value: Callable[..., Value] | None = None,
        foreign: Sequence[Callable[..., Any]] = (),
        lognums: bool = False,
    ) -> None:
        self.__name__, self.__doc__ = name, doc
        self.role, self.host, self.arity = role, host, arity
        self.instruction, self.kind, self.value = instruction, kind, value
        self.foreign, self.lognums = foreign, lognums
        self.inverse: Intrinsic | None = self
        #: its name among the `FUNCTIONS`
        self.operation = name

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


#: name → the function of the language
INTRINSICS: dict[str, Intrinsic] = {}
#: name → the function of numbers in the arithmetic: `min` and `max` of two numbers, where the functions of the language are of an array
FUNCTIONS: dict[str, Intrinsic] = {}
#: function of Python's own → the function of the language that means the same
FOREIGN: dict[Callable[..., Any], Intrinsic] = {}


def entered(f: Intrinsic) -> Intrinsic:
    """The function, which the language has from here on."""
    INTRINSICS[f.__name__] = f
    if f.instruction is not None or f.value is not None:
        FUNCTIONS[f.__name__] = f
    FOREIGN.update(dict.fromkeys(f.foreign, f))
    return f


def arity_of(operation: str) -> int:
    """The arguments of a function of numbers; 1 of a conversion."""
    f = FUNCTIONS.get(operation)
    return 1 if f is None else f.arity


def _of_math(name: str, doc: str, arity: int = 1, **computed: Any) -> Intrinsic:
    return entered(Intrinsic(name, EXPRESSION, doc, host_of(name), arity, foreign=(getattr(math, name),), **computed))


def _reduction(doc: str, host: Host | None, *foreign: Callable[..., Any]) -> Intrinsic:
    return entered(Intrinsic(foreign[-1].__name__, EXPRESSION, doc, host, foreign=foreign))


def _other(name: str, role: str, doc: str, arity: int = 1) -> Intrinsic:
    return entered(Intrinsic(name, role, doc, None, arity))


sqrt = _of_math("sqrt", "√x, to nearest; x ≥ 0.", instruction="fsqrt", lognums=True)
exp = _of_math("exp", "e^x.", instruction="fexp")
log = _of_math("log", "ln x; x > 0.", instruction="flog", lognums=True)
sin = _of_math("sin", "sin x, x in radians.", instruction="fsin")
cos = _of_math("cos", "cos x, x in radians.", instruction="fcos")
tan = _of_math(
    "tan", "sin x / cos x.", value=lambda a, x: a.binary("/", a.function("sin", [x]), a.function("cos", [x]))
)
atan2 = _of_math("atan2", "The angle of the vector (x, y): atan2(y, x).", 2, instruction="fatan2")
atan = _of_math("atan", "atan2(x, 1).", value=lambda a, x: a.function("atan2", [x, Constant(1.0)]))
floor = _of_math("floor", "⌊x⌋ of a fixed, as an int.", value=lambda a, x: a.floor(x))
select = entered(Intrinsic(
    "select", EXPRESSION, "select(c, x, y): x if c else y; only the one chosen is computed.",
    lambda c, x, y: x if c else y, 3,
    value=lambda a, c, x, y: a.select(c, x, y), lognums=True,
))  # fmt: skip
top = _other("top", EXPRESSION, "top(stack): the last word of a stack, which stays there.")
sum = _reduction("Σ of an array's elements; axis=k sums along one axis.", _sum, builtins.sum, np.sum)
mean = _reduction("Σ of an array's elements over their number; axis=k along one axis.", _mean, np.mean)
min = _reduction("The smallest element of an array; axis=k along one axis.", np.min, np.amin, np.min)
max = _reduction("The largest element of an array; axis=k along one axis.", np.max, np.amax, np.max)
# Functions of numbers that Python has in the same words; they are no names of `retrograd`.
for _f, _count, _value in (
    (builtins.abs, 1, lambda a, x: a.size(x)),
    (builtins.round, 1, lambda a, x: a.rounded(x)),
    (builtins.min, 2, lambda a, *v: a.extreme("min", v)),
    (builtins.max, 2, lambda a, *v: a.extreme("max", v)),
):
    FUNCTIONS[_f.__name__] = Intrinsic(_f.__name__, EXPRESSION, "", _f, _count, value=_value)

rot = _other("rot", STATEMENT, "rot(x, y, t): (x, y) turned by the angle t, exactly undone by irot.", 3)
irot = _other("irot", STATEMENT, "irot(x, y, t): (x, y) turned by −t; the inverse of rot, bit for bit.", 3)
neg = _other("neg", STATEMENT, "neg(x): x := −x. Its own inverse.", 1)
flip = _other("flip", STATEMENT, "flip(x): x := not x, of a bool or of each bit of an int. Its own inverse.", 1)
swap = _other("swap", STATEMENT, "swap(x, y): exchange two variables, elements, or whole arrays. Its own inverse.", 2)
cswap = _other("cswap", STATEMENT, "cswap(c, x, y): exchange x and y if c (the Fredkin gate). Its own inverse.", 3)
rol = _other("rol", STATEMENT, "rol(x, k): rotate the bits of an int to the left by k. Inverse: ror.", 2)
ror = _other("ror", STATEMENT, "ror(x, k): rotate the bits of an int to the right by k. Inverse: rol.", 2)
push = _other("push", STATEMENT, "push(stack, x): x goes on the stack and becomes zero. Inverse: pop.", 2)
pop = _other(
    "pop",
    STATEMENT,
    "pop(stack, x): x, which must be zero, takes the top of the stack; x = pop(stack) makes x. Inverse: push.",
    2,
)
free = _other("free", STATEMENT, "free(x, e): free x, which must hold the value of e. Inverse: x = e.", 2)
erase = _other("erase", STATEMENT, "erase(x): x := 0, at the price of a word of bits. It has no inverse.", 1)
for _f, _g in ((rot, irot), (rol, ror), (push, pop)):
    _f.inverse, _g.inverse = _g, _f
free.inverse = erase.inverse = None

zeros = _other("zeros", CONSTRUCTOR, "zeros(n, m, …, dtype=fixed): a new array of zeros.")
zeros_like = _other("zeros_like", CONSTRUCTOR, "zeros_like(x): a new array of zeros, of x's shape and type.")
copy = _other("copy", CONSTRUCTOR, "copy(x): a new array, struct or number with the values of x.")
stack = _other("stack", CONSTRUCTOR, "stack(fixed, capacity): a new empty stack.")

routine = _other("routine", CONTEXT, "`with routine() as r: …` computes; `~r` uncomputes.")
repeat = _other(
    "repeat",
    CONTEXT,
    "`for _ in repeat(start, until=done): …` runs its body until `done`; `start` is true before the first pass only.",
)
external = _other(
    "external", CONTEXT, "`with external(): …`: statements for the host, such as print; machines skip them."
)
unchecked = _other(
    "unchecked",
    CONTEXT,
    "`with unchecked(): …`: without tests that freed variables are zero and that second conditions hold; never without those of memory.",
)
view = _other(
    "view",
    CONTEXT,
    "`with view(-x) as m: …`: x is changed through m. Views are bijections: -x, 2 * x, int(x), x.T, and their like.",
)
forget = _other(
    "forget",
    CONTEXT,
    "`with forget(): …` in functional functions: the values that are named inside are kept, all else of the run is uncomputed.",
)

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
