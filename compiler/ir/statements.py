"""The reversible IR: structured statements over virtual registers, each with an inverse.

A data statement is an instruction of the table, `Op(opcode, d, a, b, imm)`, whose registers are variables or
constants. So the IR has no data semantics of its own: effect, inverse and adjoint of an Op are those of the table.
Control is structured, and a structure is inverted by exchanging the tests at its ends:

    (s₁ s₂ … sₙ)⁻¹ = sₙ⁻¹ … s₂⁻¹ s₁⁻¹

Source: the shape of Janus (Yokoyama and Glück 2007, §2), with locals, and compute–use–uncompute as a node of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, cast

from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import IMMEDIATE_MAX, IMMEDIATE_MIN
from retrograd.isa.entries import Opcode
from retrograd.isa.program import ArrayLayout
from retrograd.isa.table import TABLE
from retrograd.isa.words import Q32_32, Format


class Kind(Enum):
    """The type of the words of a variable.

    Beside the kinds below there is one for each binary point, `fixed_at(p)`, of value "fixed[p]": its numbers are
    word / 2^p.
    """

    INT = "int"
    #: a word as a number of 0 … 2^W − 1
    UINT = "uint"
    FIXED = "fixed"
    LOGNUM = "lognum"
    BOOL = "bool"
    #: a memory address; carries no derivative
    ADDRESS = "address"

    @classmethod
    def _missing_(cls, value: object) -> Kind | None:
        if not isinstance(value, str) or (found := re.fullmatch(r"fixed\[(-?[0-9]{1,5})\]", value)) is None:
            return None
        # Made when it is first named, as members of `enum.Flag` are: one for each value, so `is` compares kinds.
        made = object.__new__(cls)
        made._name_, made._value_ = f"FIXED_{found[1]}", value
        return cast(Kind, cls._value2member_map_.setdefault(value, made))

    @property
    def is_fixed(self) -> bool:
        """Whether it is FIXED, or a fixed number with a point of its own."""
        return self is Kind.FIXED or "[" in self._value_

    @property
    def is_real(self) -> bool:
        """Whether its numbers have derivatives: fixed numbers and lognums."""
        return self is Kind.LOGNUM or self.is_fixed

    def point(self, w: Format) -> int:
        """The places behind the binary point of a fixed number: F, or those of its own."""
        return w.frac if self is Kind.FIXED else int(self.value[6:-1])

    def numbers(self, w: Format) -> Format:
        """The format of the numbers: value = word / 2^point for a fixed number, w for any other kind."""
        return w if self is Kind.FIXED or not self.is_fixed else w.at(self.point(w))


@lru_cache(maxsize=4096)
def fixed_at(point: int) -> Kind:
    """The kind `fixed[point]`."""
    return Kind(f"fixed[{point}]")


@dataclass(eq=False, slots=True)
class Var:
    """A virtual register: one word. Two variables are the same only if they are one object."""

    name: str
    kind: Kind = Kind.INT
    span: Span | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.kind.value}>"


class Exact(NamedTuple):
    """The numbers of a source that the words of a region were rounded from, and the kind of the words."""

    kind: Kind
    numbers: tuple[Fraction, ...]


@dataclass(eq=False, slots=True)
class Region:
    """A stretch of memory that is accessed through one name: an array of the user's, or an array in a frame.

    Accesses to different regions never alias; `None` in place of a region means any memory. `address` is None for the array
    parameters of a procedure, and for arrays in frames.
    """

    name: str
    size: int
    address: int | None = None
    #: the words that memory begins with, for constants; None for zeros
    data: tuple[int, ...] | None = None
    span: Span | None = None
    #: the arrays of the source in it, for debuggers
    layouts: tuple[ArrayLayout, ...] = ()
    #: the numbers that `data` was rounded from, where their errors are wanted: no pass replaces a word of it by its value
    exact: Exact | None = None

    @property
    def name_of_word(self) -> str:
        """The name of a variable that a word is exchanged into: a scalar's own, and for an element that of a temporary."""
        return f"%{self.name}" if any(array.shape for array in self.layouts) else self.name

    def __repr__(self) -> str:
        return f"<{self.name}[{self.size}]>"


class Const(NamedTuple):
    """A word known at compile time, as an operand that is only read. Masked to the format's width."""

    word: int


Operand = Var | Const
ZERO = Const(0)

#: the stack pointer, shared by all procedures: M[SP] is the first free word of the stack, which is zero from there on
SP = Var("sp", Kind.ADDRESS)

#: cc(a, b) that a branch can test
CONDITIONS = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "ltu": "geu", "geu": "ltu"}


class Test(NamedTuple):
    """cc(a, b): one of CONDITIONS over two words."""

    cc: str
    a: Operand
    b: Operand

    def negated(self) -> Test:
        return Test(CONDITIONS[self.cc], self.a, self.b)


class Op(NamedTuple):
    """An instruction of the table. `d` is a variable; `a`, `b` may be constants where the instruction only reads them.

    For memory instructions `a` is the address to which `imm` is added, and `region` is the stretch that holds it.
    """

    opcode: Opcode
    d: Operand | None = None
    a: Operand | None = None
    b: Operand | None = None
    imm: int = 0
    span: Span | None = None
    region: Region | None = None


class Local(NamedTuple):
    """`var` becomes live, and is zero. Checked: the machine tests that it is zero, here as at the Delocal.

    Inverse: Delocal.
    """

    var: Var
    checked: bool = False
    span: Span | None = None


class Delocal(NamedTuple):
    """`var` dies, and must be zero. Checked: the machine tests it (`assertz`); else the compiler has proved it. Inverse: Local."""

    var: Var
    checked: bool = False
    span: Span | None = None


class Within(NamedTuple):
    """compute; body; compute⁻¹. Inverse: compute; body⁻¹; compute⁻¹.

    Variables local to `compute` and not freed by it are live in `body`. `name` is that of a routine of the user's, None for the
    temporaries of an expression. In erase mode `erase` of these variables replaces compute⁻¹, where compute writes nothing else.
    """

    compute: Block
    body: Block
    name: str | None = None
    span: Span | None = None


class If(NamedTuple):
    """if test: then else: orelse, where `post` is true after `then` and false after `orelse`. Inverse: test and post exchanged."""

    test: Test
    then: Block
    orelse: Block
    post: Test
    span: Span | None = None


class While(NamedTuple):
    """while test: body, with `post` false before the loop and true after each pass. Inverse: test and post exchanged."""

    test: Test
    body: Block
    post: Test
    span: Span | None = None


class For(NamedTuple):
    """for var = start, start + step … stop − step: body; backward: for var = stop − step … start: body.

    `var` is live in the body only, which neither writes it nor start nor stop; stop − start is a multiple of step, not negative in its
    direction. `some`: at least one pass is certain. Inverse: the other order, body inverted.
    """

    var: Var
    start: Operand
    stop: Operand
    step: int
    body: Block
    backward: bool = False
    some: bool = False
    span: Span | None = None


class Call(NamedTuple):
    """Run a procedure, or with `backward` its inverse, on variables in place of its parameters.

    A variable is passed itself, never a copy; a constant may be passed where the procedure does not write the parameter.
    No variable is passed twice if it is written. `regions` take the place of the procedure's regions; None is any memory.
    """

    procedure: str
    args: tuple[Operand, ...]
    regions: tuple[Region | None, ...] = ()
    backward: bool = False
    span: Span | None = None


class Check(NamedTuple):
    """A trap with `code` and `message` unless `test` holds. Its own inverse.

    `of`: empty, or it is a condition on the derivatives of these variables: no test in the program itself, and a test in programs
    that differentiate by them.
    """

    test: Test
    code: str
    message: str
    span: Span | None = None
    of: tuple[Operand, ...] = ()

    @property
    def freed(self) -> Var | None:
        """The word of an array that this finds to be zero where the array is made or freed; None of other tests."""
        if self.code != "RG0802" or "is freed" not in self.message:
            return None  # that of a pop has the code, too
        return self.test.a if isinstance(self.test.a, Var) and self.test.b == ZERO else None


class External(NamedTuple):
    """A point where the host reads these variables, and runs the module's external of this number. Its own inverse."""

    number: int
    span: Span | None = None
    args: tuple[Operand, ...] = ()


Node = Op | Local | Delocal | Within | If | While | For | Call | Check | External
Block = tuple[Node, ...]


def invert(block: Iterable[Node]) -> Block:
    """The inverse of a block: invert(invert(b)) == b."""
    return tuple(invert_node(node) for node in reversed(tuple(block)))


def invert_node(node: Node) -> Node:
    """The inverse of a statement."""
    match node:
        case Op(opcode):
            return node._replace(opcode=TABLE.inverse(opcode))
        case Local(var, checked, span):
            return Delocal(var, checked, span)
        case Delocal(var, checked, span):
            return Local(var, checked, span)
        case Within():
            return node._replace(body=invert(node.body))
        case If(test, then, orelse, post, span):
            return If(post, invert(then), invert(orelse), test, span)
        case While(test, body, post, span):
            return While(post, invert(body), test, span)
        case For():
            return node._replace(body=invert(node.body), backward=not node.backward)
        case Call():
            return node._replace(backward=not node.backward)
        case Check() | External():
            return node


class Adjoint(NamedTuple):
    """A procedure in place of the derivative of another procedure: `name`(parameters…, cotangents…) changes the cotangents to those before a call.

    The other procedure's parameters have the values before its call. `of`: for each cotangent, the index of its parameter.
    `made_by`: None, or a procedure of the same parameters that is run in place of the other procedure where cotangents
    go with it; the adjoint then also undoes the other procedure.
    """

    name: str
    of: tuple[int, ...]
    made_by: str | None = None


@dataclass(frozen=True)
class Procedure:
    """A function for given types and shapes: its parameters are variables that its caller owns.

    `written`: indices of the parameters that it may change. `recursive`: it may be active more than once. `adjoint`: the
    user's own; such a procedure is not inlined.
    """

    name: str
    params: tuple[Var, ...]
    regions: tuple[Region, ...]
    body: Block
    written: frozenset[int] = frozenset()
    recursive: bool = False
    span: Span | None = None
    adjoint: Adjoint | None = None

    def __invert__(self) -> Procedure:
        return replace(self, body=invert(self.body), adjoint=None)

    def region_of(self, param: Var) -> Region | None:
        """The region of an array parameter; None for a number."""
        addresses = [x for x in self.params if x.kind is Kind.ADDRESS]
        return self.regions[addresses.index(param)] if param in addresses else None


class Remark(NamedTuple):
    """Why a transformation left a part of a program as it is. `loop`: the place of the loop; None stands for the program."""

    transformation: str
    loop: Span | None
    reason: str


@dataclass(frozen=True)
class Module:
    """A whole program: `entry` runs between `start` and `finish`, on memory that holds the arguments.

    `memory` words are laid out statically (the regions with an address). The stack follows, and `above` more words follow the
    stack (shadows of all words, where words of the stack have shadows). `arguments`: the regions that the host reads and
    writes. Other regions without data are then zero whenever a body that accesses them begins or ends; with None, nothing is known of
    any region. `discarded`: variables whose cotangents a machine in differentiation mode discards where they die on the way back.
    `recorded`: roundings are wanted one by one, so a rounded number is computed by the program, even of known operands.
    `remarks`: of the transformations that made the module, each once. `unsettled`: as in `isa.program.Program`.
    """

    entry: Block
    procedures: dict[str, Procedure]
    regions: tuple[Region, ...] = ()
    memory: int = 0
    stack: int = 0
    format: Format = Q32_32
    files: tuple[str, ...] = ()
    texts: tuple[Sequence[str], ...] = ()
    externals: tuple[object, ...] = field(default=(), compare=False)
    arguments: tuple[Region, ...] | None = None
    above: int = 0
    discarded: frozenset[Var] = frozenset()
    recorded: bool = False
    remarks: tuple[Remark, ...] = field(default=(), compare=False, repr=False)
    unsettled: Mapping[str, frozenset[tuple[str, int]]] = field(default_factory=dict, compare=False, repr=False)

    def __invert__(self) -> Module:
        """The inverse program. Arguments keep their addresses."""
        return self.with_entry(invert(self.entry))

    def with_entry(self, entry: Block) -> Module:
        return replace(self, entry=entry)

    def with_unsettled(self, found: Mapping[str, Iterable[tuple[str, int]]]) -> Module:
        """The module with these lines, too, at which places of variables hold other values than the source gives them.

        For a variable that holds an element, `a[1]`, the array is noted, since debuggers show that.
        """
        if not found:
            return self
        unsettled = dict(self.unsettled)
        for name, lines in found.items():
            array = name.partition("[")[0]
            unsettled[array] = unsettled.get(array, frozenset()).union(lines)
        return replace(self, unsettled=unsettled)

    def with_remarks(self, transformation: str, reasons: Iterable[tuple[Span | None, str]]) -> Module:
        """The module with these remarks of a transformation, (loop, reason), in place of its earlier remarks."""
        others = [remark for remark in self.remarks if remark.transformation != transformation]
        own = [Remark(transformation, loop, reason) for loop, reason in reasons]
        return replace(self, remarks=tuple(dict.fromkeys((*others, *own))))


def children(node: Node) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    match node:
        case Op() | Local() | Delocal() | Call() | Check() | External():
            return ()
        case Within(compute, body):
            return (compute, body)
        case If(_, then, orelse):
            return (then, orelse)
        case While(_, body) | For(body=body):
            return (body,)


def with_children(node: Node, blocks: Sequence[Block]) -> Node:
    """The statement with other blocks inside: with_children(n, children(n)) == n."""
    match node:
        case Within():
            return node._replace(compute=blocks[0], body=blocks[1])
        case If():
            return node._replace(then=blocks[0], orelse=blocks[1])
        case While() | For():
            return node._replace(body=blocks[0])
        case Op() | Local() | Delocal() | Call() | Check() | External():
            return node


def fits_immediate(value: int) -> bool:
    """Whether a signed constant can stand in an instruction; its negative then can, too."""
    return IMMEDIATE_MIN < value <= IMMEDIATE_MAX
