"""Random programs of sums near the ends of the range, in a narrow format, where many partial sums overflow: `near_the_edges(seed)`."""

from __future__ import annotations

import random
from collections.abc import Sequence

from retrograd.isa.words import Format

from .checks import Case, Words
from .values import Scalar

_FIXED, _INT = Scalar("fixed"), Scalar("int")
#: the parameters that the program changes, and those that it only reads
_CHANGED, _READ = ("y", "z"), ("a", "b", "c")
NARROW = Format(16, 8)


def near_the_edges(seed: int) -> Case:
    """A program main(y, z, a, b, c, n) of updates, routines, branches and loops."""
    body = _Writer(seed).block((*_READ, *_CHANGED), 3)
    parameters = (*((name, _FIXED) for name in (*_CHANGED, *_READ)), ("n", _INT))
    head = ", ".join(f"{name}: {t}" for name, t in parameters)
    lines = [
        "import retrograd as rg",
        "from retrograd import fixed, reversible",
        "",
        "@reversible",
        f"def main({head}):",
    ]
    return Case("\n".join([*lines, *(f"    {line}" for line in body)]) + "\n", parameters, NARROW, seed=seed)


def words_near_the_edges(rng: random.Random) -> list[Words]:
    """Words of all sizes, half of them within 2⁸ of an end of the range; 0 … 3 for n."""
    w = NARROW

    def word() -> int:
        small = rng.getrandbits(12)
        ends = (w.sign - 1 - rng.getrandbits(8), w.sign + rng.getrandbits(8))
        return rng.choice((rng.getrandbits(16), small, -small & w.mask, *ends))

    words = [[word()] for _ in range(5)]
    if rng.random() < 0.4:
        words[-1] = [0]
    return [*words, [rng.randrange(4)]]


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names = 0

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def term(self, names: Sequence[str]) -> str:
        pick = self.rng.choice
        x, y = pick(names), pick(names)
        return pick(
            (x, x, x, x, x, f"{x} * {pick(('0.5', '2', y))}", f"{x} / {pick(('2', '4', y))}", f"rg.sqrt({x})", f"abs({x})",
             pick(("1.5", "-2.0", "100.0")))
        )  # fmt: skip

    def sum(self, names: Sequence[str]) -> str:
        out = self.term(names)
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            t = self.term(names)
            inner = f"({t} {self.rng.choice('+-')} {self.term(names)})" if self.chance(0.3) else t
            out += f" {self.rng.choice('+-')} {inner}"
        return out

    def update(self, y: str, names: Sequence[str]) -> str:
        return f"{y} {self.rng.choice('+-')}= {self.sum([v for v in names if v != y])}"

    def condition(self, names: Sequence[str]) -> str:
        return f"{self.rng.choice(names)} {self.rng.choice(('<', '>', '=='))} {self.rng.choice((*names, '0'))}"

    def block(self, names: Sequence[str], depth: int) -> list[str]:
        out: list[str] = []
        still = [v for v in names if v not in _CHANGED]
        for _ in range(self.rng.randint(1, 3)):
            match self.rng.randrange(12):
                case 4:
                    # What the second update undoes lies behind others of the same variable.
                    y = self.rng.choice(_CHANGED)
                    e = self.sum([v for v in names if v != y])
                    out += [
                        f"{y} += {e}",
                        *(self.update(y, still) for _ in range(self.rng.randint(0, 2))),
                        f"{y} -= {e}",
                    ]
                case 5 | 6 | 7 | 8 if depth:
                    out += self.routine(names, still, depth)
                case 9 if depth:
                    out += [f"if {self.condition(still)}:", *_indented(self.block(names, depth - 1))]
                    if self.chance(0.5):
                        out += ["else:", *_indented(self.block(names, depth - 1))]
                case 10 if depth:
                    through = self.rng.choice(("2", "n % 3", "n % 2"))
                    out += [f"for {self.name('i')} in range({through}):", *_indented(self.block(names, depth - 1))]
                case 11:
                    out.append(self.rng.choice(("y, z = z, y", "z, y = y, z")))
                case _:
                    out.append(self.update(self.rng.choice(_CHANGED), names))
        return out

    def routine(self, names: Sequence[str], still: Sequence[str], depth: int) -> list[str]:
        r, inside, known = self.name("r"), [], list(still)
        for _ in range(self.rng.randint(1, 3)):
            t = self.name("t")
            inside.append(f"{t} = {self.sum(known)}")
            inside += self.changes(t, known, self.rng.choice((0, 0, 1, 2)))
            if self.chance(0.35):
                q, u = self.name("r"), self.name("t")
                inside += [f"with rg.routine() as {q}:", f"    {u} = {self.sum(known)}"]
                inside += _indented(self.changes(u, known, self.rng.choice((0, 1))))
                inside += [*self.changes(t, [u, *known], 1), f"~{q}"]
            if self.chance(0.3):
                # A condition that the body may change: then the branch must have changed nothing, as where c is zero.
                condition = self.rng.choice((self.condition(_CHANGED), "n > 1"))
                inside += [
                    f"if {condition}:",
                    f"    {t} += {self.rng.choice(('rg.sqrt({0})', 'abs({0})', '({0} - b)')).format(self.rng.choice(_READ))} * c",
                ]
            known.append(t)
        made = [v for v in known if v not in still]
        return [f"with rg.routine() as {r}:", *_indented(inside), *self.block([*names, *made], depth - 1), f"~{r}"]

    def changes(self, t: str, names: Sequence[str], count: int) -> list[str]:
        """Updates of a variable, some of them in a branch."""
        out: list[str] = []
        for _ in range(count):
            line = self.update(t, names)
            out += [f"if {self.condition(names)}:", f"    {line}"] if self.chance(0.3) else [line]
        return out


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
