"""Parser of the statements that both dialects of Janus have, with recovery from errors.

After an error in a statement the parser goes on at the next keyword that begins or ends a statement. An error in a condition ends only
the condition, so the blocks of the statement keep their ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.cursor import Cursor
from retrograd.compiler.frontends.janus.expression_parser import TYPES, ExpressionParser
from retrograd.isa.diagnostics import CompileError


class StatementParser:
    """Parses blocks, `if`, `from`, updates and exchanges.

    `starts`: the keywords that begin a statement; `statement`: parses another statement, whose keyword is passed already; `changes`:
    spelling of an update or exchange -> its operator.
    """

    def __init__(
        self,
        cursor: Cursor,
        expressions: ExpressionParser,
        starts: frozenset[str],
        statement: Callable[[str, int], syntax.Statement],
        changes: Mapping[str, str],
    ) -> None:
        self._cursor, self._expressions = cursor, expressions
        self._statement, self._starts, self._changes = statement, starts, changes
        #: the ends of the blocks that are open, and how many of these each keyword ends
        self._open: list[tuple[str, ...]] = []
        self._ends: Counter[str] = Counter(("procedure",))

    # ------------------------------------------------------------------ recovery

    def recover(self, *stops: str) -> None:
        """Pass tokens up to a keyword of a statement. `stops`: further keywords."""
        cursor = self._cursor
        while not self.at_end() and not cursor.sees(*self._starts, *stops):
            cursor.advance()

    @contextmanager
    def recovered(self, *stops: str) -> Iterator[None]:
        """Record an error, and pass the rest of the statement. `stops`: further keywords to go on at."""
        begin = self._cursor.at
        try:
            yield
        except CompileError as error:
            self._cursor.record(error)
            if self._cursor.at == begin:
                self._cursor.advance()
            self.recover(*stops)

    def condition(self, *stops: str) -> syntax.Expression:
        """A condition; after an error, a number in its place."""
        begin = self._cursor.next.begin
        try:
            return self._expressions.expression()
        except CompileError as error:
            self._cursor.record(error)
            self.recover(*stops)
            return syntax.Number(0, span=self._cursor.since(begin))

    # ------------------------------------------------------------------ blocks

    def body(self, *ends: str) -> syntax.Body:
        """Statements up to a keyword, which is not passed."""
        out: list[syntax.Statement] = []
        self._open.append(ends)
        self._ends.update(ends)
        try:
            while not self.at_end():
                with self.recovered():
                    out.append(self._cursor.deeper(self.statement))
        finally:
            self._ends.subtract(self._open.pop())
        return tuple(out)

    def rest(self) -> syntax.Body:
        """The other statements of the innermost block that is open."""
        return self.body(*self._open[-1])

    def at_end(self) -> bool:
        """Whether the innermost block, or one around it, ends here."""
        token = self._cursor.next
        return token.kind == "end" or (token.kind in ("sign", "name") and self._ends[token.text] > 0)

    def statement(self) -> syntax.Statement:
        """A statement. Raises CompileError RG0725."""
        cursor = self._cursor
        begin = cursor.next.begin
        word = cursor.next.text
        if cursor.next.kind == "name" and word in cursor.keywords:
            cursor.advance()
            if word == "if":
                return self._if(begin)
            if word == "from":
                return self._from(begin)
            return self._statement(word, begin)
        return self._change(begin)

    def stray(self, word: str) -> NoReturn:
        """Raise CompileError for a keyword that begins no statement."""
        self._cursor.at -= 1
        hint = None
        if word in TYPES:
            hint = f"Only `main` declares variables. A procedure has parameters, and locals: `local {word} x = 0`, `delocal {word} x = 0`."
        self._cursor.fail(f"`{word}` stands where a statement is expected", hint)

    def end(self, word: str, first: str, line: int) -> None:
        """Pass the keyword that ends a block, which began on a line with another keyword."""
        self._cursor.need(word, hint=f"The `{first}` of line {line} ends with `{word}`.")

    def _if(self, begin: int) -> syntax.If:
        cursor = self._cursor
        line = cursor.since(begin).line
        condition = self.condition("then")
        cursor.take("then")
        then = self.body("else", "fi")
        orelse = self.body("fi") if cursor.take("else") else ()
        self.end("fi", "if", line)
        return syntax.If(condition, then, orelse, self.condition(), span=cursor.since(begin))

    def _from(self, begin: int) -> syntax.Loop:
        cursor = self._cursor
        line = cursor.since(begin).line
        entry = self.condition("do", "loop")
        do = self.body("loop", "until") if cursor.take("do") else ()
        loop = self.body("until") if cursor.take("loop") else ()
        self.end("until", "from", line)
        return syntax.Loop(entry, do, loop, self.condition(), span=cursor.since(begin))

    def _change(self, begin: int) -> syntax.Statement:
        """An update or an exchange."""
        cursor, expressions = self._cursor, self._expressions
        target = expressions.reference()
        hint = None
        if cursor.sees("("):
            hint = f"`call {target.name}` calls a procedure, and `uncall {target.name}` runs it backward."
        elif cursor.next.kind == "sign":
            hint = "A statement has an inverse: `x += e`, `x -= e`, `x ^= e`, `x <=> y`. There is no assignment."
        operator = self._changes[cursor.need(*self._changes, hint=hint)]
        if operator == "<=>":
            return syntax.Swap(target, expressions.reference(), span=cursor.since(begin))
        return syntax.Update(target, operator, expressions.expression(), span=cursor.since(begin))
