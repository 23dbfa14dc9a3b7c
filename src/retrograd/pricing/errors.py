"""Kinds of errors of stores of sweeps."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1111", "not a store of sweeps", "The rows of sweeps are kept in a file of SQLite of their own, each under a hash of all that it follows from.",
     "Name a new file, or one that a sweep by this version has written."),
)  # fmt: skip
