"""Output of commands: JSON documents, tables of registers and memory, traces, errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrograd.cli.terminal import BAD_INPUT, LIMIT, TRAPPED, answer, print_diagnostics, record
from retrograd.isa.diagnostics import Diagnosed, Diagnostic
from retrograd.isa.encoding import write
from retrograd.presentation import columns
from retrograd.simulator.machine import Machine, Trap

if TYPE_CHECKING:
    from retrograd.runtime._execution import ProgramTrap
    from retrograd.runtime._reversible import Reversible

_ROWS = 16
_WORDS = 8


def print_json(schema: str, document: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print a document with its schema first, as each `--json` does."""
    answer(json.dumps({"schema": schema, **document}, indent=indent))


def print_findings(found: Sequence[Diagnostic]) -> None:
    """Print errors and warnings as JSON."""
    print_json("retrograd.findings/1", {"findings": [as_dict(d) for d in found]}, indent=None)


def as_dict(d: Diagnostic) -> dict[str, Any]:
    """A diagnostic for JSON."""
    place = None if d.span is None else d.span._asdict()
    return {
        "code": d.code, "severity": d.severity, "title": d.kind.title, "message": d.message,
        "span": place, "why": d.kind.why, "fix": d.hint or d.kind.fix,
    }  # fmt: skip


def show_errors(error: Diagnosed, *, as_json: bool) -> int:
    """Print an error's findings; returns the exit code that goes with it."""
    code = TRAPPED if isinstance(error, Trap) else BAD_INPUT
    record(error.diagnostics)
    if as_json:
        print_findings(error.diagnostics)
    else:
        print_diagnostics("\n\n".join(d.render() for d in error.diagnostics))
        if len(error.diagnostics) > 1:
            print(f"\n{len(error.diagnostics)} errors", file=sys.stderr)
    return code


def print_trap(trap: ProgramTrap, *, as_json: bool = False) -> int:
    """Print the trap or the step limit that ended a function; returns the exit code."""
    if trap.trap is None:
        print(trap, file=sys.stderr)
        return LIMIT
    record(trap.diagnostics)
    if as_json:
        print_findings(trap.diagnostics)
        return TRAPPED
    print_diagnostics(str(trap))
    print(f"the machine trapped after {trap.machine.retired} steps, and can run back from there", file=sys.stderr)
    return TRAPPED


def print_limit(steps: int) -> None:
    """Print that the limit of steps ended a run."""
    limit = Diagnostic("RG0420", f"stopped by the limit of {steps} steps")
    record([limit])
    print_diagnostics(limit.render())


def registers_table(machine: Machine) -> str:
    """The registers that are not zero."""
    w = machine.format
    rows = [["register", "decimal", "hexadecimal", str(w)]]
    for index, word in enumerate(machine.registers):
        if word:
            rows.append(
                [f"r{index}", str(w.signed(word)), f"0x{word:0{w.width // 4}x}", f"{float(w.to_real(word)):.10g}"]
            )
    return columns(rows, right=(1, 3)) if len(rows) > 1 else "all registers are zero"


def memory_table(machine: Machine) -> str:
    """The first words from each data label; of unlabelled memory, how many words are not zero."""
    w, memory = machine.format, machine.memory
    if not memory:
        return ""
    stops = sorted({*machine.program.data_labels.values(), len(memory)})
    rows = [["label", "address", "words"]]
    for name, address in sorted(machine.program.data_labels.items(), key=lambda item: item[1])[:_ROWS]:
        end = next((s for s in stops if s > address), len(memory))
        shown = [str(w.signed(word)) for word in memory[address : min(end, address + _WORDS)]]
        more = " …" if end - address > _WORDS else ""
        rows.append([name, str(address), " ".join(shown) + more])
    nonzero = sum(word != 0 for word in memory)
    total = f"memory: {len(memory)} words, {nonzero} not zero"
    return f"{columns(rows, right=(1,))}\n{total}" if len(rows) > 1 else total


def engine_text(machine: Machine, *, asked: bool) -> str:
    """The engine, for the end of a line: where the user named one, or where it is not the reference machine."""
    engine = machine.engine
    return f"; engine: {engine}" if asked or engine != "reference" else ""


class Tracer:
    """Prints every step and its changes of registers and memory; the `observe` of a run."""

    def __init__(self, machine: Machine) -> None:
        self.registers = list(machine.registers)
        self.memory = list(machine.memory)
        self.br = machine.br
        self.count = 0

    def __call__(self, machine: Machine, pc: int) -> None:
        w = machine.format
        i = machine.program.instructions[pc]
        changes = []
        for index, (old, new) in enumerate(zip(self.registers, machine.registers, strict=True)):
            if old != new:
                changes.append(f"r{index}: {w.signed(old)} → {w.signed(new)}")
                self.registers[index] = new
        if "m" in i.opcode.writes:
            address = (machine.registers[i.ra] + i.imm) & w.mask
            old, new = self.memory[address], machine.memory[address]
            if old != new:
                changes.append(f"M[{address}]: {w.signed(old)} → {w.signed(new)}")
                self.memory[address] = new
        if self.br != machine.br:
            changes.append(f"BR: {self.br} → {machine.br}")
            self.br = machine.br
        self.count += 1
        arrow = "→" if machine.direction > 0 else "←"
        print(f"{self.count:>8} {arrow} {pc:>6}  {write(i):<36} {', '.join(changes)}".rstrip(), file=sys.stderr)


def points_dict(function: Reversible) -> dict[str, Any]:
    """{"points": …} for JSON: the binary points that parameters have of their own, by name; of a struct those of its fields."""
    found = {p.name: point for p in function.parameters if (point := _points(p.annotation)) is not None}
    return {"points": found} if found else {}


def _points(annotation: Any) -> int | dict[str, Any] | None:
    from retrograd.compiler.ir.statements import Kind
    from retrograd.compiler.language.types import ArrayAnnotation, StackAnnotation, is_struct, scalar_of
    from retrograd.isa.words import Format

    if isinstance(annotation, ArrayAnnotation | StackAnnotation):
        return _points(annotation.element)
    scalar = scalar_of(annotation)
    if scalar is not None:
        return scalar.kind.point(Format()) if scalar.kind.is_fixed and scalar.kind is not Kind.FIXED else None
    if not is_struct(annotation):
        return None
    fields = annotation.__retrograd_fields__.items()
    return {name: point for name, inner in fields if (point := _points(inner)) is not None} or None


def outcome_dict(machine: Machine, stop: str, steps: int, trap: Trap | None) -> dict[str, Any]:
    """The outcome of a run, without its schema retrograd.run/1; words as signed integers."""
    w = machine.format
    return {
        "format": {"width": w.width, "frac": w.frac},
        "stop": stop,
        "steps": steps,
        "engine": machine.engine,
        "pc": machine.pc,
        "br": machine.br,
        "direction": machine.direction,
        "registers": {f"r{i}": w.signed(word) for i, word in enumerate(machine.registers) if word},
        "memory": {
            "words": len(machine.memory),
            "nonzero": {str(i): w.signed(word) for i, word in enumerate(machine.memory) if word},
            "labels": dict(machine.program.data_labels),
        },
        "executed": {"forward": machine.counts(+1), "backward": machine.counts(-1)},
        "erased_bits": machine.erased_bits,
        "trap": None if trap is None else {**as_dict(trap.diagnostics[0]), "pc": trap.pc, "value": trap.value},
    }
