"""Kinds of errors of reversible netlists."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1401", "not a reversible netlist", "A netlist in `.real` or OpenQASM 3 declares its lines, then lists gates of those lines. "
     "Of OpenQASM it has the classical subset: x, cx, ccx, swap, cswap, and x or swap under ctrl.",
     "Correct the line that is shown."),
    ("RG1402", "no netlist for it", "A netlist is made of an instruction whose words stay in place. An erased word cannot be brought back.",
     "Choose another instruction; `retrograd isa` lists them."),
    ("RG1403", "equivalence is not decided", "Whether two netlists are equivalent is hard where both have products or quotients in different forms.",
     "Allow more time (`--seconds`), or compare at a smaller width."),
)  # fmt: skip
