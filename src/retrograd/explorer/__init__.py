"""Recorded runs: the explorer's page, which goes forward and back without a network, and traces for other tools.

It imports `debugger`, `functions`, `differentiation` and `simulator`. Start with `explorations.py`; `document.py` makes the data
of the page, `page.py` the page; `explorer.html`, `.css` and
`.js` are its parts; `vcd.py`, `kanata.py` and `perfetto.py` write traces.
"""
