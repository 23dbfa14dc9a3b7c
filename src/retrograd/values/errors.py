"""Kinds of errors of numbers and of files of numbers."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0504", "malformed data file", "The file's contents are not of its type: the one after the comma, or that of its suffix.",
     "Give its type after a comma, such as FILE,u32be, or mend its contents."),
    ("RG0601", "number does not fit", "The format has no word for a number of this size.",
     "Scale the numbers, or choose a format with more bits before the point."),
    ("RG0602", "not a real number", "Words hold real numbers; NaN, complex numbers and objects have no word.",
     "Convert or replace the element."),
    ("RG0606", "words would be rounded", "A word may have more bits than the 53 of a float64; written as float64s, the words could not be had again.",
     "Write them in a form that holds words: numpy.savez does, and of files of memory the types npy, textq and word."),
)  # fmt: skip
