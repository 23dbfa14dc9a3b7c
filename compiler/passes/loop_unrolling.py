"""Loop unrolling: a loop of few passes with known bounds is replaced by its passes, where that saves more than it costs.

    for i = 0 … 2: b   →   b[i := 0]; b[i := 1]          backward: the last pass first

Benefit: the instructions of a pass that vanish once i is a constant: the control of the loop, the steps of addresses, integers and tests
that depend on i only, loads from constant arrays. Arrays that are accessed at constants only then become scalars.
Cost: the program grows by all passes but one, and takes longer to compile. A loop is unrolled if it stays short (`short`
instructions in all), or if at least `share` of a pass vanishes and the loop comes to at most `most` instructions. `growth` bounds
the instructions that the second rule adds to a program.
Condition: no instruction names i in a place where only a register can stand. Each pass gets locals of its own.
Traps: unchanged. Remarks: why a loop stays.
"""

from __future__ import annotations

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import code_size, facts, length, operand, trip_values
from retrograd.compiler.ir.statements import Block, Const, For, Module, Node, Op, Var, While
from retrograd.compiler.ir.traversal import map_blocks, map_bodies, walk
from retrograd.compiler.ir.value_numbering import Renaming
from retrograd.isa.diagnostics import Span

#: instructions of a pass that control the loop, and of a test with both of its ends
_CONTROL, _BRANCHES = 3, 4


def unroll_loops(
    module: Module,
    *,
    most_passes: int = 12,
    short_passes: int = 8,
    short: int = 160,
    most: int = 640,
    share: float = 0.25,
    growth: int = 2000,
) -> Module:
    """Unroll loops of at most `most_passes`, inner ones first; short ones of at most `short_passes` in any case."""
    w = module.format
    room = growth
    reasons: list[tuple[Span | None, str]] = []

    def passes(loop: For) -> range | str:
        """The values of the variable if the loop is to be unrolled, or why it is not."""
        nonlocal room
        values = trip_values(loop, w)
        if values is None:
            return "the number of its passes is known only when the program runs"
        count = length(values)
        if count > most_passes:
            return f"it makes {count} passes, and at most {most_passes} are unrolled"
        size = code_size(loop.body)
        added = 0
        if count > short_passes or count * size > short:
            added = (count - 1) * size
            estimate = _Estimate(loop)
            if count * size > most:
                return f"its {count} passes are about {count * size} instructions, and at most {most} are unrolled"
            if estimate.saved < share * estimate.size:
                return f"{estimate.saved / estimate.size:.0%} of a pass would vanish, less than {share:.0%}"
            if added > room:
                return f"it would add {added} instructions to a program that may still grow by {room}"
        # Where an instruction names a register that it does not write, no constant can stand.
        if any(isinstance(node, Op) and node.d is loop.var for node in walk(loop.body)):
            return f"an instruction needs `{loop.var.name}` in a register"
        room -= added
        return values

    def rewrite(block: Block) -> Block:
        if not any(isinstance(node, For | While) for node in block):
            return block
        out: list[Node] = []
        for node in block:
            if isinstance(node, For):
                values = passes(node)
                if not isinstance(values, str):
                    for value in values:
                        out.extend(Renaming({node.var: Const(value & w.mask)}, fresh=True).block(node.body))
                    continue
                reasons.append((node.span, values))
            elif isinstance(node, While):
                reasons.append((node.span, "it has no counter"))
            out.append(node)
        return tuple(out)

    return map_bodies(module, lambda body: map_blocks(body, rewrite)).with_remarks("unroll_loops", reasons)


class _Estimate:
    """About how many instructions a pass of a loop executes, and how many of them vanish once the loop's variable is a constant.

    Addresses become induction variables (`induction_variables.py`). The arithmetic of an address that depends on the loop's variable counts
    as one step in each pass, shared by all accesses with this arithmetic. Other addresses cost nothing. A compute block counts twice.
    """

    def __init__(self, loop: For) -> None:
        self.size = self.saved = float(_CONTROL)
        #: variables whose values are known, and for an address the arithmetic that depends on the variable
        self._known: set[Var] = {loop.var}
        self._steps: dict[Var, tuple[object, ...]] = {}
        self._block(loop.body, 1)
        distinct = len(set(self._steps.values()))
        self.size += distinct
        self.saved += distinct

    def _is_known(self, *operands: ir.Operand | None) -> bool:
        return all(x is None or isinstance(x, Const) or x in self._known for x in operands)

    def _block(self, block: Block, times: float) -> None:
        for node in block:
            self._node(node, times)

    def _node(self, node: Node, times: float) -> None:
        match node:
            case Op():
                self._op(node, times)
            case ir.Local(var) | ir.Delocal(var):
                # A local begins and ends as zero.
                self._known.add(var)
            case ir.Check(test):
                self._count(times, self._is_known(test.a, test.b))
            case ir.Within(compute, body):
                self._block(compute, 2 * times)
                self._block(body, times)
            case ir.If(test, then, orelse):
                # One of the branches is executed.
                self._count(_BRANCHES * times, self._is_known(test.a, test.b))
                self._block(then, times / 2)
                self._block(orelse, times / 2)
            case ir.While(_, body) | For(_, _, _, _, body):
                self._count(_CONTROL * times, False)
                self._block(body, times)
            case ir.Call():
                self._count(times, False)
            case ir.External():
                pass

    def _count(self, times: float, vanishes: bool) -> None:
        self.size += times
        self.saved += times * vanishes

    def _op(self, op: Op, times: float) -> None:
        found = facts(op.opcode)
        written = [x for x in (operand(op, place) for place in found.written) if isinstance(x, Var)]
        read = [operand(op, place) for place in found.read]
        if not found.memory and written and all(x.kind is ir.Kind.ADDRESS for x in written):
            for d in written:
                if any(isinstance(x, Var) and x in self._known for x in read):
                    self._steps[d] = (*self._steps.get(d, ()), op.opcode, *read)
                self._known.discard(d)
            return
        constant = not found.memory or (op.region is not None and op.region.data is not None and not found.stores)
        known = constant and self._is_known(*read, *written)
        if not known:
            self._known.difference_update(written)
        self._count(times, known)
