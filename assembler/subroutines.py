"""Subroutines and stacks: the words that stand for a few instructions, push, pop, proc and endproc.

A stack grows upward, and the word at its pointer is zero. `pop` is the inverse of `push`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from retrograd.assembler.instructions import CONDITIONAL, MIRRORED
from retrograd.assembler.layout import Layout, Subroutine
from retrograd.assembler.lexer import TextFault, arguments, checked_name

#: word -> (syntax, meaning)
SUGAR = {
    "push": ("push REGISTER, STACK", "exch REGISTER, [STACK] and add STACK, 1: onto a stack whose next word is zero"),
    "pop": ("pop REGISTER, STACK", "sub STACK, 1 and exch REGISTER, [STACK]: the inverse of push"),
    "proc": (
        "proc NAME, LINK [, STACK]",
        "the head of a subroutine: from NAME.bottom, (pop LINK), swapbr LINK, neg LINK, (push LINK)",
    ),
    "endproc": ("endproc", "the foot of a subroutine: goto NAME.top"),
}


def sugar_page(name: str) -> str | None:
    """The instructions that a word of the assembler stands for, as a page; None for other words."""
    if name in SUGAR:
        syntax, meaning = SUGAR[name]
        return f"{name}  (assembler)\n\n  {syntax}\n    {meaning}"
    way, _, condition = name.partition(".")
    if way in CONDITIONAL and condition in MIRRORED:
        other, target = f"{way}.{MIRRORED[condition]}", ", target" * (way != "assert")
        return f"{name}  (assembler)\n\n  {name} ra, rb{target}\n    {other} rb, ra{target}"
    return None


class Subroutines:
    """Expands the words of `SUGAR` into a layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.symbols = layout.symbols
        #: word -> (rest of the line, its column) -> nothing
        self.words: dict[str, Callable[[str, int], None]] = {
            "proc": self._proc,
            "endproc": self._endproc,
            "push": partial(self._stack, "push"),
            "pop": partial(self._stack, "pop"),
        }

    def _stack(self, word: str, rest: str, column: int) -> None:
        (value, at), (stack, where) = arguments(rest, column, 2, f"{word} REGISTER, STACK")
        register, pointer = self.symbols.register(value, at), self.symbols.register(stack, where)
        self._exchange(word, register, pointer, at, where + len(stack))

    def _exchange(self, word: str, register: int, pointer: int, at: int, end: int) -> None:
        """push: M[pointer] ↔ register, pointer += 1. pop: the inverse."""
        if register == pointer:
            raise TextFault("RG0108", "the stack pointer cannot be pushed on its own stack", at, end)
        if word == "push":
            self.layout.emit_named("exch", rd=register, ra=pointer)
            self.layout.emit_named("imm.add", rd=pointer, imm=1)
        else:
            self.layout.emit_named("imm.sub", rd=pointer, imm=1)
            self.layout.emit_named("exch", rd=register, ra=pointer)

    def _proc(self, rest: str, column: int) -> None:
        """proc NAME, LINK [, STACK]: the head of a subroutine, which keeps the link on the stack if there is one."""
        layout = self.layout
        count = 3 if rest.count(",") == 2 else 2
        (name, at), (link_text, where), *more = arguments(rest, column, count, "proc NAME, LINK [, STACK]")
        if layout.subroutine is not None:
            raise TextFault("RG0115", f"the procedure `{layout.subroutine.name}` is still open", at, at + len(name))
        link = self.symbols.register(link_text, where)
        stack = self.symbols.register(*more[0]) if more else None
        checked_name(name, at)
        for label in (f"{name}.top", name, f"{name}.bottom"):
            self.symbols.claim(label, at, len(name))
        layout.subroutine = Subroutine(name, layout.sources.position(at, at + len(name)))
        end = column + len(rest.rstrip())
        self._branch("from", f"{name}.top", f"{name}.bottom", at)
        if stack is not None:
            self._exchange("pop", link, stack, where, end)
        self.symbols.labels[name] = len(layout.code)
        layout.emit_named("swapbr", rd=link)
        layout.emit_named("neg", rd=link)
        if stack is not None:
            self._exchange("push", link, stack, where, end)

    def _endproc(self, rest: str, column: int) -> None:
        arguments(rest, column, 0, "endproc")
        at = max(column - len("endproc"), 0)
        if self.layout.subroutine is None:
            raise TextFault("RG0115", "no procedure is open", at, column)
        name = self.layout.subroutine.name
        self.layout.subroutine = None
        self._branch("goto", f"{name}.bottom", f"{name}.top", at)

    def _branch(self, branch: str, label: str, target: str, at: int) -> None:
        """An unconditional branch under a label of its own."""
        self.symbols.labels[label] = len(self.layout.code)
        self.layout.emit_named(branch, fixup=self.layout.later(target, at, self.layout.table[branch]))
