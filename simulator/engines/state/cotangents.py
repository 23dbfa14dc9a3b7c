"""Cotangents in arrays, with their account in the control block, where compiled code keeps it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from retrograd.simulator.engines.state.control_block import Slot
from retrograd.simulator.stores import Cotangents, Store


class SharedCotangents(Cotangents):
    """Cotangents whose account lies in the control block."""

    def __init__(self, control: NDArray[np.int64], *words: Store, keep: bool, strict: bool) -> None:
        self._control = control
        super().__init__(*words, keep=keep, strict=strict)

    def take_over(self, old: Cotangents) -> None:
        """Copy the account of other cotangents."""
        self.way, self.dropped, self.kept = old.way, old.dropped, old.kept
        self._crossed, self._lost = old._crossed, old._lost

    @property
    def way(self) -> int:
        return int(self._control[Slot.WAY])

    @way.setter
    def way(self, way: int) -> None:
        self._control[Slot.WAY] = way

    @property
    def dropped(self) -> int:
        return int(self._control[Slot.DROPPED])

    @dropped.setter
    def dropped(self, count: int) -> None:
        self._control[Slot.DROPPED] = count

    @property
    def _crossed(self) -> int:
        return int(self._control[Slot.CROSSED])

    @_crossed.setter
    def _crossed(self, point: int) -> None:
        self._control[Slot.CROSSED] = point

    @property
    def _lost(self) -> tuple[int, int] | None:
        way = int(self._control[Slot.LOST_WAY])
        return (int(self._control[Slot.LOST_POINT]), way) if way else None

    @_lost.setter
    def _lost(self, lost: tuple[int, int] | None) -> None:
        self._control[Slot.LOST_POINT], self._control[Slot.LOST_WAY] = lost or (0, 0)
