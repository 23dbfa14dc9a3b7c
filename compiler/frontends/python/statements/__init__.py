"""Statements of reversible functions: syntax → reversible IR, one file for each family of statements.

It imports `python/expressions`, and the same as `python/expressions` does. Start with the table in `function.py`.
"""
