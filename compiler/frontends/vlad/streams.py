"""Numbers that a VLAD program reads, and values that it writes.

    (read-real)                  the next number of the input: an argument of the program
    (write-real e)  (write e)    e; as a part of the value of an expression of the file, it is printed with it

A program is a value, and its runs go forward and backward. So it must be known from the text which numbers an
expression reads, and that what is written is printed. `check_reads` refuses a `(read-real)` that a run may do twice or
not at all, and `check_writes` a value that would be written and not be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn, Protocol

from retrograd.compiler.frontends.functional.core import Place, fail
from retrograd.compiler.frontends.vlad.data import Datum, Items, Literal, Symbol

READ = "read-real"
WRITERS = ("write-real", "write")


class Defined(Protocol):
    """A definition of a file."""

    params: Datum | None
    body: Datum
    symbols: frozenset[str]


def reading(definitions: Mapping[str, Defined]) -> frozenset[str]:
    """The functions without parameters that read: each call reads anew, where it stands."""
    return _users(definitions, {READ}, lambda d: isinstance(d.params, Items) and not d.params.items)


def _users(definitions: Mapping[str, Defined], of: set[str], wanted: object = None) -> frozenset[str]:
    """The definitions that use a name directly or by others."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, d in definitions.items()
            if name not in found and d.symbols & (of | found) and (not callable(wanted) or wanted(d))
        }
        if not more:
            return frozenset(found)
        found |= more


# -----------------------------------------------------------------------------
# Reads: once in each run, at a place that the text shows.

_ONCE = "Read it before, and give it as an argument: (f (read-real))."


def check_reads(datum: Datum, readers: frozenset[str], where: str | None = None) -> None:
    """Raise CompileError RG0729 where a read is not done exactly once.

    `where`: the form that may do it twice or not at all.
    """

    def inside(data: Iterable[Datum], where: str | None) -> None:
        for d in data:
            check_reads(d, readers, where)

    def refuse(at: Place) -> NoReturn:
        fail("RG0729", f"`{READ}` in {where}, which may read several numbers or none", at, _ONCE)

    match datum:
        case Literal() | Items((Symbol("quote"), *_)) | Items(()):
            pass
        case Symbol(name, at):
            if name == READ or name in readers:
                fail("RG0729", f"`{name}` reads a number, and is no value", at, f"Write ({name}) where it is read.")
        case Items((Symbol(name),), at) if name == READ or name in readers:
            if where is not None:
                refuse(at)
        case Items((Symbol("lambda"), _, *body)):
            inside(body, "a function")
        case Items((Symbol("let"), Symbol(), Items(bindings), *body)):
            inside(_values(bindings), where)
            inside(body, "a loop")
        case Items((Symbol("let" | "let*" | "letrec"), Items(bindings), *body)):
            inside(_values(bindings), where)
            inside(body, where)
        case Items((Symbol("if" | "and" | "or"), first, *others)):
            check_reads(first, readers, where)
            inside(others, where or "a branch")
        case Items((Symbol("cond"), *clauses)):
            for k, clause in enumerate(clauses):
                parts = clause.items if isinstance(clause, Items) else (clause,)
                inside(parts[:1], where if k == 0 else where or "a branch")
                inside(parts[1:], where or "a branch")
        case Items(items, _, tail):
            inside((*items, *(() if tail is None else (tail,))), where)


def _values(bindings: Iterable[Datum]) -> Iterator[Datum]:
    for b in bindings:
        if isinstance(b, Items):
            yield from b.items[1:]


# -----------------------------------------------------------------------------
# Writes: of values that are a part of the value of an expression, which is printed.


class _Writes:
    def __init__(self, definitions: Mapping[str, Defined], users: frozenset[str]) -> None:
        self._definitions, self._users = definitions, users
        self._seen: set[str] = set()

    def walk(self, datum: Datum, shown: bool) -> None:
        """`shown`: whether the value is a part of a value that is printed."""
        match datum:
            # No form begins with `begin`; it is refused by that name.
            case Literal() | Items((Symbol("quote" | "begin"), *_)) | Items(()):
                pass
            case Symbol(name, at):
                if name in WRITERS or name in self._users:
                    self._refuse(name, at)
            case Items((Symbol(name), *args), at) if name in WRITERS:
                if not shown:
                    self._refuse(name, at)
                self._all(args, True)
            case Items((Symbol("let" | "let*" | "letrec"), Items(bindings), *body)):
                self._all(_values(bindings), False)
                self._all(body, shown)
            case Items((Symbol("if"), test, *branches)):
                self.walk(test, False)
                self._all(branches, shown)
            case Items((Symbol("cond"), *clauses)):
                for clause in clauses:
                    parts = clause.items if isinstance(clause, Items) else (clause,)
                    self._all(parts[:1], False)
                    self._all(parts[1:], shown)
            case Items((Symbol("cons" | "cons*" | "list" | "forget"), *items)):
                self._all(items, shown)
            case Items((Symbol(name), *args), at) if name in self._users:
                self._all(args, False)
                if not shown:
                    self._refuse(name, at)
                if name not in self._seen:
                    self._seen.add(name)
                    self.walk(self._definitions[name].body, True)
            case Items(items, _, tail):
                self._all((*items, *(() if tail is None else (tail,))), False)

    def _all(self, data: Iterable[Datum], shown: bool) -> None:
        for d in data:
            self.walk(d, shown)

    def _refuse(self, name: str, at: Place) -> NoReturn:
        message = f"`{name}` writes a value that is no part of the value of the expression, so nothing shows it"
        hint = "The value of each expression at the top of a file is printed: give it as (list …) of all that is to be seen."
        fail("RG0729", message, at, hint)


def check_writes(definitions: Mapping[str, Defined], expressions: Iterable[Datum]) -> None:
    """Raise CompileError RG0729 where a value is written that no printed value has as a part."""
    writes = _Writes(definitions, _users(definitions, set(WRITERS)))
    for datum in expressions:
        writes.walk(datum, True)
