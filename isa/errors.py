"""Kinds of errors that the instruction set raises, and those that two parts raise of which neither imports the other."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0204", "not exactly one start", "A program is entered at its `start`; running backward ends there.",
     "Put one `start` before the first instruction to run."),
    ("RG0205", "not exactly one finish", "A program ends at its `finish`; running backward begins there.",
     "Put one `finish` where the program ends; let other exits jump to it."),
    ("RG0306", "illegal encoding", "The 64 bits are no instruction: unknown opcode, or a field that is not used is not zero.",
     "Assemble the program again with this version."),
    ("RG0401", "memory address out of range", "The address R[ra] + imm is not in 0 … N−1.",
     "Check the index, or give the program more memory with .memory or --memory."),
    ("RG0402", "division by zero", "The quotient by zero has no value.", "Test the divisor with a branch first."),
    ("RG0403", "argument out of domain", "The function has no value for this argument.", "Test the argument with a branch first."),
    ("RG0404", "fixed-point overflow", "The exact result does not fit the format; wrapped, it would be a wrong number.",
     "Scale the values, use a wider format or a lognum, or turn the check off to let it wrap."),
    ("RG0405", "unpaired branch", "Control arrived by a jump (BR ≠ 0) where no branch ends it.",
     "The verifier finds such jumps before they run: `retrograd verify`."),
    ("RG0406", "contradicted comefrom", "The condition of the comefrom does not agree with how control arrived: "
     "it must hold exactly when control came by its jump.",
     "Choose a condition that is false on first entry and true after the jump."),
    ("RG0407", "ancilla not zero", "assertz promises that the register is zero, so that it can be freed without loss.",
     "Uncompute what the register holds, or erase it and pay for the bits."),
    ("RG0408", "erase in strict mode", "A strict machine erases nothing.", "Uncompute the word, or run without --strict."),
    ("RG0409", "an erased word cannot come back", "Running backward met an erase: what it lost is nowhere to be found.",
     "Run forward again, or replace the erase by uncomputing."),
    ("RG0411", "lognum of zero", "Zero has no logarithm, so no lognum.", "Test for zero, or for equal magnitudes, with a branch first."),
    ("RG0421", "memory limit exceeded", "The program asks for more data memory than this machine allows.",
     "Allow more with --memory-limit, or ask for less."),
    ("RG0501", "file cannot be read or written", "The operating system refused it.", "Check the path and its permissions."),
    ("RG0505", "data outside the memory", "The data does not fit in the machine's memory at that place.",
     "Give the program more memory with .memory or --memory."),
    ("RG0507", "bad number on the command line", "A number is out of its range or is no number.", "Write an integer such as 1000 or 0x3e8."),
    ("RG0513", "output over an input", "A file that the command reads, or has written already, would be replaced and its contents lost.",
     "Write to a file of another name."),
    ("RG0514", "input too large", "A file, or what an archive unpacks to, has more bytes than the limit; it is refused before memory is allocated for it.",
     "If it is meant, allow more with --max-input or --max-expanded."),
    ("RG0603", "wrong argument", "The function takes other arguments: another number of them, other types, or other shapes.",
     "Pass what the parameter is declared to take."),
    ("RG0604", "no such format", "A format names the bits before and after the binary point, which together make a word of 4, 8, 16, 32 or 64 bits.",
     "Write it as in Q16.48 or Q32.32, or make one: rg.Format(width=64, frac=48)."),
    ("RG0605", "cannot be pickled", "A pickle names a function by its module and its name there, and the process that loads it looks it up.",
     "Define it at the top of a module, so that every process finds it."),
)  # fmt: skip
