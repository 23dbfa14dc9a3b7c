"""Batches and single runs on GPUs: the translated program as CUDA kernels, and the host side that launches them.

It imports `engines/batch`, `engines/machines`, `engines/translator` and `engines/llvm`. Start with `batch.py`, or for single runs with `stepped_machine.py`.
"""
