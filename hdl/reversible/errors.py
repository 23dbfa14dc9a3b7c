"""Kinds of errors of reversible netlists."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1402", "no netlist for it", "A netlist is made of an instruction whose words stay in place. An erased word cannot be brought back.",
     "Choose another instruction; `retrograd isa` lists them."),
)  # fmt: skip
