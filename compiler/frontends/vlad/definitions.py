"""VLAD files: definitions and expressions, and the function of the core for each expression.

    file ::= (define (f x …) e) | (define ((f x …) y …) e) | (define x e) | (format Q16.48) | e | e ===> datum

A function that uses no value of the file is closed, and a definition of its own. Values, and the functions that use them, become let and letrec
around each expression that needs them: they are computed in its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core, Place
from retrograd.compiler.frontends.vlad.reader import Datum, Items, Literal, Symbol, fail, read, shown
from retrograd.compiler.frontends.vlad.structure import LIBRARY
from retrograd.compiler.frontends.vlad.translation import FORMS, Scope, Translation, letrec
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import format_of

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

    def too_deep(self) -> NoReturn:
        """Raise CompileError RG0720."""
        fail("RG0720", f"`{self.name}` is nested too deep", self.at)

    def function(self, scope: Scope) -> core.Lambda:
        """The function, in a scope of values and functions around it."""
        assert self.params is not None
        return self._file.translation.function(self.name, self.params, self.body, scope, self.at)


@dataclass(frozen=True)
class Expression:
    """An expression at the top of a file, and the value that it must have."""

    datum: Datum
    expected: Datum | None
    file: File

    def core(self) -> core.Lambda:
        """A function without arguments, whose value is that of the expression. Raises CompileError."""
        at = self.datum.at
        return core.Lambda("expression", (), self.file.around(self.datum), at)


class File:
    """A file that is read. `prelude`: the definitions that it does not contain."""

    def __init__(self, text: str, name: str, prelude: File | None) -> None:
        self.name, self.text = name, text
        self._prelude = prelude
        self.definitions: dict[str, Definition] = {}
        self.expressions: list[Expression] = []
        #: as given by (format …)
        self.format: str | None = None
        self.translation = Translation(self._outside, self._names, prelude is None)
        self._read(read(text, name))
        self._open = self._open_names()

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
                case Items((Symbol("format"), Symbol(text)), tail=None):
                    try:
                        format_of(text)
                    except InputError as error:
                        fail("RG0604", error.diagnostics[0].message, datum.at)
                    self.format = text
                case _:
                    expected: Datum | None = None
                    if k < len(data) and _is_arrow(data[k]):
                        if k + 1 == len(data):
                            fail("RG0724", f"no value behind `{_EXPECTS}`", data[k].at)
                        expected = data[k + 1]
                        k += 2
                    self.expressions.append(Expression(datum, expected, self))

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
            if name not in self._open:
                try:
                    d.functional_core(None)
                except RecursionError:
                    d.too_deep()

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

    def around(self, datum: Datum) -> Core:
        """An expression, inside the values and open functions that it needs."""
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
            steps.append([(scope[d.name], d.function(scope)) for d in ready])
            waiting[:] = [d for d in waiting if d not in ready]

        for name, d in self.definitions.items():
            if name not in needed:
                continue
            if d.params is not None:
                waiting.append(d)
                continue
            release()
            value = self.translation.expression(d.body, scope)
            scope = {**scope, name: Binding(name, d.at)}
            bound.add(name)
            steps.append((scope[name], value))
        release()
        made = self.translation.expression(datum, scope)
        for step in reversed(steps):
            made = letrec(step, made, datum.at) if isinstance(step, list) else core.Let(*step, made, datum.at)
        return made

    def _values(self, d: Definition) -> set[str]:
        """The values that an open function needs."""
        return {n for n in self._needed(d.body) if self.definitions[n].params is None}


def _is_arrow(datum: Datum) -> bool:
    return isinstance(datum, Symbol) and datum.name == _EXPECTS


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


def read_vlad(text: str, name: str) -> File:
    """The definitions and expressions of a text. Raises CompileError."""
    found = File(text, name, prelude())
    found.check()
    return found
