"""The benchmarks that `retrograd bench` runs.

run          measures the workloads by every engine and peer: the document of schema retrograd.bench/3, and its bars
measure      timing, peak memory, counted operations, the systems of one problem
workload     what a workload is: data, goldens, problems, tasks; `workloads/` defines them
ours         our programs on matrices of words; `peers/` holds other systems on the same data, one file each
references   the same functions in float64, independent of the code under test
toolchain    measurements of assembler, machines, compiler, counting, calls, start-up
page         the document as a table, a page and pictures; reporting: comparison of two documents
papers       the tables of published papers at their sizes: `retrograd bench --papers`
vlad         STALINGRAD's programs in VLAD, beside C: docs/vlad-benchmarks.md
functional   functional programs beside C, and their compilation: the tables of docs/functional.md
gpu          the workloads on a GPU: `retrograd bench --gpu`

It imports all parts of `retrograd` except `cli`. Start with `run.py`.
"""

from retrograd.benchmarks import errors as errors
