"""Lines and files of each room against a budget: `python tools/lines.py`, part of `make lint`.

    room   lines   budget   files   budget

A room is a part of the product that one person reads as a whole. The check fails where a room has more lines or files than its budget, or
where the tree has more outliers than are recorded: functions with more than 25 independent paths (McCabe), lines of more than 120
characters, files of more than 900 lines. A budget is raised only by a commit that states the reason. A recorded number of outliers only falls.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: the longest file, the longest line, the most independent paths of a function
LONGEST_FILE, LONGEST_LINE, MOST_PATHS = 900, 120, 25


@dataclass(frozen=True)
class Room:
    """The Python files below the folders, without the folders that are rooms of their own."""

    name: str
    folders: tuple[str, ...]
    lines: int
    files: int


ROOMS = (
    Room("isa", ("isa",), 8_440, 27),
    Room("assembler", ("assembler",), 3_300, 10),
    Room("front ends", ("compiler/frontends",), 26_100, 51),
    Room("compiler", ("compiler",), 18_260, 52),
    Room("engines", ("simulator/engines",), 16_190, 41),
    Room("machine and energy", ("simulator",), 4_440, 13),
    Room("hdl", ("hdl",), 19_200, 58),
    Room("face", ("src/retrograd",), 39_300, 99),
    Room("benchmarks", ("benchmarks",), 11_000, 33),
    Room("tools", ("tools", ".ci"), 6_820, 24),
    Room("tests", ("tests",), 128_800, 1_390),
)

#: kind of outlier -> how many there are, to one in a hundred
OUTLIERS = {"paths": 6, "long lines": 3604, "long files": 3}


def tracked() -> list[str]:
    """The Python files of the working tree, without ignored files."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def room_of(name: str, rooms: tuple[Room, ...] = ROOMS) -> Room | None:
    """The room of a file: the one with the longest folder that holds it."""
    holds = [(len(folder), room) for room in rooms for folder in room.folders if name.startswith(folder + "/")]
    return max(holds, key=lambda found: found[0])[1] if holds else None


def counted(names: list[str], rooms: tuple[Room, ...] = ROOMS) -> dict[str, tuple[int, int]]:
    """Room -> lines and files."""
    found = {room.name: (0, 0) for room in rooms}
    for name in names:
        room = room_of(name, rooms)
        if room is not None:
            lines, files = found[room.name]
            found[room.name] = lines + len(lines_of(name)), files + 1
    return found


def lines_of(name: str) -> list[str]:
    return (ROOT / name).read_bytes().decode(errors="replace").removesuffix("\n").split("\n")


def outliers(names: list[str]) -> dict[str, list[str]]:
    """Kind -> the places that are outliers."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "C901", "--ignore-noqa", "--output-format", "json",
         "--config", f"lint.mccabe.max-complexity={MOST_PATHS}", "."],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    paths = [
        f"{Path(found['filename']).relative_to(ROOT)}:{found['location']['row']}" for found in json.loads(done.stdout)
    ]
    texts = {name: lines_of(name) for name in names}
    return {
        "paths": paths,
        "long lines": [
            f"{n}:{i}" for n, text in texts.items() for i, line in enumerate(text, 1) if len(line) > LONGEST_LINE
        ],
        "long files": [n for n, text in texts.items() if len(text) > LONGEST_FILE],
    }


def faults(found: dict[str, tuple[int, int]], beyond: dict[str, int]) -> list[str]:
    """A line for each number above its budget, and for each record that has become too high."""
    out = []
    for room in ROOMS:
        lines, files = found[room.name]
        if not files:
            out.append(f"{room.name}: no file is there; the table of rooms names folders of another layout")
        if lines > room.lines:
            out.append(f"{room.name}: {lines} lines are above the budget of {room.lines}")
        if files > room.files:
            out.append(f"{room.name}: {files} files are above the budget of {room.files}")
    for kind, number in beyond.items():
        if number > OUTLIERS[kind]:
            out.append(f"{kind}: {number}, recorded are {OUTLIERS[kind]}; `python tools/lines.py {kind!r}` lists them")
        if number < 0.99 * OUTLIERS[kind]:
            out.append(
                f"{kind}: {number} are fewer than the {OUTLIERS[kind]} that are recorded: record them in tools/lines.py"
            )
    return out


def main(arguments: list[str]) -> int:
    """Print the table and the faults, or, for the name of a kind of outlier, its places."""
    names = tracked()
    beyond = outliers(names)
    if arguments:
        print("\n".join(beyond[arguments[0]]))
        return 0
    found = counted(names)
    print(f"{'room':20}{'lines':>9}{'budget':>9}{'files':>8}{'budget':>8}")
    for room in ROOMS:
        lines, files = found[room.name]
        print(f"{room.name:20}{lines:9}{room.lines:9}{files:8}{room.files:8}")
    wrong = faults(found, {kind: len(places) for kind, places in beyond.items()})
    print("\n".join(wrong), file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
