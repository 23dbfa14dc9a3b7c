"""The tables of the papers at their sizes: published values, and ours.

published   the measurements of the papers, with their sources
tables      the tables: rows and columns, and the function that measures a row
physics     rows about states, steps and round-off: Bennett's scheme beside checkpoints, leapfrog out and back
measured    rows one after the other, into a store that a later run goes on with: schema retrograd.papers/1
page        docs/papers.md; pictures: its picture

It imports the other parts of `benchmarks`. Start with `tables.py`.
"""
