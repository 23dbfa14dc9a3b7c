"""Checks of circuits: against the trees that a circuit was made of, and of two netlists against each other.

disagreement(…)           words, ancillas back at 0, and the inverse, by simulation
difference(first, second) inputs for which two netlists differ, by a solver
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from retrograd.hdl.reversible.circuit import Circuit, simulate, transposed
from retrograd.hdl.reversible.formats import Netlist
from retrograd.hdl.reversible.lowering import guards_of
from retrograd.isa.derivatives import lift
from retrograd.isa.diagnostics import Diagnostic, InputError
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


# -----------------------------------------------------------------------------
# Equivalence of two netlists, by a solver.


def difference(first: Netlist, second: Netlist, seconds: float = 60) -> dict[str, int] | None:
    """Bits of the input lines for which the netlists differ, or None where they are equivalent.

    Lines correspond by name. A line of both netlists must end with the same bit in both; where one of them has it as a
    constant, it begins as that bit in both. A line of only one netlist must be a constant, and must end as it began.
    The solver checks this for all inputs and does not rely on the header.
    Raises InputError RG1401 where the netlists have different inputs, RG1403 where nothing is decided within the time.
    """
    import z3

    nets = first, second
    constants = [{net.names[i]: bit for i, bit in net.constants.items()} for net in nets]
    for name in sorted({*first.names} ^ {*second.names}):
        if name not in constants[0] and name not in constants[1]:
            raise InputError(Diagnostic("RG1401", f"the line `{name[:40]}` is an input of one of the netlists only"))
    for name in sorted(constants[0].keys() & constants[1].keys()):
        if constants[0][name] != constants[1][name]:
            raise InputError(
                Diagnostic("RG1401", f"the line `{name[:40]}` begins as 0 in one netlist, as 1 in the other")
            )
    begins = constants[0] | constants[1]
    inputs = {name: z3.Bool(name) for name in sorted({*first.names, *second.names} - begins.keys())}
    bits = inputs | {name: z3.BoolVal(bool(bit)) for name, bit in begins.items()}
    until = time.monotonic() + seconds
    late = InputError(Diagnostic("RG1403", f"nothing is decided within {seconds:g} s"))
    ends = [end for net in nets if (end := _final(net, bits, z3, until)) is not None]
    if len(ends) < len(nets):
        raise late
    wrong = []
    for name in sorted(ends[0].keys() | ends[1].keys()):
        have = [end[name] for end in ends if name in end]
        wrong.append(z3.Xor(have[0], have[1] if len(have) == 2 else bits[name]))
    solver = z3.SolverFor("QF_UF")
    solver.add(z3.Or(*wrong))
    solver.set("timeout", max(1, int(1000 * (until - time.monotonic()))))
    verdict = solver.check()
    if verdict == z3.unsat:
        return None
    if verdict != z3.sat:
        raise late
    model = solver.model()
    return {name: int(z3.is_true(model.eval(bit, model_completion=True))) for name, bit in inputs.items()}


def _final(net: Netlist, bits: Mapping[str, Any], z3: Any, until: float) -> dict[str, Any] | None:
    """name -> the solver's expression for the line at the end; None where the time ends first.

    Constants are folded, and a gate that undoes the last change of a line takes it back, so that an ancilla that is
    computed and uncomputed is 0 again.

    Trap: simplification by the solver at each gate would take a time that grows with the square of the gates.
    """
    state = [bits[name] for name in net.names]
    for k, (controls, targets, negative) in enumerate(net.gates):
        if not k % 256 and time.monotonic() > until:
            return None
        needed = [_negated(state[line], z3) if line in negative else state[line] for line in controls]
        if any(map(z3.is_false, needed)):
            continue
        needed = [bit for bit in needed if not z3.is_true(bit)]
        condition = z3.And(*needed) if len(needed) > 1 else needed[0] if needed else z3.BoolVal(True)
        if len(targets) == 1:
            state[targets[0]] = _xor(state[targets[0]], condition, z3)
        else:
            x, y = targets
            if needed:
                state[x], state[y] = z3.If(condition, state[y], state[x]), z3.If(condition, state[x], state[y])
            else:
                state[x], state[y] = state[y], state[x]
    return dict(zip(net.names, state, strict=True))


def _negated(bit: Any, z3: Any) -> Any:
    known = z3.is_true(bit) or z3.is_false(bit)
    return z3.BoolVal(z3.is_false(bit)) if known else bit.arg(0) if z3.is_not(bit) else z3.Not(bit)


def _xor(bit: Any, condition: Any, z3: Any) -> Any:
    if z3.is_false(bit):
        return condition
    if z3.is_true(bit) or z3.is_true(condition):
        return _negated(condition if z3.is_true(bit) else bit, z3)
    if z3.is_app_of(bit, z3.Z3_OP_XOR) and bit.arg(1).eq(condition):
        return bit.arg(0)
    return z3.Xor(bit, condition)
