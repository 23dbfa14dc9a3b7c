"""VLAD to core: each special form by its definition in terms of the core, from the data of a file (data.py).

    (f a b c)               f applied to the pair (a b . c): each function has one argument
    (lambda (x y) e)        the argument is a pair, which `car` and `cdr` take apart; parameters may be (cons x y), (list x y …), (bundle x y)
    (let ((x e) …) …)  (let* …)  (letrec ((f (lambda …)) …) …)  (let name ((x e) …) …)
    (if c e e)  (cond (c e) … (else e))  (and e …)  (or e …)  (cons e e)  (cons* e …)  (list e …)  'datum  (forget e)

Last come the lists in results, and the definitions of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core, Place, fail
from retrograd.compiler.frontends.functional.types import List, Tuple, Type
from retrograd.compiler.frontends.vlad.data import Datum, Items, Literal, Symbol, read_data, shown
from retrograd.compiler.frontends.vlad.primitives import (
    CAR,
    CDR,
    LIBRARY,
    NEGATIVE,
    PRIMITIVES,
    Callable_,
    Constant,
    Item,
    Truth,
)
from retrograd.compiler.frontends.vlad.streams import READ, WRITERS, Reads, Writes
from retrograd.isa.diagnostics import InputError, nearest
from retrograd.isa.words import format_of

# -----------------------------------------------------------------------------
# Special forms: data to core.

Scope = Mapping[str, Binding]
#: the meaning of a name that no form around it binds; None for a name that is not defined
Outside = Callable[[Symbol], Core | None]

FORMS = (
    "lambda", "let", "let*", "letrec", "if", "cond", "and", "or", "cons", "cons*", "list", "quote", "forget", "define",
)  # fmt: skip
#: forms of Scheme that VLAD does not have -> the form to write instead
IN_PLACE = {
    "set!": "Bind a new name: (let ((y e)) …). A loop passes its variables on: (let loop ((x 0)) … (loop (+ x 1))).",
    **dict.fromkeys(("set-car!", "set-cdr!"), "Make a new pair: (cons x (cdr p))."),
    "begin": "A body is one expression; (let* ((x e) …) e) names values one after the other.",
    "do": "Write a loop as a function: (let loop ((x 0)) (if c x (loop (+ x 1)))).",
    "case": "Compare by cond: (cond ((= x 1) e) (else e)).",
}
#: what reads and writes
STREAMS = (READ, *WRITERS)
#: exponents below it are products
_MOST_FACTORS = 1 << 63
#: functions of any structure; several arguments are a pair, as those of every function
_OF_STRUCTURE = ("*j", "zero", "perturb", "sensitize")
_PATTERNS = "A parameter is a name, (cons x y), (list x …), or (bundle x x')."


class Translation:
    """Translates expressions. `names`: all names that are defined outside, for suggestions. `internal`: primitives of the prelude alone are known."""

    def __init__(self, outside: Outside, names: Callable[[], Sequence[str]], internal: bool) -> None:
        self._outside, self._names = outside, names
        #: gives the core of a number that is read; None where nothing is read
        self.read: Callable[[Place], Core] | None = None
        #: name -> the body of a function without parameters that reads, translated in the scope of the file
        self.readers: Mapping[str, Callable[[], Core]] = {}
        #: numbers that were read by now; each branch begins with those before it
        self.reads = 0
        #: what letrec binds: functions, whose calls need no rule
        self.functions: set[Binding] = set()
        self._primitives = {n: p for n, p in PRIMITIVES.items() if internal or not n.startswith("%")}

    # ------------------------------------------------------------------ expressions

    def expression(self, datum: Datum, scope: Scope) -> Core:
        """The core of an expression. Raises CompileError."""
        at = datum.at
        match datum:
            case Literal(bool() as truth):
                return core.Primitive(Constant(truth), (), at)
            case Literal(value):
                return core.Number(value, at)
            case Symbol():
                return self._name(datum, scope)
            case Items(tail=Literal() | Symbol() | Items() as tail):
                fail("RG0724", "a dot in an expression", tail.at, "Write (cons x y), or quote the list.")
            case Items(()):
                fail("RG0729", "() is no expression", at, "The empty list is '().")
            case Items((Symbol(name), *args)) if name not in scope and name in FORMS:
                return self._form(name, args, scope, at)
            case Items((Symbol(name), *args)) if name in STREAMS and self._is_free(name, scope):
                return self._stream(name, args, scope, at)
            case Items((Symbol(name),)) if name in self.readers and name not in scope:
                return self.readers[name]()
            case Items((Symbol(name) as head, *args)) if self._is_operation(head, args, scope):
                return self._operation(name, [self.expression(a, scope) for a in args], at)
            case Items((Symbol("expt") as head, base, Literal(float() as n))) if self._is_of_prelude(head, scope) and (
                (n.is_integer() and abs(n) < _MOST_FACTORS) or n == 0.5
            ):
                return self._power(self.expression(base, scope), n, at)
        assert isinstance(datum, Items)
        operator, *args = datum.items
        function = self.expression(operator, scope)
        if not (isinstance(function, core.Lambda | core.Global) or self._is_function(function)):
            function = core.Primitive(Callable_(), (function,), operator.at)
        return core.Apply(function, (self.chain([self.expression(a, scope) for a in args], at),), at)

    def _is_free(self, name: str, scope: Scope) -> bool:
        return name not in scope and name not in self._names()

    def _stream(self, name: str, args: Sequence[Datum], scope: Scope, at: Place) -> Core:
        """A number that is read, or a value that is written: see streams.py."""
        count = 0 if name == READ else 1
        if len(args) != count:
            fail("RG0715", f"`{name}` takes {count} argument{'s' * (count != 1)}, and is given {len(args)}", at)
        if args:
            return self.expression(args[0], scope)
        if self.read is None:
            fail("RG0729", f"`{name}` in a function", at, "Give the number as an argument: (f (read-real)).")
        return self.read(at)

    def _is_function(self, e: Core) -> bool:
        return isinstance(e, core.Ref) and e.binding in self.functions

    def _name(self, symbol: Symbol, scope: Scope) -> Core:
        if symbol.name.startswith('"'):
            values = "Values are numbers, #t, #f, symbols, lists and functions."
            fail("RG0724", f"`{symbol.name:.40}` is not in VLAD", symbol.at, values)
        if symbol.name in scope:
            return core.Ref(scope[symbol.name], symbol.at)
        found = self._outside(symbol) or self._as_function(symbol)
        if found is not None:
            return found
        if symbol.name in IN_PLACE:
            message = f"`{symbol.name}` is not in VLAD, whose programs are values without changes"
            fail("RG0729", message, symbol.at, IN_PLACE[symbol.name])
        if symbol.name in STREAMS:
            fail("RG0729", f"`{symbol.name}` is a form, and no value", symbol.at, f"Call it: ({symbol.name} …).")
        if symbol.name == "include":
            fail("RG0729", "`include` stands at the top of a file only", symbol.at)
        if symbol.name in FORMS:
            fail("RG0729", f"`{symbol.name}` is a form, and no value", symbol.at, "Wrap it in a lambda.")
        hint = nearest(symbol.name, [*scope, *self._names(), *self._primitives, *FORMS])
        fail("RG0702", f"`{symbol.name}` is not defined", symbol.at, hint)

    def chain(self, items: Sequence[Core], at: Place) -> Core:
        """The argument of a call: one value itself, several as pairs, none as the empty list."""
        if not items:
            return core.Record((), at, "nil")
        made = items[-1]
        for item in reversed(items[:-1]):
            made = core.Record((item, made), at, "pair")
        return made

    def list_of(self, items: Sequence[Core], at: Place) -> Core:
        return self.chain([*items, core.Record((), at, "nil")], at)

    # ------------------------------------------------------------------ primitives

    def _is_operation(self, head: Symbol, args: Sequence[Datum], scope: Scope) -> bool:
        """Whether a call is one of a primitive with its arguments, and not with a pair that holds both."""
        if head.name in scope or head.name not in self._primitives or self._outside(head) is not None:
            return False
        return len(args) != 1 or self._primitives[head.name].arguments == 1 or head.name == "-"

    def _operation(self, name: str, args: Sequence[Core], at: Place) -> Core:
        """A call of a primitive; + and * take any number of arguments, - and / at least one."""
        rules, count = self._primitives[name]
        if (name in ("+", "*", "-") and len(args) > 2) or (name in ("+", "*") and not args):
            made = args[0] if args else core.Number(0.0 if name == "+" else 1.0, at)
            for a in args[1:]:
                made = core.Primitive(rules, (made, a), at)
            return made
        if name == "-" and len(args) == 1:
            return core.Primitive(NEGATIVE, tuple(args), at)
        if len(args) > 1 and name in _OF_STRUCTURE:
            args = (self.chain(args, at),)
        if len(args) != count:
            fail("RG0715", f"`{name}` takes {count} argument{'s' * (count != 1)}, and is given {len(args)}", at)
        return core.Primitive(rules, tuple(args), at)

    def _is_of_prelude(self, head: Symbol, scope: Scope) -> bool:
        found = None if head.name in scope else self._outside(head)
        return isinstance(found, core.Global) and found.function is LIBRARY.get(head.name)

    def _power(self, base: Core, n: float, at: Place) -> Core:
        """A power whose exponent is written as a whole number, a product for any base, or as ½, a root."""
        if n == 0.5:
            return core.Primitive(PRIMITIVES["sqrt"].rules, (base,), at)
        times, one = PRIMITIVES["*"].rules, core.Number(1.0, at)

        def product(x: Core, k: int) -> Core:
            """xᵏ, by squaring. A power of 0 is 1 + 0·x, so that x is a real in each."""
            if k == 0:
                nothing = core.Primitive(times, (core.Number(0.0, at), x), at)
                return core.Primitive(PRIMITIVES["+"].rules, (one, nothing), at)
            if k == 1:
                return core.Primitive(times, (x, one), at)
            half = Binding("power", at)
            both = core.Primitive(times, (core.Ref(half, at),) * 2, at)
            whole = core.Primitive(times, (both, x), at) if k % 2 else both
            return core.Let(half, x if k < 4 else product(x, k // 2), whole, at)

        x = Binding("base", at)
        made = product(core.Ref(x, at), abs(int(n)))
        return core.Let(x, base, core.Primitive(PRIMITIVES["/"].rules, (one, made), at) if n < 0 else made, at)

    def _as_function(self, symbol: Symbol) -> Core | None:
        """A primitive as a value: of two arguments, they are the items of a pair."""
        if symbol.name not in self._primitives:
            return None
        rules, count = self._primitives[symbol.name]
        at = symbol.at
        argument = Binding("argument", at)
        x = core.Ref(argument, at)
        args = (x,) if count == 1 else (core.Primitive(CAR, (x,), at), core.Primitive(CDR, (x,), at))
        return core.Lambda(symbol.name, (argument,), core.Primitive(rules, args, at), at)

    # ------------------------------------------------------------------ forms

    def _form(self, name: str, args: Sequence[Datum], scope: Scope, at: Place) -> Core:
        def counted(least: int, most: int | None, shape: str) -> None:
            if len(args) < least or (most is not None and len(args) > most):
                fail("RG0729", f"`{name}` has another form", at, f"Write {shape}.")

        match name:
            case "quote":
                counted(1, 1, "'datum")
                return self.quoted(args[0])
            case "if":
                counted(3, 3, "(if condition then else)")
                test, before = self.expression(args[0], scope), self.reads
                then = self.expression(args[1], scope)
                self.reads = before
                return self._conditional(test, then, self.expression(args[2], scope), at)
            case "cond":
                return self._cond(args, scope, at)
            case "and" | "or":
                if not args:
                    return core.Primitive(Constant(name == "and"), (), at)
                made = self.expression(args[-1], scope)
                for a in reversed(args[:-1]):
                    test = self.expression(a, scope)
                    if name == "and":
                        made = self._conditional(test, made, core.Primitive(Constant(False), (), at), at)
                    else:
                        first = Binding("or", at)
                        ref = core.Ref(first, at)
                        made = core.Let(first, test, self._conditional(ref, ref, made, at), at)
                return made
            case "cons":
                counted(2, 2, "(cons x y)")
                return self.chain([self.expression(a, scope) for a in args], at)
            case "cons*":
                return self.chain([self.expression(a, scope) for a in args], at)
            case "list":
                return self.list_of([self.expression(a, scope) for a in args], at)
            case "forget":
                counted(1, 1, "(forget e)")
                return core.Forget(self.expression(args[0], scope), at)
            case "lambda":
                counted(2, 2, "(lambda (x …) e)")
                return self.function("lambda", args[0], args[1], scope, at)
            case "let":
                if args and isinstance(args[0], Symbol):
                    counted(3, 3, "(let name ((x e) …) e)")
                    return self._loop(args[0], args[1], args[2], scope, at)
                counted(2, 2, "(let ((x e) …) e)")
                return self._let(self._bindings(args[0]), args[1], scope, False, at)
            case "let*":
                counted(2, 2, "(let* ((x e) …) e)")
                return self._let(self._bindings(args[0]), args[1], scope, True, at)
            case "letrec":
                counted(2, 2, "(letrec ((f (lambda …)) …) e)")
                return self._letrec(self._bindings(args[0]), args[1], scope, at)
        fail("RG0729", "`define` stands at the top of a file only", at, "Inside, write letrec or let.")

    def _conditional(self, test: Core, then: Core, orelse: Core, at: Place) -> Core:
        return core.Conditional(core.Primitive(Truth(), (test,), test.at), then, orelse, at)

    def _cond(self, clauses: Sequence[Datum], scope: Scope, at: Place) -> Core:
        hint = "The last clause of a cond is (else e)."
        made: list[tuple[Core, Core, Place]] = []
        for k, clause in enumerate(clauses):
            match clause:
                case Items((Symbol("else"), value), tail=None) if "else" not in scope:
                    if k != len(clauses) - 1:
                        fail("RG0729", "clauses behind else", clause.at, hint)
                    last = self.expression(value, scope)
                    for test, then, here in reversed(made):
                        last = self._conditional(test, then, last, here)
                    return last
                case Items((test, value), tail=None):
                    tested, before = self.expression(test, scope), self.reads
                    made.append((tested, self.expression(value, scope), clause.at))
                    self.reads = before
                case _:
                    fail("RG0729", f"`{shown(clause)}` is no clause", clause.at, "Write (condition e) or (else e).")
        fail("RG0729", "this cond has no else", at, hint)

    def quoted(self, datum: Datum) -> Core:
        """The value of a datum."""
        match datum:
            case Literal(bool() as truth):
                return core.Primitive(Constant(truth), (), datum.at)
            case Literal(value):
                return core.Number(value, datum.at)
            case Symbol(name):
                return core.Primitive(Constant(name), (), datum.at)
            case Items(items, at, tail):
                last: Core = core.Record((), at, "nil") if tail is None else self.quoted(tail)
                return self.chain([*map(self.quoted, items), last], at)

    # ------------------------------------------------------------------ bindings

    def function(self, name: str, params: Datum, body: Datum, scope: Scope, at: Place) -> core.Lambda:
        """λ: the parameters are the items of the argument."""
        if not isinstance(params, Items):
            fail(
                "RG0729", f"`{shown(params)}` where a list of parameters is needed", params.at, "Write (lambda (x) e)."
            )
        if params.tail is not None:
            fail("RG0729", "a dot among parameters", params.tail.at, _PATTERNS)
        argument = Binding("argument", params.at)
        taken: dict[str, Binding] = {}
        steps: list[tuple[Binding, Core]] = []
        items = list(params.items)
        if len(items) == 1 and isinstance(items[0], Symbol):
            argument = taken[items[0].name] = Binding(items[0].name, items[0].at)
        elif items:
            has = f"`{name}` has {len(items)} parameters"
            value: Core = core.Ref(argument, params.at)
            for item in items[:-1]:
                self._take(item, _part(Item("car", 0, has), "head", value, item.at, steps), taken, steps)
                value = _part(Item("cdr", 1, has), "tail", value, item.at, steps)
            self._take(items[-1], value, taken, steps)
        made = self.expression(body, {**scope, **taken})
        for binding, value in reversed(steps):
            made = core.Let(binding, value, made, value.at)
        return core.Lambda(name, (argument,), made, at)

    def _paired(self, items: Sequence[Datum]) -> Datum:
        """The parameters (x y z) as the pattern (cons x (cons y z))."""
        made = items[-1]
        for item in reversed(items[:-1]):
            made = Items((Symbol("cons", item.at), item, made), item.at)
        return made

    def _take(self, pattern: Datum, value: Core, taken: dict[str, Binding], steps: list[tuple[Binding, Core]]) -> None:
        """Bind the names of a pattern to the parts of a value."""
        at = pattern.at

        def part(rules: core.Rules, name: str) -> Core:
            return _part(rules, name, value, at, steps)

        match pattern:
            case Symbol(name):
                if name in taken:
                    fail("RG0706", f"`{name}` is the name of two parameters", at, "Choose another name.")
                taken[name] = Binding(name, at)
                steps.append((taken[name], value))
            case Items((Symbol("cons"), head, tail), tail=None):
                self._take(head, part(CAR, "head"), taken, steps)
                self._take(tail, part(CDR, "tail"), taken, steps)
            case Items((Symbol("list"),), tail=None):
                pass
            case Items((Symbol("list"), head, *others), tail=None):
                self._take(head, part(CAR, "head"), taken, steps)
                self._take(Items((Symbol("list", at), *others), at), part(CDR, "tail"), taken, steps)
            case Items((Symbol("cons*"), *items), tail=None) if items:
                self._take(self._paired(items), value, taken, steps)
            case Items((Symbol("bundle"), first, second), tail=None):
                self._take(first, part(PRIMITIVES["primal"].rules, "primal"), taken, steps)
                self._take(second, part(PRIMITIVES["tangent"].rules, "tangent"), taken, steps)
            case _:
                fail("RG0729", f"`{shown(pattern)}` is no parameter", at, _PATTERNS)

    def _bindings(self, datum: Datum) -> list[tuple[Datum, Datum]]:
        if not isinstance(datum, Items) or datum.tail is not None:
            fail("RG0729", f"`{shown(datum)}` where a list of bindings is needed", datum.at, "Write ((x e) …).")
        out: list[tuple[Datum, Datum]] = []
        for item in datum.items:
            match item:
                case Items((name, value), tail=None):
                    out.append((name, value))
                case _:
                    fail("RG0729", f"`{shown(item)}` is no binding", item.at, "Write (x e).")
        return out

    def _let(self, given: Sequence[tuple[Datum, Datum]], body: Datum, scope: Scope, each: bool, at: Place) -> Core:
        steps: list[tuple[Binding, Core]] = []
        inner = dict(scope)
        taken: dict[str, Binding] = {}
        for pattern, value in given:
            made = self.expression(value, inner if each else scope)
            if isinstance(pattern, Symbol):
                if pattern.name in taken and not each:
                    fail("RG0706", f"`{pattern.name}` is bound twice", pattern.at, "Choose another name.")
                taken[pattern.name] = Binding(pattern.name, pattern.at)
                steps.append((taken[pattern.name], made))
            else:
                whole = Binding("value", pattern.at)
                steps.append((whole, made))
                self._take(pattern, core.Ref(whole, pattern.at), taken, steps)
            if each:
                inner |= taken
                taken = {}
        made = self.expression(body, inner | taken)
        for binding, found in reversed(steps):
            made = core.Let(binding, found, made, at)
        return made

    def _letrec(self, given: Sequence[tuple[Datum, Datum]], body: Datum, scope: Scope, at: Place) -> Core:
        names: dict[str, Binding] = {}
        for name, _ in given:
            if not isinstance(name, Symbol):
                fail("RG0729", f"`{shown(name)}` where a name is needed", name.at)
            if name.name in names:
                fail("RG0706", f"`{name.name}` is bound twice", name.at, "Choose another name.")
            names[name.name] = Binding(name.name, name.at)
        inner = {**scope, **names}
        self.functions.update(names.values())
        functions: list[tuple[Binding, core.Lambda]] = []
        for name, value in given:
            assert isinstance(name, Symbol)
            match value:
                case Items((Symbol("lambda"), params, inside), tail=None) if "lambda" not in inner:
                    functions.append((names[name.name], self.function(name.name, params, inside, inner, value.at)))
                case _:
                    fail(
                        "RG0729", f"`{shown(value)}` where letrec needs a lambda", value.at, "Bind other values by let."
                    )
        return letrec(functions, self.expression(body, inner), at)

    def _loop(self, name: Symbol, bindings: Datum, body: Datum, scope: Scope, at: Place) -> Core:
        given = self._bindings(bindings)
        binding = Binding(name.name, name.at)
        self.functions.add(binding)
        inner = {**scope, name.name: binding}
        params = Items(tuple(n for n, _ in given), bindings.at)
        function = self.function(name.name, params, body, inner, at)
        first = self.chain([self.expression(value, scope) for _, value in given], at)
        return letrec([(binding, function)], core.Apply(core.Ref(binding, name.at), (first,), at), at)


def letrec(functions: Sequence[tuple[Binding, core.Lambda]], body: Core, at: Place) -> Core:
    """letrec of functions, which know each other."""
    group = tuple(functions)
    for _, f in group:
        f.group = group
    return core.LetRec(group, body, at) if group else body


def _part(rules: core.Rules, name: str, value: Core, at: Place, steps: list[tuple[Binding, Core]]) -> Core:
    """A part of a value, bound to a new name by one more step."""
    binding = Binding(name, at)
    steps.append((binding, core.Primitive(rules, (value,), at)))
    return core.Ref(binding, at)


# -----------------------------------------------------------------------------
# Results that hold lists of the heap: first their lengths are found, each by a run, then the items are the words of the result.
#
# A program's results are words, whose number is known when it is compiled, and the heap is empty when it ends.

#: the form of a tuple that stands for a list
ITEMS = "items"
#: a place in a value: numbers of items, from outside to inside
Path = tuple[int, ...]
#: the lengths of the lists at these places
Lengths = dict[Path, int]


def unknown_list(t: Type, lengths: Mapping[Path, int], path: Path = ()) -> Path | None:
    """The place of the first list whose length is not known."""
    inside: list[Type] = []
    if isinstance(t, List):
        if path not in lengths:
            return path
        inside = [t.item] * lengths[path]
    elif isinstance(t, Tuple):
        inside = list(t.items)
    found = (unknown_list(item, lengths, (*path, k)) for k, item in enumerate(inside))
    return next((p for p in found if p is not None), None)


def with_items(value: core.Lambda, t: Type, lengths: Mapping[Path, int]) -> core.Lambda:
    """The expression with the tuple of their items in place of lists; or the length of the first list of which it is not known."""
    at = value.at
    whole = Binding("whole", at)
    asked = unknown_list(t, lengths)
    made = _made(core.Ref(whole, at), t, lengths, ()) if asked is None else _length(core.Ref(whole, at), t, asked)
    return core.Lambda(value.name, value.params, core.Let(whole, value.body, made, at), at)


def _element(list_: Core, k: int) -> Core:
    for _ in range(k):
        list_ = core.Primitive(CDR, (list_,), list_.at)
    return core.Primitive(CAR, (list_,), list_.at)


def _length(value: Core, t: Type, path: Path) -> Core:
    for k in path:
        if isinstance(t, List):
            value, t = _element(value, k), t.item
        elif isinstance(t, Tuple):
            value, t = core.Item(value, k, value.at), t.items[k]
    return core.Apply(core.Global(LIBRARY["length"], value.at), (value,), value.at)


def _made(value: Core, t: Type, lengths: Mapping[Path, int], path: Path) -> Core:
    at = value.at
    if isinstance(t, List):
        rests = [Binding("rest", at) for _ in range(lengths[path] + 1)]
        items = [
            _made(core.Primitive(CAR, (core.Ref(rest, at),), at), t.item, lengths, (*path, k))
            for k, rest in enumerate(rests[:-1])
        ]
        # Not a chain of pairs, which would be a list of the heap again where it is long.
        made: Core = core.Record(tuple(items), at, ITEMS)
        for before, rest in reversed(list(pairwise(rests))):
            made = core.Let(rest, core.Primitive(CDR, (core.Ref(before, at),), at), made, at)
        return core.Let(rests[0], value, made, at)
    if isinstance(t, Tuple) and _has_lists(t):
        parts = [_made(core.Item(value, k, at), item, lengths, (*path, k)) for k, item in enumerate(t.items)]
        return core.Record(tuple(parts), at, t.form)
    return value


def _has_lists(t: Type) -> bool:
    return isinstance(t, List) or (isinstance(t, Tuple) and any(map(_has_lists, t.items)))


# -----------------------------------------------------------------------------
# VLAD files: definitions and expressions, and the function of the core for each expression.
#
#     file ::= (define (f x …) e) | (define ((f x …) y …) e) | (define x e) | (format Q16.48) | e
#              | e ===> datum | e ===> (with-inputs (x …) datum)
#
# A function that uses no value of the file is closed, and a definition of its own. Values, and the functions that use them, become let and letrec
# around each expression that needs them: they are computed in its run.

_EXPECTS = "===>"
#: the name of the prelude in messages
PRELUDE = "prelude.vlad"


class Definition:
    """A name and its meaning. `params` None: of a value."""

    def __init__(self, name: Symbol, params: Datum | None, body: Datum, at: Place, file: File) -> None:
        self.name, self.params, self.body, self.at = name.name, params, body, at
        self._file = file
        self._made: core.Lambda | None = None
        #: all symbols in it
        self.symbols = frozenset(_symbols(body))

    def functional_core(self, captures: Any) -> core.Lambda:
        """The definition of a closed function, translated once. Raises CompileError."""
        if self._made is None:
            self._made = self.function({})
        return self._made

    def function(self, scope: Scope) -> core.Lambda:
        """The function, in a scope of values and functions around it."""
        assert self.params is not None
        return self._file.translation.function(self.name, self.params, self.body, scope, self.at)


@contextmanager
def _depth(what: str, at: Place) -> Iterator[None]:
    """A text that is deeper than the compiler's recursion is refused."""
    try:
        yield
    except RecursionError:
        fail("RG0720", f"{what} is nested too deep", at)


class Read(NamedTuple):
    """A number that is read. `value`: the definition whose value reads it, once for all expressions; else None."""

    value: str | None
    number: int


@dataclass(frozen=True)
class Expression:
    """An expression at the top of a file, and the value that it must have. `inputs`: what its test reads."""

    datum: Datum
    expected: Datum | None
    file: File
    inputs: tuple[float, ...] = ()

    def core(self) -> core.Lambda:
        """A function of the numbers that it reads, whose value is that of the expression. Raises CompileError."""
        at = self.datum.at
        numbers: dict[Read, Binding] = {}
        made = self.file.around(self.datum, numbers)
        return core.Lambda("expression", tuple(numbers.values()), made, at)

    def reads(self) -> list[Read]:
        """The numbers that it reads, in their order. Raises CompileError."""
        numbers: dict[Read, Binding] = {}
        self.file.around(self.datum, numbers)
        return list(numbers)


#: name as written by `include` -> (text, name of the file). Raises InputError
Include = Callable[[str], tuple[str, str]]


class File:
    """A file that is read.

    `prelude`: the definitions that it does not contain. `include`: finds the files that it names; None for none.
    """

    def __init__(self, text: str, name: str, prelude: File | None, include: Include | None = None) -> None:
        self.name, self.text = name, text
        self._include = include
        self._included: set[str] = set()
        self._prelude = prelude
        self.definitions: dict[str, Definition] = {}
        self.expressions: list[Expression] = []
        #: as given by (format …)
        self.format: str | None = None
        self.translation = Translation(self._outside, self._names, prelude is None)
        self._read(read_data(text, name))
        self._open = self._open_names()
        self._reads = Reads(self.definitions)
        self._readers = self._reads.names

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def _names(self) -> Sequence[str]:
        return [*self.definitions, *(self._prelude.definitions if self._prelude else ())]

    def _outside(self, symbol: Symbol) -> Core | None:
        found = self.definitions.get(symbol.name)
        if found is not None:
            if symbol.name in self._open:
                hint = "A value is computed where it is defined, from the definitions above it."
                fail("RG0702", f"`{symbol.name}` is used before it is defined", symbol.at, hint)
            return core.Global(found, symbol.at)
        if self._prelude is not None:
            return self._prelude._outside(symbol)
        return None

    # ------------------------------------------------------------------ reading

    def _read(self, data: Sequence[Datum]) -> None:
        k = 0
        while k < len(data):
            datum = data[k]
            k += 1
            match datum:
                case Symbol(name) if name == _EXPECTS:
                    fail("RG0724", f"`{_EXPECTS}` stands behind an expression", datum.at)
                case Items((Symbol("define"), *rest), tail=None):
                    self._define(rest, datum.at)
                case Items((Symbol("include"), Symbol(name)), tail=None) if name.startswith('"'):
                    self._read_included(name[1:-1], datum.at)
                case Items((Symbol("format"), Symbol(text)), tail=None):
                    try:
                        format_of(text)
                    except InputError as error:
                        fail("RG0604", error.diagnostics[0].message, datum.at)
                    self.format = text
                case _:
                    expected: Datum | None = None
                    inputs: tuple[float, ...] = ()
                    if k < len(data) and _is_arrow(data[k]):
                        if k + 1 == len(data):
                            fail("RG0724", f"no value behind `{_EXPECTS}`", data[k].at)
                        expected, inputs = _with_inputs(data[k + 1])
                        k += 2
                    self.expressions.append(Expression(datum, expected, self, inputs))

    def _read_included(self, name: str, at: Place) -> None:
        """Read a file in place of the form that names it; a file is read once. Raises CompileError RG0729."""
        if self._include is None:
            fail("RG0729", "a text that is no file includes none", at, "Write its definitions here.")
        try:
            text, found = self._include(name)
        except InputError as error:
            found_fault = error.diagnostics[0]
            fail("RG0729", f'`include "{name:.40}"`: {found_fault.message}', at, found_fault.hint)
        if found not in self._included:
            self._included.add(found)
            self._read(read_data(text, found))

    def _define(self, rest: Sequence[Datum], at: Place) -> None:
        if len(rest) != 2:
            fail("RG0729", "`define` has another form", at, "Write (define (f x …) e) or (define x e).")
        head, body = rest
        params: Datum | None = None
        while isinstance(head, Items):
            if not head.items or head.tail is not None:
                fail("RG0729", f"`{shown(head)}` where a name is needed", head.at)
            if params is not None:
                body = Items((Symbol("lambda", at), params, body), at)
            params = Items(head.items[1:], head.at)
            head = head.items[0]
        if not isinstance(head, Symbol):
            fail("RG0729", f"`{shown(head)}` where a name is needed", head.at)
        if head.name in FORMS:
            fail("RG0706", f"`{head.name}` is a form", head.at, "Choose another name.")
        if head.name in self.definitions:
            fail("RG0706", f"`{head.name}` is defined twice", head.at, "Choose another name.")
        match body:
            case Items((Symbol("lambda"), inner, value), tail=None) if params is None:
                params, body = inner, value
        self.definitions[head.name] = Definition(head, params, body, at, self)

    def _open_names(self) -> frozenset[str]:
        """The values, and the functions that use them directly or by others."""
        found = {n for n, d in self.definitions.items() if d.params is None}
        users: dict[str, list[str]] = {}
        for n, d in self.definitions.items():
            for used in d.symbols & self.definitions.keys():
                users.setdefault(used, []).append(n)
        todo = list(found)
        while todo:
            for n in users.get(todo.pop(), ()):
                if n not in found:
                    found.add(n)
                    todo.append(n)
        return frozenset(found)

    # ------------------------------------------------------------------ expressions

    def check(self) -> None:
        """Translate each closed function, so that unknown names are found where nothing calls it, too. Raises CompileError."""
        for name, d in self.definitions.items():
            thunk = d.params is None or name in self._readers
            with _depth(f"`{name}`", d.at):
                self._reads.count(d.body, None if thunk else "a function")
        for name, d in self.definitions.items():
            if name not in self._open and name not in self._readers:
                with _depth(f"`{name}`", d.at):
                    d.functional_core(None)

    def check_expression(self, e: Expression) -> None:
        """Refuse reads and writes of an expression that a run could not do. Raises CompileError."""
        with _depth("this expression", e.datum.at):
            self._reads.count(e.datum)
            Writes(self.definitions).check(e.datum)

    def _needed(self, datum: Datum) -> set[str]:
        """The open definitions that an expression uses, directly or by others."""
        todo = [n for n in _symbols(datum) if n in self._open]
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.definitions[name].symbols & self._open
        return found

    def around(self, datum: Datum, numbers: dict[Read, Binding]) -> Core:
        """An expression, inside the values and open functions that it needs. `numbers`: takes what is read."""
        t = self.translation
        owner: str | None = None

        def read(at: Place) -> Core:
            t.reads += 1
            return core.Ref(numbers.setdefault(Read(owner, t.reads), Binding("input", at)), at)

        def inlined(name: str) -> Callable[[], Core]:
            return lambda: t.expression(self.definitions[name].body, scope)

        t.read, t.reads, t.readers = read, 0, {name: inlined(name) for name in self._readers}
        needed = self._needed(datum)
        waiting: list[Definition] = []
        bound: set[str] = set()
        scope: dict[str, Binding] = {}
        steps: list[tuple[Binding, Core] | list[tuple[Binding, core.Lambda]]] = []

        def release() -> None:
            """Bind the functions whose values are there."""
            ready = [d for d in waiting if self._values(d) <= bound]
            if not ready:
                return
            scope.update({d.name: Binding(d.name, d.at) for d in ready})
            self.translation.functions.update(scope[d.name] for d in ready)
            steps.append([(scope[d.name], d.function(scope)) for d in ready])
            waiting[:] = [d for d in waiting if d not in ready]

        for name, d in self.definitions.items():
            if name not in needed:
                continue
            if d.params is not None:
                waiting += [] if name in self._readers else [d]
                continue
            release()
            owner, t.reads = name, 0
            value = self.translation.expression(d.body, scope)
            scope = {**scope, name: Binding(name, d.at)}
            bound.add(name)
            steps.append((scope[name], value))
        release()
        owner, t.reads = None, 0
        made = self.translation.expression(datum, scope)
        t.read, t.readers = None, {}
        for step in reversed(steps):
            made = letrec(step, made, datum.at) if isinstance(step, list) else core.Let(*step, made, datum.at)
        return made

    def _values(self, d: Definition) -> set[str]:
        """The values that an open function needs."""
        return {n for n in self._needed(d.body) if self.definitions[n].params is None}


def _is_arrow(datum: Datum) -> bool:
    return isinstance(datum, Symbol) and datum.name == _EXPECTS


def _with_inputs(datum: Datum) -> tuple[Datum, tuple[float, ...]]:
    """The value behind ===>, and the numbers that are read: `value`, or `(with-inputs (x …) value)`."""
    match datum:
        case Items((Symbol("with-inputs"), Items(given, tail=None), value), tail=None):
            numbers = [x.value for x in given if isinstance(x, Literal) and not isinstance(x.value, bool)]
            if len(numbers) == len(given):
                return value, tuple(numbers)
    if isinstance(datum, Items) and datum.items[:1] and datum.items[0] == Symbol("with-inputs", datum.items[0].at):
        fail("RG0724", "`with-inputs` has another form", datum.at, "Write (with-inputs (x …) value).")
    return datum, ()


def _symbols(datum: Datum) -> list[str]:
    out: list[str] = []
    todo = [datum]
    while todo:
        match todo.pop():
            case Symbol(name):
                out.append(name)
            case Items(items, _, tail):
                todo += items
                todo += [] if tail is None else [tail]
            case Literal():
                pass
    return out


@cache
def prelude() -> File:
    """The prelude, read once."""
    text = (files("retrograd.compiler.frontends.vlad") / "prelude.vlad").read_text(encoding="utf-8")
    found = File(text, PRELUDE, None)
    LIBRARY.update(found.definitions)
    return found


def read_vlad(text: str, name: str, include: Include | None = None, checked: bool = True) -> File:
    """The definitions and expressions of a text. Raises CompileError.

    `include`: as of File. `checked`: expressions, too.
    """
    found = File(text, name, prelude(), include)
    found.check()
    for e in found.expressions if checked else ():
        found.check_expression(e)
    return found
