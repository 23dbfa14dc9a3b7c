"""Types of LLVM values, interned: two equal types are one object.

A vector type has one element for each lane. Pointers are opaque: `Pointer` values (builder.py) carry the type of their elements.
"""

from __future__ import annotations

import struct as packing
from functools import cache
from typing import Literal

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
POINTER = pointer(0)

#: the address spaces of a device's memory and of its constants
GLOBAL, CONSTANT = 1, 4


def storage(w: Format) -> Type:
    """The type of a word in memory: whole bytes."""
    return integer(max(8, w.width))


#: how an integer type becomes a wider one
Extension = Literal["zext", "sext"]
