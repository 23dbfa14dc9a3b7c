"""The syntax tree of Janus, for both dialects: expressions, statements, procedures; walks, the inverse of a program, and its text.

Each node has the place of its text. Two nodes are equal where they differ only in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from retrograd.compiler.frontends.text import SourceText
from retrograd.isa.diagnostics import Span

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

#: the place of a node that no text has
NOWHERE = Span("", 1, 1, 2)


# ---------------------------------------------------------------------- expressions


@dataclass(frozen=True, kw_only=True)
class Expression:
    """An expression: it changes nothing."""

    span: Span = field(compare=False)


@dataclass(frozen=True)
class Number(Expression):
    value: int


@dataclass(frozen=True)
class Truth(Expression):
    value: bool


@dataclass(frozen=True)
class Reference(Expression):
    """A variable, an element `a[i][j]`, or a part `a[i]` of an array of several dimensions.

    A field `a[i].b[j]` has the name `a.b` and all indices; `counts`: how many indices stand behind each part.
    """

    name: str
    indices: tuple[Expression, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Unary(Expression):
    """`!x`, `~x`."""

    operator: str
    operand: Expression


@dataclass(frozen=True)
class Binary(Expression):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Cast(Expression):
    """`(u8) x`."""

    type: str
    operand: Expression


@dataclass(frozen=True)
class Indicator(Expression):
    """1 where a condition holds, else 0: a comparison that the dialect of 1982 uses as a number."""

    condition: Expression


@dataclass(frozen=True)
class Size(Expression):
    """The first length of an array, or the number of values on a stack."""

    of: Reference


@dataclass(frozen=True)
class Empty(Expression):
    of: Reference


@dataclass(frozen=True)
class Top(Expression):
    of: Reference


@dataclass(frozen=True)
class Items(Expression):
    """`{1, 2, 3}`: the initial values of an array or a struct."""

    items: tuple[Expression, ...]


# ---------------------------------------------------------------------- statements


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement: it has an inverse."""

    span: Span = field(compare=False)


Body = tuple[Statement, ...]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter, or any other variable: `int a[3]`. A length is None where a parameter leaves it open."""

    type: str
    name: str
    lengths: tuple[Expression | None, ...] = ()
    span: Span = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Declaration(Parameter):
    """A variable of `main` or of a `local`. `initial`: None for zeros. `role`: `constant`, `ancilla` or empty. `place`: of its name."""

    initial: Expression | None = None
    role: str = ""
    place: Span = field(compare=False)


@dataclass(frozen=True)
class Update(Statement):
    """`x += e`, `x -= e`, `x ^= e`, `x *= e`, `x /= e`."""

    target: Reference
    operator: str
    value: Expression


@dataclass(frozen=True)
class Swap(Statement):
    left: Reference
    right: Reference


@dataclass(frozen=True)
class If(Statement):
    condition: Expression
    then: Body
    orelse: Body
    exit: Expression


@dataclass(frozen=True)
class Loop(Statement):
    """`from entry do … loop … until exit`."""

    entry: Expression
    do: Body
    loop: Body
    exit: Expression


@dataclass(frozen=True)
class Iterate(Statement):
    """`iterate int i = start by step to stop … end`; the index takes the value `stop`, too."""

    type: str
    name: str
    start: Expression
    step: Expression | None
    stop: Expression
    body: Body


@dataclass(frozen=True)
class Local(Statement):
    """`local … delocal …`."""

    declarations: tuple[Declaration, ...]
    body: Body
    releases: tuple[Declaration, ...]


@dataclass(frozen=True)
class Push(Statement):
    value: Reference
    stack: Reference


@dataclass(frozen=True)
class Pop(Statement):
    value: Reference
    stack: Reference


@dataclass(frozen=True)
class Call(Statement):
    """`call f(…)`; `backward`: `uncall f(…)`."""

    name: str
    arguments: tuple[Expression, ...]
    backward: bool = False


@dataclass(frozen=True)
class Assert(Statement):
    condition: Expression


@dataclass(frozen=True)
class Error(Statement):
    message: str


@dataclass(frozen=True)
class Skip(Statement):
    pass


@dataclass(frozen=True)
class Print(Statement):
    text: str


@dataclass(frozen=True)
class Printf(Statement):
    text: str
    arguments: tuple[Reference, ...]


@dataclass(frozen=True)
class Show(Statement):
    arguments: tuple[Reference, ...]


@dataclass(frozen=True)
class Procedure:
    """A procedure. `declarations`: the variables of `main`."""

    name: str
    parameters: tuple[Parameter, ...]
    declarations: tuple[Declaration, ...]
    body: Body
    span: Span = field(compare=False)

    @property
    def variables(self) -> tuple[Parameter, ...]:
        """The parameters, and the variables of `main`."""
        return (*self.parameters, *self.declarations)


@dataclass(frozen=True)
class Struct:
    """`struct point { int x  int y }`; the type of its variables is `struct point`."""

    name: str
    fields: tuple[Parameter, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Program:
    """A program. `dialect`: `jana` or `1982`. `globals`: the variables of a program of 1982.

    A procedure of 1982 has the globals that it uses as parameters, and passes them on in its calls.
    """

    source: SourceText = field(compare=False)
    procedures: tuple[Procedure, ...]
    dialect: str = "jana"
    globals: tuple[Declaration, ...] = ()
    structs: tuple[Struct, ...] = ()

    def entry(self, name: str) -> Procedure | None:
        """The procedure where a run begins. In 1982 the globals are its variables, as those of `main` are in Jana."""
        found = next((p for p in self.procedures if p.name == name), None)
        if found is None or self.dialect == "jana":
            return found
        return replace(found, parameters=(), declarations=self.globals)


# ---------------------------------------------------------------------- walks


def references(e: Expression | None, sizes: Callable[[Size], bool] = lambda _: True) -> Iterator[Reference]:
    """The variables, arrays and stacks that an expression names. `sizes`: whether a `size(…)` counts."""
    match e:
        case Reference(indices=indices):
            yield e
            for i in indices:
                yield from references(i, sizes)
        case Unary(operand=x) | Cast(operand=x) | Indicator(condition=x):
            yield from references(x, sizes)
        case Binary(left=x, right=y):
            yield from references(x, sizes)
            yield from references(y, sizes)
        case Size(of=x) | Empty(of=x) | Top(of=x):
            found = references(x, sizes)
            if isinstance(e, Size) and not sizes(e):
                next(found)
            yield from found
        case Items(items=items):
            for i in items:
                yield from references(i, sizes)
        case _:
            pass


def expressions(node: Statement) -> Iterator[Expression]:
    """The expressions of a statement itself, without those of the statements in it."""
    match node:
        case Update(target=x, value=y) | Swap(left=x, right=y):
            yield from (x, y)
        case If(condition=x, exit=y) | Loop(entry=x, exit=y):
            yield from (x, y)
        case Iterate(start=x, step=by, stop=y):
            yield from (x, y) if by is None else (x, by, y)
        case Local(declarations=declarations, releases=releases):
            for d in (*declarations, *releases):
                yield from (e for e in (*d.lengths, d.initial) if e is not None)
        case Push(value=x, stack=stack) | Pop(value=x, stack=stack):
            yield from (x, stack)
        case Call(arguments=arguments) | Printf(arguments=arguments) | Show(arguments=arguments):
            yield from arguments
        case Assert(condition=x):
            yield x
        case _:
            pass


def blocks(node: Statement) -> tuple[Body, ...]:
    """The statements inside a statement."""
    match node:
        case If():
            return node.then, node.orelse
        case Loop():
            return node.do, node.loop
        case Iterate() | Local():
            return (node.body,)
    return ()


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements, at any depth."""
    for node in body:
        yield node
        for block in blocks(node):
            yield from statements(block)


def calls(body: Sequence[Statement]) -> Iterator[Call]:
    for node in statements(body):
        if isinstance(node, Call):
            yield node


# -----------------------------------------------------------------------------
# The inverse program of a program of Janus (Yokoyama and Glück, A reversible programming language and its invertible self-interpreter).
#
#     I(x += e) = x −= e          I(if p then s else t fi q) = if q then I(s) else I(t) fi p          I(s t) = I(t) I(s)
#     I(call f) = call f          I(from p do s loop t until q) = from q do I(s) loop I(t) until p
#
# Every procedure is replaced by its inverse, so a `call` stays a `call`. The inverse of the inverse is the program.

_UPDATES = {"+=": "-=", "-=": "+=", "^=": "^=", "*=": "/=", "/=": "*="}


def inverted(program: Program, main: bool = True) -> Program:
    """The inverse of a program, which runs from the final values of the variables to their initial values.

    `main` false: the statements of `main` stay, as in the inverse that the Jana interpreter prints; so `main` runs the inverses of
    the procedures that it calls.
    """
    return replace(
        program,
        procedures=tuple(
            p if p.name == "main" and not main else replace(p, body=_body(p.body)) for p in program.procedures
        ),
    )


def _body(body: Body) -> Body:
    return tuple(_statement(s) for s in reversed(body))


def _statement(s: Statement) -> Statement:
    match s:
        case Update():
            return replace(s, operator=_UPDATES[s.operator])
        case If():
            return replace(s, condition=s.exit, then=_body(s.then), orelse=_body(s.orelse), exit=s.condition)
        case Loop():
            return replace(s, entry=s.exit, do=_body(s.do), loop=_body(s.loop), exit=s.entry)
        case Iterate():
            return replace(s, start=s.stop, step=_negated(s.step), stop=s.start, body=_body(s.body))
        case Local():
            return replace(s, declarations=s.releases, body=_body(s.body), releases=s.declarations)
        case Push():
            return Pop(s.value, s.stack, span=s.span)
        case Pop():
            return Push(s.value, s.stack, span=s.span)
    return s


def _negated(step: Expression | None) -> Expression | None:
    """−step; None is a step of 1."""
    match step:
        case None:
            return Number(-1, span=NOWHERE)
        case Number(value=-1):
            return None
        case Number(value=value):
            return replace(step, value=-value)
        case Binary(operator="-", left=Number(value=0), right=x):
            return x
    return Binary("-", Number(0, span=step.span), step, span=step.span)


# -----------------------------------------------------------------------------
# The text of a program, in its dialect: the parser makes the same tree of it. Comments are not kept.

_LEVEL = {operator: level for level, operators in enumerate(LEVELS) for operator in operators} | {
    "*/": next(level for level, operators in enumerate(LEVELS) if "*" in operators)
}
_INDENT = "    "
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def program_text(program: Program) -> str:
    """The text of a program."""
    printer = _Printer(program.dialect == "jana")
    out = [declaration_text(d).removeprefix("int ") for d in program.globals]
    for s in program.structs:
        out.append(f"struct {s.name} {{ {', '.join(map(declaration_text, s.fields))} }}")
    for p in program.procedures:
        out += [""] if out else []
        out += printer.procedure(p)
    return "\n".join(out) + "\n"


class _Printer:
    """Prints the lines of statements. `jana`: the dialect of the interpreter, else that of 1982."""

    def __init__(self, jana: bool) -> None:
        self._jana = jana

    def procedure(self, p: Procedure) -> Iterator[str]:
        """The lines of a procedure."""
        parameters = ", ".join(declaration_text(x) for x in p.parameters)
        yield f"procedure {p.name}" + (f"({parameters})" if self._jana else "")
        for d in p.declarations:
            yield f"{_INDENT}{declaration_text(d)}"
        if p.declarations and p.body:
            yield ""
        yield from self._body(p.body)

    def _body(self, body: Sequence[Statement], indent: str = _INDENT) -> Iterator[str]:
        for s in body:
            own = isinstance(s, Local) and s is body[-1] and s.declarations == s.releases
            if own and isinstance(s, Local) and s.declarations[0].role:
                # The variables are in scope up to the end of the block, which frees them.
                yield f"{indent}{_listed(s.declarations)}"
                yield from self._body(s.body, indent)
            else:
                yield from (f"{indent}{line}" for line in self._statement(s))

    def _statement(self, s: Statement) -> Iterator[str]:
        match s:
            case Update(target=target, operator=op, value=value):
                yield f"{text_of(target)} {op} {text_of(value)}"
            case Swap(left=left, right=right):
                yield f"{text_of(left)} <=> {text_of(right)}"
            case If(condition=before, then=then, orelse=orelse, exit=after):
                yield f"if {text_of(before)} then"
                yield from self._body(then)
                if orelse:
                    yield "else"
                    yield from self._body(orelse)
                yield f"fi {text_of(after)}"
            case Loop(entry=entry, do=do, loop=loop, exit=after):
                yield f"from {text_of(entry)}"
                for word, body in (("do", do), ("loop", loop)):
                    if body:
                        yield word
                        yield from self._body(body)
                yield f"until {text_of(after)}"
            case Iterate(type=kind, name=name, start=start, step=step, stop=stop, body=body):
                by = "" if step is None else f" by {text_of(step)}"
                yield f"iterate {kind} {name} = {text_of(start)}{by} to {text_of(stop)}"
                yield from self._body(body)
                yield "end"
            case Local(declarations=declarations, body=body, releases=releases):
                yield f"local {_listed(declarations)}"
                yield from self._body(body, "")
                yield f"delocal {_listed(releases)}"
            case _:
                yield self._simple(s)

    def _simple(self, s: Statement) -> str:
        """A statement of one line."""
        match s:
            case Push(value=value, stack=stack):
                return f"push({text_of(value)}, {text_of(stack)})"
            case Pop(value=value, stack=stack):
                return f"pop({text_of(value)}, {text_of(stack)})"
            case Call(name=name, arguments=arguments, backward=backward):
                given = f"({', '.join(map(text_of, arguments))})" if self._jana else ""
                return f"{'uncall' if backward else 'call'} {name}{given}"
            case Assert(condition=condition):
                return f"assert {text_of(condition)}"
            case Skip():
                return "skip"
            case Error(message=text):
                return f"error({_quoted(text)})"
            case Print(text=text):
                return f"print({_quoted(text)})"
            case Printf(text=text, arguments=arguments):
                return f"printf({', '.join([_quoted(text), *map(text_of, arguments)])})"
            case Show(arguments=arguments):
                names = ", ".join(map(text_of, arguments))
                return f"show({names})" if self._jana else f"write {names}"
        raise TypeError(s)


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPES.get(c, c) for c in text)}"'


def declaration_text(d: Parameter) -> str:
    """A parameter, or the declaration of a variable."""
    lengths = "".join("[]" if n is None else f"[{text_of(n)}]" for n in d.lengths)
    out = f"{d.type} {d.name}{lengths}"
    if isinstance(d, Declaration):
        out = f"{d.role} {out}".lstrip()
        if d.initial is not None:
            out += f" = {text_of(d.initial)}"
        elif d.type.startswith("stack"):
            out += " = nil"
    return out


def _listed(declarations: Sequence[Declaration]) -> str:
    return ", ".join(map(declaration_text, declarations))


def text_of(e: Expression, least: int = 0) -> str:
    """The text of an expression, in parentheses if its operator binds looser than a level."""
    match e:
        case Number(value=value):
            return str(value)
        case Truth(value=truth):
            return str(truth).lower()
        case Reference(name=name, indices=indices, counts=counts):
            given = iter(indices)
            parts = zip(name.split("."), counts or (len(indices),), strict=True)
            return ".".join(part + "".join(f"[{text_of(i)}]" for i in islice(given, n)) for part, n in parts)
        case Unary(operator=op, operand=x):
            return op + text_of(x, len(LEVELS))
        case Cast(type=kind, operand=x):
            return f"({kind}) {text_of(x, len(LEVELS))}"
        case Indicator(condition=condition):
            return text_of(condition, least)
        case Binary(operator=op, left=x, right=y):
            level = _LEVEL[op]
            out = f"{text_of(x, level)} {op} {text_of(y, level + 1)}"
            return f"({out})" if level < least else out
        case Size(of=x) | Empty(of=x) | Top(of=x):
            return f"{type(e).__name__.lower()}({text_of(x)})"
        case Items(items=items):
            return "{" + ", ".join(map(text_of, items)) + "}"
    raise TypeError(e)
