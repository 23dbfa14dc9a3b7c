"""Mirrors: pairs of a compute block and its uncompute block, the exact inverse of it.

    compute = code[start:end];  body = code[end:undo];  uncompute = code[undo:after] = compute⁻¹

Pairs are found in the code alone (mirror_search.py), so programs of the compiler, of Janus and hand-written assembly are treated
alike. A pair that is found is verified here, and translated code checks at run time that the body keeps the words that the
compute block uses (ghost_uncompute.py). A wrong proposal costs time and never changes a result.

A region is a range of memory between two neighbouring data labels. An access is expected in the region of the constant from
which its address is formed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from retrograd.isa.effects import Erase, Unerase
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import REGISTER_FIELDS, Function
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format

#: (first address, words) of a region
Region = tuple[int, int]


class Mirror(NamedTuple):
    """A compute block and its uncompute block, by their addresses."""

    start: int
    end: int
    undo: int
    after: int

    def reflected(self, length: int) -> Mirror:
        """The pair as it stands in the code that runs in the other direction."""
        return Mirror(*(2 * length - at for at in reversed(self)))

    def twin(self, outer: Mirror) -> Mirror:
        """The image, in the uncompute block of `outer`, of a pair in its compute block."""
        return Mirror(*(outer.start + outer.after - at for at in reversed(self)))


@dataclass
class Mirrors:
    """The pairs of a program, and the region of each access that has one: address of the instruction -> region."""

    pairs: list[Mirror] = field(default_factory=list)
    regions: dict[int, Region] = field(default_factory=dict)


def boundaries_of(program: Program) -> tuple[int, ...]:
    """The addresses between which the program's regions lie."""
    found = {at for at in program.data_labels.values() if 0 <= at < program.memory}
    return (*sorted(found), program.memory) if found else ()


def is_mirror(code: Sequence[Instruction], pair: Mirror, table: Table) -> bool:
    """Whether the uncompute block is the inverse of the compute block, of instructions that lose no word and do not turn or halt."""
    if not 0 <= pair.start < pair.end <= pair.undo < pair.after <= len(code):
        return False
    if pair.after - pair.undo != pair.end - pair.start:
        return False
    return all(
        code[pair.after - 1 - k] == inverse(code[pair.start + k], table) and can_be_undone(code[pair.start + k])
        for k in range(pair.end - pair.start)
    )


def can_be_undone(i: Instruction) -> bool:
    opcode = i.opcode
    if opcode.turns or opcode.name in ("start", "finish") or ("br" in opcode.writes and "d" in opcode.writes):
        return False
    return not any(isinstance(e, Erase | Unerase) for e in opcode.effects(Format()))


def registers(i: Instruction) -> list[int]:
    """The registers that an instruction names."""
    return [getattr(i, f) for f in ("rd", "ra", "rb") if f in i.opcode.fields]


def written(i: Instruction) -> list[int]:
    """The registers that an instruction changes."""
    return [getattr(i, REGISTER_FIELDS[place]) for place in i.opcode.writes if place in REGISTER_FIELDS]


def has_address(i: Instruction) -> bool:
    return "[ra+imm]" in i.opcode.operands


# -----------------------------------------------------------------------------
# Search for compute blocks and their uncompute blocks in code.
#
#     add r1, r2;  st.add [r3], r1;  sub r1, r2        the third instruction undoes the first, and the second keeps r1 and r2
#
# Stretches of code that are inverse to an earlier stretch are found by their first instructions. Of these, the search proposes pairs
# whose body seems to keep the registers and the words of memory that the compute block uses. It walks the code, and follows
# the values of registers symbolically: sums that cancel, loops whose counter ends at a known bound, registers that are promised to be
# zero, procedures that give registers back. Loops and branches are walked as part of the stretch that holds them. A procedure is walked
# with the constants of its first call; where another call differs, the walk begins again with the constants that both have.
#
# The proposals are heuristic: memory is assumed not to alias, and registers to begin as zeros. Nothing relies on them (mirrors.py).

#: instructions by which pairs are found; a shorter uncompute block is executed
SEED = 4
#: earlier stretches that are tried for each place
CANDIDATES = 3
#: words of regions that one compute block may store to: they are copied before it
COPIED = 1024
#: walks of the code at most, where the calls of a procedure differ in the constants that registers have
ROUNDS = 4

#: (symbol, constant): their sum; symbol 0 is zero
Symbolic = tuple[int, int]
_ZERO: Symbolic = (0, 0)
_UNDONE = {"+": "-", "-": "+", "^": "^", "*": "/", "/": "*"}
_SIGNS = {"add": "+", "sub": "-", "xor": "^", "mul": "*", "div": "/"}


@lru_cache(maxsize=64)
def mirrors_of(code: tuple[Instruction, ...], w: Format, table: Table, boundaries: tuple[int, ...]) -> Mirrors:
    """The pairs of the code that runs forward."""
    contexts: dict[int, dict[int, Symbolic]] = {}
    for _ in range(ROUNDS):
        search = _Search(code, w, table, boundaries, contexts)
        search.main()
        if not search.disagree:
            break
    return search.found


def _seeds(code: Sequence[Instruction], table: Table) -> dict[int, list[int]]:
    """address j -> addresses i < j whose instruction is the inverse, in pairs of stretches of at least SEED instructions."""
    numbers: dict[Instruction, int] = {}
    own = [numbers.setdefault(i, len(numbers)) for i in code]
    other = [numbers.setdefault(inverse(i, table), len(numbers)) for i in code]
    n = len(code)
    at: dict[tuple[int, ...], list[int]] = {}
    out: dict[int, list[int]] = {}
    #: sum of the addresses of a pair -> the first address that is not covered yet
    covered: dict[int, int] = {}
    for j in range(n - SEED + 1):
        i = j - SEED
        if i >= 0:
            at.setdefault(tuple(reversed(other[i : i + SEED])), []).append(i)
        for i in reversed(at.get(tuple(own[j : j + SEED]), [])[-CANDIDATES:]):
            total = i + SEED - 1 + j
            if covered.get(total, 0) > j:
                continue
            first, last = j, j + SEED
            while total - first + 1 < first - 1 and own[first - 1] == other[total - first + 1]:
                first -= 1
            while last < n and total - last >= 0 and own[last] == other[total - last]:
                last += 1
            covered[total] = last
            for k in range(first, last):
                out.setdefault(k, []).append(total - k)
    return out


class _History:
    """The values of registers along a stretch of code."""

    def __init__(self) -> None:
        self.now: dict[int, Symbolic] = {}
        self._places: dict[int, list[int]] = {}
        self._values: dict[int, list[Symbolic]] = {}

    def set(self, register: int, value: Symbolic, at: int) -> None:
        self.now[register] = value
        self._places.setdefault(register, []).append(at)
        self._values.setdefault(register, []).append(value)

    def at(self, register: int, place: int, initial: Symbolic) -> Symbolic:
        """The value before the instruction at the address."""
        k = bisect_right(self._places.get(register, ()), place) - 1
        return initial if k < 0 else self._values[register][k]


class _Procedure(NamedTuple):
    changes: frozenset[int]
    stores: tuple[Region | None, ...]


class _Search:
    """Walks the code once, each loop, branch and procedure inside the stretch that holds it."""

    def __init__(
        self,
        code: Sequence[Instruction],
        w: Format,
        table: Table,
        boundaries: Sequence[int],
        contexts: dict[int, dict[int, Symbolic]],
    ) -> None:
        self.code, self.w, self.table, self.boundaries = code, w, table, boundaries
        #: entry of a procedure -> constants that registers have at each call that has been met
        self._contexts = contexts
        #: a procedure was walked with a constant that a later call does not have: the search must begin again
        self.disagree = False
        self.found = Mirrors()
        self._seeds = _seeds(code, table)
        self._keys: list[tuple[object, ...]] = [()]
        self._numbers: dict[tuple[object, ...], int] = {(): 0}
        #: symbol -> the constant that an address with this symbol is formed from; None: unknown
        self._origins: dict[int, int | None] = {0: 0}
        self._procedures: dict[int, _Procedure | None] = {}
        self._fresh = 0
        self._begin(True)

    def _begin(self, zero: bool) -> None:
        self.history = _History()
        self.memory: dict[Symbolic, Symbolic] = {}
        #: stores so far: (address of the instruction, region)
        self.stores: list[tuple[int, Region | None]] = []
        self._initial: dict[int, Symbolic] = {}
        self._zero = zero

    def main(self) -> None:
        if self._seeds:
            self._walk(0, len(self.code))

    # ------------------------------------------------------------------ symbols

    def _symbol(self, *key: object, origin: int | None = 0) -> int:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._origins[found] = origin
        return found

    def _unknown(self, origin: int | None = 0) -> Symbolic:
        self._fresh += 1
        return self._symbol("unknown", self._fresh, origin=origin), 0

    def _initially(self, register: int) -> Symbolic:
        if self._zero:
            return _ZERO
        found = self._initial.get(register)
        if found is None:
            found = self._initial[register] = self._unknown(None)
        return found

    def _value(self, register: int) -> Symbolic:
        found = self.history.now.get(register)
        return self._initially(register) if found is None else found

    def _then(self, register: int, place: int) -> Symbolic:
        return self.history.at(register, place, self._initially(register))

    def _combine(self, sign: str, x: Symbolic, y: Symbolic) -> Symbolic:
        """x ⊕ y, where an update that undoes the one before it cancels."""
        (s, j), (t, k) = x, y
        linear = sign in "+-"
        k = -k if sign == "-" else k
        if linear and not t:
            return s, self.w.wrap(j + k)
        before = self._keys[s]
        if before[:1] == (_UNDONE[sign],) and before[2] == (t if linear else y):
            p = before[1]
            return (p, self.w.wrap(j + k)) if linear else p  # type: ignore[return-value]
        if sign in "-^" and (s, j) == y:
            return _ZERO
        if not linear:
            return y if x == _ZERO and sign in "^*" else (self._symbol(sign, x, y), 0)
        if sign == "+" and not s:
            return t, self.w.wrap(j + k)
        if sign == "-" and before[:1] == ("+",) and before[1] == t:
            return before[2], self.w.wrap(j + k)  # type: ignore[return-value]
        origins = self._origins[s], self._origins[t]
        origin = None if None in origins else origins[0] + (origins[1] if sign == "+" else 0)  # type: ignore[operator]
        return self._symbol(sign, s, t, origin=origin), self.w.wrap(j + k)

    # ------------------------------------------------------------------ one instruction

    def _region(self, address: Symbolic) -> Region | None:
        origin = self._origins[address[0]]
        if origin is None:
            return None
        at = self.w.signed(self.w.wrap(origin + address[1]))
        if not self.boundaries:
            return (at, 1) if not address[0] and at >= 0 else None
        k = bisect_right(self.boundaries, at) - 1
        if not 0 <= k < len(self.boundaries) - 1:
            return None
        return self.boundaries[k], self.boundaries[k + 1] - self.boundaries[k]

    def _address(self, at: int, i: Instruction) -> Symbolic:
        symbol, k = self._value(i.ra)
        address = symbol, self.w.wrap(k + i.imm)
        region = self._region(address)
        if region is not None:
            self.found.regions[at] = region
        return address

    def _load(self, address: Symbolic) -> Symbolic:
        found = self.memory.get(address)
        if found is None:
            found = self.memory[address] = self._unknown()
        return found

    def _store(self, at: int, address: Symbolic, value: Symbolic) -> None:
        region = self.found.regions.get(at)
        self.stores.append((at, region))
        for other in list(self.memory):
            if other[0] != address[0] and (region is None or self._region(other) in (None, region)):
                del self.memory[other]
        self.memory[address] = value

    def _step(self, at: int) -> None:
        i = self.code[at]
        opcode = i.opcode
        address = self._address(at, i) if has_address(i) else None
        if isinstance(opcode.entry, Function):
            value, sign = self._function(i, address), _SIGNS[opcode.update or "add"]
            if address is not None and "m" in opcode.writes:
                self._store(at, address, self._combine(sign, self._load(address), value))
            else:
                self.history.set(i.rd, self._combine(sign, self._value(i.rd), value), at + 1)
        elif opcode.name == "exch" and address is not None:
            old = self._load(address)
            self._store(at, address, self._value(i.rd))
            self.history.set(i.rd, old, at + 1)
        elif opcode.name == "swap":
            x, y = self._value(i.rd), self._value(i.ra)
            self.history.set(i.rd, y, at + 1)
            self.history.set(i.ra, x, at + 1)
        elif opcode.name in ("assertz", "erase"):
            self.history.set(i.rd, _ZERO, at + 1)
        elif "br" not in opcode.writes:
            if address is not None and "m" in opcode.writes:
                self._store(at, address, self._unknown())
            for register in written(i):
                self.history.set(register, self._permuted(i, register), at + 1)

    def _permuted(self, i: Instruction, register: int) -> Symbolic:
        """The value after a bijection of one register; an unknown one after others."""
        if len(written(i)) > 1:
            return self._unknown()
        x = self._value(register)
        others = tuple(self._value(r) for r in registers(i) if r != register)
        before = self._keys[x[0]]
        back = inverse(i, self.table)
        if before[:1] == (back.opcode.name,) and before[2:] == (others, back.imm) and not x[1]:
            return before[1]  # type: ignore[return-value]
        return self._symbol(i.opcode.name, x, others, i.imm), 0

    def _function(self, i: Instruction, address: Symbolic | None) -> Symbolic:
        name = i.opcode.entry.name
        if name in ("mov", "fmov", "lmov"):
            return self._value(i.ra)
        if name == "imm":
            return 0, self.w.wrap(i.imm)
        if name == "immhi":
            return 0, self.w.wrap(i.imm << self.w.width // 2)
        if name == "ld" and address is not None:
            return self._load(address)
        if name == "st":
            return self._value(i.rb)
        fields = i.opcode.fields
        operands = [self._value(getattr(i, f)) for f in ("ra", "rb") if f in fields]
        return self._symbol(name, *operands, i.imm if "imm" in fields else 0), 0

    # ------------------------------------------------------------------ stretches of code

    def _partner(self, at: int) -> int | None:
        i = self.code[at]
        if "br" not in i.opcode.writes or "imm" not in i.opcode.reads or i.opcode.name in ("call", "uncall"):
            return None
        return at + i.imm

    def _closed(self, at: int, limit: int) -> int | None:
        """The end of the shortest stretch from here on that no paired branch leaves, if it ends before the limit."""
        end, k = at + 1, at
        while k < end:
            partner = self._partner(k)
            if partner is not None:
                if not at <= partner < limit:
                    return None
                end = max(end, partner + 1)
            k += 1
        return end if end > at + 1 else None

    def _walk(self, first: int, last: int) -> None:
        at = first
        while at < last:
            pair = self._pair_at(at, first, last) if at in self._seeds else None
            if pair is not None:
                self._accept(pair)
                at = pair.after
                continue
            i = self.code[at]
            end = self._closed(at, last) if "br" in i.opcode.writes else None
            if i.opcode.name in ("call", "uncall"):
                self._call(at, at + i.opcode.distance(i.imm))
            elif end is not None and self._is_procedure(at):
                self._procedure(at + 1)
                at = end
                continue
            elif end is not None:
                self._nested(at, end)
                at = end
                continue
            else:
                self._step(at)
            at += 1

    def _nested(self, first: int, end: int) -> None:
        """A loop, or a branch with all its ways: registers that each of its parts gives back are as before."""
        changed = sorted({r for at in range(first, end) for r in written(self.code[at])})
        stores = any(
            "m" in self.code[at].opcode.writes or self.code[at].opcode.name in ("call", "uncall")
            for at in range(first, end)
        )
        before = {r: self._value(r) for r in changed}
        inside = {}
        for r, (symbol, k) in before.items():
            origin = self._origins[symbol]
            inside[r] = self._unknown(None if origin is None else self.w.wrap(origin + k))
            self.history.set(r, inside[r], first + 1)
        memory = dict(self.memory)
        if stores:
            self.memory = {}
        self._walk(first + 1, end)
        self.memory = {} if stores else memory
        passes = self._passes(self.code[end - 1], before, inside)
        for r in changed:
            now = self._value(r)
            if now == before[r]:
                self.history.set(r, now, end)
            elif now[0] != inside[r][0]:
                self.history.set(r, self._unknown(self._origins[inside[r][0]]), end)
            elif now == inside[r] or passes is not None:
                symbol, k = before[r]
                self.history.set(r, (symbol, self.w.wrap(k + now[1] * (passes or 0))), end)
            else:
                self.history.set(r, self._unknown(self._origins[now[0]]), end)

    def _passes(self, last: Instruction, before: dict[int, Symbolic], inside: dict[int, Symbolic]) -> int | None:
        """The passes of a loop that ends in this instruction, where a counter reaches a known bound by constant steps."""
        if last.opcode.name != "goto.ne" or last.imm >= 0:
            return None
        for counter, bound in ((last.ra, last.rb), (last.rb, last.ra)):
            if counter in before and (bound not in before or before[bound] == _ZERO):
                begun, now, ends = before[counter], self._value(counter), self._value(bound)
                if begun[0] == ends[0] and now[0] == inside[counter][0] and now[1]:
                    passes, rest = divmod(self.w.signed(self.w.wrap(ends[1] - begun[1])), self.w.signed(now[1]))
                    return passes if passes > 0 and not rest else None
        return None

    # ------------------------------------------------------------------ procedures

    def _is_procedure(self, at: int) -> bool:
        return self.code[at].opcode.name == "from" and self.code[at + 1].opcode.name == "swapbr"

    def _call(self, at: int, entry: int) -> None:
        self._agree(entry)
        found = self._procedure(entry)
        changes = frozenset(range(256)) if found is None else found.changes
        for r in changes:
            self.history.set(r, self._unknown(), at + 1)
        stores = (None,) if found is None else found.stores
        if stores:
            self.memory = {}
        self.stores += [(at, region) for region in stores]

    def _agree(self, entry: int) -> None:
        """Drop the constants of earlier calls of this procedure that differ at this call; only constants that all calls share form addresses."""
        context = self._contexts.get(entry)
        if context is None:
            self._contexts[entry] = {r: value for r in range(256) if not (value := self._value(r))[0]}
            return
        for r, (_, constant) in list(context.items()):
            symbol, k = self._value(r)
            origin = self._origins[symbol]
            if origin is None or self.w.wrap(origin + k) != constant:
                del context[r]
                self.disagree = True

    def _procedure(self, entry: int) -> _Procedure | None:
        """The effects of a procedure, whose code is searched; None for a recursive one, and where there is no procedure."""
        if entry in self._procedures:
            return self._procedures[entry]
        self._procedures[entry] = None
        if not 0 < entry < len(self.code) or not self._is_procedure(entry - 1):
            return None
        end = self._closed(entry - 1, len(self.code))
        if end is None:
            return None
        saved = self.history, self.memory, self.stores, self._initial, self._zero
        self._begin(False)
        self._initial.update(self._contexts.get(entry, {}))
        self._walk(entry, end)
        back = {
            r
            for at in range(entry, end)
            if "br" in (o := self.code[at].opcode).writes and "d" in o.writes
            for r in registers(self.code[at])
        }
        changes = frozenset(r for r, value in self.history.now.items() if value != self._initially(r)) - back
        out = self._procedures[entry] = _Procedure(changes, tuple(dict.fromkeys(region for _, region in self.stores)))
        self.history, self.memory, self.stores, self._initial, self._zero = saved
        return out

    # ------------------------------------------------------------------ pairs

    def _pair_at(self, undo: int, first: int, last: int) -> Mirror | None:
        """The longest pair whose uncompute block begins here, inside the stretch."""
        found = [self._pair(i, undo, first, last) for i in self._seeds[undo] if i >= first]
        return max((p for p in found if p is not None), key=lambda p: p.end - p.start, default=None)

    def _pair(self, last_computed: int, undo: int, first: int, last: int) -> Mirror | None:
        end, size = last_computed + 1, 0
        limit = min(end - first, last - undo)
        crossed = {region for at, region in self.stores if end <= at < undo}
        copied: set[Region] = set()
        while size < limit and last_computed - size in self._seeds.get(undo + size, ()):
            length = self._part(undo + size, undo + limit)
            if length is None or not all(
                self._keeps(last_computed - k, undo + k, end, crossed, copied) for k in range(size, size + length)
            ):
                break
            if sum(words for _, words in copied) > COPIED:
                break
            size += length
        pair = Mirror(end - size, end, undo, undo + size)
        # An earlier pair lies on one side of each boundary.
        for other in self.found.pairs:
            if other.undo < pair.start < other.after or other.undo < pair.end < other.after:
                return None
        worth = size >= 2 * SEED or any("br" in self.code[at].opcode.writes for at in range(pair.undo, pair.after))
        return pair if size >= SEED and worth else None

    def _part(self, at: int, limit: int) -> int | None:
        """The length of the part that begins here: an instruction, or a closed stretch."""
        if "br" not in self.code[at].opcode.writes:
            return 1
        end = self._closed(at, limit)
        return None if end is None else end - at

    def _keeps(self, computed: int, undone: int, end: int, crossed: set[Region | None], copied: set[Region]) -> bool:
        """Whether the body seems to keep the registers and the word of memory that an instruction of the compute block uses."""
        i = self.code[computed]
        if self.code[undone] != inverse(i, self.table) or not can_be_undone(i):
            return False
        if i.opcode.name == "call" or any(self._then(r, end) != self._value(r) for r in registers(i)):
            return False
        if not has_address(i):
            return True
        region = self.found.regions.get(computed)
        if "m" in i.opcode.writes:
            if region is None:
                return False
            copied.add(region)
        return not crossed or (region is not None and region not in crossed and None not in crossed)

    def _accept(self, pair: Mirror) -> None:
        for at in range(pair.start, pair.end):
            region = self.found.regions.get(at)
            if region is not None:
                self.found.regions[pair.start + pair.after - 1 - at] = region
        inner = [p for p in self.found.pairs if pair.start <= p.start and p.after <= pair.end]
        self.found.pairs += [p.twin(pair) for p in inner]
        self.found.pairs.append(pair)
        changed = {r for at in range(pair.start, pair.end) for r in written(self.code[at])}
        for r in sorted(changed):
            self.history.set(r, self._then(r, pair.start), pair.after)
        if any("m" in self.code[at].opcode.writes for at in range(pair.start, pair.end)):
            self.memory = {}
            # Put back, the words are changed once more.
            self.stores += [(pair.undo, region) for at, region in self.stores if pair.start <= at < pair.end]
