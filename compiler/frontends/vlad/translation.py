"""Data to core: the special forms of VLAD, each by its definition in terms of the core.

(f a b c)               f applied to the pair (a b . c): each function has one argument
(lambda (x y) e)        the argument is a pair, which `car` and `cdr` take apart; parameters may be (cons x y), (list x y …), (bundle x y)
(let ((x e) …) …)  (let* …)  (letrec ((f (lambda …)) …) …)  (let name ((x e) …) …)
(if c e e)  (cond (c e) … (else e))  (and e …)  (or e …)  (cons e e)  (cons* e …)  (list e …)  'datum
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core, Place
from retrograd.compiler.frontends.vlad.primitives import (
    CAR,
    CDR,
    NEGATIVE,
    PRIMITIVES,
    Callable_,
    Constant,
    Item,
    Truth,
)
from retrograd.compiler.frontends.vlad.reader import Datum, Items, Literal, Symbol, fail, shown
from retrograd.compiler.frontends.vlad.structure import LIBRARY
from retrograd.isa.diagnostics import nearest

Scope = Mapping[str, Binding]
#: the meaning of a name that no form around it binds; None for a name that is not defined
Outside = Callable[[Symbol], Core | None]

FORMS = (
    "lambda", "let", "let*", "letrec", "if", "cond", "and", "or", "cons", "cons*", "list", "quote", "define",
)  # fmt: skip
#: forms of Scheme that VLAD does not have -> what is written instead
IN_PLACE = {
    "set!": "Bind a new name: (let ((y e)) …). A loop passes its variables on: (let loop ((x 0)) … (loop (+ x 1))).",
    **dict.fromkeys(("set-car!", "set-cdr!"), "Make a new pair: (cons x (cdr p))."),
    "begin": "A body is one expression; (let* ((x e) …) e) names values one after the other.",
    "do": "Write a loop as a function: (let loop ((x 0)) (if c x (loop (+ x 1)))).",
    "case": "Compare by cond: (cond ((= x 1) e) (else e)).",
}
#: exponents below it are products
_MOST_FACTORS = 1 << 63
_PATTERNS = "A parameter is a name, (cons x y), (list x …), or (bundle x x')."


class Translation:
    """Translates expressions. `names`: all names that are defined outside, for suggestions. `internal`: primitives of the prelude alone are known."""

    def __init__(self, outside: Outside, names: Callable[[], Sequence[str]], internal: bool) -> None:
        self._outside, self._names = outside, names
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
            case Items((Symbol(name) as head, *args)) if self._is_operation(head, args, scope):
                return self._operation(name, [self.expression(a, scope) for a in args], at)
            case Items((Symbol("expt") as head, base, Literal(float() as n))) if self._is_of_prelude(head, scope) and (
                (n.is_integer() and abs(n) < _MOST_FACTORS) or n == 0.5
            ):
                return self._power(self.expression(base, scope), n, at)
        assert isinstance(datum, Items)
        operator, *args = datum.items
        function = self.expression(operator, scope)
        if not isinstance(function, core.Lambda | core.Global):
            function = core.Primitive(Callable_(), (function,), operator.at)
        return core.Apply(function, (self.chain([self.expression(a, scope) for a in args], at),), at)

    def _name(self, symbol: Symbol, scope: Scope) -> Core:
        if symbol.name in scope:
            return core.Ref(scope[symbol.name], symbol.at)
        found = self._outside(symbol) or self._as_function(symbol)
        if found is not None:
            return found
        if symbol.name in IN_PLACE:
            message = f"`{symbol.name}` is not in VLAD, whose programs are values without changes"
            fail("RG0729", message, symbol.at, IN_PLACE[symbol.name])
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
                test, then, orelse = (self.expression(a, scope) for a in args)
                return self._conditional(test, then, orelse, at)
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
        made: Core = core.Refusal("RG0729", "this cond has no else", hint, at)
        for k, clause in reversed(list(enumerate(clauses))):
            match clause:
                case Items((Symbol("else"), value), tail=None) if "else" not in scope:
                    if k != len(clauses) - 1:
                        fail("RG0729", "clauses behind else", clause.at, hint)
                    made = self.expression(value, scope)
                case Items((test, value), tail=None):
                    if k == len(clauses) - 1:
                        fail("RG0729", "this cond has no else", at, hint)
                    made = self._conditional(
                        self.expression(test, scope), self.expression(value, scope), made, clause.at
                    )
                case _:
                    fail("RG0729", f"`{shown(clause)}` is no clause", clause.at, "Write (condition e) or (else e).")
        if not clauses:
            fail("RG0729", "this cond has no else", at, hint)
        return made

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
