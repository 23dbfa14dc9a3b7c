"""Kinds of errors of the command line."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0502", "bad --set", "Written NAME=VALUE, NAME a register or a data label, VALUE a constant that fits a word.",
     "For example: --set r1=42 --set length=0x10"),
    ("RG0503", "bad --mem or --out", "Written [WHERE=]FILE[,TYPE]: WHERE a data label or address, with :COUNT for --out; TYPE one of text, npy, word, "
     "u8, u16, u16be, u32, u32be, u64, u64be.",
     "For example: --mem text=plain.bin,u32be"),
    ("RG0506", "no such thing to explain", "Neither an error code nor an instruction has this name.",
     "`retrograd explain` lists the codes, `retrograd isa` the instructions."),
    ("RG0508", "Python file cannot be loaded", "The file that defines the function is executed first, and its execution failed.",
     "Correct the file; `python FILE.py` shows the same error."),
    ("RG0509", "no such function", "FILE.py:FUNCTION names a function decorated with @reversible, at the top of the file or in a class.",
     "Correct the name, or decorate the function."),
    ("RG0510", "bad argument on the command line", "Arguments are Python literals, NAME=LITERAL, or @FILE.npy for an array.",
     "Quote lists for the shell: '[1.0, 2.0]'."),
    ("RG0511", "no such pass", "The compiler's passes have names.",
     "`--dump-ir all` shows the IR after each."),
    ("RG0512", "option out of place", "The option does not apply to this kind of program, or not together with another option.",
     "`retrograd COMMAND --help` says what each option is for."),
    ("RG1008", "tool for hardware", "Other tools make Verilog, place and route, count gates and simulate fast: Yosys, nextpnr, Verilator.",
     "Install the tool that the message names. If a tool failed, read its output."),
    ("RG1010", "placement too slow", "A bitstream is reliable only at a clock that its placement reaches. The placement depends on a seed.",
     "Ask for a slower clock by --mhz, or for another --seed."),
    ("RG1201", "no such workload", "`retrograd bench` runs workloads and measurements of the toolchain by their names.",
     "docs/benchmarks.md lists them. Without a name, all run."),
)  # fmt: skip
