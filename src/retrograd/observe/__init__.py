"""A time-travel debugger: sessions on a machine that step and run in both directions.

It imports `isa`, `simulator` and `values`. Start with `session.py`; `timeline.py` holds the search at the speed of an engine.
"""

from __future__ import annotations

from retrograd.lazy import attach as _attach
from retrograd.observe import errors as errors

__getattr__, __dir__ = _attach(__name__, __file__)
