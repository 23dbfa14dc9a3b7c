"""What `retrograd bench` runs.

workloads/    one file each: the definition (of the examples and the library), goldens, sizes
peers/        one file each: the same workloads with other systems
references/   the same in float64, sharing nothing with what it judges
ours          our programs on words; primals: plain loops, for Numba and without
run           checks, times, counts: the document of schema retrograd.bench/2
table, report, bars, check      what is made of the document
assembler, machine, compiler, loops, energy, startup      the toolchain itself
gpu, gpu_peers, gpu_warp        batches on a GPU: python -m retrograd.benchmarks.gpu
"""

from retrograd.benchmarks import errors as errors
