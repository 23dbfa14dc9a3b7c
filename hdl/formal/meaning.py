"""The meaning of an instruction by the table, as terms: the right side of the proofs that a step of the core is the table's.

    fold(tree, words) = the term of the tree,  products, quotients, roots and tables as functions of their operands

The trees are the table's. This module gives terms to the operations of trees, as `retrograd.isa.folds.smtlib` gives them SMT-LIB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from retrograd.hdl.formal import terms
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.microword import TRAPS
from retrograd.isa.entries import NOT_JUMPING, Guards, Opcode
from retrograd.isa.expr import Expr, nodes
from retrograd.isa.words import Format

#: (operation, parameter, operands) -> the result of a unit that is a function of its operands
Unit = Callable[[str, Any, list[Word]], Word]

_SAME = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_SHIFTS = {"shl": "<<", "shr": "u>>", "sar": "s>>"}
_RELATIONS = {"eq": "==", "lt": "s<", "ltu": "u<"}


class Meaning:
    """Terms of trees over the words of places. `keep`: called with each computed term; it may return an equal one."""

    def __init__(
        self, w: Format, words: Mapping[str, Word], unit: Unit, keep: Callable[[Word], Word] = lambda term: term
    ) -> None:
        self._w = w
        self._words = words
        self._unit = unit
        self._keep = keep
        self._found: dict[Expr, Word] = {}

    def of(self, tree: Expr) -> Word:
        """The word of a tree."""
        for node in nodes(tree):
            if node not in self._found:
                self._found[node] = self._computed(node, [self._found[arg] for arg in node.args])
        return self._found[tree]

    def _computed(self, node: Expr, v: list[Word]) -> Word:
        if node.op == "input":
            return self._words[str(node.param)]
        if node.op == "const":
            assert isinstance(node.param, int)
            return node.param & self._w.mask
        return self._keep(terms.value(self._operated(node, v)))

    def _operated(self, node: Expr, v: list[Word]) -> Word:
        width = self._w.width
        if node.op in _SAME:
            return terms.apply(_SAME[node.op], width, [width, width], v)
        if node.op in _SHIFTS:
            # A shift is by its amount modulo the width.
            bits = (width - 1).bit_length()
            return terms.apply(_SHIFTS[node.op], width, [width, bits], [v[0], terms.piece_of(v[1], 0, bits)])
        if node.op in _RELATIONS:
            bit = terms.apply(_RELATIONS[node.op], 1, [width, width], v)
            return terms.joined([(bit, 1), (0, width - 1)])
        if node.op == "select":
            return terms.choice(terms.negation(terms.equal(v[0], 0, width)), v[1], v[2], width)
        return self._unit(node.op, node.param, v)

    def holds(self, tree: Expr) -> Word:
        """Whether a predicate, a tree, is not 0."""
        return terms.negation(terms.equal(self.of(tree), 0, self._w.width))

    def trap(self, opcode: Opcode, more: Guards, modes: Mapping[str, Word], width: int) -> Word:
        """The cause of the trap of the first guard that fails, or 0: the opcode's guards, then `more`.

        BR = 0 is tested before execution, and is none of them. `modes`: whether the guards of "overflow" and "strict" are active.
        """
        found: Word = 0
        guards = [(g, opcode.guard_predicate(g, self._w)) for g in opcode.guards(self._w) if g != NOT_JUMPING]
        for guard, predicate in reversed([*guards, *((g, g.predicate) for g in more)]):
            fails = terms.negation(self.holds(predicate))
            active = terms.conjunction(fails, modes.get(guard.mode, 1))
            found = terms.choice(active, TRAPS[guard.code].value, found, width)
        return found


def legal(opcode: Opcode, fields: Mapping[str, Word], w: Format) -> Word:
    """Whether the encoding of an opcode, whose unused fields are zero, is legal at this width.

    Registers that are written differ from the others; the constant fits a word, and its negation too where the inverse negates it.
    """
    found: Word = 1
    for x, y in opcode.distinct:
        found = terms.conjunction(found, terms.negation(terms.equal(fields[x], fields[y], 8)))
    low = min(w.width, 32) - 1
    least, most = -(1 << low) + opcode.negates_immediate, (1 << low) - 1
    # A bound that each constant of 32 bits keeps is no condition: an encoding without one is always legal.
    if least > -(1 << 31):
        found = terms.conjunction(found, terms.apply("s<=", 1, [32, 32], [least & 0xFFFFFFFF, fields["imm"]]))
    if most < (1 << 31) - 1:
        found = terms.conjunction(found, terms.apply("s<=", 1, [32, 32], [fields["imm"], most]))
    return found


def next_pc(pc: Word, br: Word, backward: bool, bits: int, w: Format) -> Word:
    """PC ± (BR if BR ≠ 0 else 1), with BR and the direction after the instruction."""
    sign = terms.piece_of(br, w.width - 1, 1)
    pieces = [(terms.piece_of(br, 0, min(w.width, bits)), min(w.width, bits)), *[(sign, 1)] * (bits - w.width)]
    step = terms.choice(terms.equal(br, 0, w.width), 1, terms.joined(pieces), bits)
    return terms.subtract(pc, step, bits) if backward else terms.add(pc, step, bits)
