"""Recordings as JSON (schema retrograd.exploration/1): the data of the explorer's page, and of `retrograd trace --format json`.

    state n + 1 = state n with `steps.changes[n]`;   words before the run: `places[…].start`

Sizes are bounded by the recording: words that the run never changes are listed up to `UNCHANGED`, and of long programs only
instructions near executed ones.
"""

from __future__ import annotations

import html
import io
import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import islice, product
from math import isnan, prod
from string import Template
from typing import Any, NamedTuple

from vcd import VCDWriter

from retrograd.isa.diagnostics import markup
from retrograd.isa.encoding import inverse, write
from retrograd.isa.program import Program
from retrograd.isa.words import Format, numbers_of
from retrograd.observe._timeline import Bank, Recording, Step
from retrograd.observe._variables import is_among, memory_names
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.energy.pricing import PricingContext
from retrograd.simulator.energy.technology import Range

SCHEMA = "retrograd.exploration/1"
#: words listed that are not zero and never change
UNCHANGED = 256
#: elements shown of an array
ELEMENTS = 64
#: programs up to this length are listed whole
WHOLE_CODE = 4000
#: variables named beside a place
_NAMED = 3
#: integers up to this are numbers in JavaScript; larger ones are written as text
_EXACT = 1 << 53

Place = tuple[Bank, int]


class _Array(NamedTuple):
    """An array of the source at a fixed address: the addresses of its first elements, and of a stack's count.

    `each`: how many of them belong to one element of a stack.
    """

    name: str
    kind: str
    length: int
    addresses: tuple[int, ...]
    top: int | None
    each: int


def _point(kind: str, w: Format) -> dict[str, int]:
    """The binary point of numbers that have one of their own."""
    numbers = numbers_of(kind, w)
    return {} if numbers is None or kind == "fixed" else {"point": numbers.frac}


def exploration(recording: Recording, prices: PricingContext) -> dict[str, Any]:
    """The document of a recording. Steps are priced by the energy of their instruction; energies add up.

    The elements of an array are `places`, but an element that the optimiser has put into a register is a variable `name[k]`.
    """
    program, w = recording.program, recording.program.format
    arrays = _arrays(program)
    listed, unlisted = _listed(recording, arrays)
    number = {place: n for n, place in enumerate(listed)}
    named = names(listed, program, recording.memory_words, variables=True)
    files = [f for f, _ in enumerate(program.source.texts) if program.source.texts[f]]
    word = _word(w.signed)
    end = recording.message or {"halted": "the run has ended", "limit": "the recording ends here; the run goes on"}.get(
        recording.end
    )
    return {
        "schema": SCHEMA,
        "first": recording.first,
        "end": end or recording.end,
        "technology": prices.technology.id,
        "format": {"width": w.width, "frac": w.frac, "name": str(w)},
        "dropped_bit": _joules(prices, Counts(program, {}, dropped_bits=1)),
        "unlisted": unlisted,
        "code": _code(recording, prices, {f: n for n, f in enumerate(files)}),
        "files": [{"name": program.source.files[f], "lines": list(program.source.texts[f])} for f in files],
        "places": [
            {"bank": bank.value, "name": name, "start": word(recording.start.get((bank, n), 0))}
            for (bank, n), name in zip(listed, named, strict=True)
        ],
        "variables": [
            {
                "name": v.name, "kind": v.kind, "first": v.first, "last": v.last,
                "place": number.get((Bank.MEMORY if v.memory else Bank.REGISTER, v.number), -1), **_point(v.kind, w),
            }
            for v in program.variables
            if v.layout is None
        ],
        "unsettled": _unsettled(program),
        "arrays": [
            {
                "name": a.name, "kind": a.kind, "length": a.length,
                "places": [number.get((Bank.MEMORY, address), -1) for address in a.addresses],
                "count": -1 if a.top is None else number.get((Bank.MEMORY, a.top), -1), **_point(a.kind, w),
                **({} if a.each == 1 else {"each": a.each}),
            }
            for a in arrays
        ],
        "steps": {
            "pc": [*(step.pc for step in recording.steps), recording.last[0]],
            "mode": [*(mode_of(step.direction, step.differentiating) for step in recording.steps), mode_of(*recording.last[1:])],
            "changes": [
                [field for c in step.changes for field in (number[c.bank, c.number], word(c.after))]
                for step in recording.steps
            ],
            "dropped": {n: step.dropped_bits for n, step in enumerate(recording.steps) if step.dropped_bits},
        },
    }  # fmt: skip


def _unsettled(program: Program) -> dict[str, list[int]]:
    """Variable -> the addresses at which the source may give it another value, by `Program.unsettled`."""
    spans = [program.source.span(pc) for pc in range(len(program.code))]
    out = {}
    for name in {v.name for v in program.variables}:
        lines = frozenset[tuple[str, int]]().union(*(at for n, at in program.unsettled.items() if is_among(name, (n,))))
        addresses = [pc for pc, span in enumerate(spans) if span is not None and (span.file, span.line) in lines]
        if addresses:
            out[name] = addresses
    return out


def mode_of(direction: int, differentiating: bool) -> int:
    """Bit 0: backward; bit 1: D."""
    return (direction < 0) + 2 * differentiating


def _word(signed: Callable[[int], int]) -> Callable[[int], int | str]:
    def word(bits: int) -> int | str:
        value = signed(bits)
        return value if -_EXACT <= value <= _EXACT else str(value)

    return word


def _arrays(program: Program) -> list[_Array]:
    out = []
    for v in program.variables:
        if v.layout is None or not v.layout.shape or v.indirect:
            continue
        shape, strides = v.layout.shape, v.layout.strides
        first = islice(product(*map(range, shape)), ELEMENTS)
        addresses = tuple(v.number + sum(i * s for i, s in zip(at, strides, strict=True)) for at in first)
        stack = v.layout.counts[0] if v.layout.counts else 0
        top, each = (v.number - stack, prod(shape[1:])) if stack else (None, 1)
        out.append(_Array(v.name, v.kind, prod(shape), addresses, top, each))
    return out


def _listed(recording: Recording, arrays: Iterable[_Array]) -> tuple[list[Place], int]:
    """(the places that are listed, the number of words left out that are not zero)."""
    wanted: set[Place] = {(c.bank, c.number) for step in recording.steps for c in step.changes}
    for a in arrays:
        wanted.update((Bank.MEMORY, address) for address in (*a.addresses, *([] if a.top is None else [a.top])))
    constant = [place for place in recording.start if place not in wanted]
    wanted.update(constant[:UNCHANGED])
    order = list(Bank)
    values = [place for place in constant[UNCHANGED:] if place[0] in (Bank.REGISTER, Bank.MEMORY)]
    return sorted(wanted, key=lambda place: (order.index(place[0]), place[1])), len(values)


def names(places: Iterable[Place], program: Program, memory_words: int, *, variables: bool = False) -> list[str]:
    """The name of each place; with `variables`, also those of the source that it holds in some part of the run."""
    held: dict[tuple[bool, int], dict[str, None]] = {}
    for v in sorted(program.variables, key=lambda v: v.first):
        if variables and v.layout is None:
            held.setdefault((v.memory, v.number), {})[v.name] = None
    for name, number in program.register_names.items():
        held[False, number] = {name: None}
    memory = memory_names(program, memory_words)
    out = []
    for bank, n in places:
        in_memory = bank in (Bank.MEMORY, Bank.MEMORY_COTANGENT)
        base = memory(n) if in_memory else f"r{n}"
        own = [name for name in held.get((in_memory, n), ()) if name != base]
        if own:
            base = f"{base} {', '.join([*own[:_NAMED], *(['…'] if own[_NAMED:] else [])])}"
        out.append(f"∂{base}" if bank in (Bank.REGISTER_COTANGENT, Bank.MEMORY_COTANGENT) else base)
    return out


def _code(recording: Recording, prices: PricingContext, files: dict[int, int]) -> list[dict[str, Any] | None]:
    """Each instruction with its inverse, its line, and by mode its cycles, erased bits and energy; None: left out."""
    program = recording.program
    executed: dict[int, dict[int, Step]] = {}
    for step in recording.steps:
        executed.setdefault(step.pc, {}).setdefault(mode_of(step.direction, step.differentiating), step)
    last = len(program.code) - 1
    wanted = (
        range(last + 1) if last < WHOLE_CODE else {max(0, min(last, pc + k)) for pc in executed for k in range(-2, 3)}
    )
    labels: dict[int, str] = {}
    for label, pc in program.labels.items():
        labels[pc] = f"{labels[pc]}, {label}" if pc in labels else label
    out: list[dict[str, Any] | None] = []
    for pc, i in enumerate(program.instructions):
        if pc not in wanted:
            out.append(None)
            continue
        span = program.source.spans[pc] if pc < len(program.source.spans) else None
        here = span is not None and span[0] in files
        costs = {mode: _costs(program, step, prices) for mode, step in sorted(executed.get(pc, {}).items())}
        out.append(
            {
                "text": write(i),
                "inverse": write(inverse(i, program.table)),
                "file": files[span[0]] if span is not None and here else -1,
                "line": span[1] if span is not None and here else 0,
                "label": labels.get(pc, ""),
                "costs": costs,
            }
        )
    return out


def _costs(program: Program, step: Step, prices: PricingContext) -> tuple[int, int, float | None]:
    """(cycles, bits erased, joules) of a step; cotangents that it drops are counted apart."""
    execution, w = step.execution(program), program.format
    joules = _joules(prices, Counts(program, {(step.pc, execution): 1}))
    return execution.cycles(w), execution.opcode.erased_words * w.width, joules


def _joules(prices: PricingContext, counts: Counts) -> float | None:
    """The energy of the program; None if the model has no figure."""
    energy = prices.price(counts).program
    return energy.nominal if isinstance(energy, Range) else None


# -----------------------------------------------------------------------------
# The explorer's page: HTML with its component, style, script and data in one file.
#
# A content security policy allows this script and this style by their hashes, and no network. Text of a program is JSON in the page, whose
# `<` is escaped, and the script shows it as text nodes only: no content of a program is ever HTML.

#: shows the recording of the page, from the step that the address names
_BEGIN = """
const wanted = /^#step=(\\d+)$/.exec(location.hash);
const recording = JSON.parse(document.getElementById("recording").textContent);
const player = explorer(document, recording, wanted ? { step: Number(wanted[1]) } : {});
document.documentElement.dataset.ready = "true";
"""


def page(document: dict[str, Any], title: str) -> str:
    """The page of a document of `exploration`."""
    found = parts()
    style, script = found["explorer.css"], found["explorer.js"] + _BEGIN
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    escaped = {"policy": markup(policy), "title": markup(title)}
    template = Template(found["explorer.html"])
    return template.substitute(escaped, style=style, component=found["component.html"], script=script, data=data)


def frame(page: str, height: int) -> str:
    """The page as an element of another page, such as a notebook: a frame that may run scripts and nothing else."""
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" title="Explorer" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


@cache
def parts() -> dict[str, str]:
    """The page's template, and the component with its style and script, by the names of their files."""
    folder = files("retrograd.observe")
    names = ("explorer.html", "component.html", "explorer.css", "explorer.js", "notebook.js")
    return {name: folder.joinpath(name).read_text("utf-8") for name in names}


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


# -----------------------------------------------------------------------------
# Recordings as Kanata logs (version 4), for the pipeline viewer Konata.
#
# Cycles are those of the co-processor, which executes one instruction at a time: each has the stages of its microprogram. Time goes on while
# the machine runs backward; thread 0 runs forward and thread 1 backward.
#
# Source: docs/kanata-log-format.md of Konata.

#: stage -> its name in the log; viewers take a stage with an X for the execution
_STAGES = {"fetch": "F", "decode": "D", "read": "R", "address": "A", "access": "M", "execute": "X", "write": "W"}


def kanata(recording: Recording) -> bytes:
    """The recording as a Kanata log."""
    program = recording.program
    out = ["Kanata\t0004", "C=\t0"]
    for n, step in enumerate(recording.steps):
        span = program.source.span(step.pc)
        out += [
            f"I\t{n}\t{recording.first + n}\t{int(step.direction < 0)}",
            f"L\t{n}\t0\t{step.pc}: {_plain(step.text(program))}",
        ]
        details = [] if span is None else [f"{span.file}:{span.line}"]
        places = names([(c.bank, c.number) for c in step.changes], program, recording.memory_words)
        signed = program.format.signed
        details += [
            f"{name}: {signed(c.before)} -> {signed(c.after)}" for name, c in zip(places, step.changes, strict=True)
        ]
        if details:
            out.append(f"L\t{n}\t1\t" + "\\n".join(map(_plain, details)))
        for stage, cycles in step.execution(program).stages(program.format).items():
            out += [f"S\t{n}\t0\t{_STAGES[stage]}", f"C\t{cycles}", f"E\t{n}\t0\t{_STAGES[stage]}"]
        out.append(f"R\t{n}\t{n}\t0")
    return "\n".join([*out, ""]).encode("utf-8", "replace")


def _plain(text: str) -> str:
    """A text without tabs and ends of lines, which separate the fields of the log."""
    return " ".join(text.split())


# -----------------------------------------------------------------------------
# Recordings as Perfetto traces (protobuf), for ui.perfetto.dev and its SQL.
#
#     time of step n = cycles of the steps before it;   1 ns stands for a cycle
#
# Two threads, forward and backward, have a slice for each run of steps on one line of the source, and in it a slice for each instruction.
# Counters: live words, erased bits, energy. Numbers of fields are those of perfetto/trace/trace.proto.

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


# -----------------------------------------------------------------------------
# Recordings as value change dumps (IEEE 1364), for GTKWave and Surfer.
#
#     time of step n = cycles of the steps before it;   1 ns stands for a cycle
#
# At the beginning of a step `pc`, `mnemonic`, `operands`, `line`, `backward` and `D` change; at its end the words that it changed. Going
# backward, the instruction is the inverse that executes. Texts have no blanks: viewers differ in how they read these.

#: bank -> scope of its words
_SCOPES = {
    Bank.REGISTER: "registers",
    Bank.MEMORY: "memory",
    Bank.REGISTER_COTANGENT: "cotangents.registers",
    Bank.MEMORY_COTANGENT: "cotangents.memory",
}


def vcd(recording: Recording) -> bytes:
    """The recording as a value change dump: the words that it changes, and the state of control."""
    program = recording.program
    width = program.format.width
    listed = sorted(
        {(c.bank, c.number) for step in recording.steps for c in step.changes}, key=lambda p: (p[0].value, p[1])
    )
    shown = names(listed, program, recording.memory_words)
    out = io.StringIO()
    with VCDWriter(out, timescale="1 ns", date="", comment="1 ns is a cycle of the co-processor") as writer:
        register = writer.register_var
        pc, br = (register("run", name, "reg", 32, init=0) for name in ("pc", "BR"))
        backward, lifted = register("run", "backward", "wire", 1), register("run", "D", "wire", 1)
        mnemonic, operands, line = (register("run", name, "string") for name in ("mnemonic", "operands", "line"))
        words = {
            (bank, n): register(_SCOPES[bank], _identifier(name), "reg", width, init=recording.start.get((bank, n), 0))
            for (bank, n), name in zip(listed, shown, strict=True)
        }
        time = 0
        for step in recording.steps:
            span = program.source.span(step.pc)
            writer.change(pc, time, step.pc)
            name, _, rest = step.text(program).partition(" ")
            writer.change(mnemonic, time, name)
            writer.change(operands, time, rest.replace(" ", ""))
            writer.change(line, time, "" if span is None else f"{span.file}:{span.line}".replace(" ", "_"))
            writer.change(backward, time, step.direction < 0)
            writer.change(lifted, time, step.differentiating)
            time += step.execution(program).cycles(program.format)
            writer.change(br, time, step.br & 0xFFFFFFFF)
            for change in step.changes:
                writer.change(words[change.bank, change.number], time, change.after)
        writer.change(pc, time, recording.last[0])
        writer.close(time + 1)
    return out.getvalue().encode("utf-8", "replace")


def _identifier(name: str) -> str:
    """The name in ASCII without blanks, and with x(3) for x[3], which viewers take for a bit."""
    plain = re.sub(r"\s+", "_", name.removeprefix("∂").replace("[", "(").replace("]", ")"))
    return plain.encode("ascii", "backslashreplace").decode()
