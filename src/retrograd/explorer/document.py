"""Recordings as JSON (schema retrograd.exploration/1): the data of the explorer's page, and of `retrograd trace --format json`.

    state n + 1 = state n with `steps.changes[n]`;   words before the run: `places[…].start`

Sizes are bounded by the recording: words that the run never changes are listed up to `UNCHANGED`, and of long programs only
instructions near executed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple

from retrograd.debugger.places import memory_names
from retrograd.debugger.recording import Bank, Recording, Step
from retrograd.debugger.variables import is_among
from retrograd.isa.encoding import inverse, write
from retrograd.isa.program import Program
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
    """An array of the source at a fixed address: the addresses of its first elements, and of a stack's count."""

    name: str
    kind: str
    length: int
    addresses: tuple[int, ...]
    top: int | None


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
                "place": number.get((Bank.MEMORY if v.memory else Bank.REGISTER, v.number), -1),
            }
            for v in program.variables
            if v.layout is None
        ],
        "unsettled": _unsettled(program),
        "arrays": [
            {
                "name": a.name, "kind": a.kind, "length": a.length,
                "places": [number.get((Bank.MEMORY, address), -1) for address in a.addresses],
                "count": -1 if a.top is None else number.get((Bank.MEMORY, a.top), -1),
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
        out.append(_Array(v.name, v.kind, prod(shape), addresses, v.number - 1 if v.layout.stack else None))
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
