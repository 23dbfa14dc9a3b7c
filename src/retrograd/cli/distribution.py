"""Workers of `--workers N` and `--scheduler ADDRESS`, and the store of `--store FILE`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from retrograd.cli.options import fail, integer

if TYPE_CHECKING:
    from retrograd.runtime._distribution import Distribution


def executor_of(options: argparse.Namespace) -> Any:
    """The executor that the options describe; None runs in this process. Raises InputError RG0507, RG0512."""
    if options.workers is None:
        return options.scheduler
    count = integer(options.workers, "--workers", 1, "number of processes")
    if options.scheduler is not None:
        raise fail("RG0512", "--workers starts processes here, and --scheduler has workers of its own: choose one")
    return None if count == 1 else count


def distribution_of(options: argparse.Namespace) -> Distribution | None:
    """The distribution that --workers, --scheduler, --store and --chunk describe; None without any. Raises InputError."""
    executor, chunk = executor_of(options), getattr(options, "chunk", None)
    rows = None if chunk is None else integer(chunk, "--chunk", 1, "number of elements")
    if executor is None and options.store is None and rows is None:
        return None
    from retrograd.runtime._distribution import Distribution

    return Distribution(executor, options.store, rows)
