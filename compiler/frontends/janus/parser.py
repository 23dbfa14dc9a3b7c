"""Text of Janus → syntax tree, in the dialects `jana`, of the Jana interpreter, and `1982`, of Lutz and Derby, by recursive descent.

    Grammar                               the words and operators of a dialect
    Cursor                                a position in the tokens, with the errors found so far
    ExpressionParser, StatementParser     the parts that both dialects have
    JanaParser, Parser1982                programs, declarations, and the other statements of one dialect

A parser that meets an error records it and goes on at the next statement, so a run reports several. Of the errors in one line only the
first is kept: the others mostly follow from it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, NoReturn, TypeVar

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.syntax import LEVELS, TYPES
from retrograd.compiler.frontends.text import SourceText, Token, tokens
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, Span

#: blocks and expressions within each other
_DEEPEST = 100
#: stacks within each other
_STACKS = 4
#: errors that a run reports
_MOST = 20

T = TypeVar("T")


@dataclass(frozen=True)
class Grammar:
    """The words of a dialect.

    `token`: see `Cursor`. `starts`: the keywords that begin a statement. `changes`: spelling of an update or exchange -> its operator.
    `levels`: binary operators, loose to tight; `spelled`: other spellings of operators; `minus`: whether `-x` is an expression.
    """

    token: re.Pattern[str]
    starts: frozenset[str]
    keywords: frozenset[str]
    changes: Mapping[str, str]
    levels: Sequence[Sequence[str]] = LEVELS
    spelled: Mapping[str, str] = field(default_factory=dict)
    minus: bool = False


class Cursor:
    """Reads tokens one by one; the keywords of the grammar are no names.

    The groups of `token` in a grammar are the kinds of tokens: number, name, string, sign, `open` for the begin of a comment or text
    without an end. The last token is of kind `end`.
    """

    def __init__(self, text: str, name: str, grammar: Grammar) -> None:
        self.source = SourceText(name, text)
        self.keywords = grammar.keywords
        self.findings: list[Diagnostic] = []
        self.tokens = [*tokens(grammar.token, text), Token("end", "", len(text))]
        self.at = self._depth = 0

    # ------------------------------------------------------------------ places

    @property
    def next(self) -> Token:
        """The token at the position."""
        return self.tokens[self.at]

    def advance(self) -> str:
        """Pass the token at the position. Returns its text."""
        token = self.next
        if token.kind != "end":
            self.at += 1
        return token.text

    def since(self, begin: int) -> Span:
        """The place of the text from a position to the last token."""
        return self.source.span(begin, self.tokens[max(self.at - 1, 0)].end)

    # ------------------------------------------------------------------ errors

    def error(self, message: str, span: Span, hint: str | None = None) -> CompileError:
        """The error RG0725 at a place."""
        return CompileError(self.source.diagnostic("RG0725", message, span, hint))

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise CompileError RG0725 at the next token."""
        token = self.next
        if token.kind == "open":
            kind, end = ("comment", "*/") if token.text == "/*" else ("text", '"')
            message, hint = f"the {kind} has no end", f"A {kind} ends with `{end}`."
        elif token.text == ";":
            hint = "A statement ends where the next one begins. Leave out the `;`."
        begin = token.begin
        if token.kind == "end" and self.at:
            # The place where something is missing is behind the last token.
            begin = self.tokens[self.at - 1].end
        raise self.error(message, self.source.span(begin, begin + len(token.text)), hint)

    def record(self, error: CompileError) -> None:
        """Keep an error. Raises CompileError with all errors where there are too many."""
        for found in error.diagnostics:
            lines = {d.span.line for d in self.findings if d.span is not None}
            if found.span is None or found.span.line not in lines:
                self.findings.append(found)
        if len(self.findings) >= _MOST:
            self.finish()

    def finish(self) -> None:
        """Raise CompileError where errors were found."""
        if self.findings:
            raise CompileError(*self.findings)

    def found(self) -> str:
        """The next token, in words."""
        return "the end of the file" if self.next.kind == "end" else f"`{self.next.text}`"

    # ------------------------------------------------------------------ tokens

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        return self.next.kind in ("sign", "name") and self.next.text in texts

    def take(self, *texts: str) -> str | None:
        """Pass the next token, if it is one of these."""
        return self.advance() if self.sees(*texts) else None

    def need(self, *texts: str, hint: str | None = None) -> str:
        """Pass the next token, which must be one of these."""
        found = self.take(*texts)
        if found is None:
            *others, last = (f"`{t}`" for t in texts)
            wanted = f"{', '.join(others)} or {last}" if others else last
            self.fail(f"{self.found()} stands where {wanted} is expected", hint)
        return found

    def name(self, kind: str) -> str:
        """Pass a name, which is no keyword. `kind`: its kind, for the error."""
        token = self.next
        if token.kind != "name" or token.text in self.keywords:
            self.fail(f"{self.found()} stands where {kind} is expected")
        return self.advance()

    def listed(self, item: Callable[[], T], end: str) -> tuple[T, ...]:
        """Items with commas between them, up to a bracket."""
        out: list[T] = []
        if self.take(end):
            return ()
        while True:
            out.append(item())
            if self.need(",", end) == end:
                return tuple(out)

    def deeper(self, parse: Callable[[], T]) -> T:
        """The result of a parser of a nested part. Raises CompileError where parts are nested too deep."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._depth -= 1
            self.fail("the program is nested too deep")
        try:
            return parse()
        finally:
            self._depth -= 1


# -----------------------------------------------------------------------------
# Parser of the expressions of Janus, for both dialects, by precedence climbing. Binary operators associate to the left.

#: digits of the longest number
_DIGITS = 70


class ExpressionParser:
    """Parses expressions at a cursor."""

    def __init__(self, cursor: Cursor, grammar: Grammar) -> None:
        self._cursor, self._spelled, self._minus = cursor, grammar.spelled, grammar.minus
        self._level = {operator: level for level, operators in enumerate(grammar.levels) for operator in operators}

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
        names, indices, counts = [cursor.name("a variable")], list[syntax.Expression](), [0]
        while (sign := cursor.take("[", ".")) is not None:
            if sign == ".":
                names.append(cursor.name("a field"))
                counts.append(0)
                continue
            indices.append(self.expression())
            counts[-1] += 1
            cursor.need("]")
        fields = tuple(counts) if len(names) > 1 else ()
        return syntax.Reference(".".join(names), tuple(indices), fields, span=cursor.since(begin))

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
        found = before.text + token.text if before.end == token.begin else ""
        operator = {"==": "=", "!==": "!=", "<>": "!=", "=<": "<=", "=>": ">="}.get(found)
        return None if operator is None else f"Write `{operator}` in place of `{found}`."

    def _named(self, begin: int) -> syntax.Expression:
        """An expression that begins with a keyword."""
        cursor = self._cursor
        if (word := cursor.take("size", "top", "empty")) is not None:
            cursor.need("(")
            of = self.reference()
            cursor.need(")")
            node = {"size": syntax.Size, "top": syntax.Top, "empty": syntax.Empty}[word]
            return node(of, span=cursor.since(begin))
        if (word := cursor.take("true", "false")) is not None:
            return syntax.Truth(word == "true", span=cursor.since(begin))
        cursor.fail(f"{cursor.found()} stands where an expression is expected")


# -----------------------------------------------------------------------------
# Parser of the statements that both dialects of Janus have, with recovery from errors.
#
# After an error in a statement the parser goes on at the next keyword that begins or ends a statement. An error in a condition ends only
# the condition, so the blocks of the statement keep their ends.


class StatementParser:
    """Parses blocks, `if`, `from`, updates and exchanges.

    `statement`: parses another statement, whose keyword is passed already.
    """

    def __init__(
        self,
        cursor: Cursor,
        expressions: ExpressionParser,
        grammar: Grammar,
        statement: Callable[[str, int], syntax.Statement],
    ) -> None:
        self._cursor, self._expressions = cursor, expressions
        self._statement, self._starts, self._changes = statement, grammar.starts, grammar.changes
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
        if word == "struct":
            hint = "Structs are declared above the procedures, and variables in `main` or by `local struct point p`."
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


# -----------------------------------------------------------------------------
# The dialects: their grammars, and the parsers of their programs.


class _Parser(ABC):
    """The parser of a program in the dialect of its grammar."""

    grammar: ClassVar[Grammar]

    def __init__(self, text: str, name: str) -> None:
        self._cursor = Cursor(text, name, self.grammar)
        self._expressions = ExpressionParser(self._cursor, self.grammar)
        self._statements = StatementParser(self._cursor, self._expressions, self.grammar, self.statement)

    @abstractmethod
    def program(self) -> syntax.Program:
        """The program. Raises CompileError RG0725, with all errors that were found."""

    @abstractmethod
    def statement(self, word: str, begin: int) -> syntax.Statement:
        """A statement of this dialect alone, behind its keyword. Raises CompileError RG0725."""


# -----------------------------------------------------------------------------
# The dialect of the Jana interpreter, with its precedences.
#
#     prefix ! ~ (type)   **   * / %   + -   << >>   comparisons   & | ^   && ||         tight to loose; all associate to the left
#
# A number may have a sign where an operand is expected; there is no other unary minus. Statements need no separators.

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)|(?P<number>0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_']*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<open>/\*|\")"
    r"|(?P<sign><=>|\*\*|\+=|-=|\^=|\*=|/=|!=|<=|>=|<<|>>|&&|\|\||[-+*/%<>=&|^!~(){}\[\],.])",
    re.DOTALL,
)
_STARTS = frozenset({
    "if", "from", "iterate", "local", "call", "uncall", "skip", "push", "pop", "print", "printf", "show", "assert", "error",
    "constant", "ancilla",
})  # fmt: skip
_KEYWORDS = _STARTS | set(TYPES) | {
    "procedure", "then", "else", "fi", "do", "loop", "until", "by", "to", "end", "delocal", "size", "top", "empty", "nil",
    "true", "false", "external", "struct",
}  # fmt: skip
JANA = Grammar(_TOKEN, _STARTS, _KEYWORDS, {name: name for name in ("+=", "-=", "^=", "*=", "/=", "<=>")})
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


class JanaParser(_Parser):
    """Parses a program of Jana."""

    grammar = JANA

    def program(self) -> syntax.Program:
        cursor = self._cursor
        procedures: dict[str, syntax.Procedure] = {}
        structs: dict[str, syntax.Struct] = {}
        while cursor.next.kind != "end":
            try:
                if cursor.sees("struct") and not procedures:
                    struct = self._struct()
                    if struct.name in structs:
                        raise cursor.error(f"`struct {struct.name}` is defined already", struct.span)
                    structs[struct.name] = struct
                    continue
                procedure = self._procedure()
                if procedure.name in procedures:
                    raise cursor.error(f"`{procedure.name}` is defined already", procedure.span)
                procedures[procedure.name] = procedure
            except CompileError as error:
                cursor.record(error)
                while cursor.next.kind != "end" and not cursor.sees("procedure"):
                    cursor.advance()
        cursor.finish()
        return syntax.Program(cursor.source, tuple(procedures.values()), structs=tuple(structs.values()))

    def _struct(self) -> syntax.Struct:
        """`struct point { int x  int y }`."""
        cursor = self._cursor
        begin = cursor.next.begin
        cursor.need("struct")
        name, span = cursor.name("the name of a struct"), cursor.since(begin)
        cursor.need("{", hint=f"Write `struct {name} {{ int x  int y }}`.")
        fields: list[syntax.Parameter] = []
        while not fields or not cursor.take("}"):
            fields.append(f := self._parameter())
            if any(f.name == g.name for g in fields[:-1]):
                raise cursor.error(f"`struct {name}` has two fields `{f.name}`", f.span)
            if not all(isinstance(n, syntax.Number) and n.value > 0 for n in f.lengths):
                hint = "A length of a field is a number from 1 on."
                raise cursor.error(f"a length of `{f.name}` is no number", f.span, hint)
            cursor.take(",")
        return syntax.Struct(name, tuple(fields), span)

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
        while name == "main" and cursor.sees("constant", "ancilla", "struct", *TYPES):
            with self._statements.recovered("struct", *TYPES):
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
        if not self._cursor.sees("struct", *TYPES):
            self._cursor.fail(
                f"{self._cursor.found()} stands where a type is expected", f"The types: {', '.join(TYPES)}."
            )
        word = self._cursor.advance()
        if word == "struct":
            return f"struct {self._cursor.name('the name of a struct')}"
        while word.startswith("stack") and self._cursor.take("stack"):
            word += " stack"
            if word.count("stack") > _STACKS:
                self._cursor.at -= 1
                self._cursor.fail(f"stacks are nested up to {_STACKS} deep")
        return word

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

    def statement(self, word: str, begin: int) -> syntax.Statement:
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
                stack = self._expressions.reference()
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


# -----------------------------------------------------------------------------
# The dialect of 1982 (C. Lutz, H. Derby: Janus, a time-reversible language. Letter to R. Landauer, 1986).
#
#     n x1 x2 list[12]                                 global variables, zeros at first
#     procedure fib  if n = 0 then … fi x1 = x2        procedures without parameters
#
#     x # y   x != y      inequality                   x \ y   x % y      remainder
#     x : y   x <=> y     exchange                     x != e  x ^= e     exclusive or
#     x */ y              ⌊x · y / 2^(W−1)⌋            ; …   // …         comment
#
# Conditions are integers: zero is false. A comparison that is used as a number is 1 or 0. Operators have the precedences of the Jana
# interpreter, and `!` between two numbers is their exclusive or. Keywords are written in small or in capital letters.
#
# The tree is that of a Jana program: each procedure has the globals that it uses as parameters, conditions are compared with zero.

_TOKEN_1982 = re.compile(
    r"(?P<space>[ \t\r\n]+|;[^\n]*|//[^\n]*)|(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_']*)"
    r"|(?P<sign><=>|\*\*|\+=|-=|\^=|!=|<=|>=|<<|>>|&&|\|\||\*/|[-+*/\\%<>=#&|^!~:()\[\]])"
)
_STARTS_1982 = frozenset({"if", "from", "call", "uncall", "read", "write"})
#: spellings of operators -> those of the tree
_SPELLED = {"#": "!=", "\\": "%", "!": "^"}
_FURTHER = {"^": ("!",), "!=": ("#",), "%": ("\\", "*/")}
_LEVELS = tuple(tuple(o for name in level for o in (name, *_FURTHER.get(name, ()))) for level in LEVELS)
JANUS_1982 = Grammar(
    _TOKEN_1982,
    _STARTS_1982,
    _STARTS_1982 | {"procedure", "then", "else", "fi", "do", "loop", "until"},
    {"+=": "+=", "-=": "-=", "^=": "^=", "!=": "^=", "<=>": "<=>", ":": "<=>"},
    _LEVELS,
    _SPELLED,
    minus=True,
)
_COMPARISONS = ("<=", "<", ">=", ">", "=", "!=")


class Parser1982(_Parser):
    """Parses a program of 1982."""

    grammar = JANUS_1982

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        cursor = self._cursor
        cursor.tokens[:] = [
            t._replace(text=t.text.lower()) if t.text.isupper() and t.text.lower() in cursor.keywords else t
            for t in cursor.tokens
        ]

    def program(self) -> syntax.Program:
        cursor = self._cursor
        variables: dict[str, syntax.Declaration] = {}
        procedures: dict[str, syntax.Procedure] = {}
        while cursor.next.kind != "end" and not cursor.sees("procedure"):
            with self._statements.recovered():
                found = self._variable()
                if found.name in variables:
                    raise cursor.error(f"`{found.name}` is declared already", found.span)
                variables[found.name] = found
        while cursor.next.kind != "end":
            with self._statements.recovered():
                begin = cursor.next.begin
                cursor.need("procedure")
                name, span = cursor.name("the name of a procedure"), cursor.since(begin)
                body = self._statements.body("procedure")
                if name in procedures:
                    raise cursor.error(f"`{name}` is defined already", span)
                procedures[name] = syntax.Procedure(name, (), (), body, span)
        cursor.finish()
        return _with_parameters(
            syntax.Program(cursor.source, tuple(procedures.values()), "1982", tuple(variables.values()))
        )

    def _variable(self) -> syntax.Declaration:
        cursor = self._cursor
        begin = cursor.next.begin
        name = cursor.name("a variable")
        lengths: tuple[syntax.Expression, ...] = ()
        if cursor.take("["):
            if cursor.next.kind != "number":
                cursor.fail(f"{cursor.found()} stands where the length of an array is expected")
            lengths = (self._expressions.number(),)
            cursor.need("]")
        span = cursor.since(begin)
        return syntax.Declaration(type="int", name=name, lengths=lengths, span=span, place=span)

    def statement(self, word: str, begin: int) -> syntax.Statement:
        cursor = self._cursor
        match word:
            case "call" | "uncall":
                name = cursor.name("the name of a procedure")
                return syntax.Call(name, (), word == "uncall", span=cursor.since(begin))
            case "write":
                return syntax.Show((self._expressions.reference(),), span=cursor.since(begin))
            case "read":
                cursor.at -= 1
                cursor.fail("`read` needs input, and a run has none", "Give variables values as arguments: x=5.")
        self._statements.stray(word)


# ---------------------------------------------------------------------- the tree of 1982 as that of a Jana program


def _with_parameters(program: syntax.Program) -> syntax.Program:
    """The program in which procedures have the globals that they use as parameters."""
    names = {d.name for d in program.globals}
    used = {p.name: {r.name for r in _named(p.body)} & names for p in program.procedures}
    calls = {p.name: {c.name for c in syntax.calls(p.body)} & used.keys() for p in program.procedures}
    grown = True
    while grown:
        grown = False
        for name, callees in calls.items():
            found = used[name].union(*(used[c] for c in callees))
            grown = grown or found != used[name]
            used[name] = found
    passed = {
        name: tuple(
            syntax.Parameter(type=d.type, name=d.name, lengths=d.lengths, span=d.span)
            for d in program.globals
            if d.name in own
        )
        for name, own in used.items()
    }
    integers = _Integers(passed)
    return replace(
        program,
        procedures=tuple(replace(p, parameters=passed[p.name], body=integers.body(p.body)) for p in program.procedures),
    )


def _named(body: syntax.Body) -> Iterator[syntax.Reference]:
    for node in syntax.statements(body):
        for e in syntax.expressions(node):
            yield from syntax.references(e)


class _Integers:
    """Rewrites statements whose conditions are integers. `passed`: the parameters of each procedure."""

    def __init__(self, passed: dict[str, tuple[syntax.Parameter, ...]]) -> None:
        self._passed = passed

    def body(self, body: syntax.Body) -> syntax.Body:
        return tuple(self._statement(s) for s in body)

    def _statement(self, s: syntax.Statement) -> syntax.Statement:
        match s:
            case syntax.Update(target=target, value=value):
                return replace(s, target=_indexed(target), value=_integer(value))
            case syntax.Swap(left=left, right=right):
                return replace(s, left=_indexed(left), right=_indexed(right))
            case syntax.If(condition=first, then=then, orelse=orelse, exit=last):
                return replace(
                    s,
                    condition=_condition(first),
                    then=self.body(then),
                    orelse=self.body(orelse),
                    exit=_condition(last),
                )
            case syntax.Loop(entry=first, do=do, loop=loop, exit=last):
                return replace(
                    s, entry=_condition(first), do=self.body(do), loop=self.body(loop), exit=_condition(last)
                )
            case syntax.Call(name=name, span=span):
                given = tuple(syntax.Reference(p.name, span=span) for p in self._passed.get(name, ()))
                return replace(s, arguments=given)
            case syntax.Show(arguments=arguments):
                return replace(s, arguments=tuple(_indexed(a) for a in arguments))
        return s


def _indexed(r: syntax.Reference) -> syntax.Reference:
    return replace(r, indices=tuple(_integer(i) for i in r.indices))


def _is_condition(e: syntax.Expression) -> bool:
    match e:
        case syntax.Binary(operator=op, left=x, right=y):
            return op in _COMPARISONS or op in ("&&", "||") or (op in "&|^" and _is_condition(x) and _is_condition(y))
        case syntax.Unary(operator="!"):
            return True
    return False


def _operands(e: syntax.Expression) -> syntax.Expression:
    """The expression, whose operands have the types that its operator takes."""
    match e:
        case syntax.Reference():
            return _indexed(e)
        case syntax.Unary(operator=op, operand=x):
            return replace(e, operand=_condition(x) if op == "!" else _integer(x))
        case syntax.Binary(operator=op, left=x, right=y):
            of = _condition if op in ("&&", "||") or (op in "&|^" and _is_condition(e)) else _integer
            return replace(e, left=of(x), right=of(y))
    return e


def _integer(e: syntax.Expression) -> syntax.Expression:
    found = _operands(e)
    return syntax.Indicator(found, span=e.span) if _is_condition(e) else found


def _condition(e: syntax.Expression) -> syntax.Expression:
    found = _operands(e)
    return found if _is_condition(e) else syntax.Binary("!=", found, syntax.Number(0, span=e.span), span=e.span)


# -----------------------------------------------------------------------------
# Programs of any dialect.

DIALECTS: dict[str, type[_Parser]] = {"jana": JanaParser, "1982": Parser1982}
_PARAMETERS = re.compile(r"\bprocedure\s+[\w']+\s*\(")


def read(text: str, name: str, dialect: str | None = None) -> syntax.Program:
    """The program of a text. Raises CompileError RG0725, InputError RG0603 for an unknown dialect.

    Without a dialect, a file NAME.janus is one of 1982, unless a procedure in it has parameters; any other file is one of Jana.
    """
    if dialect is None:
        dialect = "1982" if name.endswith(".janus") and _PARAMETERS.search(text) is None else "jana"
    if dialect not in DIALECTS:
        hint = f"dialects: {', '.join(DIALECTS)}"
        raise InputError(Diagnostic("RG0603", f"there is no dialect {dialect!r:.40} of Janus", hint=hint))
    return DIALECTS[dialect](text, name).program()
