"""Program: code, data, symbols and positions in the source, as assembler, compiler and machines exchange them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from retrograd.isa.diagnostics import Diagnostic, ImageError, Span, VerificationError
from retrograd.isa.encoding import Instruction, decode, encode, has_word, inverse
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Q32_32, Format, format_of

#: Limits of an image or a text, larger than any program.
MAX_CODE = 1 << 24
MAX_DATA = 1 << 26


@dataclass(frozen=True)
class SourceMap:
    """instruction address -> span: `spans[pc]` is (index into `files`, line, column, end), or None."""

    files: tuple[str, ...] = ()
    spans: Sequence[tuple[int, int, int, int] | None] = ()
    #: the lines of each file, where the sources are at hand; for showing, never stored in images
    texts: tuple[Sequence[str], ...] = ()

    def line(self, span: Span | None) -> str | None:
        """The text of the line that a span points into, if known."""
        if span is None or span.file not in self.files[: len(self.texts)]:
            return None
        lines = self.texts[self.files.index(span.file)]
        return lines[span.line - 1] if span.line <= len(lines) else None

    def span(self, pc: int) -> Span | None:
        if not 0 <= pc < len(self.spans):
            return None
        found = self.spans[pc]
        return None if found is None else Span(self.files[found[0]], *found[1:])


class ArrayLayout(NamedTuple):
    """The words of an array, relative to its base: element (i, j, …) lies at offset + i·strides[0] + j·strides[1] + …

    An array of structs has a layout for each of its fields. A shape of () is one word.
    """

    name: str
    #: "int", "fixed", "lognum" or "bool"
    kind: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    #: of each axis of a stack: how many words before the stack's first element, or a field of it, its count lies; 0 for
    #: axes of arrays. Empty without stacks
    counts: tuple[int, ...] = ()

    def element_at(self, word: int) -> str | None:
        """The name of the element at a word of the region, `m[5]` by its number in row-major order; None where the word is no element."""
        rest, flat = word - self.offset, 0
        for n, stride in zip(self.shape, self.strides, strict=True):
            i, rest = divmod(rest, stride)
            if not 0 <= i < n:
                return None
            flat = flat * n + i
        return None if rest or any(self.counts[:1]) else f"{self.name}[{flat}]" if self.shape else self.name


class VariableLocation(NamedTuple):
    """The register or word of memory that holds a variable of the source at some points of the code (a DWARF location list entry).

    Point p lies before the instruction at address p and behind the one at p − 1. The location holds from `first` to `last`.
    The variable is zero where its life begins and where it ends. Trap: within one statement a word may lie elsewhere for a few instructions.
    """

    name: str
    #: "int", "fixed", "lognum", "bool" or "address"
    kind: str
    first: int
    last: int
    number: int
    #: whether `number` is an address of memory; else it is a register
    memory: bool = False
    #: of an array: its base is `number` itself, or the word in this place where `indirect`
    layout: ArrayLayout | None = None
    indirect: bool = False

    def indices(self, address: int) -> tuple[int, ...] | None:
        """The indices of the element of an array at an address, or None. Trap: the base of an `indirect` array is not known here."""
        layout = self.layout
        if layout is None or self.indirect:
            return None
        rest = address - self.number  # of the first element, at any offset
        out = [0] * len(layout.shape)
        for axis in sorted(range(len(out)), key=lambda k: -abs(layout.strides[k])):
            n, stride = layout.shape[axis], layout.strides[axis]
            if stride > 0:
                out[axis] = min(max(rest // stride, 0), n - 1)
                rest -= out[axis] * stride
        return tuple(out) if rest == 0 and 0 not in layout.shape else None


#: the instructions from which on it takes less time to skip an uncompute block without branches than to execute it
WORTH_SKIPPING = 8


@dataclass(frozen=True)
class Hints:
    """The places of uncompute blocks, for engines that skip them.

    Engines verify each, so a wrong hint costs time and changes no result.

        code[undo:after] = code[start:end]⁻¹       (start, end, undo, after) is a pair
        code[at] accesses memory[base : base + size]       (at, base, size) is an access

    Addresses of a program whose code is edited are wrong, and are dropped or verified in vain. Hints without a pair are
    used on a device (cuda/teams.py), and are neither printed nor stored in images.
    """

    pairs: tuple[tuple[int, int, int, int], ...] = ()
    accesses: tuple[tuple[int, int, int], ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash((self.pairs, self.accesses))

    def __hash__(self) -> int:
        return self._hash

    def reflected(self, length: int) -> Hints:
        """The hints of the inverse program."""
        pairs = tuple(
            (length - after, length - undo, length - end, length - start) for start, end, undo, after in self.pairs
        )
        return Hints(pairs, tuple((length - 1 - at, base, size) for at, base, size in self.accesses))


@dataclass(frozen=True)
class Program:
    """`~program` is the inverse program: the inverses of its instructions, last first.

    `code` holds encoded instructions, `data` the first words of memory, `memory` its size in words (at least
    that of the data), `labels` code addresses and `data_labels` memory addresses by name.
    """

    code: Sequence[int]
    data: Sequence[int] = ()
    memory: int = 0
    #: a name, such as "Q16.48", becomes the format
    format: Format = Q32_32
    labels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    data_labels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    source: SourceMap = field(default=SourceMap(), compare=False, repr=False)
    table: Table = field(default=TABLE, compare=False, repr=False)
    #: the registers that a text names by `.reg`; for showing, never stored in images
    register_names: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)
    #: the variables of a compiled source; for showing, never stored in images
    variables: Sequence[VariableLocation] = field(default=(), compare=False, repr=False)
    #: variable or array -> the lines, (file, line), at which its place may not hold the value of the source: the
    #: optimiser has
    #: joined, moved or cancelled updates there, or holds an element in a register, or a view has changed the word.
    #: For showing, never stored in images.
    unsettled: Mapping[str, frozenset[tuple[str, int]]] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )

    hints: Hints = field(default=Hints(), compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        # Labels may be a read-only view of a mapping, which has no pickle.
        shown = dict(self.register_names), self.variables, dict(self.unsettled)
        where = dict(self.labels), dict(self.data_labels), self.source, self.table, *shown
        return type(self), (self.code, self.data, self.memory, self.format, *where, self.hints)

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", format_of(self.format))
        object.__setattr__(self, "code", tuple(self.code))
        object.__setattr__(self, "data", tuple(self.data))
        object.__setattr__(self, "memory", max(self.memory, len(self.data)))

    @cached_property
    def made(self) -> dict[Any, Any]:
        """Objects that are made of the program once, by a key, such as the code that machines have decoded."""
        return {}

    @cached_property
    def digest(self) -> str:
        """A digest of the code: programs with the same instructions have the same digest. It does not depend on data and names."""
        return hashlib.sha256(b"".join(word.to_bytes(8, "little") for word in self.code)).hexdigest()[:32]

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The code decoded. Raises ImageError RG0306, naming the address, for an illegal encoding."""
        out: list[Instruction] = []
        narrow = self.format.width < 32
        try:
            for word in self.code:
                i = decode(word, self.table)
                out.append(self._within_word(i) if narrow else i)
        except ImageError as error:
            found = error.diagnostics[0]
            span = self.source.span(len(out))
            raise ImageError(Diagnostic(found.code, f"address {len(out)}: {found.message}", span)) from None
        return tuple(out)

    def _within_word(self, i: Instruction) -> Instruction:
        """The instruction. Raises if its constant does not fit the word of this width, which would cut it."""
        if not has_word(i, self.format):
            message = f"{i.opcode.name}: the constant {i.imm} does not fit in {self.format.width} bits"
            raise ImageError(Diagnostic("RG0306", message))
        return i

    @cached_property
    def start(self) -> int:
        """The address of the one `start`. Raises VerificationError RG0204."""
        return self._only("start", "RG0204")

    @cached_property
    def finish(self) -> int:
        """The address of the one `finish`. Raises VerificationError RG0205."""
        return self._only("finish", "RG0205")

    def _only(self, name: str, code: str) -> int:
        found = [pc for pc, i in enumerate(self.instructions) if i.opcode.name == name]
        if len(found) != 1:
            span = self.source.span(found[1]) if len(found) > 1 else None
            raise VerificationError(Diagnostic(code, f"the program has {len(found)} `{name}`, not one", span))
        return found[0]

    def __invert__(self) -> Program:
        """The inverse program: ~~p == p. An instruction at address p moves to n−1−p."""
        last = len(self.code) - 1
        code = [encode(inverse(i, self.table)) for i in reversed(self.instructions)]
        spans = tuple(reversed(self.source.spans))
        return replace(
            self,
            code=code,
            # A label at the very end names no instruction, and stays there.
            labels={name: pc if pc > last else last - pc for name, pc in self.labels.items()},
            source=replace(self.source, spans=spans),
            variables=tuple(v._replace(first=last + 1 - v.last, last=last + 1 - v.first) for v in self.variables),
            hints=self.hints.reflected(last + 1),
        )


#: Reads the program in a file. `retrograd.program_files` sets it, since readers of text and images do not belong to the
#: definition.
reader: Callable[[str | os.PathLike[str]], Program] | None = None


def program_at(source: Any) -> Program:
    """The program in the file at a path. Raises TypeError for anything else, and the errors of the reader."""
    if reader is not None and isinstance(source, str | os.PathLike):
        return reader(source)
    raise TypeError(f"expected a Program, or for `retrograd.Machine` the path of one, not {type(source).__name__}")
