"""Proofs of the parts on the bus: the host interface as a slave, and direct memory access as a master.

It imports `hdl/bus` and the terms and symbolic execution of `hdl/formal`. Start with `host_interface_proofs.py`.
"""
