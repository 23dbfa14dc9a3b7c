"""The commands of `retrograd`, one module each: `arguments(p)` adds its options, `execute(options)` does its work.

They import the modules of `cli`, and all parts when they are needed. Start with `verify.py`, a short one.
"""
