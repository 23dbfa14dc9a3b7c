"""Simulated hardware: the core in Amaranth's simulator, in Verilator and on gates, and waveforms.

It imports `hdl/core`, `hdl/bus` and `isa`. Start with `amaranth_simulator.py`.
"""
