"""Fold: a program as source for `numba.njit`, a second opinion on the engines.

It shares the trees and their fold with the interpreter of devices, and nothing with the translator: no LLVM IR of this project, no deferred checks.
Guards are evaluated before an instruction writes, as the interpreter does. Compiling takes seconds even for short programs.

    rows(words, out, memory, n, limit, modes, report)        out[i] := the first words of memory after the program has run on words[i]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.interpreter import GUARDS, End, Handlers, Modes
from retrograd.simulator.engines.cuda.numba_source import arithmetic_source
from retrograd.simulator.engines.llvm.instructions import Step
from retrograd.simulator.engines.translator.flow import Node, Variant, flow_of

ROWS = """
@device
def rows(words, out, memory, n, limit, modes, report):
    for i in range(words.shape[0]):
        memory[:] = 0
        for k in range(words.shape[1]):
            memory[k] = words[i, k]
        report[i, 0], report[i, 1], report[i, 2] = instance(memory, S(0), S(1), n, limit, modes)
        for k in range(words.shape[1]):
            out[i, k] = memory[k]
"""


class ProgramSource(Handlers):
    """The source of a program that begins at one of its ends."""

    def __init__(self, program: Program, backward: bool) -> None:
        super().__init__(program.format, differentiating=False, local=True)
        self.flow = flow_of(program, Variant(backward=backward, whole=False))
        self.lost, self.advance = "lost", []
        self.numbers = {node: k for k, node in enumerate(self.flow.blocks)}
        self.longest = sum(map(len, self.flow.blocks.values())) + 1

    def text(self) -> str:
        """The module."""
        blocks = {node: self._block(node) for node in self.numbers}
        code = [self.flow.code[at] for run in self.flow.blocks.values() for at in run]
        used = sorted(
            {getattr(i, field) for i in code for field in REGISTER_FIELDS.values() if field in i.opcode.fields}
        )
        loop: list[str] = []

        def tree(nodes: list[Node], indent: str) -> None:
            if len(nodes) == 1:
                loop.extend(indent + line for line in blocks[nodes[0]])
                return
            middle = len(nodes) // 2
            loop.append(f"{indent}if node < {self.numbers[nodes[middle]]}:")
            tree(nodes[:middle], indent + " ")
            loop.append(f"{indent}else:")
            tree(nodes[middle:], indent + " ")

        tree(list(self.numbers), "     ")
        registers = "".join(f"    r{number} = S(0)\n" for number in used)
        body = "\n".join(loop)
        instance = f"""@device
def instance(memory, t, stride, n, limit, modes):{GUARDS}
    left, node = limit, 0
    br, lost = S(0), S(0)
{registers}    while True:
{body}
    return why, limit - left, lost
"""
        head = f"{arithmetic_source('@device')}\n{self.tables.source()}\n{''.join(self.functions.values())}"
        return head + instance + ROWS

    def _block(self, node: Node) -> list[str]:
        flow, (at, landed) = self.flow, node
        lines = [f"if left < {self.longest}:", f" why = {End.LIMIT:d}", " break"] if node in flow.headers else []
        if flow.branches(at):
            return [*lines, *self._instruction(at)]
        if landed:
            return [*lines, f"why = {End.REFUSED:d}", "break"]
        for place in flow.blocks[node]:
            if flow.code[place].opcode.halts:
                return [*lines, f"why = {End.HALTED:d}", "break"]
            lines += [*self._instruction(place), "left -= 1"]
        return lines + self._go(flow.after(flow.blocks[node][-1]))

    def _instruction(self, at: int) -> list[str]:
        i: Instruction = self.flow.code[at]
        self.at = at
        self.places |= {place: f"r{getattr(i, field)}" for place, field in REGISTER_FIELDS.items()}
        return [f"imm = S({self.w.signed(i.imm)})", *self.lines((i.opcode, False))]

    def _go(self, node: Node | None) -> list[str]:
        return [f"why = {End.REFUSED:d}", "break"] if node is None else [f"node = {self.numbers[node]}"]

    def jump(self, found: Step, jump: str) -> list[str]:
        leaves = self.flow.leaves(self.at)
        lines = [
            "left -= 1",
            f"br = S({jump})",
            "if br == 0:",
            *(f" {line}" for line in self._go(self.flow.after(leaves))),
        ]
        for to in dict.fromkeys(self.flow.jumps(self.at)):
            lines += [f"elif br == {to - leaves}:", f" node = {self.numbers[to, True]}"]
        return [*lines, "else:", f" why = {End.ASTRAY:d}", " break"]


def compiled(
    program: Program, *, backward: bool = False, device: Callable[..., Any] | None = None
) -> Callable[..., None]:
    """`rows` for a program, by `numba.njit`, or by another decorator."""
    if device is None:
        import numba

        device = numba.njit(error_model="numpy")
    scope: dict[str, Any] = {"device": device}
    exec(ProgramSource(program, backward).text(), scope)
    found: Callable[..., None] = scope["rows"]
    return found


def run(
    program: Program, words: NDArray[np.uint64], *, backward: bool = False, overflow: bool = True, limit: int = 1 << 40,
    device: Callable[..., Any] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:  # fmt: skip
    """(words after the runs, their (why, steps, words lost)), a row for each."""
    w, n = program.format, max(program.memory, words.shape[1])
    given = signed(words, w)
    out, report = np.zeros_like(given), np.zeros((len(words), 3), np.int64)
    modes = Modes.CHECKS | (Modes.OVERFLOW if overflow else 0)
    compiled(program, backward=backward, device=device)(
        given, out, np.zeros(n + 1, np.int64), n, limit, int(modes), report
    )
    return out.view(np.uint64) & np.uint64(w.mask), report


def signed(words: NDArray[np.uint64], w: Format) -> NDArray[np.int64]:
    """Words as sign-extended int64s."""
    up = np.uint64(64 - w.width)
    return (words << up).view(np.int64) >> up.view(np.int64)
