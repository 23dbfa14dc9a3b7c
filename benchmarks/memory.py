"""Peak memory: for each system on a task a process of its own, which makes the data, does the task once, and reports its largest size.

    python -m retrograd.benchmarks.memory WORKLOAD problems|curve INDEX TASK SYSTEM

The size is that of the whole process, with Python, the system and its compiler. Making the data is left out where the operating
system lets a process forget its largest size (Linux); elsewhere there is no figure.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from retrograd.benchmarks.workload import Sizes, Task

#: seconds after which a process is given up
PATIENCE = 120


class Place(NamedTuple):
    """A system on a task: the workload's name, `problems` or `curve`, which of them, the task and the system."""

    workload: str
    family: str
    number: int
    what: str
    system: str


def peaks(places: Iterable[Place], quick: bool = False) -> dict[Place, int]:
    """Bytes of each place whose process succeeds, two processes or more at a time: sizes do not depend on the load."""
    places = list(places)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda place: _peak(place, quick), places)
        return {place: size for place, size in zip(places, found, strict=True) if size is not None}


def _peak(place: Place, quick: bool) -> int | None:
    command = [sys.executable, "-m", "retrograd.benchmarks.memory", *map(str, place), *(["--quick"] if quick else [])]
    # An empty cache: each process compiles its program, as the peers do.
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "RETROGRAD_CACHE": cache}
        try:
            done = subprocess.run(
                command, check=True, capture_output=True, encoding="utf-8", timeout=PATIENCE, env=environment
            )
            size: int | None = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.SubprocessError, ValueError, IndexError):
            return None
    return size


def main() -> None:
    """Measure one place, in this process."""
    workload, family, index, what, system = sys.argv[1:6]
    from retrograd.benchmarks.workloads import ALL

    found = next(w for w in ALL if w.name == workload)
    problem = list(getattr(found, family)(Sizes("--quick" in sys.argv)))[int(index)]
    task = next(t for t in problem.tasks if t.what == what)
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # without the GNU C library freed memory may count
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        print(json.dumps(None))
        return
    _do(task, system)
    print(json.dumps(_largest()))


def _do(task: Task, system: str) -> None:
    """The task once, by our translation or by a peer."""
    if system == "translated":
        task.ours().run("translated")
        return
    from retrograd.benchmarks.peers import PEERS

    made: Any = PEERS[system.partition("-")[0]].systems(type(task.data), task.what)[system]
    made(task.data).call()


def _largest() -> int | None:
    """The largest size of this process since it was reset, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return 1024 * int(value.split()[0])
    return None


if __name__ == "__main__":
    main()
