"""`python -m retrograd.benchmarks.gpu`: batches on a GPU, checked and timed."""

from retrograd.benchmarks.gpu.batches import main

main()
