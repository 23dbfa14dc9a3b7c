"""Measurements of the toolchain itself: assembler, machines, compiler, counting, calls, start-up.

It imports all parts. Start with `all_parts.py`.
"""
