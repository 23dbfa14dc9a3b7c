"""Types of lists and of values of data classes among the arguments of a function.

    value  ↔  fixed numbers, and integers: its ints and bools, the lengths of its lists, the numbers of its classes

The form of a value is its integers without ints and bools: two values of one form differ in numbers only. A program is compiled for each form of
its arguments, as for each shape of an array.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from retrograd.compiler.language.types import FIXED, INT, ArrayType, StructType

#: the integers of a value; None for each int and bool
Form = tuple[int | None, ...]


class Encoded(NamedTuple):
    """The numbers of a value, its integers, and its form."""

    numbers: list[float]
    integers: list[int]
    form: Form


class Structure(ABC):
    """The type of lists or data classes that an annotation names. `str(structure)` is the annotation."""

    @property
    @abstractmethod
    def holds_numbers(self) -> bool:
        """Whether values of this type may hold fixed numbers."""

    @abstractmethod
    def encoded(self, value: Any, name: str) -> Encoded:
        """A value as numbers and integers. Raises TypeError with the place at which the value is of another type."""

    @abstractmethod
    def decoded(self, numbers: Sequence[Any], integers: Sequence[int | None]) -> Any:
        """The value of these numbers and integers; None in place of an integer is an int or bool that is zero. Raises ValueError if there is none."""

    @abstractmethod
    def form_of(self, integers: Sequence[int]) -> Form:
        """The form of a value with these integers. Raises ValueError if there is none."""

    def type_for(self, value: Any, name: str) -> FormType:
        """The type of arguments of this form. Raises TypeError."""
        found = self.encoded(value, name)
        return self.sized(len(found.numbers), len(found.integers), found.form)

    def sized(self, numbers: int, integers: int, form: Form | None = None) -> FormType:
        """The type of values with this many numbers and integers."""
        fields = ("numbers", ArrayType(FIXED, (numbers,))), ("integers", ArrayType(INT, (integers,)))
        return FormType(object, fields, self, form)


@dataclass(frozen=True)
class Unfilled:
    """The place of a result before a run: zeros, for this many numbers and integers."""

    numbers: int
    integers: int


@dataclass(frozen=True)
class FormType(StructType):
    """A list or a value of a data class: an array of its numbers, then one of its integers. `form` is None for a result, which is open."""

    structure: Structure
    form: Form | None

    @property
    def count(self) -> int:
        """How many numbers the value has."""
        return self.fields[0][1].size

    def filled(self, words: Sequence[int]) -> FormType:
        """The type of the value that these words hold: a result with its form. Raises ValueError if they hold none."""
        return replace(self, form=self.structure.form_of([int(x) for x in words[self.count :]]))

    def __str__(self) -> str:
        return str(self.structure)
