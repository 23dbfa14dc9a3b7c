"""Checks of circuits: against the trees that a circuit was made of, and of two netlists against each other.

disagreement(…)           words, ancillas back at 0, and the inverse, by simulation
difference(first, second) inputs for which two netlists differ, by a solver
"""

from __future__ import annotations

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
    Raises InputError RG1401 where the netlists have different inputs, RG1403 where the solver does not decide within the time.
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
    ends = [_final(net, bits, z3) for net in nets]
    wrong = []
    for name in sorted(ends[0].keys() | ends[1].keys()):
        have = [end[name] for end in ends if name in end]
        wrong.append(z3.Xor(have[0], have[1] if len(have) == 2 else bits[name]))
    solver = z3.SolverFor("QF_UF")
    solver.add(z3.Or(*wrong))
    solver.set("timeout", max(1, int(1000 * seconds)))
    verdict = solver.check()
    if verdict == z3.unsat:
        return None
    if verdict != z3.sat:
        raise InputError(Diagnostic("RG1403", f"the solver has not decided within {seconds:g} s"))
    model = solver.model()
    return {name: int(z3.is_true(model.eval(bit, model_completion=True))) for name, bit in inputs.items()}


def _final(net: Netlist, bits: Mapping[str, Any], z3: Any) -> dict[str, Any]:
    """name -> the solver's expression for the line at the end."""
    state = [bits[name] for name in net.names]
    for controls, targets, negative in net.gates:
        needed = (z3.Not(state[line]) if line in negative else state[line] for line in controls)
        condition = z3.And(*needed) if controls else z3.BoolVal(True)
        if len(targets) == 1:
            state[targets[0]] = z3.simplify(z3.Xor(state[targets[0]], condition))
        else:
            x, y = targets
            state[x], state[y] = z3.If(condition, state[y], state[x]), z3.If(condition, state[x], state[y])
    return dict(zip(net.names, state, strict=True))
