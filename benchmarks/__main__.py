"""`python -m retrograd.benchmarks …` is `retrograd bench …`."""

from __future__ import annotations

import sys

from retrograd.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
