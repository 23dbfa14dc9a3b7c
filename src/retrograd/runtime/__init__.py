"""Reversible functions at run time: values, compilation, execution, batches, other processes.

    _arrays, _binding, _marshal          numbers of Python ↔ words: types of arguments, arrays, precision
    _compilation, _execution, _traps     a source becomes a program; a program runs; messages of traps
    _reversible                          `rg.reversible` and programs in Janus
    _batch_arguments, _batch_runs, _batches, _chunked…     `rg.vmap`: many elements at once, in chunks, in other processes
    _distribution                        executors, stores of results, tasks

It imports `isa`, `compiler`, `simulator` and `presentation`; `derivatives`, `observe`, `physics` and `hardware` build on it.
Start with `_reversible.py`.
"""

from retrograd import errors as errors
