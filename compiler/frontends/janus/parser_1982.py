r"""Parser of Janus of 1982 (C. Lutz, H. Derby: Janus, a time-reversible language. Letter to R. Landauer, 1986).

    n x1 x2 list[12]                                 global variables, zeros at first
    procedure fib  if n = 0 then … fi x1 = x2        procedures without parameters

    x # y   x != y      inequality                   x \ y   x % y      remainder
    x : y   x <=> y     exchange                     x != e  x ^= e     exclusive or
    x */ y              ⌊x · y / 2^(W−1)⌋            ; …   // …         comment

Conditions are integers: zero is false. A comparison that is used as a number is 1 or 0. Operators have the precedences of the Jana
interpreter, and `!` between two numbers is their exclusive or. Keywords are written in small or in capital letters.

The tree is that of a Jana program: each procedure has the globals that it uses as parameters, conditions are compared with zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.parser import LEVELS, Cursor, ExpressionParser, StatementParser, parse
from retrograd.compiler.frontends.janus.syntax import Program
from retrograd.isa.diagnostics import Diagnostic, InputError

TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|;[^\n]*|//[^\n]*)|(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_']*)"
    r"|(?P<sign><=>|\*\*|\+=|-=|\^=|!=|<=|>=|<<|>>|&&|\|\||\*/|[-+*/\\%<>=#&|^!~:()\[\]])"
)
_STARTS = frozenset({"if", "from", "call", "uncall", "read", "write"})
KEYWORDS = _STARTS | {"procedure", "then", "else", "fi", "do", "loop", "until"}
_CHANGES = {"+=": "+=", "-=": "-=", "^=": "^=", "!=": "^=", "<=>": "<=>", ":": "<=>"}
#: spellings of operators -> those of the tree
_SPELLED = {"#": "!=", "\\": "%", "!": "^"}
_FURTHER = {"^": ("!",), "!=": ("#",), "%": ("\\", "*/")}
_LEVELS = tuple(tuple(o for name in level for o in (name, *_FURTHER.get(name, ()))) for level in LEVELS)
_COMPARISONS = ("<=", "<", ">=", ">", "=", "!=")


def parse_1982(text: str, name: str) -> syntax.Program:
    """The program of a text. Raises CompileError RG0725, with all errors that were found."""
    return _Parser(text, name).program()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._cursor = cursor = Cursor(text, name, TOKEN, KEYWORDS)
        cursor.tokens[:] = [
            t._replace(text=t.text.lower()) if t.text.isupper() and t.text.lower() in KEYWORDS else t
            for t in cursor.tokens
        ]
        self._expressions = ExpressionParser(cursor, _LEVELS, _SPELLED, minus=True)
        self._statements = StatementParser(cursor, self._expressions, _STARTS, self._statement, _CHANGES)

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

    def _statement(self, word: str, begin: int) -> syntax.Statement:
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


# ---------------------------------------------------------------------- the tree of a Jana program


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
# The dialects of Janus: `jana`, of the Jana interpreter, and `1982`, of Lutz and Derby.

DIALECTS = {"jana": parse, "1982": parse_1982}
_PARAMETERS = re.compile(r"\bprocedure\s+[\w']+\s*\(")


def read(text: str, name: str, dialect: str | None = None) -> Program:
    """The program of a text. Raises CompileError RG0725, InputError RG0603 for an unknown dialect.

    Without a dialect, a file NAME.janus is one of 1982, unless a procedure in it has parameters; any other file is one of Jana.
    """
    if dialect is None:
        dialect = "1982" if name.endswith(".janus") and _PARAMETERS.search(text) is None else "jana"
    if dialect not in DIALECTS:
        hint = f"dialects: {', '.join(DIALECTS)}"
        raise InputError(Diagnostic("RG0603", f"there is no dialect {dialect!r:.40} of Janus", hint=hint))
    return DIALECTS[dialect](text, name)
