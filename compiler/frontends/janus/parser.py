"""Parser of Janus: recursive descent, with the precedences of the Jana interpreter.

    prefix ! ~ (type)   **   * / %   + -   << >>   comparisons   & | ^   && ||         tight to loose; all associate to the left

A number may have a sign where an operand is expected; there is no other unary minus. Statements need no separators.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from retrograd.compiler.frontends.janus import syntax
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)|(?P<number>0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_']*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<sign><=>|\*\*|\+=|-=|\^=|!=|<=|>=|<<|>>|&&|\|\||[-+*/%<>=&|^!~(){}\[\],])",
    re.DOTALL,
)
_LEVELS = (
    ("&&", "||"),
    ("&", "|", "^"),
    ("<=", "<", ">=", ">", "=", "!="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
TYPES = ("int", "bool", "stack", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_KEYWORDS = frozenset(TYPES) | {
    "procedure", "if", "then", "else", "fi", "from", "do", "loop", "until", "iterate", "by", "to", "end", "local", "delocal",
    "call", "uncall", "skip", "push", "pop", "print", "printf", "show", "assert", "error", "constant", "ancilla", "size", "top",
    "empty", "nil", "true", "false", "external",
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
#: blocks and expressions within each other
_DEEPEST = 100

T = TypeVar("T")


class _Token(NamedTuple):
    kind: str
    text: str
    begin: int


def parse(text: str, name: str) -> syntax.Program:
    """The program of a text. Raises CompileError RG0725."""
    return _Parser(text, name).program()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.source = syntax.Source(name, text.splitlines())
        self._text = text
        self._starts = [0]
        for m in re.finditer("\n", text):
            self._starts.append(m.end())
        self._tokens: list[_Token] = []
        self._at = self._depth = 0
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                self._tokens.append(_Token("", text[at], at))
                break
            if found.lastgroup != "space":
                self._tokens.append(_Token(str(found.lastgroup), found[0], at))
            at = found.end()
        self._tokens.append(_Token("end", "", len(text)))

    # ------------------------------------------------------------------ tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _span(self, begin: int, end: int) -> Span:
        line = bisect_right(self._starts, begin)
        start = self._starts[line - 1]
        last = self._text.find("\n", begin)
        end = min(end, len(self._text) if last < 0 else last)
        return Span(self.source.name, line, begin - start + 1, max(end - start + 1, begin - start + 2))

    def _since(self, begin: int) -> Span:
        """The place of the text from a position to the last token."""
        last = self._tokens[max(self._at - 1, 0)]
        return self._span(begin, last.begin + len(last.text))

    def _fail(self, message: str, hint: str | None = None) -> NoReturn:
        token = self._next
        span = self._span(token.begin, token.begin + len(token.text))
        line = self.source.lines[span.line - 1] if span.line <= len(self.source.lines) else ""
        raise CompileError(Diagnostic("RG0725", message, span, hint, line))

    def _found(self) -> str:
        return "the end of the file" if self._next.kind == "end" else f"`{self._next.text}`"

    def _take(self, *texts: str) -> str | None:
        """The next token, if it is one of these."""
        if self._next.kind in ("sign", "name") and self._next.text in texts:
            self._at += 1
            return self._tokens[self._at - 1].text
        return None

    def _need(self, *texts: str) -> str:
        found = self._take(*texts)
        if found is None:
            self._fail(f"{self._found()} stands where {' or '.join(f'`{t}`' for t in texts)} is expected")
        return found

    def _name(self, what: str) -> str:
        token = self._next
        if token.kind != "name" or token.text in _KEYWORDS:
            self._fail(f"{self._found()} stands where {what} is expected")
        self._at += 1
        return token.text

    def _string(self) -> str:
        token = self._next
        if token.kind != "string":
            self._fail(f"{self._found()} stands where a text in quotes is expected")
        self._at += 1
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), token.text[1:-1])

    def _listed(self, item: Callable[[], T], end: str) -> tuple[T, ...]:
        """Items with commas between them, up to a bracket."""
        out: list[T] = []
        if self._take(end):
            return ()
        while True:
            out.append(item())
            if self._need(",", end) == end:
                return tuple(out)

    def _deeper(self, parse: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail("the program is nested too deep")
        try:
            return parse()
        finally:
            self._depth -= 1

    # ------------------------------------------------------------------ procedures

    def program(self) -> syntax.Program:
        procedures: dict[str, syntax.Procedure] = {}
        while self._next.kind != "end":
            procedure = self._procedure()
            if procedure.name in procedures:
                line = self.source.lines[procedure.span.line - 1]
                message = f"`{procedure.name}` is defined already"
                raise CompileError(Diagnostic("RG0725", message, procedure.span, None, line))
            procedures[procedure.name] = procedure
        return syntax.Program(self.source, tuple(procedures.values()))

    def _procedure(self) -> syntax.Procedure:
        begin = self._next.begin
        self._need("procedure")
        name = self._name("the name of a procedure")
        span = self._since(begin)
        self._need("(")
        if name == "main" and self._next.text != ")":
            self._fail("`main` has no parameters", "Declare its variables below, `int x = 5`.")
        parameters = self._listed(self._parameter, ")")
        twice = next((p for k, p in enumerate(parameters) if any(p.name == q.name for q in parameters[:k])), None)
        if twice is not None:
            line = self.source.lines[twice.span.line - 1]
            raise CompileError(
                Diagnostic("RG0725", f"`{name}` has two parameters `{twice.name}`", twice.span, None, line)
            )
        declarations: list[syntax.Declaration] = []
        while name == "main" and self._next.text in ("constant", "ancilla", *TYPES):
            declarations += self._declarations()
        body = self._body("procedure")
        return syntax.Procedure(name, parameters, tuple(declarations), body, span)

    def _parameter(self) -> syntax.Parameter:
        begin = self._next.begin
        kind = self._need(*TYPES)
        name = self._name("the name of a parameter")
        lengths: list[syntax.Expression | None] = []
        while self._take("["):
            if self._take("]"):
                lengths.append(None)
            else:
                lengths.append(self._expression())
                self._need("]")
        return syntax.Parameter(type=kind, name=name, lengths=tuple(lengths), span=self._since(begin))

    def _declarations(self) -> list[syntax.Declaration]:
        """`int a = 1, int b[3]`."""
        out = [self._declaration()]
        while self._take(","):
            out.append(self._declaration())
        return out

    def _declaration(self) -> syntax.Declaration:
        begin = self._next.begin
        role = self._take("constant", "ancilla") or ""
        kind = self._need(*TYPES)
        name = self._name("the name of a variable")
        lengths: list[syntax.Expression] = []
        initial: syntax.Expression | None = None
        while self._take("["):
            lengths.append(self._expression())
            self._need("]")
        if self._take("="):
            initial = None if self._take("nil") else self._initial()
        span = self._since(begin)
        return syntax.Declaration(type=kind, name=name, lengths=tuple(lengths), initial=initial, role=role, span=span)

    def _initial(self) -> syntax.Expression:
        begin = self._next.begin
        if self._take("{"):
            items = self._listed(self._initial, "}")
            return syntax.Items(items, span=self._since(begin))
        return self._expression()

    # ------------------------------------------------------------------ statements

    def _body(self, *ends: str) -> syntax.Body:
        """Statements up to a keyword, which is not taken."""
        out: list[syntax.Statement] = []
        while self._next.kind != "end" and self._next.text not in ends:
            begin = self._next.begin
            if self._next.text in ("constant", "ancilla"):
                declarations = tuple(self._declarations())
                span = self._since(begin)
                out.append(syntax.Local(declarations, self._body(*ends), declarations, span=span))
                break
            out.append(self._deeper(self._statement))
        return tuple(out)

    def _statement(self) -> syntax.Statement:
        begin = self._next.begin
        word = self._next.text
        if self._next.kind == "name" and word in _KEYWORDS:
            self._at += 1
            match word:
                case "if":
                    condition = self._expression()
                    self._take("then")
                    then = self._body("else", "fi")
                    orelse = self._body("fi") if self._take("else") else ()
                    self._need("fi")
                    return syntax.If(condition, then, orelse, self._expression(), span=self._since(begin))
                case "from":
                    entry = self._expression()
                    do = self._body("loop", "until") if self._take("do") else ()
                    loop = self._body("until") if self._take("loop") else ()
                    self._need("until")
                    return syntax.Loop(entry, do, loop, self._expression(), span=self._since(begin))
                case "iterate":
                    kind, name = self._need(*TYPES), self._name("the name of the index")
                    self._need("=")
                    start = self._expression()
                    step = self._expression() if self._take("by") else None
                    self._need("to")
                    stop = self._expression()
                    span = self._since(begin)
                    body = self._body("end")
                    self._need("end")
                    return syntax.Iterate(kind, name, start, step, stop, body, span=span)
                case "local":
                    declarations = tuple(self._declarations())
                    span = self._since(begin)
                    body = self._body("delocal")
                    self._need("delocal")
                    return syntax.Local(declarations, body, tuple(self._declarations()), span=span)
                case "push" | "pop":
                    self._need("(")
                    value = self._reference()
                    self._need(",")
                    stack = self._name("a stack")
                    self._need(")")
                    return (syntax.Push if word == "push" else syntax.Pop)(value, stack, span=self._since(begin))
                case "call" | "uncall":
                    name = self._name("the name of a procedure")
                    self._need("(")
                    arguments = self._listed(self._expression, ")")
                    return syntax.Call(name, arguments, word == "uncall", span=self._since(begin))
                case "assert":
                    return syntax.Assert(self._expression(), span=self._since(begin))
                case "skip":
                    return syntax.Skip(span=self._since(begin))
                case "error" | "print" | "printf" | "show":
                    return self._printing(word, begin)
            self._at -= 1
            self._fail(f"`{word}` stands where a statement is expected")
        target = self._reference()
        sign = self._need("+=", "-=", "^=", "<=>")
        if sign == "<=>":
            return syntax.Swap(target, self._reference(), span=self._since(begin))
        return syntax.Update(target, sign, self._expression(), span=self._since(begin))

    def _printing(self, word: str, begin: int) -> syntax.Statement:
        self._need("(")
        if word == "show":
            return syntax.Show(self._listed(self._reference, ")"), span=self._since(begin))
        text = self._string()
        if word == "printf":
            arguments = () if self._need(",", ")") == ")" else self._listed(self._reference, ")")
            return syntax.Printf(text, arguments, span=self._since(begin))
        self._need(")")
        return (syntax.Error if word == "error" else syntax.Print)(text, span=self._since(begin))

    # ------------------------------------------------------------------ expressions

    def _reference(self) -> syntax.Reference:
        begin = self._next.begin
        name = self._name("a variable")
        indices: list[syntax.Expression] = []
        while self._take("["):
            indices.append(self._expression())
            self._need("]")
        return syntax.Reference(name, tuple(indices), span=self._since(begin))

    def _expression(self, level: int = 0) -> syntax.Expression:
        if level == len(_LEVELS):
            return self._deeper(self._operand)
        begin = self._next.begin
        left = self._expression(level + 1)
        while (operator := self._take(*_LEVELS[level])) is not None:
            right = self._expression(level + 1)
            left = syntax.Binary(operator, left, right, span=self._since(begin))
        return left

    def _operand(self) -> syntax.Expression:
        token = self._next
        begin = token.begin
        if token.kind == "number" or (token.text == "-" and self._tokens[self._at + 1].kind == "number"):
            sign = -1 if self._take("-") else 1
            text = self._next.text
            self._at += 1
            base = {"x": 16, "o": 8, "b": 2}.get(text[1:2].lower(), 10)
            digits = text if base == 10 else text[2:]
            if len(digits) > 70:
                self._at -= 1
                self._fail("the number has more digits than any word")
            return syntax.Number(sign * int(digits, base), span=self._since(begin))
        if (operator := self._take("!", "~")) is not None:
            return syntax.Unary(operator, self._deeper(self._operand), span=self._since(begin))
        if self._take("("):
            kind = self._take(*TYPES)
            if kind is not None:
                self._need(")")
                return syntax.Cast(kind, self._deeper(self._operand), span=self._since(begin))
            inner = self._expression()
            self._need(")")
            return inner
        if (word := self._take("size", "top", "empty")) is not None:
            self._need("(")
            name = self._name("a variable")
            self._need(")")
            node = {"size": syntax.Size, "top": syntax.Top, "empty": syntax.Empty}[word]
            return node(name, span=self._since(begin))
        if (word := self._take("true", "false")) is not None:
            return syntax.Truth(word == "true", span=self._since(begin))
        if token.kind == "name" and token.text not in _KEYWORDS:
            return self._reference()
        self._fail(f"{self._found()} stands where an expression is expected")
