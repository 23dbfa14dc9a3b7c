"""Kinds of errors of machines, beside the traps of instructions (`isa/errors.py`)."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0410", "execution left the code", "PC is outside the program.",
     "Verify the program: control falls or jumps out of its code."),
    ("RG0420", "step limit reached", "The run used up its allowance of steps. It can continue from here in either direction.",
     "Allow more with --max-steps."),
)  # fmt: skip
