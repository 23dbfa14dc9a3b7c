"""Jobs of a table: each passes, fails loudly, or is left out and named; planted faults of every kind."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TABLE = """
seconds = 60
allowed_missing = ["tool_of_nobody"]

[tool]
tool_of_nobody = {}
other_of_nobody = {}
module_of_nobody = { module = "retrograd_module_of_nobody" }
sh = {}
json = { module = "json" }
"""


@pytest.fixture
def jobs(module: Callable[[str], ModuleType]) -> Any:
    return module(".ci/run_jobs.py")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """run({NAME: {command, …}}): status, and printed text."""

    def of(given: dict[str, dict[str, Any]], *arguments: str, head: str = TABLE) -> tuple[int, str]:
        text = head
        for name, job in given.items():
            fields = {"command": "true", "timeout": 50} | job
            text += f'\n[[job]]\nname = "{name}"\n'
            text += "".join(f"{key} = {str(v).lower() if v is True else repr(v)}\n" for key, v in fields.items())
        (tmp_path / "jobs.toml").write_text(text)
        command = [sys.executable, str(ROOT / ".ci" / "run_jobs.py"), str(tmp_path / "jobs.toml"), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.returncode, ran.stdout

    return of


Run = Callable[..., tuple[int, str]]


def test_jobs_that_pass(run: Run) -> None:
    status, text = run({"a": {"command": "echo of a"}, "b": {"cores": 0, "needs": ["sh", "json"]}, "c": {"cores": 99}})
    assert status == 0
    assert "    of a\n" in text
    assert text.endswith("3 of 3 jobs passed\n")


def test_a_failure_is_shown_by_its_last_lines_and_others_run(run: Run) -> None:
    status, text = run({"a": {"command": "seq 300; exit 3"}, "b": {"command": "seq 300"}})
    assert status == 1
    shown = re.findall(r"^    (\d+)$", text, re.MULTILINE)
    assert [n for n in shown if int(n) < 221] == []
    assert len(shown) == 80 + 3
    assert "FAILED: a (status 3)" in text
    assert "1 of 2 jobs passed" in text


@pytest.mark.parametrize("command", ["false; true", "false | true", "echo $name_of_nobody"])
def test_no_failure_within_a_command_is_passed_over(run: Run, command: str) -> None:
    assert run({"a": {"command": command}})[0] == 1


def test_a_job_beyond_its_timeout_is_ended_with_all_that_it_started(run: Run, tmp_path: Path) -> None:
    mark = tmp_path / "process"
    command = f"(trap '' TERM; sleep 47) & echo $! > {mark}; echo begun; wait"
    status, text = run({"a": {"command": command, "timeout": 1}, "b": {}})
    assert status == 1
    assert "FAILED: a (not at its end after 1 s)" in text
    assert "    begun\n" in text
    # It is gone, or waits for its parent to read its status.
    state = Path(f"/proc/{int(mark.read_text())}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_an_absent_tool_fails_its_job(run: Run) -> None:
    status, text = run({"a": {"needs": ["sh", "other_of_nobody", "module_of_nobody"]}, "b": {}})
    assert status == 1
    assert "FAILED: a (needs other_of_nobody, module_of_nobody)" in text


def test_a_job_is_left_out_for_an_allowed_tool_alone(run: Run) -> None:
    status, text = run({"a": {"needs": ["tool_of_nobody"]}, "b": {}})
    assert status == 0
    assert "left out: a (needs tool_of_nobody)\n1 of 2 jobs passed\n" in text
    assert run({"a": {"needs": ["tool_of_nobody", "other_of_nobody"]}})[0] == 1


def test_nothing_begins_after_a_required_job_failed(run: Run) -> None:
    status, text = run({"a": {"command": "false", "cores": 0, "required": True}, "b": {"command": "echo ran"}})
    assert status == 1
    assert "FAILED: b (not begun, since a required job failed)" in text
    assert "ran\n" not in text


def test_jobs_fail_that_begin_too_late(run: Run) -> None:
    head = TABLE.replace("seconds = 60", "seconds = 1")
    status, text = run({"a": {"command": "sleep 47", "cores": 0}, "b": {}}, head=head)
    assert status == 1
    assert "FAILED: a (not at its end after 1 s)" in text
    assert "FAILED: b (not begun: the seconds of the run are over)" in text


def test_jobs_run_side_by_side(jobs: Any, tmp_path: Path) -> None:
    """Two that wait for each other; a third, of all cores, comes after them."""
    meet = "touch {0}; until [ -e {1} ]; do sleep 0.1; done"
    a, b = tmp_path / "a", tmp_path / "b"
    alone = jobs.Job("alone", f"[ -e {a} ] && [ -e {b} ]", 20, cores=0)
    found = jobs.Run(
        jobs.Table(60, (jobs.Job("a", meet.format(a, b), 20), jobs.Job("b", meet.format(b, a), 20), alone)), tmp_path, 2
    )
    found.run()
    assert found.failed == {}


@pytest.mark.parametrize(("text", "message"), [
    ('[[job]]\nname = "a"\ncommand = ""\ntimeout = 1\n' * 2, "two jobs are called a"),
    ('[[job]]\nname = "a"\ncommand = ""\ntimeout = 1\nneeds = ["make"]\n', r"no \[tool\] is called make"),
])  # fmt: skip
def test_a_wrong_table_is_refused(jobs: Any, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "jobs.toml").write_text(TABLE + text)
    with pytest.raises(ValueError, match=message):
        jobs.Table.read(tmp_path / "jobs.toml")


def test_only_jobs_that_are_named(run: Run) -> None:
    assert run({"a": {"command": "false"}, "b": {}}, "--only", "b")[1].endswith("1 of 1 jobs passed\n")
    assert run({"a": {}}, "--only", "z")[0] == 2


def test_the_table_of_ci(jobs: Any) -> None:
    """It can be read; every folder of tests that the job of the full tier ignores has a job of its own."""
    table = jobs.Table.read(ROOT / ".ci" / "jobs.toml")
    [full] = [job for job in table.jobs if job.name == "full-tier"]
    others = " ".join(job.command for job in table.jobs if job is not full)
    ignored = re.findall(r"--ignore=(\S+)", full.command)
    assert ignored
    for path in ignored:
        assert (ROOT / path).exists()
        assert path in others
    text = tomllib.loads((ROOT / ".ci" / "jobs.toml").read_text())
    assert len(text["allowed_missing"]) < len(text["tool"])
