"""Irreversible netlists: the function of a reversible circuit in AND, XOR, MAJ3 and MUX gates, and netlists in levels.

It imports `hdl/reversible`. Start with `network.py`; `levels.py` adds the splitters and buffers of a technology that is clocked level by level.
"""
