"""`Array[fixed, "n"]` and `Stack[int]` for annotations; for type checkers both are `typing.Annotated`, whose first argument counts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Annotated as Array
    from typing import Annotated as Stack
else:
    from retrograd.compiler.language.types import Array, Stack

__all__ = ["Array", "Stack"]
