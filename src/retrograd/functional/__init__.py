"""Functional functions: `@functional`, and the operators of functional programs.

May import: functions, differentiation, values; compiler. Start reading in functions.py.
"""
