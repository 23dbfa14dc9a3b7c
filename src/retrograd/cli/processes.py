"""`--jobs N`: commands whose work is done by so many processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from retrograd.cli.files import fail


def parse_jobs(text: str) -> int:
    """What `--jobs` says; 1 or more, or RG0507."""
    try:
        jobs = int(text)
        if jobs < 1:
            raise ValueError
    except ValueError:
        raise fail("RG0507", f"--jobs: `{text[:40]}` is no number of processes", "1 or more") from None
    return jobs


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """So many processes; none for one job, which this process does."""
    if jobs == 1:
        yield None
        return
    # New ones: what is loaded here has threads of its own, and a copy of a process has not.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
