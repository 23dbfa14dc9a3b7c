"""Traces of recorded runs, read by other readers: that of Surfer, Perfetto's own definitions, the rules of the Kanata format."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples.bessel import bessel
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd.observe._explorer import FORMATS, Exploration
from retrograd.observe._traces import message
from tests.debugger.test_session import SUM
from tests.explorer.test_document import Player

GRADIENT = (0.0, 2.5)


@pytest.fixture(scope="module")
def gradient() -> Exploration:
    return rg.explore(rg.grad(bessel, loss="out", scale=14), *GRADIENT, tech="cmos45")


def cycles(found: Exploration) -> list[int]:
    """The time of each state."""
    out, time = [0], 0
    for step in found.recording.steps:
        time += step.execution(found.recording.program).cycles(found.recording.program.format)
        out.append(time)
    return out


# ---------------------------------------------------------------------- VCD


def test_vcd(gradient: Exploration, tmp_path: Path) -> None:
    pywellen = pytest.importorskip("pywellen", reason="the test of VCD needs pywellen, the reader of Surfer")
    gradient.save(tmp_path / "t.vcd")
    wave = pywellen.Waveform(str(tmp_path / "t.vcd"))
    signals = {var.full_name: var.signal for var in wave.all_vars()}
    assert str(wave.timescale) == "1ns"
    times, recording = cycles(gradient), gradient.recording
    assert {"registers.r1", "memory.out", "cotangents.registers.r1", "run.mnemonic"} <= signals.keys()
    for n, step in enumerate(recording.steps):
        at = times[n]
        assert int(signals["run.pc"].value_at(at)) == step.pc
        assert int(signals["run.backward"].value_at(at)) == (step.direction < 0)
        assert int(signals["run.D"].value_at(at)) == step.differentiating
        text = f"{signals['run.mnemonic'].value_at(at)} {signals['run.operands'].value_at(at)}"
        assert (
            text.split()
            == step.text(recording.program).replace(", ", ",").replace(" + ", "+").replace(" - ", "-").split()
        )
        for change in step.changes:
            scope = {"r": "registers", "m": "memory", "dr": "cotangents.registers", "dm": "cotangents.memory"}[
                change.bank.value
            ]
            if scope.endswith("registers"):
                signal = signals[f"{scope}.r{change.number}"]
                assert int(signal.value_at(times[n + 1])) == change.after
                assert int(signal.value_at(times[n + 1] - 1)) == change.before
    assert all(name.isascii() and " " not in name for name in signals)


def test_names_in_vcd(tmp_path: Path) -> None:
    machine = Machine(
        assemble(
            ".reg größe, r1\n.data\nxs: .word 0, 0\n.text\n start\n add größe, 5\n st.add [r0 + xs + 1], größe\n finish"
        )
    )
    text = rg.explore(machine).written("vcd").decode()
    assert "r1_gr\\xf6\\xdfe $end" in text
    assert "xs(1) $end" in text
    assert "$date" not in text
    assert text == rg.explore(Machine(machine.program)).written("vcd").decode()


# ---------------------------------------------------------------------- Kanata


def read_kanata(text: str) -> dict[int, dict[str, Any]]:
    """The instructions of a log, checked by the rules of the format."""
    lines = text.splitlines()
    assert lines[:2] == ["Kanata\t0004", "C=\t0"]
    now, out, opened = 0, dict[int, dict[str, Any]](), Counter[tuple[int, str]]()
    for line in lines[2:]:
        command, *fields = line.split("\t")
        if command == "C":
            assert int(fields[0]) > 0
            now += int(fields[0])
            continue
        number = int(fields[0])
        if command == "I":
            assert number == len(out)
            out[number] = {"thread": int(fields[2]), "begin": now, "labels": {"0": "", "1": ""}, "stages": []}
            continue
        op = out[number]
        assert "end" not in op
        match command, fields[1:]:
            case "L", [kind, label]:
                op["labels"][kind] += label
            case "S", ["0", stage]:
                opened[number, stage] += 1
                op["stages"].append((stage, now))
            case "E", ["0", stage]:
                opened[number, stage] -= 1
            case "R", [retired, "0"]:
                assert int(retired) == number
                op["end"] = now
            case _:
                raise AssertionError(line)
    assert not any(opened.values())
    return out


def test_kanata(gradient: Exploration) -> None:
    found = read_kanata(gradient.written("kanata").decode())
    times, program = cycles(gradient), gradient.recording.program
    assert len(found) == len(gradient.recording.steps)
    for n, step in enumerate(gradient.recording.steps):
        op = found[n]
        assert (op["begin"], op["end"]) == (times[n], times[n + 1])
        assert op["thread"] == (step.direction < 0)
        assert op["labels"]["0"] == f"{step.pc}: {step.text(program)}"
        assert [stage for stage, _ in op["stages"]][:3] == ["F", "D", "R"]
        assert [stage for stage, _ in op["stages"]][-2:] == ["X", "W"]
        assert op["labels"]["1"].count("->") == len(step.changes)


def test_text_of_a_program_ends_no_line_of_a_log() -> None:
    log = rg.explore(
        assemble('start\n.label "a\\n\\tb", 1\n add r1, 1\n finish'.replace(".label", "; .label"))
    ).written("kanata")
    assert len(read_kanata(log.decode())) == 2


# ---------------------------------------------------------------------- Perfetto


def read_perfetto(data: bytes) -> Any:
    definitions = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the test of Perfetto traces needs perfetto"
    )
    return definitions.Trace.FromString(data)


def test_perfetto(gradient: Exploration) -> None:
    trace = read_perfetto(gradient.written("perfetto"))
    steps = gradient.recording.steps
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    threads = {uuid: t.thread.thread_name for uuid, t in tracks.items() if t.HasField("thread")}
    assert sorted(threads.values()) == ["backward", "forward"]
    assert {t.parent_uuid for t in tracks.values() if t.parent_uuid} <= tracks.keys()
    time, stacks, instructions = 0, {uuid: list[str]() for uuid in threads}, list[tuple[int, int, Any]]()
    counters: dict[str, list[float]] = {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if not packet.HasField("track_event"):
            continue
        assert packet.timestamp >= time
        time, event = packet.timestamp, packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            stacks[event.track_uuid].append(event.name)
            if event.debug_annotations:
                instructions.append((time, event.track_uuid, event))
        elif event.type == event.TYPE_SLICE_END:
            stacks[event.track_uuid].pop()
        else:
            value = event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            counters.setdefault(tracks[event.track_uuid].name, []).append(value)
    assert not any(stacks.values())
    times = cycles(gradient)
    for n, (step, (begin, track, event)) in enumerate(zip(steps, instructions, strict=True)):
        assert begin == times[n]
        assert threads[track] == ("forward" if step.direction > 0 else "backward")
        assert event.name == step.text(gradient.recording.program)
        notes = {note.name: note.int_value for note in event.debug_annotations[:3]}
        assert notes == {"step": n, "pc": step.pc, "D": step.differentiating}
        assert len(event.debug_annotations) == 3 + len(step.changes)
    player = Player(gradient.as_dict())
    dropped = sum(step.dropped_bits for step in steps)
    assert dropped > 0
    assert counters["bits erased"][-1] == player.total(1) + dropped
    assert counters["energy (cmos45)"][-1] == pytest.approx(player.total(2), rel=1e-3)
    assert counters["live words"][0] == 1


def test_lines_of_the_source_are_slices() -> None:
    machine = Machine(assemble(SUM, name="sum.rga"))
    machine.registers[1] = 2
    trace = read_perfetto(rg.explore(machine).written("perfetto"))
    assert "sum.rga:10  mul.add total, i, i" in {p.track_event.name for p in trace.packet}


def test_negative_and_large_integers_are_varints() -> None:
    assert message({1: 150}) == b"\x08\x96\x01"
    assert message({1: -1}) == b"\x08" + b"\xff" * 9 + b"\x01"
    assert message({2: "testing"}) == b"\x12\x07testing"
    assert message({1: [1, 2], 3: 0.0}) == b"\x08\x01\x08\x02\x19" + bytes(8)


# ---------------------------------------------------------------------- formats


def test_formats_by_suffix(gradient: Exploration, tmp_path: Path) -> None:
    assert FORMATS
    for format, suffixes in FORMATS.items():
        for suffix in suffixes:
            gradient.save(tmp_path / f"t{suffix}")
            assert (tmp_path / f"t{suffix}").read_bytes() == gradient.written(format)
    assert json.loads(gradient.written("json"))["schema"] == "retrograd.exploration/1"


@pytest.mark.parametrize("name", ["t", "t.png", "t.vcd.gz"])
def test_unknown_suffixes(gradient: Exploration, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"RG0507"):
        gradient.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_unknown_formats(gradient: Exploration) -> None:
    with pytest.raises(InputError, match="did you mean"):
        gradient.written("vdc")
