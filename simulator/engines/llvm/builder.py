"""Types of LLVM values, interned: two equal types are one object.

A vector type has one element for each lane. Pointers are opaque: `Pointer` values (builder.py) carry the type of their elements.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, reduce
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from retrograd.isa.words import Format


class Type:
    """`text`: as LLVM writes it. `bits`: of an integer, or of each lane's; 0 for other types. `parts`: of a structure."""

    __slots__ = ("bits", "constants", "element", "lanes", "parts", "prefix", "suffix", "text")

    def __init__(self, text: str, bits: int = 0, lanes: int = 1, parts: tuple[Type, ...] = ()) -> None:
        self.text, self.bits, self.lanes, self.parts = text, bits, lanes, parts
        #: the type of one lane
        self.element = self
        #: the prefix of the names of operations on the type, and the suffix of overloaded intrinsics
        self.prefix, self.suffix = "", text
        #: constants of the type as LLVM writes them
        self.constants: dict[float, str] = {}

    def __repr__(self) -> str:
        return self.text

    def vector(self, lanes: int) -> Type:
        """The type with an element of this type in each lane."""
        return self if lanes == self.lanes else _vector(self.element, lanes) if lanes > 1 else self.element

    @property
    def truth(self) -> Type:
        """The type of a comparison of values of this type."""
        return I1 if self.lanes == 1 else I1.vector(self.lanes)

    @property
    def twice(self) -> Type:
        """The integer type of twice as many bits."""
        return integer(2 * self.bits).vector(self.lanes)

    def constant(self, value: float) -> str:
        """A number of this type, the same in every lane. Integers are taken modulo 2^bits; doubles are exact."""
        if isinstance(value, float):
            return self._splat(f"0x{bits_of(value) % (1 << 64):016X}")
        found = self.constants.get(value)
        if found is None:
            if not self.bits:
                raise IllTyped(f"no integer constant of type {self}")
            signed = (value + (half := 1 << self.bits - 1)) % (2 * half) - half
            found = self._splat(str(signed) if self.bits > 1 else ("false", "true")[value & 1])
            self.constants[value] = found
        return found

    def _splat(self, text: str) -> str:
        return text if self.lanes == 1 else f"splat ({self.element} {text})"


class IllTyped(TypeError):
    """Operands whose types do not fit the operation. A fault of the code generator, never of a user's program."""


def bits_of(value: float) -> int:
    """A double's bits."""
    return int(packing.unpack("<q", packing.pack("<d", value))[0])


@cache
def integer(bits: int) -> Type:
    """The integer type of that many bits."""
    return Type(f"i{bits}", bits)


@cache
def _vector(element: Type, lanes: int) -> Type:
    out = Type(f"<{lanes} x {element}>", element.bits, lanes)
    out.element, out.prefix, out.suffix = element, element.prefix, f"v{lanes}{element.suffix}"
    return out


@cache
def structure(*parts: Type) -> Type:
    """The type of values with parts of these types."""
    return Type(f"{{ {', '.join(map(str, parts))} }}", parts=parts)


@cache
def pointer(space: int) -> Type:
    """The type of pointers into an address space."""
    out = Type(f"ptr addrspace({space})" if space else "ptr")
    out.suffix = f"p{space}"
    return out


I1, I8, I32, I64, I128 = map(integer, (1, 8, 32, 64, 128))
VOID = Type("void")
DOUBLE = Type("double")
DOUBLE.prefix, DOUBLE.suffix = "f", "f64"
#: numbers of arrays; computed with as doubles
FLOAT = Type("float")
POINTER = pointer(0)

#: the address spaces of a device's memory, of the memory that a block shares, and of constants
GLOBAL, SHARED, CONSTANT = 1, 3, 4


def storage(w: Format) -> Type:
    """The type of a word in memory: whole bytes."""
    return integer(max(8, w.width))


#: how an integer type becomes a wider one
Extension = Literal["zext", "sext"]


# -----------------------------------------------------------------------------
# Builder of LLVM IR: modules, functions in SSA form, and typed values with operators.
#
#     x + y, x - y, x * y, x & y, x | y, x ^ y, ~x, -x, x << k      an instruction each; an `int` is a constant of the other operand's type
#     x.shr(k), x.sar(k)                                            shift right, unsigned and signed
#     x.eq(y), x.lt(y), x.ltu(y), …                                 comparisons, signed and unsigned; c.select(x, y)
#     p[i], p.load(), p.store(x)                                    memory
#
# A vector type makes the same code work on several lanes at once. Operands of different types raise `IllTyped`.
#
# Within a block, an instruction without effects that was emitted before is not emitted again (local value numbering). A block
# ends with `jump`, `branch`, `switch` or `ret`; `start` jumps from an open block to the block that it starts.
#
# The module is built as text, which LLVM parses. `llvmlite.ir` takes twelve times as long for a module of the same size, and lacks
# `splat` and `poison` constants and the attributes used here.

#: attributes of a function that computes a value and does nothing else
PURE = "nounwind willreturn memory(none)"


def _binary(op: str) -> Callable[[Value, Operand], Value]:
    return lambda x, y: x.code.binary(op, x, y)


def _comparison(how: str) -> Callable[[Value, Operand], Value]:
    return lambda x, y: x.code.compare(how, x, y)


class Value:
    """The result of an instruction, a constant or an argument, in a function."""

    __slots__ = ("code", "name", "type")

    def __init__(self, code: FunctionBuilder, type_: Type, name: str) -> None:
        self.code, self.type, self.name = code, type_, name

    def __repr__(self) -> str:
        return f"{self.type.text} {self.name}"

    def __bool__(self) -> bool:
        raise IllTyped(f"{self} has no truth value while code is built: branch on it, or select")

    __add__, __sub__, __mul__ = _binary("add"), _binary("sub"), _binary("mul")
    __and__, __or__, __xor__, __lshift__ = _binary("and"), _binary("or"), _binary("xor"), _binary("shl")
    #: of doubles
    __truediv__ = _binary("div")
    #: ⌊x / 2^k⌋ of the unsigned number
    shr = _binary("lshr")
    #: quotients of integers, towards 0: undefined for 0, and for −1 where the signed quotient overflows
    udiv, sdiv = _binary("udiv"), _binary("sdiv")

    def sar(self, by: Operand) -> Value:
        """⌊x / 2^by⌋ of the signed number."""
        return self.code.binary("ashr", self, by) if isinstance(by, Value) or by else self

    def __neg__(self) -> Value:
        return self.code.constant(self.type, 0) - self

    def __invert__(self) -> Value:
        return self ^ -1

    eq, ne = _comparison("eq"), _comparison("ne")
    #: signed integers, or doubles
    lt, gt = _comparison("slt"), _comparison("sgt")
    #: unsigned integers
    ltu, leu, gtu, geu = _comparison("ult"), _comparison("ule"), _comparison("ugt"), _comparison("uge")

    def select(self, then: Operand, otherwise: Operand) -> Value:
        """`then` where the truth holds, `otherwise` elsewhere; in vectors lane by lane."""
        code = self.code
        if not isinstance(then, Value):
            if not isinstance(otherwise, Value):
                raise IllTyped(f"the type of neither {then} nor {otherwise} is known")
            then = code.constant(otherwise.type, then)
        t = then.type
        if self.type.element is not I1 or self.type.lanes not in (1, t.lanes):
            raise IllTyped(f"{self} does not choose between values of type {t}")
        return code.let(
            f"select {self.type.text} {self.name}, {t.text} {then.name}, {t.text} {code.operand(otherwise, t)}", t
        )

    # ------------------------------------------------------------------ conversions

    def to(self, type_: Type, extend: Extension = "zext") -> Value:
        """The integer in another width (of each lane, for a vector): truncated, or extended as given."""
        old = self.type
        to = type_ if old.lanes == 1 else type_.vector(old.lanes)
        if to is old:
            return self
        if not (to.bits and old.bits):
            raise IllTyped(f"{self} and {to} are not both integers")
        how = "trunc" if to.bits < old.bits else extend
        return self.code.let(f"{how} {old.text} {self.name} to {to.text}", to)

    def convert(self, how: str, type_: Type) -> Value:
        """The value by one of LLVM's conversions (`bitcast`, `sitofp`, …), in the type or in a vector of it."""
        to = type_.vector(self.type.lanes) if how != "bitcast" else type_
        return self.code.let(f"{how} {self.type.text} {self.name} to {to.text}", to)

    def of(self, element: Type) -> Pointer:
        """The address as a pointer to values of the type."""
        if self.type.bits:
            return self.convert("inttoptr", POINTER).of(element)
        return Pointer(self.code, self.name, element, self.type)

    def splat(self, lanes: int) -> Value:
        """A vector with the value in every lane."""
        code, t = self.code, self.type.vector(lanes)
        one = code.let(f"insertelement {t} poison, {self}, i64 0", t)
        return code.let(f"shufflevector {one}, {t} poison, <{lanes} x i32> zeroinitializer", t)

    def lane(self, k: int) -> Value:
        """The value in a lane of a vector."""
        return self.code.let(f"extractelement {self}, i64 {k}", self.type.element)

    def backward(self) -> Value:
        """A vector with its lanes in the other order."""
        lanes = ", ".join(f"i32 {k}" for k in reversed(range(self.type.lanes)))
        return self.code.let(
            f"shufflevector {self}, {self.type} poison, <{self.type.lanes} x i32> <{lanes}>", self.type
        )

    def part(self, k: int) -> Value:
        """A part of a structure."""
        return self.code.let(f"extractvalue {self.type.text} {self.name}, {k}", self.type.parts[k])


Operand = Value | int | float


class Pointer(Value):
    """A pointer to values of type `element`; to a vector of pointers only `[]` applies."""

    __slots__ = ("element",)

    def __init__(self, code: FunctionBuilder, name: str, element: Type, type_: Type = POINTER) -> None:
        self.code, self.type, self.name, self.element = code, type_, name, element

    def __getitem__(self, index: Value | int) -> Pointer:
        """The pointer to the element that stands `index` behind this one; for a vector of indices, a vector of them."""
        code, base = self.code, self.type
        t, at = (
            (base.vector(index.type.lanes), repr(index)) if isinstance(index, Value) else (base, f"i64 {int(index)}")
        )
        text = f"getelementptr {self.element.text}, {base.text} {self.name}, {at}"
        found = code.known.get(text)
        if found is None:
            found = code.known[text] = Pointer(code, code.name(), self.element, t)
            code.lines.append(f"  {found.name} = {text}")
        return found

    def load(self, align: int = 0, *, volatile: bool = False) -> Value:
        """The value that stands there now. `align`: of the address in bytes, where it is not that of the type."""
        code, t = self.code, self.element
        out = Value(code, t, code.name())
        how, suffix = "load volatile" if volatile else "load", f", align {align}" if align else ""
        code.lines.append(f"  {out.name} = {how} {t.text}, {self.type.text} {self.name}{suffix}")
        return out

    def store(self, value: Operand, align: int = 0) -> None:
        code, t, suffix = self.code, self.element, f", align {align}" if align else ""
        name = code.operand(value, t)
        code.lines.append(f"  store {t.text} {name}, {self.type.text} {self.name}{suffix}")

    def add(self, amount: Operand) -> None:
        """Add to the value that stands there."""
        self.store(self.load() + amount)

    def gather(self, mask: Value, align: int) -> Value:
        """Of a vector of pointers: the words of the lanes in the mask, 0 in the others."""
        zero = self.code.constant(self.element.vector(self.type.lanes), 0)
        return self._masked("gather", zero, self, self.code.constant(I32, align), mask, zero, result=zero.type)

    def scatter(self, value: Value, mask: Value, align: int) -> Value:
        """Of a vector of pointers: write the words of the lanes in the mask."""
        return self._masked("scatter", value, value, self, self.code.constant(I32, align), mask)

    def load_lanes(self, mask: Value, align: int) -> Value:
        """The lanes of a vector that are in the mask, 0 in the others."""
        zero = self.code.constant(self.element, 0)
        return self._masked("load", zero, self, self.code.constant(I32, align), mask, zero, result=zero.type)

    def store_lanes(self, value: Value, mask: Value, align: int) -> Value:
        """Write the lanes of a vector that are in the mask."""
        return self._masked("store", value, value, self, self.code.constant(I32, align), mask)

    def _masked(self, name: str, word: Value, *operands: Value, result: Type = VOID) -> Value:
        over = f".{word.type.suffix}.{self.type.suffix}"
        return self.code.intrinsic(f"masked.{name}", *operands, result=result, over=over, pure=False)

    def atomic_add(self, amount: Value) -> None:
        self.code.do(f"{self.code.name()} = atomicrmw add {self}, {amount} monotonic")

    def atomic_or(self, bits: Value) -> None:
        self.code.do(f"{self.code.name()} = atomicrmw or {self}, {bits} monotonic")


class Block(NamedTuple):
    """A basic block, by its label."""

    label: str


class Callee(NamedTuple):
    """A function as a call sees it. `pure`: a call may be left out where the same call was made before."""

    name: str
    result: Type
    parameters: tuple[Type, ...]
    pure: bool = False
    convention: str = ""


class VectorUnit(NamedTuple):
    """`lanes`: words of 64 bits that an instruction handles. `masks`: memory is read and written in some lanes only.

    `threads`: a second thread can wait for rows of a loop.
    """

    lanes: int
    masks: bool
    threads: bool = False


class ModuleBuilder:
    """A module under construction: globals are defined on first use.

    `divide`: the host's instruction that divides two words by one, as assembly and its constraints, if there is one.
    `tables`: the address space of constant tables. `vector_unit`: of the host, for the loops of a program.
    """

    def __init__(
        self, divide: tuple[str, str] | None = None, tables: int = 0, vector_unit: VectorUnit | None = None
    ) -> None:
        self.divide, self.tables, self.vector_unit = divide, tables, vector_unit
        self._globals: dict[str, str] = {}
        #: functions of the module that are defined
        self.callees: dict[str, Callee] = {}
        self._shared: dict[str, dict[Hashable, Callee]] = {}
        self._declared: dict[tuple[str, tuple[Type, ...]], Callee] = {}
        self.functions: list[FunctionBuilder] = []

    def define(self, name: str, text: str) -> str:
        """A global definition or declaration, once for its name; the name."""
        self._globals.setdefault(name, text)
        return name

    def declare(self, name: str, result: Type, *parameters: Type, pure: bool = True) -> Callee:
        """A function of LLVM, which has its attributes from there, or of the host."""
        found = self._declared.get((name, parameters))
        if found is None:
            self.define(f"@{name}", f"declare {result} @{name}({', '.join(map(str, parameters))})")
            found = self._declared[name, parameters] = Callee(f"@{name}", result, parameters, pure)
        return found

    def function(
        self,
        name: str,
        result: Type,
        parameters: Mapping[str, Type],
        attributes: str = "nounwind",
        *,
        linkage: str = "internal",
        convention: str = "",
        restrict: Collection[str] = (),
    ) -> FunctionBuilder:
        """A new function, to be filled. `restrict`: pointers to memory that the function reaches by no other parameter."""
        given = ", ".join(f"{t}{' noalias' * (p in restrict and not t.bits)} %{p}" for p, t in parameters.items())
        head = " ".join(filter(None, ("define", linkage, convention, str(result), f"@{name}({given})", attributes)))
        types = tuple(parameters.values())
        callee = self.callees[name] = Callee(f"@{name}", result, types, "memory(none)" in attributes, convention)
        out = FunctionBuilder(self, head, callee, list(parameters))
        self.functions.append(out)
        return out

    def shared(
        self,
        name: str,
        result: Type,
        parameters: Mapping[str, Type],
        attributes: str,
        build: Callable[..., Value],
        of: Hashable = None,
    ) -> Callee:
        """An internal function, defined on first use: `build` emits its body, given it and its arguments, and returns the result.

        `of`: what it computes, where its name does not say it all; each gets a name of its own, as f and f_2.
        """
        same = self._shared.setdefault(name, {})
        if of not in same:
            f = self.function(f"{name}_{len(same) + 1}" if same else name, result, parameters, attributes)
            same[of] = f.callee
            f.ret(build(f, *f.arguments))
        return same[of]

    def table(self, values: Sequence[int], t: Type) -> str:
        """The name of a constant table with words of that type."""
        name, text = _table(tuple(values), t, self.tables)
        return self.define(name, text)

    def text(self) -> str:
        return "\n\n".join([*self._globals.values(), *(f.text() for f in self.functions)]) + "\n"


@cache
def _table(values: tuple[int, ...], t: Type, tables: int) -> tuple[str, str]:
    """(name, definition) of a constant table."""
    words = [v % (1 << t.bits) for v in values]
    name = f"@table_{sha256(repr((t.bits, words)).encode()).hexdigest()[:16]}"
    space = f"addrspace({tables}) " if tables else ""
    entries = ", ".join([f"{t.text} {v}" for v in words])
    return name, f"{name} = internal unnamed_addr {space}constant [{len(words)} x {t}] [{entries}]"


class FunctionBuilder:
    """A function under construction: instructions are added at the end of the open block."""

    def __init__(self, module: ModuleBuilder, head: str, callee: Callee, names: Sequence[str]) -> None:
        self.module, self.callee = module, callee
        self._head = head
        #: the parameters, as values
        self.arguments = [Value(self, t, f"%{n}") for n, t in zip(names, callee.parameters, strict=True)]
        self._variables: list[str] = []
        self.lines: list[str] = []
        #: (number of lines, place): lines from there on are emitted for that place of a program (stack_accesses.py)
        self.places: list[tuple[int, int]] = []
        self._count = 0
        #: parameters, labels and variables that begin with a name
        self._labels: dict[str, int] = dict.fromkeys(names, 1)
        self._constants: dict[tuple[Type, float], Value] = {}
        self._hidden: dict[tuple[Type, int], Value] = {}
        #: value numbering: text of an instruction -> its result in this block
        self.known: dict[str, Any] = {}
        #: facts about values of this block, for folds: forgotten where the values are
        self.facts: dict[Value, Any] = {}
        #: word of this block -> the double next to it, where that was computed with the word
        self.doubles: dict[Value, Value] = {}
        #: LLVM's name for the first block
        self.block_now = Block("0")
        self._open = True

    def text(self) -> str:
        return "\n".join([f"{self._head} {{", *self._variables, *self.lines, "}"])

    # ------------------------------------------------------------------ instructions

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def let(self, text: str, type_: Type) -> Value:
        """The result of an instruction without effects, which is emitted once in a block."""
        found = self.known.get(text)
        if found is None:
            self._count += 1
            found = self.known[text] = Value(self, type_, f"%v{self._count}")
            self.lines.append(f"  {found.name} = {text}")
        return found

    def constant(self, type_: Type, value: float) -> Value:
        found = self._constants.get((type_, value))
        if found is None:
            found = self._constants[type_, value] = Value(self, type_, type_.constant(value))
        return found

    def number(self, value: Value) -> int | None:
        """The signed integer that a constant is; None for other values."""
        return int(value.name) if value.type.bits > 1 and value.name.lstrip("-").isdecimal() else None

    def operand(self, value: Operand, type_: Type) -> str:
        """The name of an operand that must have the type; a number becomes a constant of it."""
        if isinstance(value, Value):
            if value.type is type_:
                return value.name
            raise IllTyped(f"{value} where {type_} is meant")
        return type_.constants.get(value) or type_.constant(value)

    def binary(self, op: str, x: Value, y: Operand) -> Value:
        t = x.type
        name = y.name if y.__class__ is Value and y.type is t else self.operand(y, t)
        text = f"{t.prefix}{op} {t.text} {x.name}, {name}"
        found = self.known.get(text)
        if found is None:
            if not t.bits and not t.prefix:
                raise IllTyped(f"{op} of {x}")
            found = self.let(text, t)
        return found

    def compare(self, how: str, x: Value, y: Operand) -> Value:
        t = x.type
        op = f"fcmp o{how[-2:]}" if t.prefix else f"icmp {how}"
        name = y.name if y.__class__ is Value and y.type is t else self.operand(y, t)
        return self.let(f"{op} {t.text} {x.name}, {name}", t.truth)

    def all(self, truths: Iterable[Value]) -> Value:
        """Whether all hold."""
        return self._folded("and", truths, self.constant(I1, 1))

    def any(self, truths: Iterable[Value], type_: Type = I1) -> Value:
        """Whether one holds; in lanes, `type_` is their type."""
        return self._folded("or", truths, self.constant(type_, 0))

    def _folded(self, op: str, truths: Iterable[Value], none: Value) -> Value:
        return reduce(partial(self.binary, op), truths) if (truths := list(truths)) else none

    def vector(self, values: Sequence[int], type_: Type) -> Value:
        """The constant vector of the numbers."""
        entries = ", ".join(f"{type_} {v}" for v in values)
        return Value(self, type_.vector(len(values)), f"<{entries}>")

    def pack(self, *values: Value) -> Value:
        """The structure of the values."""
        t, out = structure(*(v.type for v in values)), "poison"
        for k, value in enumerate(values):
            found = self.let(f"insertvalue {t} {out}, {value}, {k}", t)
            out = found.name
        return found

    def gathered(self, values: Sequence[Value]) -> Value:
        """The vector with each value in its lane."""
        t = values[0].type.vector(len(values))
        found = "poison"
        for k, value in enumerate(values):
            found = self.let(f"insertelement {t} {found}, {value}, i64 {k}", t).name
        return Value(self, t, found)

    def phi(self, *arms: tuple[Operand, Block], type_: Type) -> Value:
        """At the beginning of a block: the value that belongs to the block from which control came."""
        given = ", ".join(f"[ {self.operand(v, type_)}, %{block.label} ]" for v, block in arms)
        out = Value(self, type_, self.name())
        self.do(f"{out.name} = phi {type_} {given}")
        return out

    # ------------------------------------------------------------------ calls

    def call(self, callee: Callee, *arguments: Operand, tail: str = "") -> Value:
        if len(arguments) != len(callee.parameters):
            raise IllTyped(f"{callee.name} takes {len(callee.parameters)} arguments, not {len(arguments)}")
        given = ", ".join([f"{t.text} {self.operand(v, t)}" for v, t in zip(arguments, callee.parameters, strict=True)])
        convention = f"{callee.convention} " if callee.convention else ""
        text = f"{tail}call {convention}{callee.result.text} {callee.name}({given})"
        if callee.pure:
            return self.let(text, callee.result)
        if callee.result is VOID:
            self.do(text)
            return Value(self, VOID, "")
        out = Value(self, callee.result, self.name())
        self.do(f"{out.name} = {text}")
        return out

    def intrinsic(
        self, name: str, *arguments: Value, result: Type | None = None, over: str | None = None, pure: bool = True
    ) -> Value:
        """A call of LLVM's function of that name, overloaded by the type of the first argument, or as in `over`."""
        types = tuple(v.type for v in arguments)
        suffix = f".{types[0].suffix}" if over is None else over
        callee = self.module.declare(f"llvm.{name}{suffix}", result or types[0], *types, pure=pure)
        return self.call(callee, *arguments)

    def assembly(self, template: str, constraints: str, result: Type, *arguments: Value) -> Value:
        """Instructions of the host that only compute."""
        return self.let(f'call {result} asm "{template}", "{constraints}"({", ".join(map(repr, arguments))})', result)

    def opaque(self, value: Value) -> Value:
        """The same value, of which LLVM knows nothing: nothing that is computed from it is moved in front of this place."""
        out = Value(self, value.type, self.name())
        self.do(f'{out.name} = call {value.type} asm sideeffect "", "=l,0"({value})')
        return out

    def hidden(self, type_: Type, number: int) -> Value:
        """The constant in a register of the host, made once where the function begins; LLVM does not know its value."""
        found = self._hidden.get((type_, number))
        if found is None:
            found = self._hidden[type_, number] = Value(self, type_, f"%{self._label('hidden')}")
            self._variables.append(f'  {found.name} = call {type_} asm "", "=r,0"({type_} {type_.constant(number)})')
        return found

    # ------------------------------------------------------------------ memory

    def variable(
        self, type_: Type, name: str, value: Operand | None = None, *, count: int = 1, align: int = 0
    ) -> Pointer:
        """Memory of the function itself, for `count` values. LLVM turns single ones into values where it can."""
        name = self._label(name)
        size, aligned = f", i64 {count}" * (count > 1), f", align {align}" * (align > 0)
        self._variables.append(f"  %{name} = alloca {type_}{size}{aligned}")
        out = Pointer(self, f"%{name}", type_)
        if value is not None:
            out.store(value)
        return out

    # ------------------------------------------------------------------ control flow

    def _label(self, name: str) -> str:
        k = self._labels.get(name, 0)
        self._labels[name] = k + 1
        return f"{name}_{k}" if k else name

    def block(self, name: str) -> Block:
        """A new block, not started yet."""
        return Block(self._label(name))

    def start(self, block: Block, *, keep: bool = False) -> None:
        """Begin a block. `keep`: all that was computed so far is computed on every way to it."""
        if self._open:
            self.jump(block)
        self.lines.append(f"{block.label}:")
        self.block_now, self._open = block, True
        if not keep:
            self.known.clear()
            self.facts.clear()
            self.doubles.clear()

    def _end(self, text: str) -> None:
        self.do(text)
        self._open = False

    def jump(self, to: Block) -> None:
        self._end(f"br label %{to.label}")

    def branch(self, truth: Value, then: Block, otherwise: Block, likely: bool | None = None) -> None:
        """To one block where the truth holds, else to the other. `likely`: which of the two nearly always comes."""
        weights = ""
        if likely is not None:
            how = "i32 1000000, i32 1" if likely else "i32 1, i32 1000000"
            name = self.module.define(f"!{int(not likely)}", f'!{int(not likely)} = !{{!"branch_weights", {how}}}')
            weights = f", !prof {name}"
        self._end(f"br i1 {self.operand(truth, I1)}, label %{then.label}, label %{otherwise.label}{weights}")

    def switch(self, value: Value, otherwise: Block, cases: Iterable[tuple[int, Block]]) -> None:
        given = " ".join(f"{value.type} {k}, label %{to.label}" for k, to in cases)
        self._end(f"switch {value}, label %{otherwise.label} [ {given} ]")

    def ret(self, value: Operand | None = None) -> None:
        t = self.callee.result
        self._end("ret void" if value is None else f"ret {t} {self.operand(value, t)}")

    @contextmanager
    def when(self, truth: Value, name: str = "then", likely: bool | None = None) -> Iterator[None]:
        """Code emitted inside runs only where the truth holds."""
        then, after = self.block(name), self.block(f"{name}.end")
        self.branch(truth, then, after, likely)
        self.start(then)
        yield
        self.start(after)

    @contextmanager
    def unless(self, truth: Value, name: str, likely: bool | None = True) -> Iterator[None]:
        """Code emitted inside runs only where the truth does not hold. `likely`: whether it nearly always holds."""
        otherwise, after = self.block(name), self.block(f"{name}.end")
        self.branch(truth, after, otherwise, likely)
        self.start(otherwise)
        yield
        self.start(after)

    def likely(
        self, truth: Value, values: Sequence[Value], otherwise: Callable[[], Sequence[Value]]
    ) -> Sequence[Value]:
        """The values where the truth holds, as it nearly always does; elsewhere the values that `otherwise` emits."""
        here, rare, both = self.block_now, self.block("rare"), self.block("both")
        self.branch(truth, both, rare, likely=True)
        self.start(rare, keep=True)
        # Instructions of that block are not known beyond it.
        known, doubles = self.known, self.doubles
        self.known, self.doubles = {}, {}
        others = otherwise()
        self.known, self.doubles, there = known, doubles, self.block_now
        self.start(both, keep=True)
        return [self.phi((x, here), (y, there), type_=x.type) for x, y in zip(values, others, strict=True)]

    @contextmanager
    def loop(self, count: Operand, name: str = "loop") -> Iterator[Value]:
        """Code emitted inside runs for k = 0 … count − 1."""
        with self.counting(0, 1, lambda k: k.lt(count), name) as k:
            yield k

    @contextmanager
    def counting(
        self, first: Operand, step: Operand, more: Callable[[Value], Value], name: str = "loop"
    ) -> Iterator[Value]:
        """Code emitted inside runs for k = first, first + step, … as long as `more(k)` holds."""
        counter = self.variable(I64, f"{name}.k", first)
        head, body, after = self.block(name), self.block(f"{name}.body"), self.block(f"{name}.end")
        self.start(head)
        k = counter.load()
        self.branch(more(k), body, after)
        self.start(body)
        yield k
        counter.store(k + step)
        self.jump(head)
        self.start(after)
