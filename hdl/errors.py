"""Kinds of errors of the co-processor."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1007", "co-processor does not do it", "A co-processor does what docs/coprocessor.md says; on its bus it answers each transfer, or refuses it and changes nothing.",
     "Look at what it is connected to and what it was built for; where its run trapped, look up the code."),
    ("RG1009", "co-processor's argument", "The co-processor counts steps in 64 bits; a loss is one of its words, and a scale leaves room for the loss's cotangent in one.",
     "Give an integer within the limits; leave the number of steps out to run to the end."),
)  # fmt: skip
