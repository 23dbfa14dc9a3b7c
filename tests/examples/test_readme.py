"""The commands in examples/README.md do what the README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
MESSAGE = (EXAMPLES / "message.txt").read_bytes()
#: section -> the commands of its block
COMMANDS = dict(re.findall(r"^## \[(\w+)\.rga\].*?^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
#: section -> files that its commands leave, and what these hold
LEFT: dict[str, dict[str, bytes]] = {
    "isqrt": {"root.txt": b"1000\n"},
    "fibonacci": {"fib.u64": (12200160415121876738).to_bytes(8, "little")},
    "runlength": {"unpacked.txt": MESSAGE},
    "sort": {
        "sorted.txt": b"-10\n-10\n20\n30\n",
        "perm.txt": b"1\n3\n2\n0\n",
        "again.txt": b"30\n-10\n20\n-10\n",
    },
    "xtea": {"plain.bin": MESSAGE + bytes(-len(MESSAGE) % 8)},
}


def test_every_section_is_run() -> None:
    assert set(LEFT) == set(COMMANDS)
    assert set(COMMANDS) <= {path.stem for path in EXAMPLES.glob("*.rga")}


@pytest.mark.parametrize("name", sorted(LEFT))
def test_commands(name: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["sh", "-e", "-c", COMMANDS[name]],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("0 bits erased") == COMMANDS[name].count("retrograd run")
    assert done.stdout.count("all registers are zero") == COMMANDS[name].count("retrograd run")
    assert {file: (tmp_path / file).read_bytes() for file in LEFT[name]} == LEFT[name]
