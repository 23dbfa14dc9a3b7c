"""The IR run directly: what a Module means, as plainly as it can be said. The oracle for what is emitted.

    interpret(m, memory); interpret(~m, memory) = identity on memory

Structure is recursion, an Op is the handler of its opcode on three words. Every promise of the IR is checked: that
variables are zero where they begin and end, that a `post` tells the way that control came, that Checks hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retrograd.compiler.ir.statements import (
    SP,
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Test,
    Var,
    While,
    Within,
    invert,
)
from retrograd.isa.words import Format
from retrograd.simulator.semantics import Fault, handler

OVERFLOW = frozenset({"overflow"})


class IllFormed(Exception):
    """The module breaks a promise that no machine checks: the test, not the program, is wrong."""


@dataclass
class Run:
    """What a run left behind: memory, how many data statements it took, and which externals it passed."""

    memory: list[int]
    stack: int
    steps: int = 0
    externals: list[int] = field(default_factory=list)


def interpret(module: Module, memory: Sequence[int]) -> Run:
    """Run the entry on the module's memory. Raises Fault with the code of the trap; the run is in its `run`."""
    words = [*memory, *[0] * (module.memory + module.stack - len(memory))]
    run = Run(words, module.stack)
    machine = _Interpreter(module, run)
    machine.variables = {SP: module.memory}
    try:
        machine.block(module.entry)
    except Fault as fault:
        fault.run = run  # type: ignore[attr-defined]
        raise
    if machine.variables != {SP: module.memory}:
        raise IllFormed(f"variables or stack are left: {machine.variables}")
    if any(words[module.memory :]):
        raise IllFormed("the stack is not empty at the end")
    return run


class _Interpreter:
    def __init__(self, module: Module, run: Run) -> None:
        self.module = module
        self.w: Format = module.format
        self.run = run
        self.variables: dict[Var, int] = {}

    def block(self, nodes: Block) -> None:
        for node in nodes:
            self.node(node)

    def word(self, operand: Operand | None) -> int:
        if operand is None:
            return 0
        if isinstance(operand, Const):
            return operand.word & self.w.mask
        if operand not in self.variables:
            raise IllFormed(f"{operand!r} is not live")
        return self.variables[operand]

    def holds(self, test: Test) -> bool:
        x, y = self.word(test.a), self.word(test.b)
        if test.cc in ("lt", "ge"):
            x, y = self.w.signed(x), self.w.signed(y)
        match test.cc:
            case "eq":
                return x == y
            case "ne":
                return x != y
            case "lt" | "ltu":
                return x < y
            case "ge" | "geu":
                return x >= y
        raise IllFormed(f"no condition {test.cc}")

    def demand(self, holds: bool, code: str = "RG0406") -> None:
        if not holds:
            raise Fault(code)

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case Local(var):
                if var in self.variables:
                    raise IllFormed(f"{var!r} is live already")
                self.variables[var] = 0
            case Delocal(var, checked):
                if checked:
                    self.demand(self.word(var) == 0, "RG0407")
                if self.variables.pop(var, 1):
                    raise IllFormed(f"{var!r} is freed unchecked and not zero")
            case Within(compute, body):
                self.block(compute)
                self.block(body)
                self.block(invert(compute))
            case If(test, then, orelse, post):
                taken = self.holds(test)
                self.block(then if taken else orelse)
                self.demand(self.holds(post) == taken)
            case While(test, body, post):
                self.demand(not self.holds(post))
                while self.holds(test):
                    self.block(body)
                    self.demand(self.holds(post))
            case For():
                self.loop(node)
            case Call():
                self.call(node)
            case Check(test):
                self.demand(self.holds(test), "RG0413")
            case External(index):
                self.run.externals.append(index)

    def op(self, node: Op) -> None:
        """The opcode's handler, on registers 0, 1, 2 that stand for d, a, b."""
        self.run.steps += 1
        operands = (node.d, node.a, node.b)
        words = [self.word(x) for x in operands]
        run = handler(node.opcode, self.w, OVERFLOW)
        run(words, self.run.memory, 0, 0, 1, 2, node.imm & self.w.mask)
        for place, operand, word in zip("dab", operands, words, strict=True):
            if place in node.opcode.writes:
                if not isinstance(operand, Var):
                    raise IllFormed(f"{node.opcode.name} writes {operand!r}")
                if sum(operand is other for other in operands) > 1:
                    raise IllFormed(f"{node.opcode.name} reads what it writes")
                self.variables[operand] = word

    def loop(self, node: For) -> None:
        start, stop = self.word(node.start), self.word(node.stop)
        passes, rest = divmod(self.w.signed(stop - start), node.step)
        if rest or passes < node.some:
            raise IllFormed(f"from {start} to {stop} are not whole steps of {node.step}")
        values = [start + i * node.step for i in range(passes)]
        for value in reversed(values) if node.backward else values:
            self.variables[node.var] = value & self.w.mask
            self.block(node.body)
            if self.variables.pop(node.var) != value & self.w.mask:
                raise IllFormed(f"the body writes {node.var!r}")
        if (self.word(node.start), self.word(node.stop)) != (start, stop):
            raise IllFormed("the body writes the bounds")

    def call(self, node: Call) -> None:
        procedure = self.module.procedures[node.procedure]
        if node.backward:
            procedure = ~procedure
        outside = self.variables
        words = [self.word(arg) for arg in node.args]
        self.variables = {SP: outside[SP], **dict(zip(procedure.params, words, strict=True))}
        self.block(procedure.body)
        if self.variables.keys() != {SP, *procedure.params} or self.variables[SP] != outside[SP]:
            raise IllFormed(f"{node.procedure} leaves variables behind")
        for index, (param, arg, word) in enumerate(zip(procedure.params, node.args, words, strict=True)):
            after = self.variables[param]
            if index in procedure.written:
                if not isinstance(arg, Var) or sum(arg is other for other in node.args) > 1:
                    raise IllFormed(f"{node.procedure} writes an argument that is no variable of its own")
                outside[arg] = after
            elif after != word:
                raise IllFormed(f"{node.procedure} changes {param!r}, which it does not say it writes")
        self.variables = outside
