"""Whether two netlists compute the same, by a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrograd.hdl.reversible.formats.netlists import Netlist
from retrograd.isa.diagnostics import Diagnostic, InputError


def difference(first: Netlist, second: Netlist, seconds: float = 60) -> dict[str, int] | None:
    """Bits of the input lines for which the netlists differ, or None where they are equivalent.

    Lines correspond by name. A line that both have must end with the same bit in both. A line that only one has must be
    a constant, and must end as it began: its header is not believed, the solver looks for inputs that leave another bit.
    Raises InputError RG1401 where the netlists have different inputs, RG1403 where the solver does not decide within the time.
    """
    import z3

    free = [{n for i, n in enumerate(net.names) if i not in net.constants} for net in (first, second)]
    if free[0] != free[1]:
        name = min(free[0] ^ free[1])
        raise InputError(Diagnostic("RG1401", f"the line `{name[:40]}` is an input of one of the netlists only"))
    inputs = {name: z3.Bool(name) for name in sorted(free[0])}
    ends = [_final(net, inputs, z3) for net in (first, second)]
    wrong = []
    for name in sorted(ends[0].keys() | ends[1].keys()):
        have = [end[name] for end in ends if name in end]
        if len(have) == 2:
            wrong.append(z3.Xor(*have))
        else:
            net = first if name in ends[0] else second
            begins = z3.BoolVal(bool(net.constants[net.names.index(name)]))
            wrong.append(z3.Xor(have[0], begins))
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


def _final(net: Netlist, inputs: Mapping[str, Any], z3: Any) -> dict[str, Any]:
    """name -> the solver's expression for the line at the end."""
    state = [
        z3.BoolVal(bool(net.constants[i])) if i in net.constants else inputs[name] for i, name in enumerate(net.names)
    ]
    for controls, targets in net.gates:
        condition = z3.And(*(state[line] for line in controls)) if controls else z3.BoolVal(True)
        if len(targets) == 1:
            state[targets[0]] = z3.simplify(z3.Xor(state[targets[0]], condition))
        else:
            x, y = targets
            state[x], state[y] = z3.If(condition, state[y], state[x]), z3.If(condition, state[x], state[y])
    return dict(zip(net.names, state, strict=True))
