"""The benchmarks that `retrograd bench` runs.

workloads/    one file each: definition (from the examples and the library), goldens, sizes
peers/        one file each: the same workloads with other systems
references/   the same in float64, independent of the code under test
toolchain/    assembler, machines, compiler, counting, calls, start-up
reporting/    table, page, bars, comparison of two runs
gpu/          workloads on a GPU: retrograd bench --gpu
papers/       the papers' tables at their sizes: retrograd bench --papers
operations    operations of the irreversible programs, counted; memory: peaks of processes
ours          our programs on matrices of words; primals: plain loops, with and without Numba
run           checks, times, counts: the document of schema retrograd.bench/3

It imports all parts of `retrograd` except `cli`. Start with `run.py`.
"""

from retrograd.benchmarks import errors as errors
