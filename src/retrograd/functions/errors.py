"""Kinds of errors of functions that are run."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0808", "statement for the host failed", "The statements in `with rg.external():` are executed by Python, and one of them raised an exception.",
     "Mend the statement; it sees the variables as Python numbers and NumPy arrays."),
)  # fmt: skip
