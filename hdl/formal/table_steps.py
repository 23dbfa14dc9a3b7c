"""The step of an instruction by the table, beside the execution of the core: the words that all places must have after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.hdl.formal import terms
from retrograd.hdl.formal.core_execution import FIELDS, STORES, CoreExecution
from retrograd.hdl.formal.meaning import Meaning, legal, next_pc
from retrograd.hdl.formal.terms import Term, Word
from retrograd.isa.derivatives.cotangent_steps import NOTHING, cotangent_step
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Guard, Opcode, bar
from retrograd.isa.expr import ZERO, place

#: place -> (its word, the word by the table, width)
Compared = dict[str, tuple[Word, Word, int]]


def begin_by_table(
    execution: CoreExecution, opcode: Opcode, executed: Opcode, backward: bool, lifted: bool, same: bool
) -> tuple[dict[str, Any], Callable[[], Compared]]:
    """Start between two instructions: the places before, and each place after the step beside the table's word.

    The conditions of traps by the table are the `expected` words of the run.
    """
    hw, core, w = execution.hardware, execution.core, execution.w
    moved = cotangent_step(executed, w, same) if lifted else NOTHING
    run = execution.begin(backward, lifted, cleared=bool(moved.drops))
    definitions = execution.definitions
    before = execution.places()
    fields = {name: terms.unknown(name, size) if name in opcode.fields else 0 for name, size in FIELDS.items()}
    imm = terms.term(fields["imm"], 32)
    constant = terms.extended(imm, w.width, True) if w.width > 32 else terms.part(imm, 0, w.width)
    if backward and opcode.negates_immediate:
        constant = terms.subtract(0, constant, w.width)
    br, pc, bits = terms.term(hw.peek(core.br), w.width), terms.term(hw.peek(core.pc), len(core.pc)), len(core.pc)
    words: dict[str, Word] = {"br": br, "imm": constant}
    address = terms.add(terms.selected(hw.memory("registers.words"), fields["ra"]), constant, w.width)
    at: dict[str, Word] = {where: fields[name] for where, name in REGISTER_FIELDS.items()}
    at["m"] = terms.piece_of(address, 0, hw.memory("memory.words").address)
    #: place or its shadow -> the memory that it is in, and its number there
    homes = {
        name: (f"{'memory' if where == 'm' else 'registers'}.{what}", number)
        for where, number in at.items()
        for name, what in ((where, "words"), (bar(where), "cotangents"))
    }
    words |= {name: terms.selected(hw.memory(store), number) for name, (store, number) in homes.items()}
    for word in words.values():
        if isinstance(word, Term):
            definitions.mean(word)
    meaning = Meaning(
        w, words, execution.units.of_table, lambda x: definitions.recognised(x) if isinstance(x, Term) else x
    )
    addressed = "[ra+imm]" in opcode.operands
    size = {name: hw.inputs[name] for name in ("code_size", "data_size")}
    losses = tuple(Guard(place(shadow).eq(0), "RG0408", mode="strict") for shadow in moved.drops)
    modes = {mode: terms.unknown(mode, 1) for mode in ("overflow", "strict")}
    run.expected = {
        "PC outside the code": terms.conjunction(
            terms.negation(terms.part(pc, bits - 1, 1)), _below(pc, size["code_size"], bits)
        ),
        "an illegal instruction": legal(opcode, fields, w),
        "a jump": terms.negation(terms.equal(br, 0, w.width)) if NOT_JUMPING in executed.guards(w) else 0,
        "an address outside": _below(address, size["data_size"], w.width) if addressed else 1,
        "a trap": meaning.trap(executed, (*moved.guards, *losses), modes, len(core.guarded)),
    }
    trees = {**executed.transition(w), **moved.after, **dict.fromkeys(moved.drops, ZERO)}
    after = {where: meaning.of(tree) for where, tree in trees.items()}
    now = backward ^ executed.turns

    def found() -> Compared:
        out: Compared = {}
        for store in STORES:
            memory = hw.memory(store)
            anywhere, expected = terms.unknown(f"any of {store}", memory.address), before[store]
            for name in sorted(after.keys() & homes.keys()):
                home, number = homes[name]
                if home == store:
                    out[name] = terms.selected(memory, number), after[name], w.width
                    here = terms.equal(anywhere, number, memory.address)
                    expected = terms.choice(here, after[name], expected, w.width)
            out[store] = terms.selected(memory, anywhere), expected, w.width
        br_after = after.get("br", br)
        return out | {
            "BR": (hw.peek(core.br), br_after, w.width),
            "PC": (hw.peek(core.pc), next_pc(pc, br_after, now, bits, w), bits),
            "DIR": (hw.peek(core.backward), int(now), 1),
        }

    return before, found


def _below(x: Word, limit: Word, width: int) -> Word:
    """x < limit, unsigned; the limit has fewer bits or as many."""
    limit = terms.term(limit, width)
    return terms.apply("u<", 1, [width] * 2, [x, terms.joined([(limit, limit.width), (0, width - limit.width)])])
