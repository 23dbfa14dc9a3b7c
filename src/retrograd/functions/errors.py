"""Kinds of errors of functions that are run."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0808", "statement for the host failed", "Python executes the statements in `with rg.external():`, and one of them raised an exception.",
     "Correct the statement. It receives the variables as Python numbers and NumPy arrays."),
)  # fmt: skip
