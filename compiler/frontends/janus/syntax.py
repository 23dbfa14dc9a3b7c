"""The syntax tree of Janus: expressions, statements, procedures. Each node has the place of its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrograd.isa.diagnostics import Span


@dataclass(frozen=True)
class Source:
    """The name of a file, and its lines."""

    name: str
    lines: Sequence[str]


# ---------------------------------------------------------------------- expressions


@dataclass(frozen=True, kw_only=True)
class Expression:
    """An expression: it changes nothing."""

    span: Span


@dataclass(frozen=True)
class Number(Expression):
    value: int


@dataclass(frozen=True)
class Truth(Expression):
    value: bool


@dataclass(frozen=True)
class Reference(Expression):
    """A variable, an element `a[i][j]`, or a part `a[i]` of an array of several dimensions."""

    name: str
    indices: tuple[Expression, ...] = ()


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
class Size(Expression):
    """The first length of an array, or the number of values on a stack."""

    name: str


@dataclass(frozen=True)
class Empty(Expression):
    name: str


@dataclass(frozen=True)
class Top(Expression):
    name: str


@dataclass(frozen=True)
class Items(Expression):
    """`{1, 2, 3}`: the initial values of an array."""

    items: tuple[Expression, ...]


# ---------------------------------------------------------------------- statements


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement: it has an inverse."""

    span: Span


Body = tuple[Statement, ...]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter, or any other variable: `int a[3]`. A length is None where a parameter leaves it open."""

    type: str
    name: str
    lengths: tuple[Expression | None, ...] = ()
    span: Span


@dataclass(frozen=True, kw_only=True)
class Declaration(Parameter):
    """A variable of `main` or of a `local`. `initial`: None for zeros. `role`: `constant`, `ancilla` or empty."""

    initial: Expression | None = None
    role: str = ""


@dataclass(frozen=True)
class Update(Statement):
    """`x += e`, `x -= e`, `x ^= e`."""

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
    stack: str


@dataclass(frozen=True)
class Pop(Statement):
    value: Reference
    stack: str


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
    span: Span

    @property
    def variables(self) -> tuple[Parameter, ...]:
        """The parameters, and the variables of `main`."""
        return (*self.parameters, *self.declarations)


@dataclass(frozen=True)
class Program:
    source: Source
    procedures: tuple[Procedure, ...]


# ---------------------------------------------------------------------- walks


def references(e: Expression | None) -> Iterator[Reference]:
    """The variables, arrays and stacks that an expression names."""
    match e:
        case Reference(indices=indices):
            yield e
            for i in indices:
                yield from references(i)
        case Unary(operand=x) | Cast(operand=x):
            yield from references(x)
        case Binary(left=x, right=y):
            yield from references(x)
            yield from references(y)
        case Size(name=name) | Empty(name=name) | Top(name=name):
            yield Reference(name, span=e.span)
        case Items(items=items):
            for i in items:
                yield from references(i)
        case _:
            pass


def flattened(e: Expression) -> Iterator[Expression]:
    """The initial values of an array, in row-major order."""
    if isinstance(e, Items):
        for item in e.items:
            yield from flattened(item)
    else:
        yield e


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
