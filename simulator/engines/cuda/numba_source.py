"""Fold: the expression tree as source that Numba compiles, for devices, for `numba.njit` and for the CUDA simulator.

One statement a node, so that the compiler sees flat code. A word of W bits is an int64, sign-extended; a truth is a boolean. Every emitted
statement keeps words in range, so equal words are equal integers:

    (x + y) mod 2^W  =  ((x + y) << 64 − W) >> 64 − W                    for W < 64; int64 itself wraps for W = 64

Products, quotients and roots of two words are calls of `word_arithmetic.py`; nodes that take different words of one product or one
quotient share it. For W < 64 a product fits an int64.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from hashlib import sha256

from retrograd.isa.expr import ZERO, Expr, evaluate, half
from retrograd.isa.folds import is_truth
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda import word_arithmetic

_INFIX = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
#: bits of the integers that hold words
HELD = 64


def literal(value: int, w: Format) -> str:
    """A word as source."""
    signed = w.signed(value)
    return "MIN" if signed == -(1 << HELD - 1) else str(signed)


def arithmetic_source(decorator: str) -> str:
    """The functions of `word_arithmetic.py` and their constants, each function with a decorator."""
    text = inspect.getsource(word_arithmetic)
    constants = text[text.index("S, U = ") : text.index("def ")]
    functions = (
        f"{decorator}\n{inspect.getsource(f)}".replace(": Any", "").replace(" -> Any", "")
        for f in word_arithmetic.FUNCTIONS
    )
    return "import math\nimport numpy as np\n\n" + constants + "\n" + "\n".join(functions)


class Tables:
    """The read-only tables that a module's code looks up, each a global array."""

    def __init__(self, w: Format) -> None:
        self._format = w
        self._names: dict[tuple[int, ...], str] = {}

    def name(self, values: tuple[int, ...]) -> str:
        """The name of the array with these words."""
        digest = sha256(repr(values).encode()).hexdigest()
        return self._names.setdefault(values, f"TABLE_{digest[:12]}")

    def source(self) -> str:
        """Definitions of the arrays."""
        made = ((name, [self._format.signed(value) for value in values]) for values, name in self._names.items())
        return "".join(f"{name} = np.array({words}, dtype=np.int64)\n" for name, words in made)


class NumbaSource:
    """Trees as statements, appended to `lines`; `words[place]` is the variable, or the literal, of an input."""

    def __init__(self, w: Format, words: Mapping[str, str], tables: Tables, prefix: str = "t") -> None:
        self.lines: list[str] = []
        self._format, self._words, self._tables, self._prefix = w, words, tables, prefix
        self._count = 0
        self._values: dict[Expr, str] = {}
        self._truths: dict[Expr, str] = {}
        #: (operation, operands, parameter) -> the variables of a product or quotient of two words
        self._wide: dict[tuple[object, ...], tuple[str, ...]] = {}

    def let(self, text: str) -> str:
        """A new variable with this value."""
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def give(self, words: Mapping[Expr, str], truths: Mapping[Expr, str]) -> None:
        """Variables that hold the words of trees, or whether they are not zero, already."""
        self._values.update(words)
        self._truths.update(truths)

    def fresh(self) -> str:
        """The name of a new variable."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def word(self, root: Expr) -> str:
        """The variable, or the literal, of the tree's word."""
        self._emit_below(root)
        found = self._values.get(root)
        if found is None:
            found = self._values[root] = self.let(f"S({self._truths[root]})")
        return found

    def truth(self, root: Expr) -> str:
        """The boolean variable: whether the tree's word is not zero."""
        self._emit_below(root)
        found = self._truths.get(root)
        if found is None:
            found = self._truths[root] = self.let(f"{self._values[root]} != 0")
        return found

    def _emit_below(self, root: Expr) -> None:
        if root in self._values or root in self._truths:
            return
        for node in self._missing(root):
            if not node.inputs:
                word = evaluate(node, self._format, {})
                self._values[node], self._truths[node] = literal(word, self._format), str(word != 0)
            elif is_truth(node):
                self._truths[node] = self.let(self._truth(node))
            else:
                self._values[node] = self._word(node)

    def _missing(self, root: Expr) -> Iterable[Expr]:
        """The nodes below the root that have no variable and are needed for it, operands before users."""
        out: dict[Expr, None] = {}
        waiting = [(root, False)]
        while waiting:
            node, ready = waiting.pop()
            if ready:
                out[node] = None
            elif node not in out and node not in self._values and node not in self._truths:
                waiting.append((node, True))
                if node.inputs:
                    waiting.extend((arg, False) for arg in reversed(node.args))
        return out

    # ------------------------------------------------------------------ one node

    def _truth(self, node: Expr) -> str:
        x, y = node.args[0], node.args[1]
        match node.op:
            case "eq" if y is ZERO and is_truth(x):
                return f"not {self.truth(x)}"
            case "eq":
                return f"{self.word(x)} == {self.word(y)}"
            case "lt":
                return f"{self.word(x)} < {self.word(y)}"
            case "ltu":
                # Sign extension keeps the unsigned order.
                return f"({self.word(x)} ^ MIN) < ({self.word(y)} ^ MIN)"
            case "and" | "or":
                return f"{self.truth(x)} {_INFIX[node.op]} {self.truth(y)}"
            case "select":
                c, z = self.truth(x), self.truth(node.args[2])
                return f"({c} & {self.truth(y)}) | ((not {c}) & {z})"
        raise ValueError(f"{node.op!r} is no truth")

    def _word(self, node: Expr) -> str:
        w, s = self._format, node.param if isinstance(node.param, int) else 0
        if node.op == "input":
            return self._words[str(node.param)]
        if node.op == "select":
            return self.let(f"choose({self.truth(node.args[0])}, {self.word(node.args[1])}, {self.word(node.args[2])})")
        v = [self.word(arg) for arg in node.args]
        match node.op:
            case "add" | "sub":
                return self.let(self._wrapped(f"{v[0]} {_INFIX[node.op]} {v[1]}"))
            case "and" | "or" | "xor":
                return self.let(f"{v[0]} {_INFIX[node.op]} {v[1]}")
            case "shl":
                return self.let(self._wrapped(f"{v[0]} << {self._amount(v[1])}"))
            case "sar":
                return self.let(f"{v[0]} >> {self._amount(v[1])}")
            case "shr" if w.width == HELD:
                return self.let(f"logical_shift({v[0]}, {self._amount(v[1])})")
            case "shr":
                return self.let(self._wrapped(f"({v[0]} & {w.mask}) >> {self._amount(v[1])}"))
            case "mulshift" | "mulround" if s == 0:
                return self.let(self._wrapped(f"{v[0]} * {v[1]}"))
            case "mulshift" | "mulround":
                return self._product(v[0], v[1], s, half(s, w) if node.op == "mulround" else 0)
            case "divshift" | "divround":
                return self._quotient(v[0], v[1], s, node.op == "divround")
            case "sqrtround":
                # A root has at most W bits, so only that of a word shifted by W may need its sign bit.
                root = "long_root" if w.width == HELD else "short_root"
                return self.let(self._wrapped(f"{root}({v[0]}, {s})"))
            case "table" if isinstance(node.param, tuple):
                return self.let(f"{self._tables.name(node.param)}[{v[0]} & {len(node.param) - 1}]")
        raise ValueError(f"no Numba source for operation {node.op!r}")

    def _wrapped(self, text: str) -> str:
        spare = HELD - self._format.width
        return f"(({text}) << {spare}) >> {spare}" if spare else text

    def _amount(self, text: str) -> str:
        bits = self._format.width - 1
        return str(int(text) & bits) if text.lstrip("-").isdecimal() else f"({text} & {bits})"

    def _product(self, x: str, y: str, s: int, added: int) -> str:
        """⌊(x·y + added) / 2^s⌋ mod 2^W, s > 0."""
        if self._format.width < HELD:
            (whole,) = self._once(("*", x, y, added), (f"{x} * {y} + {added}" if added else f"{x} * {y}",))
            return self.let(self._wrapped(f"{whole} >> {min(s, HELD - 1)}"))
        upper, lower = self._once(("*", x, y), (f"high_word({x}, {y})", f"{x} * {y}"))
        if added:
            (sum_,) = self._once(("+", x, y, added), (f"{lower} + {literal(added, self._format)}",))
            carried = f"{upper} + S(({sum_} ^ MIN) < {literal(added ^ self._format.sign, self._format)})"
            (upper,), lower = self._once(("carry", x, y, added), (carried,)), sum_
        if s >= HELD:
            return self.let(f"{upper} >> {min(s - HELD, HELD - 1)}") if s > HELD else upper
        return self.let(f"({upper} << {HELD - s}) | logical_shift({lower}, {s})")

    def _quotient(self, x: str, y: str, s: int, rounded: bool) -> str:
        """The lower word of ⌊z⌋, or of ⌊z + ½⌋, z = x·2^p / y, for p = s, and its upper word for p = s + W."""
        w = self._format
        p = s if 0 <= s <= w.width and (s < w.width or not rounded) else s + w.width
        if w.width < HELD:
            floor, nearer = self._both(("short_quotient", x, y, p), 2)
            whole = f"{floor} + {nearer}" if rounded else floor
            return self.let(self._wrapped(whole if p == s else f"({whole}) >> {w.width}"))
        upper, lower, nearer = self._both(("long_quotient", x, y, p), 3)
        if rounded:
            floor = lower
            (lower,) = self._once(("round", x, y, p), (f"{floor} + {nearer}",))
            if p != s:
                # All ones round up to zero, and carry.
                (upper,) = self._once(("carry", x, y, p), (f"{upper} + ({nearer} & S({lower} == 0))",))
        return lower if p == s else upper

    def _once(self, key: tuple[object, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
        """Variables with these values; the same whenever the key is."""
        if key not in self._wide:
            self._wide[key] = tuple(self.let(text) for text in texts)
        return self._wide[key]

    def _both(self, call: tuple[str, str, str, int], results: int) -> tuple[str, ...]:
        """The variables of a call with several results."""
        if call not in self._wide:
            names = self._wide[call] = tuple(self.fresh() for _ in range(results))
            self.lines.append(f"{', '.join(names)} = {call[0]}({', '.join(map(str, call[1:]))})")
        return self._wide[call]
