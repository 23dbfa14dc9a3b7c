"""Cotangents of a machine's words: where they stand, and what became of those of freed ancillas.

What an instruction does to them is in `isa.lifted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, overload


class Store(Protocol):
    """A machine's words: a list of ints, or what a faster machine has in its place."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[int]: ...
    @overload
    def __setitem__(self, index: int, value: int, /) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[int], /) -> None: ...


class Fault(Exception):
    """A guard that did not hold, before the machine adds where it stands."""

    def __init__(self, code: str, value: int | None = None, cotangent: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.value = value
        #: it is a cotangent that does not fit, or cannot come back
        self.cotangent = cotangent


class Cotangents:
    """The companions of all registers and memory words, and what became of those of freed ancillas.

    Crossing a point where an ancilla is freed exchanges its cotangent with a word that belongs to that point of the
    run, zero at first: crossed the other way, the point gives it back. `keep` keeps these words. Without it they are
    lost, `dropped` counts them, and going back over the last of them faults, since all that follows would be wrong.
    `strict` loses none, and faults instead.
    """

    #: +1, or −1 after the host has turned the machine round: which way along its run it goes
    way: int
    #: cotangents dropped that were not zero
    dropped: int
    _crossed: int
    _lost: tuple[int, int] | None

    def __init__(self, registers: Store, memory: Store, *, keep: bool = False, strict: bool = False) -> None:
        self.registers = registers
        self.memory = memory
        self.keep = keep
        self.strict = strict
        self.way = 1
        self.dropped = 0
        #: point of the run -> the cotangent dropped there, where that was not zero
        self.kept: dict[int, int] = {}
        self._crossed = 0
        self._lost = None

    def copy(self) -> Cotangents:
        """The same cotangents and the same account of them, in lists."""
        made = Cotangents(list(self.registers), list(self.memory), keep=self.keep, strict=self.strict)
        made.way, made.dropped, made.kept = self.way, self.dropped, dict(self.kept)
        made._crossed, made._lost = self._crossed, self._lost
        return made

    def clear(self) -> None:
        """All cotangents zero, as before the first step; the count of what was dropped stays."""
        self.registers[:] = [0] * len(self.registers)
        self.memory[:] = [0] * len(self.memory)
        self.kept.clear()
        self._lost = None

    def drop(self, word: int) -> int:
        """Cross a point where the ancilla with this cotangent is free; its cotangent from here on.

        Raises Fault, having changed nothing: RG0409 where a lost cotangent would have to come back, RG0408 where one
        would be lost that must not be.
        """
        # Points are counted along the run, so the same one is met again only from the other side.
        point = self._crossed if self.way > 0 else self._crossed - 1
        if self._lost == (point, -self.way):
            raise Fault("RG0409", cotangent=True)
        if word and self.strict and not self.keep:
            raise Fault("RG0408", word, cotangent=True)
        self._crossed += self.way
        if self.keep:
            back = self.kept.pop(point, 0)
            if word:
                self.kept[point] = word
            return back
        if word:
            self.dropped += 1
            self._lost = point, self.way
        return 0
