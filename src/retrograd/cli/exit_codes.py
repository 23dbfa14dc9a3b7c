"""Exit codes of the command line, for scripts to act on; `retrograd --help` and docs/command-line.md list them."""

OK = 0
#: `bench`: a wrong result or a worse ratio; `hdl formal`: a claim without a proof
WRONG = 1
BAD_INPUT = 2
TRAPPED = 3
#: the limit of `--max-steps`; `explore`, `trace`: the run is longer than a recording is without `--steps`
LIMIT = 4
INTERRUPTED = 130
