"""Machines for long runs on many words, whose memory is an array from the first step on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from retrograd.isa.diagnostics import api_boundary
from retrograd.simulator.engines.machines.tiered_machine import TieredMachine
from retrograd.simulator.engines.state.words import words_with_spare
from retrograd.simulator.stores import Store


class ArrayMachine(TieredMachine):
    """A machine whose memory is an array from the first step on. Compiled code uses it as it is; Python is slower with it."""

    def _first_memory(self, size: int) -> Store:
        memory = words_with_spare(size, self.format)
        memory[: len(self.program.data)] = self.program.data
        return memory

    @api_boundary
    def load(self, address: int, words: Iterable[int]) -> None:
        if isinstance(address, int) and isinstance(words, np.ndarray) and (words.dtype, words.ndim) == (np.uint64, 1):
            end = address + len(words)
            if 0 <= address <= end <= len(self._memory):
                self._memory[address:end] = words & self.format.mask
                return
        super().load(address, words)
