"""A progress bar for long work: on stderr of a terminal, or below the cell of a notebook.

In a notebook stderr is no terminal, and the bar is an output of the cell that is replaced as work ends: it needs no widget.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

#: seconds before a bar appears
PATIENCE = 1.0
#: seconds between two drawings in a notebook
_REDRAW = 0.1


class Bar:
    """Number of finished items, total, and remaining time: `with Bar(total, wanted, "running") as bar: bar(1)` for each item.

    `wanted`: True shows it at once, False never, None after `PATIENCE` seconds on a terminal and in a notebook. `there`: items of `total`
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
        self._cell: _Cell | None = None

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
            if self._wanted is None and not sys.stderr.isatty() and not in_notebook():
                self._wanted = False
                return
            self._show()
        self._shown.update(self._task, completed=self._done)
        if self._cell is not None:
            self._cell.show(self._shown)

    def _show(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        resumed = [TextColumn(f"{self._there} resumed")] if self._there else []
        columns = TextColumn(self._doing), BarColumn(), MofNCompleteColumn(), *resumed, TimeRemainingColumn()
        if in_notebook():
            self._cell = _Cell()
            self._shown = Progress(*columns, console=self._cell.console, auto_refresh=False)
        else:
            from rich.console import Console

            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._shown.start()
        self._task = self._shown.add_task(self._doing, total=self._total, completed=self._there)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cell is not None:
            self._cell.clear()
        elif self._shown is not None:
            self._shown.stop()


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook. Nothing is imported to find out."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and hasattr(found, "kernel")


class _Cell:
    """An output of a notebook's cell that is replaced by the current text of a bar."""

    def __init__(self) -> None:
        import io

        from rich.console import Console

        self._text = io.StringIO()
        self.console = Console(file=self._text, width=80, force_jupyter=False, color_system=None)
        self._output: Any = None
        self._drawn = 0.0

    def show(self, progress: Any) -> None:
        """Replace the output, at most ten times a second."""
        now = time.monotonic()
        if now - self._drawn < _REDRAW:
            return
        self._drawn = now
        self._text.truncate(self._text.seek(0))
        self.console.print(progress.get_renderable())
        self._replace(self._text.getvalue().strip())

    def _replace(self, text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if self._output is None:
            self._output = display(data, raw=True, display_id=True)
        else:
            self._output.update(data, raw=True)

    def clear(self) -> None:
        """Leave an empty output behind."""
        if self._output is not None:
            self._replace("")
