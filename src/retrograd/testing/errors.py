"""Kinds of errors of laws for tests."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0901", "not given back", "Undoing a run gives back every word it began with; this run did not.",
     "If the function erases nothing, this is a fault of Retrograd's: please report it with the function."),
    ("RG0902", "gradient is not the slope", "The gradient by running backward must agree with differences of the same program.",
     "Words that carry no derivative (int, bits) cut the way of a gradient: look for a conversion on it."),
    ("RG0903", "no slope to compare with", "Differences tell the slope only where the function is smooth: here they do not settle on one value.",
     "Choose arguments away from kinks and jumps, or steps that stay on one side: `step=`."),
    ("RG0904", "garbage left behind", "What a function makes on its way it takes apart again: all else than its arguments is as it was.",
     "Put the computation in `with rg.routine() as r:` and write `~r`."),
    ("RG0905", "too many bits erased", "Every erased bit costs kT ln 2 of heat at least, and cannot come back.",
     "Uncompute what is erased, or allow more bits."),
    ("RG0906", "gradient lost in rounding", "With more places the gradient agrees with the slope; in this format rounding has taken too much of it.",
     "Give it more places: `scale=`, a wider format, other units; or allow for it: `tolerance=`."),
)  # fmt: skip
