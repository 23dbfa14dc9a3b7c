"""The reader of functional functions: Python's syntax to core.

May import: functional.core and functional.data_classes, Python's source text. `reader` has the statements, `expressions` the expressions, `paths`
the paths through statements. Start reading in reader.py.
"""
