"""Kinds of errors of laws for tests."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0901", "not given back", "Undoing a run must restore every word with which it began. This run was not undone.",
     "If the function erases nothing, this is a fault of Retrograd. Please report it with the function."),
    ("RG0902", "gradient is not the slope", "The gradient by running backward must agree with finite differences of the same program.",
     "Words without a derivative (int, bits) interrupt the flow of cotangents: look for a conversion on the path."),
    ("RG0903", "no slope to compare with", "Finite differences approximate the slope only where the function is smooth. Here they do not converge.",
     "Choose arguments away from kinks and jumps, or steps that stay on one side: `step=`."),
    ("RG0904", "garbage left behind", "A function must restore all memory except its arguments to the state before the call.",
     "Put the computation in `with rg.routine() as r:` and write `~r`."),
    ("RG0905", "too many bits erased", "Every erased bit dissipates at least kT ln 2 of heat and cannot be restored.",
     "Uncompute the erased values, or allow more bits."),
    ("RG0906", "gradient lost in rounding", "With more fraction bits the gradient agrees with the slope; in this format rounding has removed too much "
     "of it.",
     "Use more fraction bits: `scale=`, a wider format, or other units. Or allow for the error: `tolerance=`."),
)  # fmt: skip
