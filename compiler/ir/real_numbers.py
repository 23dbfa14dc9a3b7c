"""A module over real numbers: what a program does if its fixed-point numbers had all digits, in float64.

    fmul d, a, b     d ± a·b          fdiv  d ± a/b          fmov, and each move between binary points     d ± a

Integers, bools and addresses are the words that they are in the machine: their instructions are computed by the
trees of the table. A fixed
number is a float, a lognum a complex number, log2|x| + i·(1 if x < 0). The size of each fixed number of a run is
measured: see `RealProgram.run`.

Each procedure becomes a function of Python, in which a variable is a local; memory is a list. An inverse is run as
an inverse, but for
the way back of a `Within`, where a difference that cancels to a rounding error of float64 is 0.
Trap: a comparison of nearly equal numbers may go another way than in the machine.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.statements import Kind, Module, Region, Var
from retrograd.isa.diagnostics import Span
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.folds import emit
from retrograd.isa.words import Format

#: instruction → its value over real numbers, of its operands a and b
_REAL = {
    "mov": "{a}", "fmov": "{a}", "fmovp": "{a}", "fmul": "{a} * {b}", "fmulp": "{a} * {b}", "fdiv": "{a} / {b}", "fdivp": "{a} / {b}",
    "fsqrt": "sqrt({a})", "fsqrtp": "sqrt({a})", "fabs": "abs({a})", "abs": "abs({a})", "fexp": "exp({a})", "flog": "log({a})", "fsin": "sin({a})",
    "fcos": "cos({a})", "fatan2": "atan2({a}, {b})", "min": "min({a}, {b})", "max": "max({a}, {b})", "mul": "{a} * {b}",
    "mod": "({a} - floor({a} / {b}) * {b})", "itof": "{a}", "ltof": "_real({a})", "llog": f"({{a}}.real * {math.log(2)!r})",
}  # fmt: skip
#: instruction → its value as a word, of real operands
_TO_WORDS = {"slt": "+({a} < {b})", "seq": "+({a} == {b})", "div": "floor({a} / {b})", "ftoi": "floor({a})"}
#: instruction → its value as the logarithm of a lognum
_LOGARITHMIC = {
    "lmov": "{a}", "ftol": "_lognum({a})", "lexp": f"({{a}} * {1 / math.log(2)!r})", "lpow": "_power({a}, {b})",
    "ladd": "_lognum_sum({a}, {b})", "lsub": "_lognum_sum({a}, {b} + 1j)",
}  # fmt: skip
#: instruction with a shift → the sign by which its constant counts, and its constant between numbers at F, over F
_SHIFTED = {"fmovp": (1, 0), "fmulp": (-1, 1), "fdivp": (1, 1)}
#: instructions that compute at the point of the format only
_AT_FORMAT = frozenset({"fexp", "flog", "fsin", "fcos", "fatan2", "itof", "ftoi"})
#: instructions whose operand a (or b) is an int although their result is real
_OF_INTS = {"itof"}
_SIGNS = {"add": "+", "sub": "-", "mul": "+", "div": "-"}
#: what is left of a float64 that was added and subtracted again, over what was subtracted
_LEFT = Fraction(1, 2**44)


class NoRealForm(Exception):
    """A statement that has no meaning over real numbers: the bits of a fixed number."""

    def __init__(self, text: str, span: Span | None) -> None:
        super().__init__(text)
        self.span = span


class RealTrap(Exception):
    """A statement fails on the numbers of a run."""

    def __init__(self, text: str, span: Span | None) -> None:
        super().__init__(text)
        self.span = span


class _Failed(Exception):
    """A condition of the program does not hold."""


@dataclass
class Extent:
    """The least magnitude of some numbers that is not 0, and the greatest; infinite and 0 where all are 0."""

    least: float = math.inf
    greatest: float = 0.0

    def join(self, other: Extent) -> None:
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)


#: a variable, an array of a frame, or an address of static memory
Place = Var | Region | int
#: operands and values of the functions that compute at the point of the format
AT_FORMAT = Region("at the point of the format", 0)


def _real(x: Any) -> float:
    return math.copysign(2.0**x.real, -1.0 if int(x.imag) % 2 else 1.0)


def _lognum(x: float) -> complex:
    if not x:
        raise _Failed("zero has no lognum")
    return complex(math.log2(abs(x)), float(x < 0))


def _power(x: Any, n: float) -> complex:
    return complex(x.real * n, float(int(x.imag) % 2 and int(n) % 2))


def _lognum_sum(x: Any, y: Any) -> complex:
    high, low = (x, y) if x.real >= y.real else (y, x)
    size = 2.0 ** (low.real - high.real)
    total = 1.0 + (size if int(high.imag - low.imag) % 2 == 0 else -size)
    if not total:
        raise _Failed("zero has no lognum")
    return complex(high.real + math.log2(total), high.imag % 2)


class RealProgram:
    """A module as a function of Python.

    `module`: as it was lowered with `real`; procedures without recursion may be inlined. `at_format`: procedures all
    of whose numbers are at the point of the format.
    """

    def __init__(self, module: Module, at_format: Collection[str] = ()) -> None:
        self.module, self.w, self.at_format = module, module.format, at_format
        self.accesses = AccessAnalysis(module)
        self._lines: list[str] = []
        self._spans: list[Span | None] = []
        self._constants: list[Fraction] = []
        self.places: list[Var | Region] = []
        self._index: dict[Var | Region, int] = {}
        #: equal points are needed by these pairs, whose words the program exchanges
        self.exchanged: list[tuple[Place, Place]] = []
        #: (x, y) where x is added to y, or y to x
        self.added: list[tuple[Var, Var]] = []
        #: variables that words of an array of structs are exchanged with, and the addresses of these words in all runs
        self.exchanged_at: list[tuple[Var, set[int]]] = []
        self._wanted: list[tuple[str, bool, bool]] = []
        self._made: dict[tuple[str, bool, bool], str] = {}
        _Body(self, "entry", (), ir.ZERO).procedure(module.entry, (), False)
        while self._wanted:
            key = self._wanted.pop()
            name, backward, clean = key
            p = module.procedures[name]
            body = ir.invert(p.body) if backward else p.body
            _Body(self, self._made[key], p.params, p).procedure(body, [p.params[i] for i in sorted(p.written)], clean)
        source = "\n".join(self._lines)
        try:
            self._code = compile(source, self.file, "exec")
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise NoRealForm(f"loops and branches are nested too deep ({error})", None) from None

    file = "<real numbers>"

    def index(self, place: Var | Region) -> int:
        """The number of a variable or array, under which it is measured."""
        found = self._index.get(place)
        if found is None:
            found = self._index[place] = len(self.places)
            self.places.append(place)
        return found

    def function(self, name: str, backward: bool, clean: bool) -> str:
        """The name in Python of a procedure, or of its inverse.

        `clean`: on the way back of a `Within`, which is not measured.
        """
        key = (name, backward, clean)
        if key not in self._made:
            self._made[key] = f"p{len(self._made)}"
            self._wanted.append(key)
        return self._made[key]

    def constant(self, number: Fraction) -> str:
        """The name in Python of a number of the module."""
        self._constants.append(number)
        return f"C[{len(self._constants) - 1}]"

    def line(self, text: str, span: Span | None) -> None:
        self._lines.append(text)
        self._spans.append(span)

    def run(
        self,
        numbers: Mapping[int, Any],
        extents: dict[Place, Extent],
        real: Callable[[Fraction], Any] = float,
        functions: Any = math,
    ) -> list[Any]:
        """Memory after a run from these words and numbers of the arguments, by address. The sizes are joined to
        `extents`.

        `real` makes a number, and `functions` has those of sqrt, exp, log, sin, cos, atan2 and floor that the
        program needs: mpmath and decimal
        compute with more places.
        Raises RealTrap with the place of the statement that fails.
        """
        module = self.module
        size = module.memory + min(module.stack, 1 << 22)
        memory: list[Any] = [0] * size
        for region in module.regions:
            assert region.address is not None
            if region.exact is not None:
                values: Iterable[Any] = map(real, region.exact.numbers)
            else:
                values = region.data or ()
            for at, value in enumerate(values, region.address):
                memory[at] = value
        for at, value in numbers.items():
            memory[at] = value
        n = len(self.places)
        greatest, least = [0.0] * n, [math.inf] * n
        high, low = (
            [0.0 if isinstance(x, int) else abs(x) for x in memory[: module.memory]],
            [math.inf] * module.memory,
        )
        for at, x in numbers.items():
            if not isinstance(x, int) and x:
                low[at] = abs(x)
        scope: dict[str, Any] = {
            "M": memory, "S": [module.memory], "C": [*map(real, self._constants)], "E": real(_LEFT), "H": greatest, "L": least, "HM": high, "LM": low, "_Failed": _Failed, "isqrt": math.isqrt, "X": self.exchanged_at,
            "_real": _real, "_lognum": _lognum, "_power": _power, "_lognum_sum": _lognum_sum, "floor": lambda x: int(functions.floor(x)),
            **{name: getattr(functions, name, None) for name in ("sqrt", "exp", "log", "sin", "cos", "atan2")},
        }  # fmt: skip
        limit = sys.getrecursionlimit()
        try:
            exec(self._code, scope)
            sys.setrecursionlimit(max(limit, 200_000))
            scope["entry"]()
        except (_Failed, ArithmeticError, ValueError, IndexError, TypeError, RecursionError) as error:
            raise RealTrap(_reason(error), self._place_of(error)) from None
        finally:
            sys.setrecursionlimit(limit)
        # Floats overflow to infinity without a word, and infinities cancel to NaN.
        place = next((p for p, size in zip(self.places, greatest, strict=True) if size == math.inf), None)
        if place is not None or not all(abs(memory[at]) < math.inf for at in numbers):
            raise RealTrap("a number is beyond the range of float64", None if place is None else place.span)
        for at in numbers:
            if not isinstance(memory[at], int) and memory[at]:
                size = abs(memory[at])
                low[at], high[at] = min(low[at], size), max(high[at], size)
        for place, lo, hi in zip(self.places, least, greatest, strict=True):
            _note(extents, place, lo, hi)
        for at, (lo, hi) in enumerate(zip(low, high, strict=True)):
            if hi:
                _note(extents, at, lo, hi)
        return memory

    def _place_of(self, error: BaseException) -> Span | None:
        found, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.file:
                found = self._spans[trace.tb_lineno - 1] or found
            trace = trace.tb_next
        return found


def _reason(error: BaseException) -> str:
    match error:
        case ZeroDivisionError():
            return "division by zero"
        case OverflowError():
            return "a number is beyond the range of float64"
        case RecursionError():
            return "the recursion is too deep"
        case IndexError():
            return "the stack is full"
    return str(error) or type(error).__name__


def _note(extents: dict[Place, Extent], place: Place, least: float, greatest: float) -> None:
    if greatest:
        extents.setdefault(place, Extent()).join(Extent(least, greatest))


@cache
def _tree_source(opcode: Opcode, w: Format, b: str, imm: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Python for an instruction on words: statements, and (place, expression) for what it changes, with the fields {d},
    {a} and {b} for the operands.

    `b`, `imm`: the texts of b and of the instruction's constant, since a shift by a constant is simpler.
    """
    names = {"d": "{d}", "a": "{a}", "b": b, "imm": imm}
    after = opcode.transition(w)
    statements, values = emit([*after.values()], w, names)
    return tuple(statements), tuple(zip(after, values, strict=True))


class _Body:
    """The Python of one procedure."""

    def __init__(self, program: RealProgram, name: str, params: Sequence[Var], of: Any) -> None:
        self.program, self.w, self.name, self.params = program, program.w, name, params
        self._names: dict[Var, str] = {}
        self._depth = 1
        #: regions that are parameters: their words are measured where they lie
        self._given = frozenset(of.regions) if isinstance(of, ir.Procedure) else frozenset()
        self._at_format = isinstance(of, ir.Procedure) and of.name in program.at_format

    def procedure(self, body: ir.Block, written: Sequence[Var], clean: bool) -> None:
        head = ", ".join(map(self.name_of, self.params))
        self.program.line(f"def {self.name}({head}):", None)
        self.block(body, clean)
        found = ", ".join(map(self.name_of, written))
        self._line(f"return ({found},)" if written else "return ()", None)

    # ------------------------------------------------------------------ lines and operands

    def _line(self, text: str, span: Span | None) -> None:
        self.program.line(" " * self._depth + text, span)

    def name_of(self, var: Var) -> str:
        if var is ir.SP:
            return "S[0]"
        return self._names.setdefault(var, f"v{len(self._names)}")

    def word(self, x: ir.Operand) -> str:
        return str(x.word) if isinstance(x, ir.Const) else self.name_of(x)

    def signed(self, x: ir.Operand) -> str:
        if isinstance(x, ir.Const):
            return str(self.w.signed(x.word))
        return f"(({self.name_of(x)} ^ {self.w.sign}) - {self.w.sign})"

    def real(self, x: ir.Operand, kind: Kind = Kind.FIXED) -> str:
        """An operand as a number: a float, or the complex number of a lognum; the integer of an int."""
        if isinstance(x, Var):
            return self.name_of(x) if x.kind.is_real else self.signed(x)
        if kind is Kind.LOGNUM:
            half = self.w.sign >> 1
            size = ((x.word & (self.w.sign - 1)) ^ half) - half
            return repr(complex(size * 2.0**-self.w.frac, float(x.word >= self.w.sign)))
        if not kind.is_fixed:
            return self.signed(x)
        return self.program.constant(kind.numbers(self.w).to_real(x.word))

    def literal(self, x: ir.Operand, kind: Kind) -> str:
        return self.real(x, kind) if kind.is_real else self.word(x)

    def _address(self, op: ir.Op) -> str:
        assert op.a is not None
        if isinstance(op.a, ir.Const):
            return str((op.a.word + op.imm) & self.w.mask)
        return f"({self.name_of(op.a)} + {op.imm}) & {self.w.mask}" if op.imm else self.name_of(op.a)

    # ------------------------------------------------------------------ statements

    def block(self, nodes: ir.Block, clean: bool) -> None:
        before = len(self.program._lines)
        for node in nodes:
            self.node(node, clean)
        if len(self.program._lines) == before:
            self._line("pass", None)

    def inside(self, nodes: ir.Block, clean: bool) -> None:
        self._depth += 1
        self.block(nodes, clean)
        self._depth -= 1

    def node(self, node: ir.Node, clean: bool) -> None:
        match node:
            case ir.Op():
                self.op(node, clean)
            case ir.Local(var, span=span):
                self._line(f"{self.name_of(var)} = 0", span)
            case ir.Delocal() | ir.External():
                pass
            case ir.Within(compute, body):
                self.block(compute, clean)
                self.block(body, clean)
                self.block(self.undone(compute), True)
            case ir.If(test, then, orelse, _, span):
                self._line(f"if {self.test(test)}:", span)
                self.inside(then, clean)
                if orelse:
                    self._line("else:", span)
                    self.inside(orelse, clean)
            case ir.While(test, body, _, span):
                self._line(f"while {self.test(test)}:", span)
                self.inside(body, clean)
            case ir.For(var, start, stop, step, body, backward, _, span):
                ends = f"{self.signed(start)}, {self.signed(stop)}, {step}"
                counted = f"range({ends})"
                self._line(f"for {self.name_of(var)} in {f'reversed({counted})' if backward else counted}:", span)
                self._depth += 1
                if step < 0 or not isinstance(start, ir.Const) or self.w.signed(start.word) < 0:
                    self._line(f"{self.name_of(var)} &= {self.w.mask}", span)
                self.block(body, clean)
                self._depth -= 1
            case ir.Call():
                self.call(node, clean)
            case ir.Check(test, _, message, span, of):
                # Over real numbers a sum is undone to a rounding error of float64; on the way back every condition
                # held.
                real = any(isinstance(x, Var) and x.kind.is_real for x in (test.a, test.b))
                if not (of or real or clean):
                    self._line(f"if not ({self.test(test)}): raise _Failed({message!r})", span)

    def undone(self, compute: ir.Block) -> ir.Block:
        """compute⁻¹ without the statements that only change variables of the compute block, which end here."""
        own = {node.var for node in compute if isinstance(node, ir.Local)}
        needed: set[Var] = set()
        kept: list[ir.Node] = []
        for node in reversed(ir.invert(compute)):
            access = self.program.accesses.of(node)
            if access.stores or access.barrier or not access.writes <= own or not access.writes.isdisjoint(needed):
                kept.append(node)
                needed |= access.reads | access.writes
        return tuple(reversed(kept))

    def call(self, node: ir.Call, clean: bool) -> None:
        p = self.program.module.procedures[node.procedure]
        name = self.program.function(node.procedure, node.backward, clean)
        given = ", ".join(self.literal(x, param.kind) for x, param in zip(node.args, p.params, strict=True))
        called = f"{name}({given})"
        self.program.exchanged += [
            (x, param)
            for x, param in zip(node.args, p.params, strict=True)
            if isinstance(x, Var) and x.kind.is_fixed and param.kind.is_fixed
        ]
        self.program.exchanged += [(r, q) for r, q in zip(node.regions, p.regions, strict=True) if r is not None]
        if node.procedure in self.program.at_format:
            self.program.exchanged += [(r, AT_FORMAT) for r in node.regions if r is not None]
        written = sorted(p.written)
        if written:
            results = []
            for i in written:
                x = node.args[i]
                assert isinstance(x, Var)
                results.append(self.name_of(x))
            called = f"({', '.join(results)},) = {called}"
        self._line(called, node.span)

    def test(self, test: ir.Test) -> str:
        a, b = test.a, test.b
        kinds = [x.kind for x in (a, b) if isinstance(x, Var)]
        real = next((k for k in kinds if k.is_real), None)
        sign = {"eq": "==", "ne": "!=", "lt": "<", "ge": ">=", "ltu": "<", "geu": ">="}[test.cc]
        if real is not None:
            if real is Kind.LOGNUM and test.cc not in ("eq", "ne"):
                raise NoRealForm("lognums are compared", None)
            return f"{self.real(a, real)} {sign} {self.real(b, real)}"
        if test.cc in ("lt", "ge"):
            return f"{self.signed(a)} {sign} {self.signed(b)}"
        return f"{self.word(a)} {sign} {self.word(b)}"

    # ------------------------------------------------------------------ instructions

    def op(self, op: ir.Op, clean: bool) -> None:
        name, d, a, b = op.opcode.entry.name, op.d, op.a, op.b
        if name in ("ld", "st", "exch"):
            self.memory(op, name, clean)
            return
        if name in ("swap", "cswap"):
            assert isinstance(d, Var)
            assert isinstance(a, Var)
            if d.kind.is_fixed:
                self.program.exchanged.append((d, a))
            pair = f"{self.name_of(d)}, {self.name_of(a)}"
            when = "" if name == "swap" else f"if {self.word(b or ir.ZERO)}: "
            self._line(f"{when}{pair} = {self.name_of(a)}, {self.name_of(d)}", op.span)
            return
        real = [x for x in (d, a, b) if isinstance(x, Var) and x.kind.is_real]
        if not real:
            self.words(op)
        elif name == "rot":
            assert isinstance(d, Var)
            assert isinstance(a, Var)
            assert b is not None
            self.program.exchanged.append((d, a))
            x, y, s = self.name_of(d), self.name_of(a), "-" if op.opcode.name == "irot" else ""
            self._line(f"c, s = cos({self.real(b)}), sin({s}{self.real(b)})", op.span)
            self._line(f"{x}, {y} = {x} * c - {y} * s, {x} * s + {y} * c", op.span)
            for var in (d, a):
                self.measure(var, clean, op.span)
            self._greatest(self.real(b), AT_FORMAT, clean, op.span)
        elif name == "neg":
            assert isinstance(d, Var)
            self._line(f"{self.name_of(d)} = -{self.name_of(d)}", op.span)
        elif name == "erase":
            assert isinstance(d, Var)
            self._line(f"{self.name_of(d)} = 0", op.span)
        elif name == "assertz":
            pass
        elif isinstance(op.opcode.entry, Function):
            self.number(op, name, clean)
        else:
            raise NoRealForm(f"`{op.opcode.name}` takes the bits of a fixed number", op.span)

    def number(self, op: ir.Op, name: str, clean: bool) -> None:
        """An update of which an operand or the target is real."""
        d, update = op.d, op.opcode.update
        assert isinstance(d, Var)
        for x in (op.a, op.b):
            self.used(x, clean, op.span)
        if name in _AT_FORMAT or self._at_format:
            for x in (op.a, op.b):
                if isinstance(x, Var) and x.kind.is_fixed:
                    self._greatest(self.name_of(x), AT_FORMAT, clean, op.span)
            if d.kind.is_fixed:
                self._greatest(self._value(_REAL, op, name), AT_FORMAT, clean, op.span)
        if name in ("mov", "fmov", "fmovp") and isinstance(op.a, Var) and op.a.kind.is_fixed and d.kind.is_fixed:
            self.program.added.append((op.a, d))
            self.program.index(op.a)
        if d.kind is Kind.LOGNUM:
            value = self._value(_LOGARITHMIC, op, name)
            self._line(f"{self.name_of(d)} {_SIGNS[update or 'mul']}= {value}", op.span)
        elif d.kind.is_fixed and update in ("add", "sub"):
            self.added(self.name_of(d), update, self._value(_REAL, op, name) + self._factor(op, name), clean, op.span)
            self.measure(d, clean, op.span)
        elif not d.kind.is_real and name in _TO_WORDS:
            value = f"({self._value(_TO_WORDS, op, name)})"
            target = self.name_of(d)
            if update == "xor":
                self._line(f"{target} ^= {value} & {self.w.mask}", op.span)
            else:
                self._line(f"{target} = ({target} {_SIGNS[update or 'add']} {value}) & {self.w.mask}", op.span)
        else:
            raise NoRealForm(f"`{op.opcode.name}` takes the bits of a fixed number", op.span)

    def _factor(self, op: ir.Op, name: str) -> str:
        """The power of two in a shift between numbers at the point of the format: derivatives of roots halve by it."""
        operands = [op.d, op.a, *(() if name == "fmovp" else (op.b,))]
        if name not in _SHIFTED or not all(isinstance(x, Var) and x.kind is Kind.FIXED for x in operands):
            return ""
        sign, places = _SHIFTED[name]
        by = sign * (op.imm - places * self.w.frac)
        return "" if not by else f" * {2**by}" if by > 0 else f" / {2**-by}"

    def _value(self, table: Mapping[str, str], op: ir.Op, name: str) -> str:
        text = table.get(name)
        if text is None:
            raise NoRealForm(f"`{op.opcode.name}` takes the bits of a fixed number", op.span)
        a, b = op.a, op.b
        given = {"a": a, "b": b}
        kinds = {key: self._kind(name, key, given) for key in given}
        shown = {key: "" if x is None else self.real(x, kinds[key]) for key, x in given.items()}
        return text.format(**shown)

    @staticmethod
    def _kind(name: str, key: str, given: Mapping[str, ir.Operand | None]) -> Kind:
        """The kind of a constant operand."""
        other = given["b" if key == "a" else "a"]
        if name in _OF_INTS:
            return Kind.INT
        if name == "mul":  # an int times a fixed number
            return Kind.INT if isinstance(other, Var) and other.kind.is_fixed else Kind.FIXED
        if name in ("lmov", "ladd", "lsub", "ltof", "llog") or (name == "lpow" and key == "a"):
            return Kind.LOGNUM
        return other.kind if isinstance(other, Var) and other.kind.is_fixed else Kind.FIXED

    def added(self, target: str, update: str, value: str, clean: bool, span: Span | None) -> None:
        """target ± u for the value u. On the way back of a `Within` a rounding error that is left is 0."""
        self._line(f"u = {value}", span)
        self._line(f"{target} {_SIGNS[update]}= u", span)
        if clean:
            self._line(f"if abs({target}) <= abs(u) * E: {target} = 0", span)

    def measure(self, var: Var, clean: bool, span: Span | None) -> None:
        """Note the greatest size of a fixed variable, where it is written."""
        self._greatest(self.name_of(var), var, clean, span)

    def _greatest(self, text: str, place: Var | Region, clean: bool, span: Span | None) -> None:
        if clean:
            return
        k = self.program.index(place)
        self._line(f"t = abs({text})", span)
        self._line(f"if t > H[{k}]: H[{k}] = t", span)

    def used(self, x: ir.Operand | None, clean: bool, span: Span | None) -> None:
        """Note the least size of a fixed variable, where it is read: the first terms of a sum may be small."""
        if clean or not isinstance(x, Var) or not x.kind.is_fixed:
            return
        k = self.program.index(x)
        self._line(f"if 0 < (t := abs({self.name_of(x)})) < L[{k}]: L[{k}] = t", span)

    def used_memory(self, op: ir.Op, clean: bool) -> None:
        """Note the least size of the fixed number u that was read from memory."""
        region = op.region
        if clean or region is None or region in self._given:
            return
        if region.address is None:
            n = self.program.index(region)
            self._line(f"if 0 < (t := abs(u)) < L[{n}]: L[{n}] = t", op.span)
        else:
            self._line(f"if 0 < (t := abs(u)) < LM[{self._address(op)}]: LM[{self._address(op)}] = t", op.span)

    def memory(self, op: ir.Op, name: str, clean: bool) -> None:
        x = op.b if name == "st" else op.d
        kind = x.kind if isinstance(x, Var) else Kind.FIXED if op.region is None else Kind.INT
        if name == "st" and not isinstance(x, Var):
            assert isinstance(x, ir.Const)
            if x.word:
                raise NoRealForm("a word is stored that may be a number", op.span)
            return
        assert isinstance(x, Var)
        update, var, at = op.opcode.update, self.name_of(x), self._address(op)
        if name == "exch":
            self._line(f"k = {at}", op.span)
            self._line(f"{var}, M[k] = M[k], {var}", op.span)
            if kind.is_fixed:
                place = self._region(op)
                if isinstance(place, Region) and len(place.layouts) > 1 and place.address is not None:
                    self._line(f"X[{len(self.program.exchanged_at)}][1].add(k)", op.span)
                    self.program.exchanged_at.append((x, set()))
                    self.program.index(x)
                elif place is not None:
                    self.program.exchanged.append((x, place))
                    self.program.index(x)
                self.measure_memory(op, clean)
            return
        if not kind.is_real:
            target, other = (f"{var}", f"M[{at}]") if name == "ld" else ("M[k]", var)
            if name == "st":
                self._line(f"k = {at}", op.span)
            if update == "xor":
                self._line(f"{target} ^= {other}", op.span)
            else:
                self._line(f"{target} = ({target} {_SIGNS[update or 'add']} {other}) & {self.w.mask}", op.span)
            return
        if update not in _SIGNS:
            raise NoRealForm(f"`{op.opcode.name}` takes the bits of a fixed number", op.span)
        if name == "ld":
            if kind.is_fixed:
                self.added(var, update, f"M[{at}]", clean, op.span)
                self.measure(x, clean, op.span)
                self.used_memory(op, clean)
            else:
                self._line(f"{var} {_SIGNS[update]}= M[{at}]", op.span)
            return
        self._line(f"k = {at}", op.span)
        if kind.is_fixed:
            self.added("M[k]", update, var, clean, op.span)
            self.measure_memory(op, clean)
        else:
            self._line(f"M[k] {_SIGNS[update]}= {var}", op.span)

    def _region(self, op: ir.Op) -> Place | None:
        region = op.region
        return None if region is None or region in self._given else region

    def measure_memory(self, op: ir.Op, clean: bool) -> None:
        """Note the size of the fixed number at the address k."""
        if clean:
            return
        region = op.region
        self._line("t = abs(M[k])", op.span)
        if region is not None and region.address is None and region not in self._given:
            n = self.program.index(region)
            self._line(f"if t > H[{n}]: H[{n}] = t", op.span)
            return
        test = "" if region is not None and region.address is not None else f"k < {self.program.module.memory} and "
        self._line(f"if {test}t > HM[k]: HM[k] = t", op.span)

    def words(self, op: ir.Op) -> None:
        """An instruction on words, by its tree."""
        names: dict[str, ir.Operand | None] = {"d": op.d, "a": op.a, "b": op.b}
        b = str(op.b.word) if isinstance(op.b, ir.Const) else "{b}"
        statements, after = _tree_source(op.opcode, self.w, b, str(op.imm & self.w.mask))
        given = {key: self.word(x) for key, x in names.items() if x is not None}
        for text in statements:
            self._line(text.format(**given), op.span)
        targets = [self.name_of(x) for place, _ in after if isinstance(x := names.get(place), Var)]
        values = [text.format(**given) for place, text in after if isinstance(names.get(place), Var)]
        if targets:
            self._line(f"{', '.join(targets)} = {', '.join(values)}", op.span)
