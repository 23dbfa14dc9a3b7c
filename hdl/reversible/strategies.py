"""When intermediate values are uncomputed."""

from __future__ import annotations

from typing import Literal

Strategy = Literal["bennett", "eager", "garbage"]
