"""Recordings as Perfetto traces (protobuf), for ui.perfetto.dev and its SQL.

    time of step n = cycles of the steps before it;   1 ns stands for a cycle

Two threads, forward and backward, have a slice for each run of steps on one line of the source, and in it a slice for each instruction.
Counters: live words, erased bits, energy. Numbers of fields are those of perfetto/trace/trace.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import isnan

from retrograd.debugger.recording import Bank, Recording
from retrograd.explorer.document import names
from retrograd.isa.program import Program
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.energy.pricing import PricingContext
from retrograd.simulator.energy.technology import Range

#: a field's value: an integer, text, a real number, or a message
Value = int | str | float | bytes
_PROCESS, _FORWARD, _BACKWARD, _LIVE, _ERASED, _ENERGY = 1, 2, 3, 4, 5, 6
_SLICE_BEGIN, _SLICE_END, _COUNTER = 1, 2, 4
#: the first packet of a sequence declares that it depends on none before it
_CLEARED = 1


def message(fields: Mapping[int, Value | list[Value]]) -> bytes:
    """The encoding of a protobuf message from its fields by number: varints, doubles, and bytes behind their length."""
    out = bytearray()
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                out += _varint(number << 3) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
            elif isinstance(value, float):
                out += _varint(number << 3 | 1) + struct.pack("<d", value)
            else:
                data = value.encode("utf-8", "replace") if isinstance(value, str) else value
                out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Packets:
    """The packets of a trace, one sequence."""

    def __init__(self) -> None:
        self.out = bytearray()

    def packet(self, fields: Mapping[int, Value | list[Value]]) -> None:
        # TracePacket: trusted_packet_sequence_id = 10, sequence_flags = 13. Trace: packet = 1.
        first: dict[int, Value | list[Value]] = {13: _CLEARED} if not self.out else {}
        self.out += message({1: message({**fields, 10: 1, **first})})

    def track(self, uuid: int, fields: Mapping[int, Value | list[Value]]) -> None:
        # TracePacket.track_descriptor = 60; TrackDescriptor: uuid = 1
        self.packet({60: message({1: uuid, **fields})})

    def event(self, time: int, kind: int, track: int, fields: Mapping[int, Value | list[Value]]) -> None:
        # TracePacket: timestamp = 8, track_event = 11; TrackEvent: type = 9, track_uuid = 11
        self.packet({8: time, 11: message({9: kind, 11: track, **fields})})


def perfetto(recording: Recording, prices: PricingContext, title: str) -> bytes:
    """The recording as a Perfetto trace."""
    packets = _Packets()
    # TrackDescriptor: name = 2, process = 3, thread = 4, parent_uuid = 5, counter = 8
    packets.track(_PROCESS, {3: message({1: 1, 6: title})})
    for uuid, name in ((_FORWARD, "forward"), (_BACKWARD, "backward")):
        packets.track(uuid, {5: _PROCESS, 4: message({1: 1, 2: uuid, 5: name})})
    for uuid, name, unit in (
        (_LIVE, "live words", ""),
        (_ERASED, "bits erased", "bit"),
        (_ENERGY, f"energy ({prices.technology.id})", "J"),
    ):
        packets.track(uuid, {2: name, 5: _PROCESS, 8: message({6: unit} if unit else {})})
    _Writer(recording, prices, packets).steps()
    return bytes(packets.out)


class _Writer:
    """Writes the steps, and counts on the way."""

    def __init__(self, recording: Recording, prices: PricingContext, packets: _Packets) -> None:
        self.recording, self.prices, self.packets = recording, prices, packets
        self.program = recording.program
        self.signed = self.program.format.signed
        self._energies: dict[object, float] = {}
        self._counted: dict[int, float] = {}

    def steps(self) -> None:
        """All slices and counters, in the order of time."""
        program, w = self.program, self.program.format
        time, open_line, track = 0, None, _FORWARD
        live = sum(bank in (Bank.REGISTER, Bank.MEMORY) for bank, _ in self.recording.start)
        erased, joules = 0, 0.0
        self._count(time, live, erased, joules)
        for n, step in enumerate(self.recording.steps):
            line = _line(program, step.pc)
            now = _FORWARD if step.direction > 0 else _BACKWARD
            if (line, now) != (open_line, track):
                if open_line is not None:
                    self.packets.event(time, _SLICE_END, track, {})
                if line is not None:
                    self.packets.event(time, _SLICE_BEGIN, now, {23: line})
                open_line, track = line, now
            notes = [("step", self.recording.first + n), ("pc", step.pc), ("D", int(step.differentiating))]
            changed = names([(c.bank, c.number) for c in step.changes], program, self.recording.memory_words)
            details = [f"{self.signed(c.before)} → {self.signed(c.after)}" for c in step.changes]
            # TrackEvent: debug_annotations = 4, name = 23; DebugAnnotation: int_value = 4, string_value = 6, name = 10
            annotations: list[Value] = [message({10: name, 4: value}) for name, value in notes]
            annotations += [message({10: name, 6: text}) for name, text in zip(changed, details, strict=True)]
            self.packets.event(time, _SLICE_BEGIN, now, {23: step.text(program), 4: annotations})
            execution = step.execution(program)
            time += execution.cycles(w)
            self.packets.event(time, _SLICE_END, now, {})
            for c in step.changes:
                live += (bool(c.after) - bool(c.before)) * (c.bank in (Bank.REGISTER, Bank.MEMORY))
            erased += execution.opcode.erased_words * w.width + step.dropped_bits
            joules += self._energy(Counts(program, {(step.pc, execution): 1}), (step.pc, execution))
            if step.dropped_bits:
                joules += step.dropped_bits * self._energy(Counts(program, {}, dropped_bits=1), None)
            self._count(time, live, erased, joules)
        if open_line is not None:
            self.packets.event(time, _SLICE_END, track, {})

    def _energy(self, counts: Counts, key: object) -> float:
        """The energy of one execution, or NaN where the model has no figure."""
        if key not in self._energies:
            priced = self.prices.price(counts).program
            self._energies[key] = priced.nominal if isinstance(priced, Range) else float("nan")
        return self._energies[key]

    def _count(self, time: int, live: int, erased: int, joules: float) -> None:
        # TrackEvent: counter_value = 30, double_counter_value = 44
        for track, field, value in ((_LIVE, 30, live), (_ERASED, 30, erased), (_ENERGY, 44, joules)):
            if self._counted.get(track) != value and not isnan(value):
                self.packets.event(time, _COUNTER, track, {field: value})
                self._counted[track] = value


def _line(program: Program, pc: int) -> str | None:
    """The line of the source that an instruction comes from, with its text where it is at hand."""
    span = program.source.span(pc)
    if span is None:
        return None
    text = program.source.line(span)
    return f"{span.file}:{span.line}" + (f"  {text.strip()}" if text else "")
