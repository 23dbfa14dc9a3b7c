"""Values while a program is lowered: an expression for each word, and the place of each array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.types import Function, Type, arrays, kinds
from retrograd.compiler.ir.expressions import Address, E


@dataclass(frozen=True)
class Value:
    """The words of a value, by `types.kinds`, and the places of the arrays in it."""

    type: Type
    words: tuple[E, ...] = ()
    views: tuple[Address, ...] = ()

    def split(self, types: Sequence[Type], at: int = 0) -> list[Value]:
        """The parts of the value, of these types; the first begins at word `at`."""
        out: list[Value] = []
        seen = 0
        for t in types:
            words, views = len(kinds(t)), arrays(t)
            out.append(Value(t, self.words[at : at + words], self.views[seen : seen + views]))
            at, seen = at + words, seen + views
        return out

    def captured(self) -> list[list[Value]]:
        """The captured values of each alternative of a function."""
        assert isinstance(self.type, Function)
        alternatives = self.type.alternatives
        parts = iter(self.split([t for c in alternatives for t in c.captured], 0 if len(alternatives) == 1 else 1))
        return [[next(parts) for _ in c.captured] for c in alternatives]


Env = dict[core.Binding, Value]


def combined(t: Type, parts: Sequence[Value]) -> Value:
    """The value of these parts."""
    return Value(t, tuple(e for p in parts for e in p.words), tuple(v for p in parts for v in p.views))
