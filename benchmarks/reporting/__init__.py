"""Reports of a run: the page with its pictures, the table, the bars, and the comparison with an earlier run.

It imports `benchmarks`. Start with `report.py`.
"""
