"""Tiered compilation of a module: code without optimisation at once, and optimised code from the background.

    code = TieredCode(key, symbol, emit, level, price)       code.address: the fastest code that is loaded
    code.count(seconds)                                      after each run, as long as `code.pending`

Code of a low price is optimised at once, and code on the disk is loaded. Otherwise LLVM's level 0 makes the first code, in about a
tenth of the time. The optimised code is begun by the policy's rule for tiers: once the first code has run for a share of its
price. Both are made from one module, and both compute the same. So a run may use either.

Traps: the address changes only in `count`. A run that has read the address keeps its code, which stays loaded as long as the process.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import Future

from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.llvm.jit import background, jit_compiler
from retrograd.simulator.engines.tiering import Decision, Reason


class TieredCode:
    """The code of a module with one symbol. `address` is 0 until there is code, which can be so only with `first=False`.

    `price`: seconds that the optimised code takes to compile. `first`: make code of level 0 where that price is high; without
    it, the optimised code is begun at once. `most`: the price up to which the caller waits, if it is less than
    `Costs.wait`.
    """

    def __init__(
        self,
        key: str,
        symbol: str,
        emit: Callable[[], str],
        level: int,
        price: float,
        *,
        first: bool = True,
        most: float = math.inf,
    ) -> None:
        self._key, self._symbol, self._emit, self._level, self._price = key, symbol, emit, level, price
        self._spent = 0.0
        self._future: Future[bytes] | None = None
        self._process = 0
        #: optimised code is to come
        wait = tiering.policy.costs.wait
        # An infinite `wait` is that of measurements, which take no code from the background.
        at_once = price <= (wait if math.isinf(wait) else min(wait, most))
        self.pending = not (level == 0 or at_once or jit_compiler().has(key, level))
        if not self.pending:
            self.address = self._load(level)
        elif first:
            self.address = self._load(0)
            tiering.record(Decision("translated", Reason.FIRST_CODE, 0.0, self._limit, price))
        else:
            self.address = 0
            self.count(self._limit)

    def _load(self, level: int) -> int:
        return jit_compiler().load(self._key, (self._symbol,), self._emit, level)[self._symbol]

    @property
    def _limit(self) -> float:
        """Seconds that the first code runs before the optimised code is begun."""
        return tiering.policy.costs.background_share * self._price

    def count(self, seconds: float) -> bool:
        """Add time that the code ran. Returns whether `address` has become that of the optimised code."""
        if not self.pending:
            return False
        self._spent += seconds
        # After a fork, the thread that would fulfil the future is in the other process.
        if self._spent >= self._limit and (self._future is None or self._process != os.getpid()):
            self._process = os.getpid()
            self._future = background().compile(self._emit, self._level)
        future = self._future
        if future is None or not future.done() or self._process != os.getpid():
            return False
        self.pending = False
        return self._replace(future)

    def _replace(self, future: Future[bytes]) -> bool:
        error = future.exception()
        self._future = None
        if error is not None:
            tiering.record(Decision("translated", Reason.NOT_OPTIMISED, self._spent, self._limit, self._price))
            warnings.warn(f"compiled code is not optimised: {error}", RuntimeWarning, stacklevel=2)
            return False
        found = jit_compiler().take(self._key, (self._symbol,), future.result(), self._level)
        self.address = found[self._symbol]
        tiering.record(Decision("translated", Reason.OPTIMISED_CODE, self._spent, self._limit, self._price))
        return True
