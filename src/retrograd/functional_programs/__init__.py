"""Functional functions: `@functional`, and runs of VLAD files. The package has another name than the function, which is an attribute of `retrograd`.

May import: functions, differentiation, values; compiler. Start reading in functions.py.
"""
