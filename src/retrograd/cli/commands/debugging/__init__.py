"""Commands that show a run: the debugger at a prompt, the explorer.

They import `cli`, `debugger` and `explorer`. Start with `debug.py`; `interpreter.py` has the commands of its prompt.
"""
