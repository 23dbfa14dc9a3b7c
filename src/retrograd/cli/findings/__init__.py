"""Diagnostics of a command on their way out: a log of them, colours for a terminal, SARIF for code scanners.

It imports `isa.diagnostics`. Start with `log.py`: the functions of `cli/report.py` record there each diagnostic that they print.
"""
