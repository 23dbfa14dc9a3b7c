"""Kinds of errors of the debugger."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1301", "bad expression of the debugger", "An expression has registers, labels, `M[…]`, numbers, comparisons, arithmetic, and, or, not.",
     "For example: `r3 > 10 and total == 5`."),
    ("RG1302", "no such place", "A place is a variable of the source where it is live, a register, the name of one, a data label, or `M[ADDRESS]`.",
     "`info` lists the names of a program."),
    ("RG1303", "no such step", "A step number counts the instructions from the beginning. An erased word cannot be brought back from before the "
     "beginning of the session, and a state that was changed by hand may have no way back.",
     "Begin the session at an earlier step, or use a smaller number than that of the last step."),
    ("RG1304", "not a saved state", "A saved state has a version, the digest of its program, and words of the program's format.",
     "Save it anew with `retrograd run PROG --save FILE`, on the same program."),
    ("RG1305", "bad command of the debugger", "The command does not exist, or its operands are not of the kind that it takes.",
     "`help` lists the commands."),
    ("RG1306", "bad request of an editor", "A request of the Debug Adapter Protocol has its arguments by name and type, and some need a program that is "
     "launched and stands still.",
     "The documentation of the protocol lists the arguments; docs/debugging.md has an example of `launch`."),
    ("RG1307", "not a value of this variable", "A value is a number of the variable's type that fits in a word.",
     "For example: 42, 0x2a, 1.5, true."),
)  # fmt: skip
