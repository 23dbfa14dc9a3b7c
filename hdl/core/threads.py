"""Threads of the core barrel: signals in the cycles of a turn, and a thread as a simulator sees it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.memory import MemoryData
from retrograd.hdl.core.ports import Space


class Delays:
    """Signals in later cycles of their turns. The registers stand in a module of their own: a condition of another
    module does not hold them.
    """

    def __init__(self) -> None:
        self.module = Module()
        self._chains: dict[int, tuple[Any, list[Any]]] = {}

    def __call__(self, signal: Any, cycles: int, reset: bool = False) -> Any:
        """The signal as it was some cycles ago. `reset`: it is 0 after a reset, and else undefined."""
        value = Value.cast(signal)
        _, chain = self._chains.setdefault(id(signal), (signal, [value]))
        while len(chain) <= cycles:
            later = Signal(value.shape(), name=f"{getattr(signal, 'name', 'field')}_{len(chain)}", reset_less=not reset)
            self.module.d.sync += later.eq(chain[-1])
            chain.append(later)
        return chain[cycles]


class Thread:
    """A thread of a `BarrelCore`, for a simulator: its place in the memories, and when its instructions retire."""

    def __init__(self, core: Any, number: int) -> None:
        self.parameters, self.core, self.number = core.parameters, core, number
        self.retirement = ThreadRetirement(core, number)

    def cell(self, space: Space, address: int) -> tuple[MemoryData, int]:
        """The memory that holds a word, and its address there."""
        core = self.core
        match space:
            case Space.REGISTERS | Space.REGISTER_COTANGENTS:
                found: tuple[MemoryData, int]
                found = core.register(self.number, space is Space.REGISTER_COTANGENTS, address)
                return found
            case Space.DATA:
                return core.words, self.number * core.room + address
            case Space.DATA_COTANGENTS:
                return core.cotangents, self.number * core.room + address
            case Space.CODE:
                return core.code, address


class ThreadRetirement:
    """The retirement port as one thread has it: valid if the instruction is one of the thread."""

    def __init__(self, core: Any, number: int) -> None:
        self.valid = core.told[number]
        self._port = core.retirement

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)
