"""Kinds of errors of numbers and of files of numbers."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0504", "malformed data file", "The contents of the file do not have its type, which is the type after the comma or that of its suffix.",
     "Give the type after a comma, as in FILE,u32be, or correct the contents."),
    ("RG0601", "number does not fit", "The format has no word for a number of this size.",
     "Scale the numbers, or choose a format with more bits before the point."),
    ("RG0602", "not a real number", "Words hold real numbers; NaN, complex numbers and objects have no word.",
     "Convert or replace the element."),
    ("RG0606", "words would be rounded", "A word may have more bits than the 53 of a float64, so that float64s would not give the same words again.",
     "Write a form that holds words: numpy.savez, or the types npy, textq and word of memory files."),
)  # fmt: skip
