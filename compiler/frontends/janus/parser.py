"""Parser of the Jana interpreter's dialect of Janus: recursive descent, with the precedences of the interpreter.

    prefix ! ~ (type)   **   * / %   + -   << >>   comparisons   & | ^   && ||         tight to loose; all associate to the left

A number may have a sign where an operand is expected; there is no other unary minus. Statements need no separators.
"""

from __future__ import annotations

import re

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.cursor import Cursor
from retrograd.compiler.frontends.janus.expression_parser import LEVELS, TYPES, ExpressionParser
from retrograd.compiler.frontends.janus.statement_parser import StatementParser
from retrograd.isa.diagnostics import CompileError

TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)|(?P<number>0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_']*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<open>/\*|\")"
    r"|(?P<sign><=>|\*\*|\+=|-=|\^=|!=|<=|>=|<<|>>|&&|\|\||[-+*/%<>=&|^!~(){}\[\],])",
    re.DOTALL,
)
_STARTS = frozenset({
    "if", "from", "iterate", "local", "call", "uncall", "skip", "push", "pop", "print", "printf", "show", "assert", "error",
    "constant", "ancilla",
})  # fmt: skip
KEYWORDS = _STARTS | set(TYPES) | {
    "procedure", "then", "else", "fi", "do", "loop", "until", "by", "to", "end", "delocal", "size", "top", "empty", "nil",
    "true", "false", "external",
}  # fmt: skip
_CHANGES = {name: name for name in ("+=", "-=", "^=", "<=>")}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def parse(text: str, name: str) -> syntax.Program:
    """The program of a text. Raises CompileError RG0725, with all errors that were found."""
    return _Parser(text, name).program()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._cursor = Cursor(text, name, TOKEN, KEYWORDS)
        self._expressions = ExpressionParser(self._cursor, LEVELS)
        self._statements = StatementParser(self._cursor, self._expressions, _STARTS, self._statement, _CHANGES)

    def program(self) -> syntax.Program:
        cursor = self._cursor
        procedures: dict[str, syntax.Procedure] = {}
        while cursor.next.kind != "end":
            try:
                procedure = self._procedure()
                if procedure.name in procedures:
                    raise cursor.error(f"`{procedure.name}` is defined already", procedure.span)
                procedures[procedure.name] = procedure
            except CompileError as error:
                cursor.record(error)
                while cursor.next.kind != "end" and not cursor.sees("procedure"):
                    cursor.advance()
        cursor.finish()
        return syntax.Program(cursor.source, tuple(procedures.values()))

    def _procedure(self) -> syntax.Procedure:
        cursor = self._cursor
        begin = cursor.next.begin
        cursor.need("procedure")
        name = cursor.name("the name of a procedure")
        span = cursor.since(begin)
        cursor.need("(")
        if name == "main" and not cursor.sees(")"):
            cursor.fail("`main` has no parameters", "Declare its variables below, `int x = 5`.")
        parameters = cursor.listed(self._parameter, ")")
        for k, p in enumerate(parameters):
            if any(p.name == q.name for q in parameters[:k]):
                cursor.record(cursor.error(f"`{name}` has two parameters `{p.name}`", p.span))
        declarations: list[syntax.Declaration] = []
        while name == "main" and cursor.sees("constant", "ancilla", *TYPES):
            with self._statements.recovered(*TYPES):
                declarations += self._declarations()
        return syntax.Procedure(name, parameters, tuple(declarations), self._statements.body("procedure"), span)

    def _parameter(self) -> syntax.Parameter:
        cursor = self._cursor
        begin = cursor.next.begin
        kind = self._type()
        name = cursor.name("the name of a parameter")
        lengths: list[syntax.Expression | None] = []
        while cursor.take("["):
            if cursor.take("]"):
                lengths.append(None)
            else:
                lengths.append(self._expressions.expression())
                cursor.need("]")
        return syntax.Parameter(type=kind, name=name, lengths=tuple(lengths), span=cursor.since(begin))

    # ------------------------------------------------------------------ declarations

    def _type(self) -> str:
        if not self._cursor.sees(*TYPES):
            self._cursor.fail(
                f"{self._cursor.found()} stands where a type is expected", f"The types: {', '.join(TYPES)}."
            )
        return self._cursor.advance()

    def _declarations(self) -> tuple[syntax.Declaration, ...]:
        """`int a = 1, int b[3]`."""
        out = [self._declaration()]
        while self._cursor.take(","):
            out.append(self._declaration())
        return tuple(out)

    def _declaration(self) -> syntax.Declaration:
        cursor = self._cursor
        begin = cursor.next.begin
        role = cursor.take("constant", "ancilla") or ""
        kind = self._type()
        at = cursor.next.begin
        name = cursor.name("the name of a variable")
        place = cursor.since(at)
        lengths: list[syntax.Expression] = []
        initial: syntax.Expression | None = None
        while cursor.take("["):
            if cursor.sees("]"):
                cursor.fail(f"`{name}` has no length", "Only a parameter leaves its lengths open.")
            lengths.append(self._expressions.expression())
            cursor.need("]")
        if cursor.take("="):
            initial = None if cursor.take("nil") else self._initial()
        span = cursor.since(begin)
        return syntax.Declaration(
            type=kind, name=name, lengths=tuple(lengths), initial=initial, role=role, span=span, place=place
        )

    def _initial(self) -> syntax.Expression:
        cursor = self._cursor
        begin = cursor.next.begin
        if cursor.take("{"):
            items = cursor.listed(lambda: cursor.deeper(self._initial), "}")
            return syntax.Items(items, span=cursor.since(begin))
        return self._expressions.expression()

    # ------------------------------------------------------------------ statements

    def _statement(self, word: str, begin: int) -> syntax.Statement:
        cursor, expression = self._cursor, self._expressions.expression
        match word:
            case "iterate":
                return self._iterate(begin)
            case "local":
                return self._local(begin)
            case "constant" | "ancilla":
                cursor.at -= 1
                declarations = self._declarations()
                span = cursor.since(begin)
                return syntax.Local(declarations, self._statements.rest(), declarations, span=span)
            case "push" | "pop":
                cursor.need("(")
                value = self._expressions.reference()
                cursor.need(",")
                stack = cursor.name("a stack")
                cursor.need(")")
                return (syntax.Push if word == "push" else syntax.Pop)(value, stack, span=cursor.since(begin))
            case "call" | "uncall":
                if cursor.sees("external"):
                    cursor.fail("`external` calls another language", "A program of Janus runs on its own here.")
                name = cursor.name("the name of a procedure")
                cursor.need("(")
                arguments = cursor.listed(expression, ")")
                return syntax.Call(name, arguments, word == "uncall", span=cursor.since(begin))
            case "assert":
                return syntax.Assert(expression(), span=cursor.since(begin))
            case "skip":
                return syntax.Skip(span=cursor.since(begin))
            case "error" | "print" | "printf" | "show":
                return self._printing(word, begin)
        self._statements.stray(word)

    def _iterate(self, begin: int) -> syntax.Statement:
        cursor, expression = self._cursor, self._expressions.expression
        line = cursor.since(begin).line
        header: tuple[str, str, syntax.Expression, syntax.Expression | None, syntax.Expression] | None = None
        with self._statements.recovered():
            kind, name = self._type(), cursor.name("the name of the index")
            cursor.need("=")
            start = expression()
            step = expression() if cursor.take("by") else None
            if isinstance(step, syntax.Number) and step.value == 1:
                step = None
            cursor.need("to")
            header = kind, name, start, step, expression()
        span = cursor.since(begin)
        body = self._statements.body("end")
        self._statements.end("end", "iterate", line)
        return syntax.Skip(span=span) if header is None else syntax.Iterate(*header, body, span=span)

    def _local(self, begin: int) -> syntax.Statement:
        cursor = self._cursor
        line = cursor.since(begin).line
        declarations: tuple[syntax.Declaration, ...] = ()
        with self._statements.recovered():
            declarations = self._declarations()
        span = cursor.since(begin)
        body = self._statements.body("delocal")
        self._statements.end("delocal", "local", line)
        return syntax.Local(declarations, body, self._declarations(), span=span)

    def _printing(self, word: str, begin: int) -> syntax.Statement:
        cursor, reference = self._cursor, self._expressions.reference
        cursor.need("(")
        if word == "show":
            return syntax.Show(cursor.listed(reference, ")"), span=cursor.since(begin))
        if cursor.next.kind != "string":
            cursor.fail(f"{cursor.found()} stands where a text in quotes is expected")
        text = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), cursor.advance()[1:-1])
        if word == "printf":
            arguments = () if cursor.need(",", ")") == ")" else cursor.listed(reference, ")")
            return syntax.Printf(text, arguments, span=cursor.since(begin))
        cursor.need(")")
        return (syntax.Error if word == "error" else syntax.Print)(text, span=cursor.since(begin))
