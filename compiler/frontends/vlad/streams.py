"""Numbers that a VLAD program reads, and values that it writes.

    (read-real)                  the next number of the input: an argument of the program
    (write-real e)  (write e)    e; as a part of the value of an expression of the file, it is printed with it

A program is a value, and its runs go forward and backward. So it must be known from the text which numbers an
expression reads, and that what is written is printed. `Reads` refuses a `(read-real)` that a run may do twice or
not at all, and `Writes` a value that would be written and not be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# Reads: each run reads as many numbers, at places that the text shows.

_ONCE = "Read it before, and give it as an argument: (f (read-real))."


class Reads:
    """The numbers that each expression reads.

    `names`: the functions without parameters that read; each call reads anew.
    The branches of an `if` read equally many, so the k-th number of a run is the k-th whichever is taken.
    """

    def __init__(self, definitions: Mapping[str, Defined]) -> None:
        self._definitions = definitions
        self.names = _users(definitions, {READ}, lambda d: isinstance(d.params, Items) and not d.params.items)
        #: of these functions; None while one is counted
        self._counts: dict[str, int | None] = {}

    def count(self, datum: Datum, where: str | None = None) -> int:
        """How many numbers are read. Raises CompileError RG0729 where that is not known from the text.

        `where`: the form that may read them twice or not at all.
        """
        match datum:
            case Symbol(name, at) if name == READ or name in self.names:
                fail("RG0729", f"`{name}` reads a number, and is no value", at, f"Write ({name}) where it is read.")
            case Literal() | Symbol() | Items((Symbol("quote"), *_)) | Items(()):
                return 0
            case Items((Symbol(name),), at) if name == READ or name in self.names:
                if where is not None:
                    fail("RG0729", f"`{READ}` in {where}, which may read several numbers or none", at, _ONCE)
                return 1 if name == READ else self._of(name, at)
            case Items((Symbol("lambda"), _, *body)):
                return self._sum(body, "a function")
            case Items((Symbol("let"), Symbol(), Items(bindings), *body)):
                return self._sum(_values(bindings), where) + self._sum(body, "a loop")
            case Items((Symbol("let" | "let*" | "letrec"), Items(bindings), *body)):
                return self._sum(_values(bindings), where) + self._sum(body, where)
            case Items((Symbol("if"), test, then, orelse), at):
                found = self.count(test, where)
                return found + self._alike(self.count(then, where), self.count(orelse, where), at)
            case Items((Symbol("and" | "or"), first, *others)):
                return self.count(first, where) + self._sum(others, where or "a branch")
            case Items((Symbol("cond"), *clauses)):
                return self._clauses(clauses, where)
            case Items(items, _, tail):
                return self._sum((*items, *(() if tail is None else (tail,))), where)

    def _sum(self, data: Iterable[Datum], where: str | None) -> int:
        found = 0
        for d in data:
            found += self.count(d, where)
        return found

    def _clauses(self, clauses: Sequence[Datum], where: str | None) -> int:
        later: int | None = None
        for clause in reversed(clauses):
            test, *values = clause.items if isinstance(clause, Items) and clause.items else (clause,)
            found = self._sum(values, where)
            later = self.count(test, where) + (found if later is None else self._alike(found, later, clause.at))
        return later or 0

    def _alike(self, then: int, orelse: int, at: Place) -> int:
        if then != orelse:
            message = f"`{READ}` in a branch: it reads {then} number{'s' * (then != 1)}, and the other {orelse}"
            fail("RG0729", message, at, "Read before the branch: (let ((x (read-real))) (if c x 0)).")
        return then

    def _of(self, name: str, at: Place) -> int:
        if name not in self._counts:
            self._counts[name] = None
            self._counts[name] = self.count(self._definitions[name].body)
        found = self._counts[name]
        if found is None:
            fail("RG0729", f"`{name}` reads and calls itself, so it reads without end", at, _ONCE)
        return found


def _values(bindings: Iterable[Datum]) -> Iterator[Datum]:
    for b in bindings:
        if isinstance(b, Items):
            yield from b.items[1:]


# -----------------------------------------------------------------------------
# Writes: of values that are a part of the value of an expression, which is printed.


class Writes:
    """The values that expressions write."""

    def __init__(self, definitions: Mapping[str, Defined]) -> None:
        self._definitions, self._users = definitions, _users(definitions, set(WRITERS))
        self._seen: set[str] = set()

    def check(self, datum: Datum) -> None:
        """Raise CompileError RG0729 where an expression writes a value that its own does not have as a part."""
        self._walk(datum, True)

    def _walk(self, datum: Datum, shown: bool) -> None:
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
                self._walk(test, False)
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
                    self._walk(self._definitions[name].body, True)
            case Items(items, _, tail):
                self._all((*items, *(() if tail is None else (tail,))), False)

    def _all(self, data: Iterable[Datum], shown: bool) -> None:
        for d in data:
            self._walk(d, shown)

    def _refuse(self, name: str, at: Place) -> NoReturn:
        message = f"`{name}` writes a value that is no part of the value of the expression, so nothing shows it"
        hint = "The value of each expression at the top of a file is printed: give it as (list …) of all that is to be seen."
        fail("RG0729", message, at, hint)
