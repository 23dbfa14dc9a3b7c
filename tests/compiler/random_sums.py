"""Random modules that mostly accumulate, from a seed: outputs gain terms of temporaries that are uncomputed afterwards.

`generate(seed)` gives a module, its loss, and words for its memory. Its arguments are a loss, outputs, counts and inputs; an array of its
own is filled and emptied. One statement in many uses an output in another way, so that an analysis of outputs has something to refuse.
Numbers are drawn near the end of the format in one module of four: its sums overflow often.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from retrograd.compiler.ir.statements import (
    CONDITIONS,
    ZERO,
    Block,
    Call,
    Check,
    Const,
    Delocal,
    For,
    If,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Test,
    Var,
    While,
    Within,
)
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

FORMATS = (Format(16, 8), Format(32, 16), Format(64, 32))
WORDS = 4


@dataclass(frozen=True)
class Sums:
    """A module, its regions by name, and the words that its memory begins with."""

    seed: int
    module: Module
    regions: dict[str, Region]
    memory: list[int]


def generate(seed: int) -> Sums:
    """The module of this seed."""
    return _Generator(random.Random(seed)).made(seed)


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.w = rng.choice(FORMATS)
        sizes = {"loss": 1, "outs": WORDS, "counts": WORDS, "x": WORDS, "own": WORDS, "own2": 1}
        self.regions: dict[str, Region] = {}
        at = 0
        for name, size in sizes.items():
            self.regions[name] = Region(name, size, at)
            at += size
        self.words = at
        self.procedures: dict[str, Procedure] = {}
        self.strange = rng.random() < 0.3
        #: numbers near the end of the format, which are added and not multiplied
        self.large = rng.random() < 0.25
        self.names = 0

    def made(self, seed: int) -> Sums:
        rng, w = self.rng, self.w
        for i in range(rng.randint(0, 2)):
            self.procedure(f"f{i}")
        loss = self.var("loss")
        self.loss = loss
        body = self.block([], rng.randint(1, 6), 3)
        entry = (Within((Local(loss), Op(TABLE["exch"], loss, ZERO, None, 0, None, self.regions["loss"])), body),)
        given = tuple(self.regions[name] for name in ("loss", "outs", "counts", "x"))
        module = Module(
            entry, self.procedures, tuple(self.regions.values()), self.words, 64, w, ("sums.py",), arguments=given
        )
        memory = [self.number(self.large) for _ in range(sum(r.size for r in given))]
        return Sums(seed, module, self.regions, memory)

    def number(self, large: bool) -> int:
        rng, one = self.rng, 1 << self.w.frac
        if large and rng.random() < 0.5:
            return rng.randint(-(1 << self.w.width - 2), 1 << self.w.width - 2) & self.w.mask
        return rng.choice((0, one, -one, one // 2, rng.randint(-4 * one, 4 * one))) & self.w.mask

    def var(self, name: str, kind: Kind = Kind.FIXED) -> Var:
        self.names += 1
        return Var(f"{name}{self.names}", kind)

    def procedure(self, name: str) -> None:
        """out gains terms of x: a parameter that is only added to."""
        self.loss = self.var("out")
        a, x = self.var("a"), Region("x", WORDS)
        own, self.regions["x"] = self.regions["x"], x
        base = self.var("base", Kind.ADDRESS)
        self.base: Operand = base
        body = self.block([a], self.rng.randint(1, 3), 1)
        self.regions["x"] = own
        self.procedures[name] = Procedure(name, (self.loss, a, base), (x,), body, frozenset({0}))

    def place(self, name: str, scope: list[Var]) -> tuple[Operand, int]:
        """The address of a word of a region."""
        region = self.regions[name]
        indices = [v for v in scope if v.kind is Kind.INT]
        start = 0 if region.address is None else region.address
        if region.address is None:
            return self.base, self.rng.randrange(region.size)
        if indices and region.size == WORDS and self.rng.random() < 0.5:
            return self.rng.choice(indices), start
        return ZERO, start + self.rng.randrange(region.size)

    def value(self, scope: list[Var]) -> Operand:
        found = [v for v in scope if v.kind is Kind.FIXED]
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found)
        return Const(self.number(False))

    def update(self, target: Var, scope: list[Var]) -> Op:
        """target ± f(values)"""
        rng = self.rng
        sign = rng.choice(("add", "sub"))
        if rng.random() < 0.1:
            return self.load(target, scope)
        name = rng.choice(
            ("fmov", "fmov", "fmul", "fmul", "fmul", "fdiv", "fsqrt", "fexp", "fsin", "fcos", "fabs", "mov", "ftoi")
        )
        if self.large and rng.random() < 0.9:
            name = rng.choice(("fmov", "fabs"))
        opcode = TABLE[f"{name}.{sign}"]
        return Op(opcode, target, self.value(scope), self.value(scope) if "rb" in opcode.fields else None)

    def load(self, target: Var, scope: list[Var]) -> Op:
        name = self.rng.choice(("x", "x", "own")) if self.regions["x"].address is not None else "x"
        a, imm = self.place(name, scope)
        opcode = TABLE[self.rng.choice(("ld", "ld", "fld", "fmulld")) + self.rng.choice((".add", ".sub"))]
        b = self.value(scope) if "rb" in opcode.fields else None
        return Op(opcode, target, a, b, imm, None, self.regions[name])

    def block(self, scope: list[Var], size: int, depth: int) -> Block:
        out: list[Node] = []
        whole = self.regions["x"].address is not None
        for _ in range(size):
            kinds = {self.gain: 8, self.check: 1}
            if depth:
                kinds |= {self.within: 6, self.branch: 2, self.loop: 2}
            if whole:
                kinds |= {self.gain_of_array: 4, self.count: 2}
                if self.procedures:
                    kinds[self.call] = 3
                if depth:
                    kinds |= {self.counted: 1, self.filled: 5}
                if self.strange:
                    kinds[self.other_use] = 1
            out += self.rng.choices(list(kinds), list(kinds.values()))[0](scope, depth)
        return tuple(out)

    # ---------------------------------------------------------------- statements

    def gain(self, scope: list[Var], depth: int) -> list[Node]:
        return [self.update(self.loss, scope)]

    def gain_of_array(self, scope: list[Var], depth: int) -> list[Node]:
        region = self.regions["outs"]
        a, imm = self.place("outs", scope)
        if self.rng.random() < 0.3:
            opcode = TABLE[self.rng.choice(("st", "fst", "fmulst")) + self.rng.choice((".add", ".sub"))]
            b = self.value(scope)
            d = self.value([v for v in scope if v is not b]) if "rd" in opcode.fields else None
            if d is None or isinstance(d, Var):
                return [Op(opcode, d, a, b, imm, None, region)]
        carrier = self.var("out")
        exchange = Op(TABLE["exch"], carrier, a, None, imm, None, region)
        updates = [self.update(carrier, scope) for _ in range(self.rng.randint(1, 2))]
        return [Within((Local(carrier), exchange), tuple(updates))]

    def count(self, scope: list[Var], depth: int) -> list[Node]:
        region = self.regions["counts"]
        a, imm = self.place("counts", scope)
        if self.rng.random() < 0.5:
            return [Op(TABLE["st.add"], None, a, Const(self.rng.getrandbits(self.w.width)), imm, None, region)]
        carrier = self.var("count", Kind.INT)
        exchange = Op(TABLE["exch"], carrier, a, None, imm, None, region)
        some = Op(
            TABLE[self.rng.choice(("mul.add", "div.add", "mov.sub"))], carrier, self.value(scope), self.value(scope)
        )
        if some.opcode.name == "mov.sub":
            some = some._replace(b=None)
        return [Within((Local(carrier), exchange), (some,))]

    def within(self, scope: list[Var], depth: int) -> list[Node]:
        compute: list[Node] = []
        inner = list(scope)
        for _ in range(self.rng.randint(1, 3)):
            t = self.var("t")
            compute += [Local(t), self.load(t, inner) if self.rng.random() < 0.6 else self.update(t, inner)]
            inner.append(t)
        return [Within(tuple(compute), self.block(inner, self.rng.randint(1, 3), depth - 1))]

    def filled(self, scope: list[Var], depth: int) -> list[Node]:
        """The module's own array is filled, used, and emptied."""
        compute: list[Node] = []
        filled: list[tuple[str, Operand, int]] = []
        for _ in range(self.rng.randint(1, 3)):
            name = self.rng.choice(("own", "own2"))
            a, imm = self.place(name, scope)
            carrier = self.var("own")
            exchange = Op(TABLE["exch"], carrier, a, None, imm, None, self.regions[name])
            compute.append(Within((Local(carrier), exchange), (self.update(carrier, scope),)))
            filled.append((name, a, imm))
        t = self.var("t")
        name, a, imm = self.rng.choice(filled)
        compute += [Local(t), Op(TABLE["ld.add"], t, a, None, imm, None, self.regions[name])]
        return [Within(tuple(compute), self.block([*scope, t], self.rng.randint(1, 2), depth - 1))]

    def branch(self, scope: list[Var], depth: int) -> list[Node]:
        test = Test(self.rng.choice(list(CONDITIONS)), self.value(scope), self.value(scope))
        then, orelse = (self.block(scope, self.rng.randint(0, 2), depth - 1) for _ in range(2))
        return [If(test, then, orelse, test)]

    def loop(self, scope: list[Var], depth: int) -> list[Node]:
        i = self.var("i", Kind.INT)
        body = self.block([*scope, i], self.rng.randint(1, 2), depth - 1)
        return [For(i, ZERO, Const(self.rng.randint(1, WORDS)), 1, body, self.rng.random() < 0.3, True)]

    def counted(self, scope: list[Var], depth: int) -> list[Node]:
        """A counter of passes, which must come to `end`; that is sometimes wrong."""
        k, n = self.var("k", Kind.INT), self.rng.randint(0, 3)
        body = self.block([*scope], 1, depth - 1)
        end = n if self.rng.random() < 0.9 else n + self.rng.choice((-1, 1))
        loop = While(Test("ne", k, Const(n)), (*body, Op(TABLE["mov.add"], k, Const(1))), Test("ne", k, ZERO))
        return [Local(k, True), loop, Op(TABLE["mov.sub"], k, Const(end & self.w.mask)), Delocal(k, True)]

    def check(self, scope: list[Var], depth: int) -> list[Node]:
        cc = self.rng.choice(("lt", "ge", "ne"))
        return [Check(Test(cc, self.value(scope), self.value(scope)), "RG0805", "a promise")]

    def call(self, scope: list[Var], depth: int) -> list[Node]:
        name = self.rng.choice(list(self.procedures))
        array = self.regions[self.rng.choice(("x", "own"))]
        base = Const(array.address or 0)
        target: Operand = self.loss
        around: tuple[Node, ...] = ()
        if self.rng.random() < 0.4:
            t = self.var("t")
            target, around = t, (Local(t),)
        backward = self.rng.random() < 0.3
        call = Call(name, (target, self.value(scope), base), (array,), backward)
        if not around:
            return [call]
        assert isinstance(target, Var)
        return [Within((*around, call), (self.update(self.loss, [*scope, target]),))]

    def other_use(self, scope: list[Var], depth: int) -> list[Node]:
        """An output is read, or changed by something else than a sum."""
        t = self.var("t")
        a, imm = self.place("outs", scope)
        kind = self.rng.randrange(5)
        if kind == 0:
            load = Op(TABLE["ld.add"], t, a, None, imm, None, self.regions["outs"])
            return [Within((Local(t), load), (self.update(self.loss, [*scope, t]),))]
        if kind == 1:
            return [
                Within((Local(t), Op(TABLE["fmov.add"], t, self.loss)), tuple(self.gain_of_array([*scope, t], depth)))
            ]
        if kind == 2:
            return [Op(TABLE["neg"], self.loss)]
        if kind == 3:
            # The output must have been zero.
            exchange = Op(TABLE["exch"], t, a, None, imm, None, self.regions["outs"])
            return [Local(t, True), self.update(t, scope), exchange, Delocal(t, True)]
        return [Op(TABLE["st.xor"], None, a, Const(5), imm, None, self.regions["outs"])]
