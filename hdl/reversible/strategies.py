"""When intermediate values are uncomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from retrograd.hdl.reversible.circuit import Circuit
from retrograd.isa.diagnostics import Diagnostic, InputError

Strategy = Literal["bennett", "eager", "garbage", "pebble"]


def need_strategy(name: str, budget: int | None) -> None:
    """Raise ValueError unless the name is that of a strategy, and `pebble` alone has a budget."""
    if name not in get_args(Strategy):
        raise ValueError(f"strategy is one of {', '.join(get_args(Strategy))}, not {name!r}")
    if (name == "pebble") != (budget is not None):
        raise ValueError("a budget of ancillas is for the strategy pebble, which needs one")


def within_budget(make: Callable[[Strategy, int], Circuit], budget: int) -> Circuit:
    """Of the circuits that keep to the budget, that with the fewest gates: Bennett's, or by schedules for this budget or for the least.

    Raises InputError RG1406 where none keeps to it, and names the smallest budget.
    """
    found = make("bennett", budget)
    if len(found.ancillas) > budget:
        tried = [make("pebble", budget), make("pebble", 0), found]
        least = min(len(circuit.ancillas) for circuit in tried)
        if least > budget:
            message = f"no schedule keeps to {budget} ancillas; the smallest budget is {least}"
            raise InputError(Diagnostic("RG1406", message, hint=f"Allow {least} ancillas or more."))
        found = min((c for c in tried if len(c.ancillas) <= budget), key=lambda circuit: len(circuit.gates))
    return found
