"""Kinds of errors of stores of sweeps."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1111", "not a store of sweeps", "The rows of sweeps are kept in an SQLite file of their own, each under a hash of all its inputs.",
     "Name a new file, or a file that a sweep by this version wrote."),
)  # fmt: skip
