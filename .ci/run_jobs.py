"""Run the jobs of a table: `python .ci/run_jobs.py .ci/jobs.toml [--only NAME …]`.

    seconds = 1780                  # of the whole run
    allowed_missing = ["chromium"]  # tools without which a job may be left out

    [tool]                          # where a tool is found: by its name in PATH, or as a Python module
    chromium = { debian = "chromium" }
    litex = { module = "litex" }

    [[job]]
    name = "lint"
    command = "make lint"           # by bash, in the root of the project; $WORK is an empty folder of the run
    timeout = 120                   # seconds, after which the job is ended and has failed
    cores = 1                       # jobs run side by side while cores are left; 0: alone
    needs = ["chromium"]
    required = true                 # after its failure no job begins

Jobs begin in the order of the table. Absent Debian packages of tools are installed first. A job fails if its status is not 0, if its timeout
or the seconds of the run are over, or if a tool that it needs is absent. Each failure is shown with the last lines of the job's output, and
the status is 1. A job that needs an absent tool of `allowed_missing` is left out, and named at the end.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: lines of output that are shown of a job that failed, and of another
SHOWN = {True: 80, False: 3}
#: seconds between the request to end and the end
GRACE = 10


@dataclass(frozen=True)
class Job:
    name: str
    command: str
    timeout: float
    cores: int = 1
    needs: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class Table:
    """A table that was read. Raises ValueError where a name is unknown or stands twice."""

    seconds: float
    jobs: tuple[Job, ...]
    tools: dict[str, dict[str, str]] = field(default_factory=dict)
    allowed_missing: frozenset[str] = frozenset()

    @classmethod
    def read(cls, file: Path) -> Table:
        with file.open("rb") as stream:
            text: dict[str, Any] = tomllib.load(stream)
        jobs = tuple(Job(**job | {"needs": tuple(job.get("needs", ()))}) for job in text["job"])
        table = cls(text["seconds"], jobs, text.get("tool", {}), frozenset(text.get("allowed_missing", ())))
        names = [job.name for job in jobs]
        unknown = {tool for job in jobs for tool in job.needs} | table.allowed_missing
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{file}: two jobs are called {', '.join(sorted(twice))}")
        if unknown := unknown - set(table.tools):
            raise ValueError(f"{file}: no [tool] is called {', '.join(sorted(unknown))}")
        return table

    def absent(self, names: Collection[str]) -> list[str]:
        """Tools that are not there now."""
        importlib.invalidate_caches()
        return [
            name
            for name in names
            if (
                importlib.util.find_spec(self.tools[name]["module"]) is None
                if "module" in self.tools[name]
                else shutil.which(name) is None
            )
        ]


class Run:
    """A run of jobs. `failed` and `left_out`: name -> reason."""

    def __init__(self, table: Table, work: Path, cores: int | None = None) -> None:
        self.table, self.work = table, work
        self.cores = cores or len(os.sched_getaffinity(0))
        self.failed: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        self._free = self.cores
        self._changed = threading.Condition()
        self._begun = time.monotonic()

    def run(self) -> None:
        """All jobs, each as soon as those before it in the table have begun and its cores are free."""
        self._install()
        threads = []
        for job in self.table.jobs:
            wanted = min(job.cores, self.cores) or self.cores
            with self._changed:
                self._changed.wait_for(lambda wanted=wanted: self._free >= wanted)  # type: ignore[misc]
                if any(other.required for other in self.table.jobs if other.name in self.failed):
                    self.failed[job.name] = "not begun, since a required job failed"
                    continue
                if missing := self.table.absent(job.needs):
                    allowed = self.table.allowed_missing.issuperset(missing)
                    (self.left_out if allowed else self.failed)[job.name] = f"needs {', '.join(missing)}"
                    self._say(f"{job.name}: needs {', '.join(missing)}", "left out" if allowed else "FAILED")
                    continue
                self._free -= wanted
            threads.append(threading.Thread(target=self._job, args=(job, wanted)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _install(self) -> None:
        """Debian packages of absent tools; a tool that is absent after it fails its jobs, not the run."""
        needed = {tool for job in self.table.jobs for tool in job.needs if "debian" in self.table.tools[tool]}
        packages = [self.table.tools[tool]["debian"] for tool in self.table.absent(sorted(needed))]
        for command in (["apt-get", "update", "-qq"], *(["apt-get", "install", "-y", "-qq", p] for p in packages)):
            if packages and shutil.which("apt-get"):
                subprocess.run(command, stdout=subprocess.DEVNULL, timeout=self._left(), check=False)

    def _left(self) -> float:
        return max(self.table.seconds - (time.monotonic() - self._begun), 0.0)

    def _job(self, job: Job, cores: int) -> None:
        begun = time.monotonic()
        log = self.work / f"{job.name}.log"
        limit = min(job.timeout, self._left())
        try:
            fault = self._execute(job, log, limit) if limit else "not begun: the seconds of the run are over"
        except Exception as error:
            fault = f"could not be run: {error!r}"
        with self._changed:
            if fault:
                self.failed[job.name] = fault
            self._say(f"{job.name}, {time.monotonic() - begun:.0f} s", f"FAILED: {fault}" if fault else "passed")
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            print("\n".join(f"    {line}" for line in lines[-SHOWN[bool(fault)] :]), flush=True)
            self._free += cores
            self._changed.notify_all()

    def _execute(self, job: Job, log: Path, limit: float) -> str:
        """The fault; an empty text where there is none."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", job.command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | {"WORK": str(self.work)},
            )  # fmt: skip
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                self._end(process)
                return f"not at its end after {limit:.0f} s"
        return f"status {status}" if status else ""

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """End the job and all that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(GRACE)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def _say(self, what: str, how: str) -> None:
        print(f"[{time.monotonic() - self._begun:5.0f} s] {what}: {how}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these jobs")
    options = parser.parse_args()
    table = Table.read(options.table)
    if options.only:
        if unknown := set(options.only) - {job.name for job in table.jobs}:
            parser.error(f"no job is called {', '.join(sorted(unknown))}")
        jobs = tuple(job for job in table.jobs if job.name in options.only)
        table = Table(table.seconds, jobs, table.tools, table.allowed_missing)
    with tempfile.TemporaryDirectory() as work:
        run = Run(table, Path(work))
        run.run()
    for name, reason in run.left_out.items():
        print(f"left out: {name} ({reason})")
    for name, reason in run.failed.items():
        print(f"FAILED: {name} ({reason})")
    print(f"{len(table.jobs) - len(run.failed) - len(run.left_out)} of {len(table.jobs)} jobs passed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
