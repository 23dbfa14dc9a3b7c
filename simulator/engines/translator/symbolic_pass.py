"""Symbolic evaluation of one pass of a loop: registers and words of memory as trees over the words at its beginning.

The trees are in affine normal form (affine.py), so a word that is loaded, used and put back leaves its register as it was. A word of
memory is known by its address, base + offset: a base is a sum of registers. Two words of one base are the same word just where
their offsets are equal. Words of different bases are taken for different words, which the code that relies on it must test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS, Mode
from retrograd.isa.expr import ONE, Expr, const, place
from retrograd.simulator.engines.llvm.instructions import Step
from retrograd.simulator.engines.translator.affine import AffineForms
from retrograd.simulator.engines.translator.flow import Flow


class Refusal(Exception):
    """The loop stays scalar; the argument is the reason."""


@dataclass(frozen=True, order=True)
class Base:
    """The part of an address that is made of registers: (register, coefficient), …"""

    terms: tuple[tuple[int, int], ...]


#: where a word lies: base + offset
Word = tuple[Base, int]
#: a guard, and the words of its instruction
GuardAndWords = tuple[Expr, dict[str, Expr]]


def register(r: int) -> str:
    """The name of the input that stands for a register at the beginning of a pass."""
    return f"r{r}"


class SymbolicPass:
    """One pass, evaluated symbolically."""

    def __init__(self, flow: Flow, steps: Mapping[int, Step], forms: AffineForms, given: Mapping[int, int]) -> None:
        self.flow, self.steps, self.forms, self.given = flow, steps, forms, given
        self.registers: dict[int, Expr] = {}
        self.read: set[int] = set()
        self.memory: dict[Word, Expr] = {}
        self.loads: dict[Word, str] = {}
        #: address of an instruction -> the word that it reads or writes
        self.accesses: dict[int, Word] = {}
        #: bases of words that are written, also of words that are put back
        self.stored: set[Base] = set()
        self.guards: list[GuardAndWords] = []
        self.erased = 0

    def word(self, r: int) -> Expr:
        found = self.registers.get(r)
        if found is None:
            found = const(self.forms.w.signed(self.given[r])) if r in self.given else place(register(r))
            self.registers[r] = found
        return found

    def execute(self, at: int, modes: Iterable[Mode]) -> None:
        i, found = self.flow.code[at], self.steps[at]
        words, address = self._words(i, found)
        if address is not None:
            self.accesses[at] = address
        self.guards += [(tree, words) for mode in modes for tree in found.guards[mode]]
        after = {p: self.forms.normal(tree, words) for p, tree in found.after.items()}
        for p, tree in after.items():
            if p in REGISTER_FIELDS:
                self.registers[getattr(i, REGISTER_FIELDS[p])] = tree
            else:
                assert address is not None
                self.memory[address] = tree
                self.stored.add(address[0])
        self.erased += len(found.erases)

    def branch(self, at: int, br: int) -> tuple[Expr, list[Expr]]:
        """(BR behind the branch, the guards of the branch)"""
        i, found = self.flow.code[at], self.steps[at]
        if found.after.keys() != {"br"} or found.memory:
            raise Refusal("a branch of the loop changes registers")
        words = self._words(i, found)[0] | {"br": const(br)}
        return self.forms.normal(found.after["br"], words), [
            self.forms.normal(tree, words) for tree in found.guards["always"]
        ]

    def _words(self, i: Instruction, found: Step) -> tuple[dict[str, Expr], Word | None]:
        words = {"imm": const(i.imm)} if "imm" in found.reads else {}
        for p in REGISTER_FIELDS.keys() & found.reads:
            words[p] = self.word(getattr(i, REGISTER_FIELDS[p]))
        address = None
        if found.memory:
            address = self._address(self.forms.sum(self.word(i.ra), const(i.imm)))
            if address not in self.memory:
                name = self.loads[address] = f"m{len(self.loads)}"
                self.memory[address] = place(name)
            words["m"] = self.memory[address]
        return words, address

    def _address(self, tree: Expr) -> Word:
        form = dict(self.forms.form(tree))
        offset = form.pop(ONE, 0)
        terms = []
        for atom, k in form.items():
            if atom.op != "input" or not str(atom.param).startswith("r"):
                raise Refusal("an address depends on a word of memory or on a product")
            terms.append((int(str(atom.param)[1:]), k))
        return Base(tuple(sorted(terms))), offset
