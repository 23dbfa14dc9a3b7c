"""The expression tree: the computation of an instruction, as data.

Every node is one W-bit word, in every backend. Ordinary-looking Python builds the tree by overloaded
operators; interpreters, compilers, hardware, proofs, derivatives and the manual are folds over it.

Nodes are interned: two equal trees are one object, so `is` is equality, a shared subexpression is
computed once by every fold, and a fold over a deep tree costs its number of distinct nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isqrt
from typing import Any, ClassVar, NamedTuple, TypeVar

from retrograd.isa.words import Format

T = TypeVar("T")

#: Every kind of node: operation -> (arity, meaning). W is the word width; s is the node's parameter.
OPERATIONS: dict[str, tuple[int, str]] = {
    "const": (0, "s mod 2^W"),
    "input": (0, "the word in the place named s"),
    "add": (2, "(x + y) mod 2^W"),
    "sub": (2, "(x - y) mod 2^W"),
    "and": (2, "bitwise x and y"),
    "or": (2, "bitwise x or y"),
    "xor": (2, "bitwise x xor y"),
    "shl": (2, "x * 2^(y mod W) mod 2^W"),
    "shr": (2, "floor(x / 2^(y mod W)), x unsigned"),
    "sar": (2, "floor(x / 2^(y mod W)), x signed"),
    "eq": (2, "1 if x = y else 0"),
    "lt": (2, "1 if x < y else 0, signed"),
    "ltu": (2, "1 if x < y else 0, unsigned"),
    "select": (3, "y if x != 0 else z"),
    "mulshift": (2, "floor(x * y / 2^s) mod 2^W, signed, exact before the floor; 0 <= s <= 2W"),
    "divshift": (2, "floor(x * 2^s / y) mod 2^W, signed, exact before the floor; 0 if y = 0; |s| <= W"),
    "mulround": (
        2,
        "floor(floor(x * y / 2^p + 1/2) / 2^(s - p)) mod 2^W, signed, p = s up to W, s - W beyond; 0 <= s < 2W",
    ),
    "divround": (
        2,
        "floor(floor(x * 2^p / y + 1/2) / 2^(p - s)) mod 2^W, signed, p = s mod W; 0 if y = 0; -W <= s < W",
    ),
    "sqrtround": (1, "floor(sqrt(x * 2^s) + 1/2) mod 2^W; 0 if x < 0; 0 <= s <= W"),
    "table": (1, "entry number x mod n of the table s, mod 2^W; n is a power of two"),
}


Parameter = int | str | tuple[int, ...] | None


class Expr:
    """One node: an operation, its operands, and a parameter (a constant, a shift, a place's name)."""

    __slots__ = ("args", "inputs", "op", "param")
    op: str
    args: tuple[Expr, ...]
    param: Parameter
    #: the names of the places that the tree reads: known when it is built, since folds ask at every node
    inputs: frozenset[str]

    _interned: ClassVar[dict[tuple[str, tuple[Expr, ...], Parameter], Expr]] = {}

    def __new__(cls, op: str, args: tuple[Expr, ...] = (), param: Parameter = None) -> Expr:
        key = (op, args, param)
        node = cls._interned.get(key)
        if node is None:
            arity, _ = OPERATIONS[op]
            if len(args) != arity:
                raise TypeError(f"{op} takes {arity} operands, not {len(args)}")
            node = object.__new__(cls)
            node.op, node.args, node.param = op, args, param
            node.inputs = frozenset((str(param),)) if op == "input" else _union(args)
            cls._interned[key] = node
        return node

    def __reduce__(self) -> tuple[type[Expr], tuple[str, tuple[Expr, ...], Parameter]]:
        return Expr, (self.op, self.args, self.param)

    def __repr__(self) -> str:
        return f"<Expr {formula(self)}>"

    def __bool__(self) -> bool:
        # `if a < b` on trees would silently take one branch for all values; `select` takes both.
        raise TypeError("an expression has no truth value while it is built: use select(c, x, y)")

    def __add__(self, other: Word) -> Expr:
        return Expr("add", (self, as_expr(other)))

    def __sub__(self, other: Word) -> Expr:
        return Expr("sub", (self, as_expr(other)))

    def __neg__(self) -> Expr:
        return Expr("sub", (ZERO, self))

    def __mul__(self, other: Word) -> Expr:
        return mul_shift(self, as_expr(other), 0)

    def __and__(self, other: Word) -> Expr:
        return Expr("and", (self, as_expr(other)))

    def __or__(self, other: Word) -> Expr:
        return Expr("or", (self, as_expr(other)))

    def __xor__(self, other: Word) -> Expr:
        return Expr("xor", (self, as_expr(other)))

    def __invert__(self) -> Expr:
        return Expr("xor", (self, const(-1)))

    def __lshift__(self, other: Word) -> Expr:
        return Expr("shl", (self, as_expr(other)))

    def shr(self, other: Word) -> Expr:
        """Shift right, filling with zeros."""
        return Expr("shr", (self, as_expr(other)))

    def sar(self, other: Word) -> Expr:
        """Shift right, filling with the sign."""
        return Expr("sar", (self, as_expr(other)))

    def eq(self, other: Word) -> Expr:
        return Expr("eq", (self, as_expr(other)))

    def ne(self, other: Word) -> Expr:
        return self.eq(other).eq(0)

    def lt(self, other: Word) -> Expr:
        """1 if self < other, signed."""
        return Expr("lt", (self, as_expr(other)))

    def ge(self, other: Word) -> Expr:
        return self.lt(other).eq(0)

    def ltu(self, other: Word) -> Expr:
        """1 if self < other, unsigned."""
        return Expr("ltu", (self, as_expr(other)))

    def geu(self, other: Word) -> Expr:
        return self.ltu(other).eq(0)


Word = Expr | int


def _union(trees: Sequence[Expr]) -> frozenset[str]:
    """The union of the trees' inputs; a set that contains the others is returned as it is."""
    found: frozenset[str] = frozenset()
    for tree in trees:
        if not tree.inputs <= found:
            found = found | tree.inputs if not found <= tree.inputs else tree.inputs
    return found


def const(value: int) -> Expr:
    """The word value mod 2^W; the width is known only to the fold."""
    return Expr("const", (), value)


def as_expr(value: Word) -> Expr:
    return value if isinstance(value, Expr) else const(value)


def place(name: str) -> Expr:
    """The word in the place `name` before the instruction."""
    return Expr("input", (), name)


def select(condition: Word, then: Word, otherwise: Word) -> Expr:
    """`then` if condition != 0 else `otherwise`; both are evaluated, so both must be total."""
    return Expr("select", (as_expr(condition), as_expr(then), as_expr(otherwise)))


def mul_shift(x: Word, y: Word, shift: int) -> Expr:
    """floor(x*y / 2^shift) mod 2^W, signed: shift 0 is the low word of the product, W the high word."""
    return Expr("mulshift", (as_expr(x), as_expr(y)), shift)


def div_shift(x: Word, y: Word, shift: int) -> Expr:
    """floor(x * 2^shift / y) mod 2^W, signed. A negative shift divides further: floor(x / (y * 2^-shift))."""
    return Expr("divshift", (as_expr(x), as_expr(y)), shift)


def mul_round(x: Word, y: Word, shift: int) -> Expr:
    """The integer nearest to x*y / 2^shift, ties up, mod 2^W: its low word, for shifts up to W."""
    return Expr("mulround", (as_expr(x), as_expr(y)), shift)


def high_word(product: Expr, w: Format) -> Expr:
    """The word above the low word of a product, which is shifted by less than W; both are rounded in the same place."""
    shift: Any = product.param
    return Expr(product.op if shift else "mulshift", product.args, shift + w.width)


def div_round(x: Word, y: Word, shift: int) -> Expr:
    """The integer nearest to x * 2^shift / y, ties up, mod 2^W: its low word. shift - W gives its high word."""
    return Expr("divround", (as_expr(x), as_expr(y)), shift)


def sqrt_round(x: Word, shift: int) -> Expr:
    """The integer nearest to sqrt(x * 2^shift), for x >= 0. There are no ties."""
    return Expr("sqrtround", (as_expr(x),), shift)


def half(shift: int, w: Format) -> int:
    """The summand that makes the floor of a shifted product the nearest integer: 2^(p - 1), half of the place in which it is rounded."""
    return (1 << rounded_place(shift, w)) >> 1


def rounded_place(shift: int, w: Format) -> int:
    """The place in which a product is rounded: the shift of its low word, up to W, or of its high word, less W."""
    return shift if shift <= w.width else shift - w.width


def look_up(index: Word, values: Sequence[int]) -> Expr:
    """values[index mod n]: a read-only table; n, the number of values, is a power of two."""
    if not values or len(values) & (len(values) - 1):
        raise ValueError(f"a table has a power of two of entries, not {len(values)}")
    return Expr("table", (as_expr(index),), tuple(values))


def rotate_left(x: Expr, amount: Expr) -> Expr:
    """x rotated left by amount mod W; shifts take their amount mod W, so amount 0 needs no case."""
    return (x << amount) | x.shr(-amount)


ZERO = const(0)
ONE = const(1)


def nodes(*roots: Expr) -> Iterator[Expr]:
    """Every distinct node below the roots, operands before users."""
    return iter(_nodes(roots))


@lru_cache(maxsize=512)
def _nodes(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    # Kept, since the reference machine folds the trees of an instruction at every step.
    out: list[Expr] = []
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            out.append(node)
        elif node not in seen:
            seen.add(node)
            if node.args:
                stack.append((node, True))
                stack.extend([(arg, False) for arg in reversed(node.args)])
            else:
                out.append(node)
    return tuple(out)


def fold(root: Expr, combine: Callable[[Expr, list[T]], T]) -> T:
    """combine(node, results of its operands), from the leaves up, once per distinct node."""
    done: dict[Expr, T] = {}
    for node in _nodes((root,)):
        done[node] = combine(node, [done[arg] for arg in node.args])
    return done[root]


def inputs(*roots: Expr) -> frozenset[str]:
    """The names of the places that the trees read."""
    return _union(roots)


def substitute(root: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """The tree with every input named in `replacements` replaced."""

    def combine(node: Expr, args: list[Expr]) -> Expr:
        if node.op == "input":
            return replacements.get(str(node.param), node)
        return Expr(node.op, tuple(args), node.param)

    return fold(root, combine)


def match(pattern: Expr, tree: Expr) -> dict[str, Expr] | None:
    """name -> tree for every input of the pattern, or None where the tree has another form.

        match(place("x") + place("y"), (a * b) + c)  =  {"x": a * b, "y": c}

    Nodes are interned, so a name that occurs twice in the pattern must match one object twice.
    """
    found: dict[str, Expr] = {}
    seen: set[tuple[Expr, Expr]] = set()
    waiting = [(pattern, tree)]
    while waiting:
        pair = p, t = waiting.pop()
        if p.op == "input":
            if found.setdefault(str(p.param), t) is not t:
                return None
        elif pair not in seen:
            if p.op != t.op or p.param != t.param:
                return None
            seen.add(pair)
            waiting.extend(zip(p.args, t.args, strict=True))
    return found


def apply_operation(w: Format, op: str, param: int | tuple[int, ...], v: list[int]) -> int:
    """One node's value from its operands' words: the definition of every operation but `input`."""
    if isinstance(param, tuple):
        if op != "table":
            raise ValueError(f"no meaning for operation {op!r}")
        return param[v[0] % len(param)] & w.mask
    match op:
        case "const":
            return param & w.mask
        case "add":
            return (v[0] + v[1]) & w.mask
        case "sub":
            return (v[0] - v[1]) & w.mask
        case "and":
            return v[0] & v[1]
        case "or":
            return v[0] | v[1]
        case "xor":
            return v[0] ^ v[1]
        case "shl":
            return (v[0] << (v[1] % w.width)) & w.mask
        case "shr":
            return v[0] >> (v[1] % w.width)
        case "sar":
            return (w.signed(v[0]) >> (v[1] % w.width)) & w.mask
        case "eq":
            return int(v[0] == v[1])
        case "lt":
            return int(w.signed(v[0]) < w.signed(v[1]))
        case "ltu":
            return int(v[0] < v[1])
        case "select":
            return v[1] if v[0] else v[2]
        case "mulshift":
            return ((w.signed(v[0]) * w.signed(v[1])) >> param) & w.mask
        case "divshift":
            if v[1] == 0:
                return 0
            top, bottom = w.signed(v[0]) << max(param, 0), w.signed(v[1]) << max(-param, 0)
            return (top // bottom) & w.mask
        case "mulround":
            return ((w.signed(v[0]) * w.signed(v[1]) + half(param, w)) >> param) & w.mask
        case "divround":
            if v[1] == 0:
                return 0
            places = param % w.width
            # ⌊z + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋
            twice = (w.signed(v[0]) << places + 1) // w.signed(v[1])
            return (twice + 1 >> 1 + places - param) & w.mask
        case "sqrtround":
            return 0 if v[0] & w.sign else (isqrt(v[0] << param + 2) + 1 >> 1) & w.mask
    raise ValueError(f"no meaning for operation {op!r}")


def evaluate(root: Expr, w: Format, env: Mapping[str, int]) -> int:
    """The word that the tree denotes where place `name` holds `env[name]`: the definition itself, slowly."""

    def combine(node: Expr, args: list[int]) -> int:
        if node.op == "input":
            return env[str(node.param)] & w.mask
        return apply_operation(w, node.op, 0 if node.param is None or isinstance(node.param, str) else node.param, args)

    return fold(root, combine)


_INFIX = {"add": "+", "sub": "−", "and": "∧", "or": "∨", "xor": "⊕", "shl": "<<", "shr": ">>ᵤ", "sar": ">>"}
_RELATION = {"eq": "=", "lt": "<", "ltu": "<ᵤ"}
_NEGATED = {"eq": "≠", "lt": "≥", "ltu": "≥ᵤ"}
#: ⌊z⌋ is the floor of z, ⌊z⌉ the integer nearest to z
_CLOSED = {"mulshift": "⌋", "divshift": "⌋", "mulround": "⌉", "divround": "⌉"}


#: how loosely the operators of a text bind; a text that binds more loosely than its surroundings allow gets brackets
_ATOM, _SIGNED, _PRODUCT, _SUM, _BITS, _TRUTH, _CHOICE = range(7)


class _Text(NamedTuple):
    text: str
    binding: int = _ATOM
    #: the negation of a relation
    negated: str = ""

    def within(self, binding: int) -> str:
        if self.binding <= binding:
            return self.text
        return f"[{self.text}]" if self.binding == _TRUTH else f"({self.text})"


def formula(root: Expr, names: Mapping[str, str] | None = None) -> str:
    """The tree in mathematical notation, for the manual and for messages; [x < y] is 1 or 0.

    A parameter may also be a text that stands for a number, such as `F`, or `−F` where it is negative.
    """

    def combine(node: Expr, v: list[_Text]) -> _Text:
        number = str(node.param).replace("-", "−")
        match node.op:
            case "const":
                return _Text(number, _SIGNED if number.startswith("−") else _ATOM)
            case "input":
                return _Text((names or {}).get(str(node.param), str(node.param)))
            case "sub" if node.args[0] is ZERO:
                return _Text("−" + v[1].within(_ATOM), _SIGNED)
            case "xor" if node.args[1] is const(-1):
                return _Text("¬" + v[0].within(_ATOM), _SIGNED)
            case "eq" if node.args[1] is ZERO and v[0].negated:
                return _Text(v[0].negated, _TRUTH, v[0].text)
            case "add" | "sub":
                return _Text(f"{v[0].within(_SUM)} {_INFIX[node.op]} {v[1].within(_PRODUCT)}", _SUM)
            case "and" | "or" if v[0].binding == v[1].binding == _TRUTH:
                return _Text(f"({v[0].text}) {_INFIX[node.op]} ({v[1].text})", _BITS)
            case "and" | "or" | "xor" | "shl" | "shr" | "sar":
                return _Text(f"{v[0].within(_PRODUCT)} {_INFIX[node.op]} {v[1].within(_PRODUCT)}", _BITS)
            case "eq" | "lt" | "ltu":
                x, y = v[0].within(_SUM), v[1].within(_SUM)
                return _Text(f"{x} {_RELATION[node.op]} {y}", _TRUTH, f"{x} {_NEGATED[node.op]} {y}")
            case "select":
                return _Text(f"{v[1].within(_BITS)} if {v[0].within(_TRUTH)} else {v[2].within(_BITS)}", _CHOICE)
            case "mulshift" | "mulround":
                product = f"{v[0].within(_PRODUCT)}·{v[1].within(_ATOM)}"
                return (
                    _Text(product, _PRODUCT) if node.param == 0 else _Text(f"⌊{product} / 2^{number}{_CLOSED[node.op]}")
                )
            case "divshift" | "divround":
                top, bottom = v[0].within(_PRODUCT), v[1].within(_ATOM)
                if number.startswith("−"):
                    bottom = f"({v[1].within(_PRODUCT)}·2^{number[1:]})"
                elif node.param != 0:
                    top += f"·2^{number}"
                return _Text(f"⌊{top} / {bottom}{_CLOSED[node.op]}")
            case "sqrtround":
                return _Text(f"⌊√({v[0].within(_PRODUCT)}·2^{number})⌉")
            case "table" if isinstance(node.param, tuple):
                return _Text(f"T{len(node.param)}[{v[0].text}]")
        raise ValueError(f"no notation for operation {node.op!r}")

    return fold(root, combine).text
