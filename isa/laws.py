"""Laws: properties that every entry of a table must have, as functions that users can run on their own entries.

inverse ∘ instruction = identity on every state, traps included; encodings do not overlap and are undone by
decoding; the table is closed under inverse. Each function returns the counterexamples it found, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import isqrt

from retrograd.isa.diagnostics import ImageError
from retrograd.isa.encoding import IMMEDIATE_MAX, IMMEDIATE_MIN, Instruction, decode, encode, inverse
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import evaluate
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format

#: words by place and by constant: the part of a state that an instruction can see
State = Mapping[str, int]


def execute(opcode: Opcode, state: State, w: Format, modes: Iterable[str] = ("always",)) -> dict[str, int] | str:
    """The state after the instruction, or the code of the trap that stops it; by walking the trees.

    The definition in its most direct form: slow, and the reference for tests of faster forms.
    """
    for guard in opcode.guards(w):
        if guard.mode in modes and not evaluate(opcode.guard_predicate(guard, w), w, state):
            return guard.code
    return {**state, **{name: evaluate(tree, w, state) for name, tree in opcode.transition(w).items()}}


def places_of(opcode: Opcode) -> tuple[str, ...]:
    """The names of the words that an instruction can see or change, BR included."""
    return tuple(sorted({*opcode.reads, *opcode.writes, "br"}))


def compile_execute(
    opcode: Opcode, w: Format, places: tuple[str, ...], modes: Iterable[str] = ("always",)
) -> Callable[..., tuple[int, ...] | str]:
    """`execute` compiled to Python over positional words: some 20 times faster, for exhaustive checks."""
    guards = [g for g in opcode.guards(w) if g.mode in modes]
    after = opcode.transition(w)
    roots = [*(opcode.guard_predicate(g, w) for g in guards), *after.values()]
    statements, out = emit(roots, w, {p: p for p in places})
    body = list(statements)
    body += [f"if not {text}: return {g.code!r}" for g, text in zip(guards, out, strict=False)]
    final = dict(zip(after, out[len(guards) :], strict=True))
    body.append(f"return ({' '.join(final.get(p, p) + ',' for p in places)})")
    source = f"def run({', '.join(places)}):\n" + "".join(f"    {line}\n" for line in body)
    scope: dict[str, Callable[..., tuple[int, ...] | str]] = {}
    exec(source, {"isqrt": isqrt}, scope)
    return scope["run"]


def inverse_counterexamples(
    opcode: Opcode, w: Format, states: Iterable[tuple[int, ...]], table: Table = TABLE
) -> Iterator[str]:
    """States, given as words in the order of `places_of`, that the inverse does not restore.

    Where the instruction does not trap, its inverse must not trap either, and must restore the state. An
    erasure is the one exception: its inverse traps on every state.
    """
    places = places_of(opcode)
    # If the instruction turns the machine round, the machine executes the inverse in the other direction: the
    # instruction itself.
    undo = opcode if opcode.turns else table.inverse(opcode)
    forward, backward = compile_execute(opcode, w, places), compile_execute(undo, w, places)
    negated = places.index("imm") if opcode.negates_immediate and not opcode.turns else None
    erases = opcode.erased_words > 0

    def negate(words: tuple[int, ...]) -> tuple[int, ...]:
        if negated is None:
            return words
        return (*words[:negated], -words[negated] & w.mask, *words[negated + 1 :])

    for state in states:
        after = forward(*state)
        if isinstance(after, str):
            continue
        back = backward(*negate(after))
        if erases:
            if back != "RG0409":
                yield f"{opcode.name}: an erase was undone at {dict(zip(places, state, strict=True))}"
        elif isinstance(back, str) or negate(back) != state:
            yield f"{opcode.name}: {dict(zip(places, state, strict=True))} -> {after} -> {back}"


def all_states(opcode: Opcode, w: Format) -> Iterator[tuple[int, ...]]:
    """Every state that the opcode can distinguish: (2^W)^n words, so for small W."""
    branches = "br" in opcode.writes or "br" in opcode.reads
    ranges = [range(w.mask + 1) if p != "br" or branches else (0,) for p in places_of(opcode)]
    return product(*ranges)


def encoding_counterexamples(table: Table = TABLE) -> Iterator[str]:
    """Opcodes whose encoding is not injective, not closed under inverse, or far from that of the partner."""
    for opcode in table:
        partner = table.inverse(opcode)
        if table.inverse(partner) is not opcode:
            yield f"{opcode.name}: the inverse of its inverse is {table.inverse(partner).name}"
        if (opcode.code ^ partner.code).bit_count() > 1:
            yield f"{opcode.name} and {partner.name} differ in more than one bit"
        if opcode.fields != partner.fields:
            yield f"{opcode.name} and {partner.name} use different fields"
        for i in sample_instructions(opcode):
            try:
                word = encode(i)
                if decode(word, table) != i:
                    yield f"{opcode.name}: 0x{word:016x} decodes to {decode(word, table)}, not {i}"
                if inverse(inverse(i, table), table) != i:
                    yield f"{opcode.name}: the inverse of the inverse of {i} is another instruction"
                if decode(encode(inverse(i, table)), table) != inverse(i, table):
                    yield f"{opcode.name}: the inverse of {i} cannot be encoded"
            except (ValueError, ImageError) as error:
                yield f"{opcode.name}: {error}"
                break


def sample_instructions(opcode: Opcode) -> Iterator[Instruction]:
    """Instructions with the opcode whose fields together take every bit both ways."""
    registers = [(0, 1, 2), (255, 254, 253), (1, 2, 4), (128, 64, 32), (16, 8, 0)]
    low = IMMEDIATE_MIN + 1 if opcode.negates_immediate else IMMEDIATE_MIN
    constants = [0, 1, -1, IMMEDIATE_MAX, low, *(1 << k for k in range(31)), 0x2AAAAAAA, 0x55555555]
    for rd, ra, rb in registers:
        for imm in constants:
            used = {"rd": rd, "ra": ra, "rb": rb, "imm": imm}
            yield Instruction(opcode, **{f: v for f, v in used.items() if f in opcode.fields})
