"""Runs observed: the debugger in both directions, its adapter for editors, the explorer and traces, the language server, ranges of numbers.

It imports `isa`, `simulator`, `runtime` and `derivatives`. Start with `_session.py`; `_timeline.py` holds the search at the speed of an engine.
"""

from __future__ import annotations

from retrograd import errors as _errors  # noqa: F401 (registers its codes)
from retrograd.lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, __file__)
