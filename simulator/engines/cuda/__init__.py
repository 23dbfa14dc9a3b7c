"""Batches on GPUs: the translated program as a CUDA kernel, and the driver that launches it.

It imports `engines/batch`, `engines/translator` and `engines/llvm`. Start with `batch.py`.
"""
