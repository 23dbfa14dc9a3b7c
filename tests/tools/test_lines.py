"""tools/lines.py: rooms, budgets and outliers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("lines_of_rooms", ROOT / "tools" / "lines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


lines = loaded()
WITHIN = {room.name: (room.lines, room.files) for room in lines.ROOMS}


def test_a_file_belongs_to_the_innermost_room() -> None:
    assert lines.room_of("compiler/frontends/vlad/translation.py").name == "front ends"
    assert lines.room_of("compiler/pipeline.py").name == "compiler"
    assert lines.room_of("simulator/engines/tiering.py").name == "engines"
    assert lines.room_of("setup.py") is None


def test_every_file_of_the_product_is_counted() -> None:
    names = [n for n in lines.tracked() if not n.startswith(("examples/", "docs/", "editors/"))]
    assert sum(files for _, files in lines.counted(names).values()) == len(names)


@pytest.mark.parametrize("room", lines.ROOMS, ids=lambda room: room.name)
def test_a_room_above_its_budget_is_named(room: Any) -> None:
    for more in ((1, 0), (0, 1)):
        found = {**WITHIN, room.name: (room.lines + more[0], room.files + more[1])}
        (fault,) = lines.faults(found, lines.OUTLIERS)
        assert fault.startswith(room.name)
    assert lines.faults(WITHIN, lines.OUTLIERS) == []


@pytest.mark.parametrize("kind", lines.OUTLIERS)
def test_a_number_of_outliers_is_the_recorded_one(kind: str) -> None:
    recorded = lines.OUTLIERS[kind]
    for number in (recorded + 1, recorded - 1 - recorded // 50):
        (fault,) = lines.faults(WITHIN, {**lines.OUTLIERS, kind: number})
        assert fault.startswith(kind)


def test_a_room_without_files_is_a_fault() -> None:
    assert lines.faults({**WITHIN, "isa": (0, 0)}, lines.OUTLIERS) != []
