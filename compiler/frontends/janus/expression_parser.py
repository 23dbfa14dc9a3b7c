"""Parser of the expressions of Janus, for both dialects, by precedence climbing. Binary operators associate to the left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.cursor import Cursor

#: the precedences of the Jana interpreter, loose to tight
LEVELS = (
    ("&&", "||"),
    ("&", "|", "^"),
    ("<=", "<", ">=", ">", "=", "!="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
TYPES = ("int", "bool", "stack", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
#: digits of the longest number
_DIGITS = 70


class ExpressionParser:
    """Parses expressions at a cursor.

    `levels`: binary operators, loose to tight; `spelled`: other spellings of operators; `minus`: whether `-x` is an expression.
    """

    def __init__(
        self,
        cursor: Cursor,
        levels: Sequence[Sequence[str]],
        spelled: Mapping[str, str] = MappingProxyType({}),
        minus: bool = False,
    ) -> None:
        self._cursor, self._spelled, self._minus = cursor, spelled, minus
        self._level = {operator: level for level, operators in enumerate(levels) for operator in operators}

    def expression(self, least: int = 0) -> syntax.Expression:
        """An expression whose operators have this level at least. Raises CompileError RG0725, as the other methods do."""
        cursor = self._cursor
        begin = cursor.next.begin
        left = cursor.deeper(self._operand)
        while cursor.next.kind == "sign" and (level := self._level.get(cursor.next.text, -1)) >= least:
            operator = cursor.advance()
            right = self.expression(level + 1)
            left = syntax.Binary(self._spelled.get(operator, operator), left, right, span=cursor.since(begin))
        return left

    def reference(self) -> syntax.Reference:
        """A variable or an element."""
        cursor = self._cursor
        begin = cursor.next.begin
        name = cursor.name("a variable")
        indices: list[syntax.Expression] = []
        while cursor.take("["):
            indices.append(self.expression())
            cursor.need("]")
        return syntax.Reference(name, tuple(indices), span=cursor.since(begin))

    def number(self) -> syntax.Number:
        """A number, with or without a sign."""
        cursor = self._cursor
        begin = cursor.next.begin
        sign = -1 if cursor.take("-") else 1
        text = cursor.next.text
        base = {"x": 16, "o": 8, "b": 2}.get(text[1:2].lower(), 10)
        digits = text if base == 10 else text[2:]
        if len(digits) > _DIGITS:
            cursor.fail("the number has more digits than any word")
        cursor.advance()
        return syntax.Number(sign * int(digits, base), span=cursor.since(begin))

    def _operand(self) -> syntax.Expression:
        cursor = self._cursor
        token = cursor.next
        begin = token.begin
        if token.kind == "number" or (token.text == "-" and cursor.tokens[cursor.at + 1].kind == "number"):
            return self.number()
        if (operator := cursor.take("!", "~")) is not None:
            return syntax.Unary(operator, cursor.deeper(self._operand), span=cursor.since(begin))
        if self._minus and cursor.take("-"):
            zero = syntax.Number(0, span=cursor.since(begin))
            return syntax.Binary("-", zero, cursor.deeper(self._operand), span=cursor.since(begin))
        if cursor.take("("):
            kind = cursor.take(*TYPES) if cursor.next.text in cursor.keywords else None
            if kind is not None:
                cursor.need(")")
                return syntax.Cast(kind, cursor.deeper(self._operand), span=cursor.since(begin))
            inner = self.expression()
            cursor.need(")")
            return inner
        if token.kind == "name" and token.text in cursor.keywords:
            return self._named(begin)
        if token.kind == "name":
            return self.reference()
        hint = "Write `0 - x`: only numbers have a sign." if cursor.sees("-") else self._spelling()
        cursor.fail(f"{cursor.found()} stands where an expression is expected", hint)

    def _spelling(self) -> str | None:
        """The way out where the last operator and the next token are one operator of another language."""
        before, token = self._cursor.tokens[self._cursor.at - 1], self._cursor.next
        found = before.text + token.text if before.begin + len(before.text) == token.begin else ""
        operator = {"==": "=", "!==": "!=", "<>": "!=", "=<": "<=", "=>": ">="}.get(found)
        return None if operator is None else f"Write `{operator}` in place of `{found}`."

    def _named(self, begin: int) -> syntax.Expression:
        """An expression that begins with a keyword."""
        cursor = self._cursor
        if (word := cursor.take("size", "top", "empty")) is not None:
            cursor.need("(")
            name = cursor.name("a variable")
            cursor.need(")")
            node = {"size": syntax.Size, "top": syntax.Top, "empty": syntax.Empty}[word]
            return node(name, span=cursor.since(begin))
        if (word := cursor.take("true", "false")) is not None:
            return syntax.Truth(word == "true", span=cursor.since(begin))
        cursor.fail(f"{cursor.found()} stands where an expression is expected")
