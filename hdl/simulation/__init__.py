"""Simulated hardware: the core in Amaranth's simulator and in Verilator, and waveforms.

It imports `hdl/core`, `hdl/flow` and `isa`. Start with `amaranth_simulator.py`.
"""
