"""When intermediate values are uncomputed."""

from __future__ import annotations

from typing import Literal, get_args

Strategy = Literal["bennett", "eager", "garbage"]


def need_strategy(name: str) -> None:
    """Raise ValueError unless the name is that of a strategy."""
    if name not in get_args(Strategy):
        raise ValueError(f"strategy is one of {', '.join(get_args(Strategy))}, not {name!r}")
