"""Presentation of results: charts, tables as text, progress bars.

It imports nothing else of ours. matplotlib and rich are imported when something is drawn.
"""
