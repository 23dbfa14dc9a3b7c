"""The heap of a program: cells that are written once, and never freed before the whole run is uncomputed.

    allocate k words:  p += hp;  hp += k        uncomputed:  hp −= k;  p −= hp

Address 0 is the empty list. A cell of a data class begins with the number of its class.
"""

from __future__ import annotations

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.ir.statements import Check, Const, Node, Region, Test, Var
from retrograd.isa.diagnostics import Span


class Heap:
    """The region of the heap, made when it is first used, and the numbers of the data classes."""

    def __init__(self, module: ModuleBuilder, size: int) -> None:
        self._module, self.size = module, size
        self._region: Region | None = None
        self._numbers: dict[type, int] = {}

    @property
    def region(self) -> Region:
        if self._region is None:
            if self._module.memory == 0:
                self._module.static_region("nothing", 1, None)
            self._region = self._module.static_region("heap", self.size, None)
            self._module.outliving.append(self._region)
        return self._region

    @property
    def base(self) -> int:
        assert self.region.address is not None
        return self.region.address

    def number(self, cls: type) -> int:
        """The number of a data class in this program."""
        return self._numbers.setdefault(cls, len(self._numbers))

    def room(self, hp: Var, words: int, span: Span) -> Node:
        """The check that this number of words is free."""
        last = Const(self._module.w.wrap(self.base + self.size - words))
        return Check(Test("geu", last, hp), "RG0811", f"the heap of {self.size} words is full", span)
