"""Kinds of errors of the co-processor and of reversible netlists."""

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


# -----------------------------------------------------------------------------
# Reversible netlists.

register(
    ("RG1401", "not a reversible netlist", "A netlist in `.real` or OpenQASM declares its lines, then "
     "lists gates of those lines. "
     "Of OpenQASM it has the classical subset: x, cx, ccx, swap, cswap, gates of these, and loops over integers.",
     "Correct the line that is shown."),
    ("RG1402", "an erasure that is undone", "A netlist loses nothing: an erased word leaves as garbage, and no gates make it again from nothing.",
     "Make the netlist of the forward direction; its inverse takes the garbage."),
    ("RG1403", "equivalence is not decided", "Whether two netlists are equivalent is hard where both have products or quotients in different forms.",
     "Allow more time (`--seconds`), or compare at a smaller width."),
    ("RG1404", "a program without a fixed netlist", "A netlist is the same for all arguments. Passes of loops, depths of calls and places of arrays must not depend on data, "
     "and the program must not trap for all arguments.",
     "Use loops with fixed bounds, and conditions inside of them."),
    ("RG1405", "a netlist that is too large", "Loops are unrolled and calls are inlined, so that a netlist grows with the number of instructions that a run executes.",
     "Choose a smaller width, smaller arrays, or a shorter program."),
    ("RG1406", "a budget of ancillas that is too small", "Each operation needs some lines at once. Values can be computed again in place of being held, but operations cannot be cut.",
     "Allow more ancillas."),
    ("RG1407", "a netlist that is too long for a drawing", "A drawing has a column for each step, and a row for each line. A long one could not be read.",
     "Draw a smaller width, or write the netlist with --real."),
    ("RG1408", "a gate that OpenQASM 2 does not have", "OpenQASM 2 has no controls in any number: its library "
     "has x of up to four. More would need lines besides those of the netlist.",
     "Write OpenQASM 3."),
)  # fmt: skip
