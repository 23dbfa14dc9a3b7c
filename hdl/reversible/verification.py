"""Checks of a circuit against the trees that it was made of: words, ancillas back at 0, and the inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrograd.hdl.reversible.circuit import Circuit, simulate, transposed
from retrograd.hdl.reversible.lowering import guards_of
from retrograd.isa.derivatives.adjoint import lift
from retrograd.isa.effects import transition
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import evaluate
from retrograd.isa.words import Format


def disagreement(
    circuit: Circuit, opcode: Opcode, w: Format, runs: Sequence[Mapping[str, int]], *, cotangents: bool = False
) -> str | None:
    """The first fault of the circuit of an instruction for these words of its places, or None.

    Checked are the output words, against `evaluate` on the trees of the table; the trap line; the lines that must be 0 again;
    and that the inverse restores every line.
    """
    ones = (1 << len(runs)) - 1
    state = [0] * circuit.lines
    for name, lines in circuit.inputs.items():
        for line, column in zip(lines, transposed([run[name] for run in runs], len(lines)), strict=True):
            state[line] = column
    before = list(state)
    simulate(circuit.gates, state, ones)
    for line in circuit.zeros:
        if state[line]:
            return f"line {line} is not 0 at the end"
    trees = dict(opcode.transition(w))
    if cotangents:
        trees |= transition(lift(opcode, w), w)
    guards = [tree for _, tree in guards_of(opcode, w)]
    found = {name: transposed([state[line] for line in lines], len(runs)) for name, lines in circuit.outputs.items()}
    for k, run in enumerate(runs):
        if "trap" in found:
            traps = any(evaluate(tree, w, run) == 0 for tree in guards)
            if found["trap"][k] != traps:
                return f"the trap line is {found['trap'][k]} at {dict(run)}"
        for name, words in found.items():
            if name == "trap":
                continue
            expected = evaluate(trees[name], w, run) if name in trees else run[name]
            if words[k] != expected:
                return f"{name} is {words[k]} in place of {expected} at {dict(run)}"
    if simulate(circuit.gates[::-1], state, ones) != before:
        return "the inverse does not restore the lines"
    return None
