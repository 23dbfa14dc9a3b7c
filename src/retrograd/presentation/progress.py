"""A progress bar on stderr for long work."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

#: seconds before a bar appears
PATIENCE = 1.0


class Bar:
    """Number of finished items, total, and remaining time: `with Bar(total, wanted, "running") as bar: bar(1)` for each item.

    `wanted`: True shows it at once, False never, None after `PATIENCE` seconds if stderr is a terminal. `there`: items of `total`
    that are already done; they are shown separately, and do not count in the estimate of the time.
    """

    def __init__(self, total: int, wanted: bool | None, doing: str, there: int = 0) -> None:
        self._total, self._done, self._there = total, there, there
        self._wanted = wanted
        self._patience = 0.0 if wanted else PATIENCE
        self._doing = doing
        self._began = time.monotonic()
        self._shown: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __call__(self, ended: int) -> None:
        """Add a number of finished items."""
        self._done += ended
        if self._wanted is False:
            return
        if self._shown is None:
            if self._done >= self._total or time.monotonic() - self._began < self._patience:
                return
            if self._wanted is None and not sys.stderr.isatty():
                self._wanted = False
                return
            self._show()
        self._shown.update(self._task, completed=self._done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        resumed = [TextColumn(f"{self._there} resumed")] if self._there else []
        columns = TextColumn(self._doing), BarColumn(), MofNCompleteColumn(), *resumed, TimeRemainingColumn()
        self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
        self._shown.start()
        self._task = self._shown.add_task(self._doing, total=self._total, completed=self._there)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()
