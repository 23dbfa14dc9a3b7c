"""What every instruction of the table does, written a second time from the design: words, traps, branch register.

The laws say that instructions can be undone; they would hold as well if `min` were `max`. This is what says they are not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import isqrt

import pytest
from retrograd.isa import laws
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

FORMATS = [Format(4, 2), Format(8, 3), Format(32, 16), Format(64, 32)]


def is_rounded(opcode: Opcode) -> bool:
    """Whether it is a real function rounded: its bounds of error are held in tests/isa/numbers."""
    entry = opcode.entry
    return (entry.partials if isinstance(entry, Function) else entry.lift) is not None


OPCODES = [o for o in TABLE if not is_rounded(o)]

Words = dict[str, int]
State = dict[str, int]
Outcome = State | str


def floor(x: Fraction) -> int:
    return x.numerator // x.denominator


def nearest(x: Fraction) -> int:
    """The integer at most a half away; of two, the upper."""
    return max((floor(x), floor(x) + 1), key=lambda n: (-abs(x - n), n))


def nearest_root(n: int) -> int:
    """The integer nearest to √n, which is never half way: (r + ½)² is no integer."""
    r = isqrt(n)
    return r if n <= r * r + r else r + 1


#: function -> (format, unsigned words, signed words) -> its value, or the code of its trap
FUNCTIONS: dict[str, Callable[[Format, Words, Words], int | str]] = {
    "mov": lambda w, u, s: u["a"],
    "imm": lambda w, u, s: u["imm"],
    "immhi": lambda w, u, s: u["imm"] * 2 ** (w.width // 2),
    "ld": lambda w, u, s: u["m"],
    "st": lambda w, u, s: u["b"],
    "mul": lambda w, u, s: s["a"] * s["b"],
    "div": lambda w, u, s: floor(Fraction(s["a"], s["b"])) if s["b"] else "RG0402",
    "mod": lambda w, u, s: s["a"] % s["b"] if s["b"] else "RG0402",
    "and": lambda w, u, s: u["a"] & u["b"],
    "or": lambda w, u, s: u["a"] | u["b"],
    "nor": lambda w, u, s: 2**w.width - 1 - (u["a"] | u["b"]),
    "shl": lambda w, u, s: u["a"] * 2 ** (u["b"] % w.width),
    "shr": lambda w, u, s: u["a"] // 2 ** (u["b"] % w.width),
    "sar": lambda w, u, s: s["a"] // 2 ** (u["b"] % w.width),
    "slt": lambda w, u, s: int(s["a"] < s["b"]),
    "sltu": lambda w, u, s: int(u["a"] < u["b"]),
    "seq": lambda w, u, s: int(u["a"] == u["b"]),
    "min": lambda w, u, s: min(s["a"], s["b"]),
    "max": lambda w, u, s: max(s["a"], s["b"]),
    "abs": lambda w, u, s: abs(s["a"]),
    "muli": lambda w, u, s: s["a"] * s["imm"],
    "andi": lambda w, u, s: u["a"] & u["imm"],
    "ori": lambda w, u, s: u["a"] | u["imm"],
    "shli": lambda w, u, s: u["a"] * 2 ** (u["imm"] % w.width),
    "shri": lambda w, u, s: u["a"] // 2 ** (u["imm"] % w.width),
    "sari": lambda w, u, s: s["a"] // 2 ** (u["imm"] % w.width),
    "slti": lambda w, u, s: int(s["a"] < s["imm"]),
    "fmov": lambda w, u, s: u["a"],
    "fmul": lambda w, u, s: nearest(Fraction(s["a"] * s["b"], 2**w.frac)),
    "fdiv": lambda w, u, s: nearest(Fraction(s["a"] * 2**w.frac, s["b"])) if s["b"] else "RG0402",
    "fsqrt": lambda w, u, s: nearest_root(s["a"] * 2**w.frac) if s["a"] >= 0 else "RG0403",
    "fabs": lambda w, u, s: abs(s["a"]),
    "fld": lambda w, u, s: u["m"],
    "fst": lambda w, u, s: u["b"],
    "fmulld": lambda w, u, s: nearest(Fraction(s["b"] * s["m"], 2**w.frac)),
    "fmulst": lambda w, u, s: nearest(Fraction(s["d"] * s["b"], 2**w.frac)),
    "itof": lambda w, u, s: s["a"] * 2**w.frac,
    "ftoi": lambda w, u, s: nearest(Fraction(s["a"], 2**w.frac)),
    "lmov": lambda w, u, s: u["a"],
}


def product_of_lognums(w: Format, x: int, v: int, direction: int) -> int:
    half: int = 2 ** (w.width - 1)
    sign = (x // half + v // half) % 2
    return sign * half + (x % half + direction * (v % half)) % half


UPDATES: dict[str, Callable[[Format, int, int], int]] = {
    "add": lambda w, x, v: (x + v) % 2**w.width,
    "sub": lambda w, x, v: (x - v) % 2**w.width,
    "xor": lambda w, x, v: x ^ v % 2**w.width,
    "mul": lambda w, x, v: product_of_lognums(w, x, v, 1),
    "div": lambda w, x, v: product_of_lognums(w, x, v, -1),
}


def rotated(w: Format, x: int, amount: int) -> int:
    k = amount % w.width
    digits = f"{x:0{w.width}b}"
    return int(digits[k:] + digits[:k], 2)


#: bijection -> (format, unsigned words) -> the words that change. None of these traps outside a jump.
BIJECTIONS: dict[str, Callable[[Format, Words], Words]] = {
    "neg": lambda w, u: {"d": -u["d"] % 2**w.width},
    "not": lambda w, u: {"d": 2**w.width - 1 - u["d"]},
    "rol": lambda w, u: {"d": rotated(w, u["d"], u["a"])},
    "ror": lambda w, u: {"d": rotated(w, u["d"], -u["a"])},
    "roli": lambda w, u: {"d": rotated(w, u["d"], u["imm"])},
    "rori": lambda w, u: {"d": rotated(w, u["d"], -u["imm"])},
    "swap": lambda w, u: {"d": u["a"], "a": u["d"]},
    "cswap": lambda w, u: {"d": u["a"], "a": u["d"]} if u["b"] else {},
    "exch": lambda w, u: {"d": u["m"], "m": u["d"]},
    "erase": lambda w, u: {"d": 0},
    "start": lambda w, u: {},
    "finish": lambda w, u: {},
}

CONDITIONS: dict[str, Callable[[Words, Words], bool]] = {
    "": lambda u, s: True,
    ".eq": lambda u, s: u["a"] == u["b"],
    ".ne": lambda u, s: u["a"] != u["b"],
    ".lt": lambda u, s: s["a"] < s["b"],
    ".ge": lambda u, s: s["a"] >= s["b"],
    ".ltu": lambda u, s: u["a"] < u["b"],
    ".geu": lambda u, s: u["a"] >= u["b"],
}


def expected(name: str, w: Format, u: Words) -> Outcome:
    """The state after the instruction, or the code of its trap."""
    s = {p: x - 2**w.width if x >= 2 ** (w.width - 1) else x for p, x in u.items()}
    modulus, jumping = 2**w.width, u["br"] != 0
    stem, _, suffix = name.partition(".")
    if stem in ("goto", "from"):
        taken = CONDITIONS["." * bool(suffix) + suffix](u, s)
        offset = u["imm"] if taken else 0
        if stem == "goto":
            return "RG0405" if jumping else {**u, "br": offset}
        # The comefrom: control came by the jump exactly when the condition holds, and BR is 0 from here on.
        return {**u, "br": 0} if u["br"] == -offset % modulus else "RG0406"
    match name:
        case "call":
            return {**u, "br": (u["br"] + u["imm"]) % modulus} if u["br"] in (0, -u["imm"] % modulus) else "RG0405"
        case "uncall":
            return {**u, "br": (u["imm"] - u["br"]) % modulus} if u["br"] in (0, u["imm"]) else "RG0405"
        case "swapbr":
            return {**u, "d": u["br"], "br": u["d"]}
    if jumping:
        return "RG0405"
    match name:
        case "assertz":
            return "RG0407" if u["d"] else u
        case _ if stem == "assert":
            return u if CONDITIONS[f".{suffix}"](u, s) else "RG0413"
        case "unerase":
            return "RG0409"
    if name in BIJECTIONS:
        return {**u, **BIJECTIONS[name](w, u)}
    if stem not in FUNCTIONS:
        pytest.skip(f"{stem} has no second meaning in FUNCTIONS: the laws alone hold for it")
    value = FUNCTIONS[stem](w, u, s)
    if isinstance(value, str):
        return value
    (target,) = TABLE[name].writes
    return {**u, target: UPDATES[suffix](w, u[target], value)}


@pytest.mark.parametrize("name", [o.name for o in OPCODES])
def test_every_instruction_does_what_the_design_says(name: str) -> None:
    opcode = TABLE[name]
    places = laws.places_of(opcode)
    rng = random.Random(opcode.code)
    for w in FORMATS:
        corners = (0, 1, 3, w.mask, w.sign, w.sign - 1)
        states = [dict(zip(places, words, strict=True)) for words in product(corners, repeat=len(places))]
        for _ in range(60):
            state = {p: rng.getrandbits(w.width) for p in places}
            if rng.random() < 0.3 and {"a", "b"} <= state.keys():
                state["b"] = state["a"]
            offset = state.get("imm", 0)
            state["br"] = rng.choice((0, 0, offset, -offset & w.mask))
            states.append(state)
        run = laws.compile_execute(opcode, w, places)
        for state in states:
            found = run(*(state[p] for p in places))
            after = found if isinstance(found, str) else dict(zip(places, found, strict=True))
            assert after == expected(name, w, state), (str(w), state)


def test_no_meaning_is_stale() -> None:
    """An instruction without a line in FUNCTIONS or BIJECTIONS is skipped by name above; a line without an instruction fails."""
    functions = {o.entry.name for o in OPCODES if o.update is not None}
    assert set(FUNCTIONS) <= functions
    others = {o.name for o in OPCODES if o.update is None and o.group != "branches"} | {"start", "finish"}
    assertions = {f"assert{condition}" for condition in CONDITIONS if condition}
    assert set(BIJECTIONS) | {"assertz", "unerase"} | assertions <= others
    branches = {o.name for o in OPCODES if o.group == "branches"} - {"start", "finish"}
    conditional = {f"{stem}{condition}" for stem in ("goto", "from") for condition in CONDITIONS}
    assert branches == conditional | {"call", "uncall", "swapbr"}


#: fixed-point function -> its exact value as a fraction of words, where it has one
EXACT: dict[str, Callable[[Format, Words], int | None]] = {
    "fmov": lambda w, s: s["a"],
    "fmul": lambda w, s: nearest(Fraction(s["a"] * s["b"], 2**w.frac)),
    "fdiv": lambda w, s: nearest(Fraction(s["a"] * 2**w.frac, s["b"])) if s["b"] else None,
    "fsqrt": lambda w, s: nearest_root(s["a"] * 2**w.frac) if s["a"] >= 0 else None,
    "fabs": lambda w, s: abs(s["a"]),
    "fld": lambda w, s: s["m"],
    "fst": lambda w, s: s["b"],
    "fmulld": lambda w, s: nearest(Fraction(s["b"] * s["m"], 2**w.frac)),
    "fmulst": lambda w, s: nearest(Fraction(s["d"] * s["b"], 2**w.frac)),
    "itof": lambda w, s: s["a"] * 2**w.frac,
}


@pytest.mark.parametrize("update", ["add", "sub", "xor"])
@pytest.mark.parametrize("stem", EXACT)
def test_the_checking_machine_traps_exactly_on_overflow(stem: str, update: str) -> None:
    """Exhaustive at W = 4: RG0404 where the value or the sum is no word, and nowhere else."""
    w, opcode = Format(4, 2), TABLE[f"{stem}.{update}"]
    free = [p for p in laws.places_of(opcode) if p != "br"]
    trapped = 0
    for words in product(range(16), repeat=len(free)):
        u = {**dict(zip(free, words, strict=True)), "br": 0}
        s = {p: x - 16 if x >= 8 else x for p, x in u.items()}
        value = EXACT[stem](w, s)
        if value is None:
            continue
        fits = -8 <= value < 8
        if update != "xor":
            fits = fits and -8 <= s[opcode.writes[0]] + (value if update == "add" else -value) < 8
        found = laws.execute(opcode, u, w, ("always", "overflow"))
        assert (found == "RG0404") == (not fits), u
        trapped += not fits
        assert laws.execute(opcode, u, w) != "RG0404"
    assert trapped or (stem, update) in {("fmov", "xor"), ("fsqrt", "xor"), ("fld", "xor"), ("fst", "xor")}


def test_every_checked_instruction_is_checked_here() -> None:
    w = Format(4, 2)
    checked = {o.entry.name for o in OPCODES if any(g.mode == "overflow" for g in o.guards(w))}
    assert checked == set(EXACT)


def test_a_strict_machine_erases_nothing() -> None:
    w, state = Format(8, 4), {"d": 7, "br": 0}
    assert laws.execute(TABLE["erase"], state, w) == {"d": 0, "br": 0}
    assert laws.execute(TABLE["erase"], state, w, ("always", "strict")) == "RG0408"
    assert {o.name: o.erased_words for o in OPCODES if o.erased_words} == {"erase": 1}


def test_what_turns_halts_and_negates() -> None:
    assert [o.name for o in OPCODES if o.turns] == ["uncall"]
    assert [o.name for o in OPCODES if o.halts] == ["finish"]
    # Whatever names a partner by an offset is met backward with the opposite one: DIR·off in the design.
    assert {o.name for o in OPCODES if o.negates_immediate} == {o.name for o in OPCODES if "target" in o.operands}
