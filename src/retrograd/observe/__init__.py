"""Runs observed: the debugger in both directions, its adapter for editors, the explorer and traces, the language server, ranges of numbers.

It imports `isa`, `simulator`, `runtime` and `derivatives`. Start with `_session.py`; `_timeline.py` holds the search at the speed of an engine.
"""

from __future__ import annotations

from retrograd.lazy import attach as _attach
from retrograd.observe import errors as errors

__getattr__, __dir__ = _attach(__name__, __file__)
