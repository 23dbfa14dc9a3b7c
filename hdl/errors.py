"""Kinds of errors of the co-processor."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1007", "co-processor does not do it", "The co-processor has the operations of docs/coprocessor.md. On its bus it answers a transfer, or "
     "refuses it and changes nothing.",
     "Check the wiring of the bus and the parameters with which the co-processor was built. If its run trapped, look up the code of the trap."),
    ("RG1009", "co-processor's argument", "The co-processor counts steps in 64 bits. A loss is one of its words, and a scale must leave room for the "
     "loss's cotangent in a word.",
     "Give an integer within the limits. Without a number of steps, the run continues to the end."),
)  # fmt: skip
