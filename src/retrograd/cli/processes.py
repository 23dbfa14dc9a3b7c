"""Worker processes of `--jobs N`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """An executor of `jobs` processes; None for one job, which runs in this process."""
    if jobs == 1:
        yield None
        return
    # Spawned, since libraries loaded here have threads, which a forked copy of the process lacks.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
