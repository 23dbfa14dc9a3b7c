"""Expressions of the language, evaluated by their syntax tree."""

from __future__ import annotations

import ast
import importlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.isa.words import Format

from .values import Callee, Cell, Lazy, Many, Pile, Record, Scalar, Stack, Struct, View, array, cells, make
from .words import BOOL, COMPLEX, FIXED, INT, Arithmetic, Number, Pair, Trapped, Word, kind_of

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
_KINDS = ("int", "fixed", "bool", "lognum", "complex")
_REAL, _IMAGINARY = ("real", "re"), ("imag", "im")


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text())


class Evaluator:
    """Values of expressions; `names` are those of the function that runs."""

    def __init__(self, tree: ast.Module, w: Format) -> None:
        self.w = w
        self.a = Arithmetic(w)
        self.functions: dict[str, ast.FunctionDef] = {}
        self.functional: dict[str, ast.FunctionDef] = {}
        self.records: dict[str, Record] = {}
        self.methods: dict[tuple[str, str], ast.FunctionDef] = {}
        self.constants: dict[str, Any] = {}
        self.names: dict[str, Any] = {}
        #: names that the running function changes: constants given to them are variables
        self.changed: set[str] = set()
        self._changed: dict[int, set[str]] = {}
        self._readings: list[set[Cell]] = []
        #: inverses of functions that have a name
        self.inverses: dict[str, ast.FunctionDef] = {}
        self._read("retrograd.library.elementary")
        self._collect(tree, {})

    def _read(self, name: str) -> None:
        """Read the definitions of a module of the library, which is written in the language, too."""
        module = importlib.import_module(name)
        assert module.__file__ is not None
        self._collect(_parsed(module.__file__), vars(module))

    def _collect(self, tree: ast.Module, known: dict[str, Any]) -> None:
        """The definitions of a module; `known` are its values."""
        for node in tree.body:
            match node:
                case ast.ImportFrom(str(name)) if name.startswith("retrograd.library"):
                    self._read(name)
                case ast.FunctionDef(name, decorator_list=[ast.Attribute(attr="functional"), *_]):
                    self.functional[name] = node
                    self.constants |= {n: v for n, v in known.items() if isinstance(v, float)}
                case ast.FunctionDef(name):
                    self.functions[name] = node
                case ast.Assign([ast.Name(name)], ast.Attribute(ast.Name(f), "inverse")):
                    self.inverses[name] = self.functions[f]
                case ast.ClassDef():
                    self._record(node)
                case ast.Assign([ast.Name(name)], value) if not known:
                    self.constants[name] = np.asarray(ast.literal_eval(value))

    def _record(self, node: ast.ClassDef) -> None:
        fields = [(ast.unparse(s.target), self.type(s.annotation)) for s in node.body if isinstance(s, ast.AnnAssign)]
        self.records[node.name] = Record(node.name, tuple(fields))
        for s in node.body:
            if isinstance(s, ast.FunctionDef):
                self.methods[node.name, s.name] = s

    def type(self, node: ast.expr) -> Any:
        """The type that an annotation names."""
        match node:
            case ast.Name(name):
                return Scalar(name) if name in _KINDS else self.records[name]
            case ast.Subscript(ast.Name("Array"), ast.Tuple(elts=[element, *dims])):
                return Many(self.type(element), tuple(ast.literal_eval(d) for d in dims))
            case ast.Subscript(_, ast.Tuple(elts=[ast.Name(kind), ast.Constant(int(capacity))])):
                return Pile(kind, capacity)
        raise AssertionError(ast.unparse(node))

    # ------------------------------------------------------------------ reading

    @contextmanager
    def reading(self) -> Iterator[set[Cell]]:
        """The cells that are read meanwhile."""
        seen: set[Cell] = set()
        self._readings.append(seen)
        yield seen
        self._readings.pop()

    def number(self, value: Any) -> Number:
        """A scalar's number, or the count of a stack; a cell is read."""
        if isinstance(value, Struct):
            return Pair(*(self.number(part) for part in value.fields.values()))  # type: ignore[arg-type]
        if isinstance(value, Stack):
            value = value.count
        if isinstance(value, Cell):
            for seen in self._readings:
                seen.add(value)
            return Word(value.word, value.kind)
        assert isinstance(value, Word | Pair | int | float | complex), value
        return value

    def scalar(self, node: ast.expr) -> Number:
        return self.number(self.value(node))

    def condition(self, node: ast.expr) -> bool:
        return self.a.truth(self.scalar(node))

    def integer(self, node: ast.expr) -> int:
        return self.a.signed(self.a.word(self.scalar(node), INT))

    # ------------------------------------------------------------------ arrays

    def lazy(self, value: Any) -> Lazy:
        """The value as an array of functions; a scalar is one without axes."""
        match value:
            case Lazy():
                return value
            case View(items):
                return Lazy(array(items.shape, lambda index: lambda: items[index]))
        return Lazy(array((), lambda _: lambda: value))

    def each(self, function: Any, *values: Any) -> Any:
        """function(*numbers), element by element where there are arrays, whenever the element is asked for."""
        if not any(isinstance(v, View | Lazy) for v in values):
            return function(*(self.number(v) for v in values))
        parts = np.broadcast_arrays(*(self.lazy(v).items for v in values))
        return Lazy(array(parts[0].shape, lambda i: lambda: function(*(self.number(p[i]()) for p in parts))))

    def first_axis(self, value: View | Lazy, i: int) -> Any:
        return self._picked(value, (i,))

    def _picked(self, value: View | Lazy, key: Any) -> Any:
        found = value.items[key]
        if isinstance(found, np.ndarray):
            return View(found) if isinstance(value, View) else Lazy(found)
        return found if isinstance(value, View) else found()

    # ------------------------------------------------------------------ expressions

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self._name(name)
            case ast.Attribute(inner, name):
                return self._attribute(self.value(inner), name)
            case ast.BinOp(left, ast.MatMult(), right):
                return self._matrix_product(self.lazy(self.value(left)).items, self.lazy(self.value(right)).items)
            case ast.BinOp(left, op, right):
                symbol = _OPERATORS[type(op)]
                return self.each(lambda x, y: self.a.binary(symbol, x, y), self.value(left), self.value(right))
            case ast.UnaryOp(op, operand):
                found, symbol = self.value(operand), _OPERATORS[type(op)]
                if isinstance(found, Callee):
                    return Callee(found.tree, not found.backward, found.receiver)
                return self.each(lambda x: self.a.unary(symbol, x), found)
            case ast.BoolOp(op, values):
                return self._boolean(values, isinstance(op, ast.And))
            case ast.Compare(left, ops, comparators):
                return self._comparison([left, *comparators], [_OPERATORS[type(op)] for op in ops])
            case ast.IfExp(test, ast.Tuple() as body, ast.Tuple() as orelse):
                return self.value(body if self.condition(test) else orelse)
            case ast.IfExp(test, body, orelse):
                known = self.value(test)
                if not isinstance(known, Word | Pair | Cell | View | Lazy | Stack | Struct):
                    return self.value(body if known else orelse)
                return self._select(test, body, orelse)
            case ast.Subscript(array_, ast.expr() as key):
                return self._subscript(self.value(array_), key)
            case ast.Tuple(elts=items):
                return tuple(self.value(v) for v in items)
            case ast.Call():
                return self._call(node)
        raise AssertionError(ast.unparse(node))

    def _matrix_product(self, x: Any, y: Any) -> Lazy:
        """A matrix times a vector."""

        def row(i: int) -> Number:
            total: Number = 0
            for k in range(len(y)):
                term = self.a.binary("*", self.number(x[i, k]()), self.number(y[k]()))
                total = self.a.binary("+", total, term)
            return total

        return Lazy(array((len(x),), lambda i: lambda: row(*i)))

    def _name(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        if name in self.functions:
            return Callee(self.functions[name])
        if name in self.inverses:
            return Callee(self.inverses[name], True)
        return self.constants[name]

    def _attribute(self, x: Any, name: str) -> Any:
        part = "re" if name in _REAL else "im" if name in _IMAGINARY else ""
        match x:
            case Struct("complex", fields):
                return fields[part]
            case int() | float() | complex() if part:
                return getattr(x, name)
            case Pair() | Word() if part:
                return getattr(self.a.parts(x), part)
            case Lazy() if part:
                return self.each(lambda z: getattr(self.a.parts(z), part), x)
            case Struct(cls, fields):
                return fields[name] if name in fields else Callee(self.methods[cls, name], receiver=x)
            case View(items) if name == "T":
                return View(items.T)
            case View(items) | Lazy(items) if name in ("shape", "size"):
                return getattr(items, name)
            case View(items):
                return View(array(items.shape, lambda i: items[i].fields[part or name]))
        raise AssertionError(name)

    def _boolean(self, values: Sequence[ast.expr], conjunction: bool) -> Number:
        out = conjunction
        dynamic = False
        for v in values:
            x = self.scalar(v)
            dynamic = dynamic or isinstance(x, Word)
            out = self.a.truth(x)
            if out is not conjunction:
                break
        return Word(int(out), BOOL) if dynamic else out

    def _comparison(self, nodes: Sequence[ast.expr], symbols: Sequence[str]) -> Any:
        values = [self.value(v) for v in nodes]
        if len(symbols) == 1:
            return self.each(lambda x, y: self.a.binary(symbols[0], x, y), *values)
        numbers = [self.number(v) for v in values]
        holds = [self.a.binary(s, x, y) for s, x, y in zip(symbols, numbers, numbers[1:], strict=False)]
        return Word(int(all(self.a.truth(c) for c in holds)), BOOL)

    def _select(self, test: ast.expr, x: ast.expr, y: ast.expr) -> Any:
        c = self.value(test)
        if not isinstance(c, View | Lazy) and not self.a.truth(self.number(c)):
            c, x, y = True, y, x
        values = [c, self.value(x)]
        try:
            values.append(self.value(y))
        except Trapped:
            # Only the one chosen is computed; the other one's kind counts, and is the same where it traps.
            values.append(values[1])

        def choose(c: Number, a: Number, b: Number) -> Number:
            kind, chosen = self.a.common((a, b)), a if self.a.truth(c) else b
            return self.a.pair(chosen) if kind == COMPLEX else self.a.word(chosen, kind)

        return self.each(choose, *values)

    def _subscript(self, x: Any, node: ast.expr) -> Any:
        keys = node.elts if isinstance(node, ast.Tuple) else [node]
        if isinstance(x, np.ndarray):
            index = [self.value(k) for k in keys]
            if all(isinstance(i, int) for i in index):
                return x[tuple(index)].item()
            constants = x
            x = View(array(x.shape, lambda i: Cell(*self.a.word(constants[i].item()))))
        if isinstance(x, tuple):
            return x[self._key(node, len(x))]
        if isinstance(x, Stack):
            return self._word(x, self.integer(node))
        found, axis = [], 0
        for key in keys:
            if isinstance(key, ast.Constant) and key.value is ...:
                found.append(...)
                axis = len(x.items.shape) - len(keys) + len(found)
                continue
            found.append(self._key(key, x.items.shape[axis]))
            axis += 1
        return self._picked(x, tuple(found))

    def _key(self, key: ast.expr, length: int) -> Any:
        if isinstance(key, ast.Slice):
            ends = [None if e is None else self.integer(e) for e in (key.lower, key.upper, key.step)]
            return slice(*ends)
        index = self.scalar(key)
        i = self.a.signed(self.a.word(index, INT))
        # Python's counting from the end is for constants: what is computed must lie in the array.
        if not (0 if isinstance(index, Word) else -length) <= i < length:
            raise Trapped("no such element")
        return i

    # ------------------------------------------------------------------ calls inside expressions

    def _call(self, node: ast.Call) -> Any:
        match node.func:
            case ast.Name("len"):
                found = self.value(node.args[0])
                if isinstance(found, tuple):
                    return len(found)
                return self.number(found) if isinstance(found, Stack) else len(found.items)
            case ast.Name("abs" | "min" | "max" as name) | ast.Attribute(ast.Name("rg"), name):
                pass
            case ast.Name(name) if name in self.functions:
                return self._value_of_call(self.functions[name], node)
            case ast.Attribute(inner, "conjugate"):
                return self.each(self.a.conjugate, self.value(inner))
            case ast.Name("complex") if len(node.args) == 2:
                return self.each(self.a.complex, *map(self.value, node.args))
            case ast.Name(name) if name in _KINDS:
                return self.each(lambda x: self.a.converted(name, x), self.value(node.args[0]))
            case ast.Name(name):
                t = self.records[name]
                parts = zip(t.fields, node.args, strict=True)
                return Struct(name, {field: self.value(a) for (field, _), a in parts})
        if name == "select":
            known = self.value(node.args[0])
            if isinstance(known, bool | int | float):
                return self.value(node.args[1 if known else 2])
            return self._select(*node.args)
        if name == "top":
            return self._word(self.value(node.args[0]), -1)
        values = [self.value(a) for a in node.args]
        if name in self.functional:
            tree = self.functional[name]
            if all(isinstance(x, bool | int | float) for x in values) and hasattr(math, name):
                return getattr(math, name)(*values)
            return self.each(
                lambda *x: self.a.function(name, x) if isinstance(x[0], Pair | complex) else self._functional(tree, x),
                *values,
            )
        if name in ("sum", "mean"):
            total: Number = 0
            items = self.lazy(values[0]).items
            for item in items.flat:
                x = self.number(item())
                x = x if isinstance(x, Pair) else self.a.word(x)
                total = self.a.binary("+", total, Word(x.word, INT) if kind_of(x) == BOOL else x)  # type: ignore[union-attr]
            return total if name == "sum" else self.a.binary("/", total, float(items.size))
        return self.each(lambda *x: self.a.function(name, x), *values)

    def _value_of_call(self, tree: ast.FunctionDef, node: ast.Call) -> Number:
        """The result, the first parameter, that the function makes from zero."""
        result, *others = tree.args.args
        assert isinstance(result.annotation, ast.Name)
        given = [self.value(a) for a in node.args]
        named = {k.arg: self.value(k.value) for k in node.keywords}
        given += [named[p.arg] for p in others[len(given) :]]
        # A call may read all of its arguments: an update that changes one of them is none.
        args = [self.number(v) if isinstance(v, Cell) else v for v in given]
        for seen in self._readings:
            seen.update(cell for value in args for cell in cells(value))
        out = make(Scalar(result.annotation.id), self._zeros())
        self.call(Callee(tree), [out, *args])
        return self.number(out)

    def _functional(self, tree: ast.FunctionDef, args: Sequence[Number]) -> Number:
        """The value of a functional function of numbers."""
        outer = self.names
        self.names = {p.arg: self.a.word(x, FIXED) for p, x in zip(tree.args.args, args, strict=True)}
        found = self._returned(tree.body)
        self.names = outer
        assert isinstance(found, Word)
        return found

    def _returned(self, body: Sequence[ast.stmt]) -> Number | None:
        for node in body:
            match node:
                case ast.Assign([ast.Name(name)], value):
                    self.names[name] = self.value(value)
                case ast.Assign([ast.Tuple(elts=targets)], value):
                    self.names |= zip(map(ast.unparse, targets), self.value(value), strict=True)
                case ast.If(test, inner):
                    found = self._returned(inner) if self.condition(test) else None
                    if found is not None:
                        return found
                case ast.Return(ast.expr() as value):
                    return self.scalar(value)
                case _:
                    assert isinstance(node, ast.Expr), ast.unparse(node)
        return None

    def call(self, callee: Callee, args: Sequence[Any]) -> None:
        """Run a function on values."""
        raise NotImplementedError

    def _word(self, stack: Stack, index: int) -> Number:
        """The word of a stack at an index, from the top if it is negative."""
        count = self.a.signed(self.a.word(self.number(stack.count), INT))
        place = index + count if index < 0 else index
        if not 0 <= place < count:
            raise Trapped("no such word")
        return self.number(stack.words[place])

    def iteration(self, node: ast.expr) -> list[Any]:
        """What a loop goes through, in order."""
        match node:
            case ast.Call(ast.Name("range"), args):
                return [Word(i & self.w.mask, INT) for i in range(*(self.integer(a) for a in args))]
            case ast.Call(ast.Name("enumerate"), [xs, *more]):
                first = self.integer(more[0]) if more else 0
                return [(Word(i & self.w.mask, INT), x) for i, x in enumerate(self.iteration(xs), first)]
            case ast.Call(ast.Name("zip"), args):
                return list(zip(*(self.iteration(a) for a in args), strict=True))
            case ast.Call(ast.Name("reversed"), [xs]):
                return self.iteration(xs)[::-1]
        found = self.value(node)
        if isinstance(found, tuple):
            return list(found)
        return [self.first_axis(found, i) for i in range(len(found.items))]

    # ------------------------------------------------------------------ new variables and arguments

    def fresh(self, name: str, node: ast.expr, kind: str | None) -> tuple[Any, bool]:
        """What `name = node` makes: (the value, whether it has to be freed)."""
        match node:
            case ast.Call(ast.Attribute(ast.Name("rg"), "zeros"), args, keywords):
                t = self.type(keywords[0].value) if keywords else Scalar("fixed")
                return make(Many(t, tuple(self.integer(a) for a in args)), self._zeros()), True
            case ast.Call(ast.Attribute(ast.Name("rg"), "zeros_like"), [x]):
                items = self.lazy(self.value(x)).items
                kinds = [kind_of(self.number(item())) for item in items.flat]
                return make(Many(Scalar(kinds[0] if kinds else "fixed"), items.shape), self._zeros()), True
            case ast.Call(ast.Attribute(ast.Name("rg"), "stack"), [ast.Name(inner), ast.Constant(int(capacity))]):
                return make(Pile(inner, capacity), self._zeros()), True
        found = self.value(node)
        match found:
            case View() | Stack() | Callee():
                return found, False
            case Struct("complex") | Pair():
                return self._cell(found, None), True
            case Struct(cls, fields):
                if not isinstance(node, ast.Call):
                    return found, False
                types = {n: t.kind for n, t in self.records[cls].fields if isinstance(t, Scalar)}
                # Arrays are fields as they are.
                kept = {n: v for n, v in fields.items() if isinstance(v, View)}
                made = {n: self._cell(v, types[n]) for n, v in fields.items() if n not in kept}
                return Struct(cls, {n: (kept | made)[n] for n in fields}), bool(made)
            case Lazy(items):
                return View(array(items.shape, lambda i: self._cell(items[i](), None))), True
            case Word() | Cell():
                return self._cell(found, kind), True
            case bool() | int() | float() | complex() if name in self.changed or kind is not None:
                return self._cell(found, kind), True
        return found, False

    def _zeros(self) -> Iterator[int]:
        while True:
            yield 0

    def _cell(self, value: Any, kind: str | None) -> Any:
        number = self.number(value)
        if COMPLEX in (kind, kind_of(number)):
            return Struct(COMPLEX, {n: Cell(*part) for n, part in zip(("re", "im"), self.a.pair(number), strict=True)})
        return Cell(*self.a.word(number, kind))

    def argument(self, value: Any, annotation: ast.expr | None) -> Any:
        """What a parameter stands for: the caller's cell, or the number converted."""
        if isinstance(annotation, ast.Name) and annotation.id in _KINDS:
            if isinstance(value, Cell) and value.kind == annotation.id:
                return value
            if annotation.id == COMPLEX:
                return value if isinstance(value, Struct) else self.a.pair(self.number(value))
            return self.a.word(self.number(value), annotation.id)
        if isinstance(value, complex):
            return self.a.pair(value)
        if isinstance(value, bool | int | float):
            return self.a.word(value)
        if isinstance(value, Struct) and value.cls != COMPLEX:
            kinds = {n: t.kind for n, t in self.records[value.cls].fields if isinstance(t, Scalar)}
            fixed = {n: self.a.word(v, kinds[n]) for n, v in value.fields.items() if not isinstance(v, Cell | View)}
            return Struct(value.cls, value.fields | fixed)
        return value

    def changed_in(self, tree: ast.FunctionDef) -> set[str]:
        """Names that the function updates, exchanges, frees or passes on."""
        found = self._changed.get(id(tree))
        if found is None:
            found = self._changed[id(tree)] = set()
            for node in ast.walk(tree):
                match node:
                    case ast.AugAssign(ast.Name(name)):
                        found.add(name)
                    case ast.Expr(ast.Call(args=args) | ast.UnaryOp(operand=ast.Call(args=args))):
                        found |= {a.id for a in args if isinstance(a, ast.Name)}
                    case ast.Delete(targets) | ast.Assign([ast.Tuple(elts=targets)], ast.Tuple()):
                        found |= {t.id for t in targets if isinstance(t, ast.Name)}
        return found
