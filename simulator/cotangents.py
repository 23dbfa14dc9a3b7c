"""Cotangents of a machine's words, and the account of cotangents that were dropped when their ancillas were freed.

The steps of cotangents are computed from the table of instructions, in `isa/derivatives/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, overload


class Store(Protocol):
    """A machine's words: a list of ints, or the sequence that another engine has in its place."""

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
    """A guard did not hold. The machine makes a Trap of it, which names the place."""

    def __init__(self, code: str, value: int | None = None, cotangent: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.value = value
        #: whether a cotangent does not fit, or cannot come back
        self.cotangent = cotangent


class Cotangents:
    """The cotangents of all registers and memory words.

    An ancilla is freed at a point of the run. Crossing the point exchanges the ancilla's cotangent with a word that belongs to
    the point and is zero at first. Crossing it the other way exchanges them back. With `keep`, these words are kept. Without,
    they are lost: `dropped` counts the lost words that are not zero, and to cross the last such point backward is a fault, since every
    later cotangent would be wrong. With `strict`, to lose a cotangent that is not zero is a fault.
    """

    #: +1 along the run; −1 after `Machine.turn`, against it
    way: int
    #: how many cotangents were dropped that were not zero
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
        #: point of the run -> the cotangent dropped there, if it was not zero
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
        """Set all cotangents to zero, as before the first step. The count of dropped cotangents stays."""
        self.registers[:] = [0] * len(self.registers)
        self.memory[:] = [0] * len(self.memory)
        self.kept.clear()
        self._lost = None

    def drop(self, word: int) -> int:
        """Cross a point at which the ancilla with this cotangent is freed. Returns its cotangent behind the point.

        Raises Fault, having changed nothing: RG0409 if a lost cotangent would have to come back, RG0408 if a cotangent would be
        lost and `strict` forbids it.
        """
        # Points are counted along the run, so a point is met again only from its other side.
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
