"""What is no struct is refused with a reason, where the class stands in a file also with its place."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import retrograd as rg
from retrograd import Array, fixed


def derived_from_a_struct() -> Any:
    @rg.struct
    class Point:
        x: fixed

    @rg.struct
    class Far(Point):
        y: fixed


def array_of_itself() -> Any:
    @rg.struct
    class Tree:
        children: Array[Tree, 2]


def without_fields() -> Any:
    @rg.struct
    class Nothing:
        pass


def named_tuple() -> Any:
    @rg.struct
    class Pair(NamedTuple):
        x: fixed


def enumeration() -> Any:
    @rg.struct
    class Colour(enum.Enum):
        red: int = 1


def error() -> Any:
    @rg.struct
    class Failure(Exception):
        x: int


def text() -> Any:
    @rg.struct
    class Name:
        first: str


def array_of_texts() -> Any:
    @rg.struct
    class Row:
        x: Array[str, 3]


def mutable_default() -> Any:
    @rg.struct
    class Row:
        x: Array[fixed, 2] = [0.0, 0.0]  # type: ignore[assignment] # noqa: RUF012


def default_before_none() -> Any:
    @rg.struct
    class Row:
        x: fixed = 0.0
        y: fixed


def no_class() -> Any:
    return rg.struct(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        derived_from_a_struct, array_of_itself, without_fields, named_tuple, enumeration, error, text, array_of_texts,
        mutable_default, default_before_none, no_class,
    ],
)  # fmt: skip
def test_what_is_no_struct_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(rg.CompileError) as refused:
        make()
    assert refused.value.code == "RG0722"
    assert (refused.value.diagnostics[0].span is None) is (make is no_class)


def test_an_unknown_type_of_a_field_is_named() -> None:
    with pytest.raises(rg.CompileError, match="did you mean `fixed`") as refused:

        @rg.struct
        class Point:
            x: fixd  # type: ignore[name-defined]

    assert refused.value.code == "RG0702"


def test_a_struct_may_derive_from_a_class_of_methods() -> None:
    class Shown:
        def shown(self) -> str:
            return f"<{self.x}>"  # type: ignore[attr-defined]

    @rg.struct
    class Point(Shown):
        x: fixed

    assert Point(1.5).shown() == "<1.5>"
