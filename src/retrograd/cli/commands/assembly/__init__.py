"""Commands on programs in assembly: assemble, disassemble, verify, describe the instructions.

They import `cli`, `assembler` and `isa`. Start with `asm.py`.
"""
