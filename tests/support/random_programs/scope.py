"""What a program that is being written may read and change at a point."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .values import Many, Record, Scalar, Type

T = TypeVar("T")

#: what a chosen program may do before it is held to be long enough: statements executed, calls included
LONGEST = 260


@dataclass(frozen=True)
class Var:
    """A name in scope. `root`: the variable or array whose words it names; `range`: bounds that the compiler knows."""

    name: str
    type: Type
    writable: bool = True
    root: str = ""
    range: tuple[int, int] | None = None
    #: what its address depends on
    uses: frozenset[str] = frozenset()

    @property
    def base(self) -> str:
        return self.root or self.name


@dataclass
class Scope:
    """The names of a block, and those that may not be changed: `held` by its ancillas, `fixed` by anything else."""

    vars: dict[str, Var] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    #: what was made in this stretch of the block and is to be freed, in order
    made: list[str] = field(default_factory=list)

    def inner(self, fixed: Sequence[str] | set[str] | frozenset[str] = ()) -> Scope:
        return Scope(dict(self.vars), {*self.fixed, *self.held, *fixed})


@dataclass
class Noted:
    """What was read and changed meanwhile."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


def kinds(t: Type) -> set[str]:
    """The kinds of the scalars in a type; not those on stacks."""
    match t:
        case Scalar(kind):
            return {kind}
        case Many(element, _):
            return kinds(element)
        case Record(_, fields):
            return {k for _, inner in fields for k in kinds(inner)}
    return set()


class Writer:
    """Random choices, the scope, and what is noted of reads and writes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scope = Scope()
        #: roots that what is written now must not read
        self.avoid: set[str] = set()
        self._records: list[Noted] = []
        self._names = 0
        self.constants: dict[str, tuple[int, ...]] = {}

    # ------------------------------------------------------------------ choices

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, items: Sequence[T]) -> T:
        return items[self.rng.randrange(len(items))]

    def weighted(self, table: Mapping[T, float]) -> T:
        return self.rng.choices(list(table), list(table.values()))[0]

    def name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    # ------------------------------------------------------------------ bookkeeping

    @contextmanager
    def recording(self) -> Iterator[Noted]:
        record = Noted()
        self._records.append(record)
        yield record
        self._records.pop()

    @contextmanager
    def avoiding(self, roots: set[str] | frozenset[str]) -> Iterator[None]:
        outer = self.avoid
        self.avoid = outer | roots
        yield
        self.avoid = outer

    @contextmanager
    def block(self, fixed: Sequence[str] | set[str] | frozenset[str] = ()) -> Iterator[Scope]:
        outer = self.scope
        self.scope = outer.inner(fixed)
        yield self.scope
        self.scope = outer

    def reads(self, var: Var) -> None:
        for record in self._records:
            record.reads |= {var.base, *var.uses}

    def writes(self, var: Var) -> None:
        for record in self._records:
            record.writes.add(var.base)
            record.reads |= var.uses

    # ------------------------------------------------------------------ variables

    def readable(self, kind: str) -> list[Var]:
        """Variables that a number of the kind can be read from."""
        return [
            v for v in self.scope.vars.values()
            if kind in kinds(v.type) and v.base not in self.avoid and not v.uses & self.avoid
        ]  # fmt: skip

    def changeable(self, accept: set[str] | None = None) -> list[Var]:
        """Variables that may be changed here, those with a scalar of these kinds."""
        return [
            v for v in self.scope.vars.values() if self.may_change(v) and (accept is None or kinds(v.type) & accept)
        ]

    def may_change(self, v: Var) -> bool:
        scope = self.scope
        return (
            v.writable
            and v.base not in scope.fixed
            and v.base not in scope.held
            and v.base not in self.avoid
            and not v.uses & self.avoid
        )

    def declare(self, var: Var) -> Var:
        assert var.name not in self.scope.vars
        self.scope.vars[var.name] = var
        return var

    def hide(self, var: Var, **changes: object) -> None:
        """Let the scope see a variable otherwise."""
        self.scope.vars[var.name] = replace(var, **changes)  # type: ignore[arg-type]
