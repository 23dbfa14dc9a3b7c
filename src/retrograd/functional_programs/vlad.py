"""VLAD programs: each expression of a file as a reversible function `out += e`, its value, and its test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.inference import Inference
from retrograd.compiler.frontends.functional.types import Function, Known, Tuple, Type, Word, kinds
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import Parameter, Source
from retrograd.compiler.frontends.vlad.translation import (
    ITEMS,
    PRELUDE,
    Expression,
    Lengths,
    Path,
    unknown_list,
    with_items,
)
from retrograd.functional_programs.functions import Functional
from retrograd.isa.diagnostics import CompileError, Diagnostic
from retrograd.isa.words import Q32_32, Format


def expression() -> None:
    """An expression of VLAD, whose text stands in its own file."""


class VladFunction(Functional):
    """`out += e` of an expression without arguments; a result of several words has parameters `out_0`, `out_1` …"""

    def __init__(
        self,
        of: Expression,
        format: Format | str | None = None,
        options: Options | None = None,
        *,
        lengths: Lengths | None = None,
    ) -> None:
        super().__init__(expression, format, options)
        self.expression, self._lengths = of, lengths or {}
        tree = ast.parse("def expression(): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        span = of.datum.at.span
        tree.lineno = tree.end_lineno = span.line
        tree.col_offset, tree.end_col_offset = span.column - 1, span.end - 1
        self._read = tree, Source(of.file.name, of.file.lines)

    @property
    def _parsed(self) -> tuple[ast.FunctionDef, Source]:
        return self._read

    def sized(self, options: Options) -> VladFunction:
        """The same function, compiled with other sizes."""
        made = VladFunction(self.expression, self.format, options, lengths=self._lengths)
        vars(made).update({n: v for n, v in vars(self).items() if n in ("_core", "_plain", "result_type", "asks")})
        return made

    @cached_property
    def _plain(self) -> tuple[core.Lambda, Type]:
        """The expression, and its type. Raises CompileError."""
        at = self.expression.datum.at
        try:
            found = self.expression.core()
            return found, self._solved(found)
        except RecursionError:
            pass
        raise CompileError(Diagnostic("RG0720", "the expressions are nested too deep", at.span, None, at.text))

    @cached_property
    def asks(self) -> Path | None:
        """The list in the result whose length this function computes in place of the result."""
        return unknown_list(self._plain[1], self._lengths)

    @cached_property
    def _core(self) -> core.Lambda:
        found, t = self._plain
        return with_items(found, t, self._lengths) if self.asks is not None or self._lengths else found

    def functional_core(self, captures: Captures) -> core.Lambda:
        return self._core

    @cached_property
    def given(self) -> tuple[Parameter, ...]:
        return ()

    @cached_property
    def result_type(self) -> Type:
        """The type of the value. Raises CompileError."""
        return self._plain[1] if self._core is self._plain[0] else self._solved(self._core)

    def _solved(self, code: core.Lambda) -> Type:
        inference = Inference(Q32_32, lambda f: f.functional_core(Captures()))
        try:
            return inference.solve((code, (), ()))
        except CompileError as error:
            raise self._outside_prelude(error, inference) from None

    def _outside_prelude(self, error: CompileError, inference: Inference) -> CompileError:
        """An error in a function of the prelude, at the innermost call of the file itself."""
        d = error.diagnostics[0]
        if d.span is None or d.span.file != PRELUDE:
            return error
        outside = [s for s in inference.sites if s.span.file == self.expression.file.name]
        at = outside[-1] if outside else self.expression.datum.at
        message = f"{d.message}, in line {d.span.line} of the prelude"
        return CompileError(replace(d, message=message, span=at.span, line=at.text))

    @cached_property
    def result_parameters(self) -> tuple[Parameter, ...]:
        found = kinds(self.result_type)
        names = ["out"] if len(found) == 1 else [f"out_{k}" for k in range(len(found))]
        return tuple(Parameter(n, *_PARAMETERS[k.value]) for n, k in zip(names, found, strict=True))


_PARAMETERS: dict[str, tuple[type, Any]] = {
    "fixed": (float, 0.0),
    "int": (int, 0),
    "bool": (bool, False),
    "address": (int, 0),
}


@dataclass(frozen=True)
class Procedure:
    """A function among values."""

    name: str


def value_of(t: Type, words: Iterator[Any]) -> Any:
    """A value from its words: floats, bools, symbols as text, (head, tail) of pairs, () of the empty list, Procedure."""
    match t:
        case Word():
            return next(words)
        case Known(value):
            return value
        case Tuple((one,), "boolean"):
            return bool(value_of(one, words))
        case Tuple(items, form) if form == ITEMS:
            made: Any = ()
            for value in reversed([value_of(i, words) for i in items]):
                made = value, made
            return made
        case Tuple((), _):
            return ()
        case Tuple(items, "pair"):
            return tuple(value_of(i, words) for i in items)
        case Tuple(items, form):
            return Formed(form, tuple(value_of(i, words) for i in items))
        case Function(alternatives):
            for _ in kinds(t):
                next(words)
            return Procedure(alternatives[0].code.name)
    raise AssertionError(t)


@dataclass(frozen=True)
class Formed:
    """A bundle, or a value of reverse mode."""

    form: str
    parts: tuple[Any, ...]


def shown(value: Any) -> str:
    """A value as VLAD writes it."""
    match value:
        case bool():
            return "#t" if value else "#f"
        case str():
            return value
        case Procedure(name):
            return f"#[procedure {name}]"
        case Formed(form, parts):
            return f"#[{form} {' '.join(map(shown, parts))}]"
        case ():
            return "()"
        case (head, tail):
            out = [shown(head)]
            while isinstance(tail, tuple) and tail:
                out.append(shown(tail[0]))
                tail = tail[1]
            return f"({' '.join(out)}{'' if tail == () else f' . {shown(tail)}'})"
    return f"{float(value):.13g}"
