"""Fixtures for the tests of CUDA. Tests in simulated/ need Numba's CUDA simulator, which a process has or has not from its start: test_simulated.py runs them."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else ["simulated"]
