"""Kinds of errors that the instruction set raises, and kinds that are shared by parts which do not import each other."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0204", "not exactly one start", "A program is entered at its `start`; running backward ends there.",
     "Put one `start` before the first instruction to run."),
    ("RG0205", "not exactly one finish", "A program ends at its `finish`; running backward begins there.",
     "Put one `finish` where the program ends; let other exits jump to it."),
    ("RG0306", "illegal encoding", "The 64 bits are no instruction: the opcode is unknown, or an unused field is not zero.",
     "Assemble the program again with this version."),
    ("RG0401", "memory address out of range", "The address R[ra] + imm is not in 0 … N−1.",
     "Check the index, or give the program more memory with .memory or --memory."),
    ("RG0402", "division by zero", "The quotient by zero has no value.",
     "Test the divisor with a branch first."),
    ("RG0403", "argument out of domain", "The function has no value for this argument.",
     "Test the argument with a branch first."),
    ("RG0404", "fixed-point overflow", "The exact result does not fit the format; wrapped, it would be a wrong number.",
     "Scale the values, use a wider format or a lognum, or turn the check off to let it wrap."),
    ("RG0405", "unpaired branch", "Control arrived by a jump (BR ≠ 0) where no branch ends it.",
     "`retrograd verify` finds such jumps before the program runs."),
    ("RG0406", "contradicted comefrom", "The condition of the comefrom does not agree with how control arrived: it must hold exactly when control came "
     "by its jump.",
     "Choose a condition that is false on first entry and true after the jump."),
    ("RG0407", "ancilla not zero", "`assertz` frees a register, which must be zero so that nothing is lost.",
     "Uncompute the value in the register, or erase it at the price of its bits."),
    ("RG0408", "erase in strict mode", "A strict machine erases nothing.",
     "Uncompute the word, or run without --strict."),
    ("RG0409", "an erased word cannot come back", "Running backward reached an erase, and the erased word was not stored.",
     "Run forward again, or replace the erase by uncomputing."),
    ("RG0411", "lognum of zero", "Zero has no logarithm, so no lognum.",
     "Test for zero, or for equal magnitudes, with a branch first."),
    ("RG0421", "memory limit exceeded", "The program needs more data memory than this machine allows.",
     "Allow more with --memory-limit, or use less."),
    ("RG0501", "file cannot be read or written", "The operating system refused access to it.",
     "Check the path and its permissions."),
    ("RG0505", "data outside the memory", "The data does not fit in the machine's memory at that place.",
     "Give the program more memory with .memory or --memory."),
    ("RG0507", "bad number on the command line", "A number is out of range, or the text is no number.",
     "Write an integer such as 1000 or 0x3e8."),
    ("RG0513", "output over an input", "The output would replace a file that the command reads or has written already.",
     "Write to a file of another name."),
    ("RG0514", "input too large", "A file, or the contents of an archive, has more bytes than the limit. It is refused before memory is allocated for "
     "it.",
     "Allow more with --max-input or --max-expanded."),
    ("RG0603", "wrong argument", "The function takes another number of arguments, other types, or other shapes.",
     "Pass arguments of the declared types and shapes."),
    ("RG0604", "no such format", "A format names the bits before and after the binary point, which together make a word of 4, 8, 16, 32 or 64 bits.",
     "Write it as in Q16.48 or Q32.32, or make one: rg.Format(width=64, frac=48)."),
    ("RG0605", "cannot be pickled", "A pickle holds the module and the name of a function, and the process that loads the pickle looks the function up.",
     "Define it at the top of a module, so that every process finds it."),
)  # fmt: skip
