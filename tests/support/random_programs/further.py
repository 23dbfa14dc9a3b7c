"""Random views of variables, and functions of any number of arguments with calls of them."""

from __future__ import annotations

from .locals import Locals
from .scope import Var
from .statements import INT, Lines, indent
from .values import Many, Scalar

#: kind → views whose inverse is exact for all words
_VIEWS = {"int": ("-{}", "~{}"), "fixed": ("-{}",), "bool": ("not {}",), "lognum": ("-{}", "3 * {}", "{} / 2")}
#: views that are tested
_TESTED = {"int": ("{} * 4", "{} // 2"), "fixed": ("2 * {}", "{} / 4")}


class Further(Locals):
    """Writes views, and calls with `*xs`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: functions of any number of arguments: (name, their kind, whether they change these)
        self.gatherers: list[tuple[str, str, bool]] = []
        self.deepest[self.seen_through] = 3
        self.statements[self.seen_through] = 2

    # ------------------------------------------------------------------ views

    def seen_through(self) -> Lines | None:
        """`with rg.view(-x) as m: …`, in which x has no name but m."""
        if self.chance(0.25):
            return self._array_seen_through()
        place = self.place(set(_VIEWS))
        if place is None:
            return None
        text, kind, var, address = place
        tested = self.chance(0.06)
        shape = self.pick(_TESTED.get(kind, _VIEWS[kind]) if tested else _VIEWS[kind])
        seen, name = shape.format(text), self.name("m")
        if not tested and kind in ("int", "fixed") and self.chance(0.2):
            seen = f"-({seen})"
        self.writes(var)
        with self.block({*address, *var.uses}) as scope:
            for other in [n for n, v in scope.vars.items() if v.base == var.base]:
                del scope.vars[other]
            self.declare(Var(name, Scalar(kind)))
            body = self.nested((), 2, closed=True)
            if self.chance(0.7) and not tested:
                body = [*self.without_pass(body), *indent(self._changed(name, kind))]
        return [f"with rg.view({seen}) as {name}:", *body]

    def _array_seen_through(self) -> Lines | None:
        """`with rg.view(-a[::-1]) as m: …`"""
        found = [v for v in self.changeable({"int", "fixed"})
                 if isinstance(v.type, Many) and v.type.element in (INT, Scalar("fixed"))]  # fmt: skip
        if not found:
            return None
        var, name = self.pick(found), self.name("m")
        assert isinstance(var.type, Many)
        with self.avoiding({var.base}):
            part = self.slice_of(var, var.type.shape)
        sign = "~" if var.type.element == INT and self.chance(0.3) else "-"
        self.writes(var)
        with self.block(var.uses) as scope:
            for other in [n for n, v in scope.vars.items() if v.base == var.base]:
                del scope.vars[other]
            self.declare(Var(name, var.type))
            return [f"with rg.view({sign}{part or var.name}) as {name}:", *self.nested((), 2, closed=True)]

    def _changed(self, name: str, kind: str) -> Lines:
        sign = {"int": "+", "fixed": "-", "bool": "^", "lognum": "*"}[kind]
        with self.avoiding({name}):
            return [f"{name} {sign}= {self.expression(kind, 1)}"]

    def negative_argument(self) -> Lines | None:
        """`g(-x, …)`, where g adds to its first argument."""
        adders = [(name, kind) for name, kind, changes in self.gatherers if not changes]
        name, kind = self.pick(adders) if adders else ("", "int")
        place = self.place({kind})
        if not adders or place is None:
            return None
        text, _, var, address = place
        with self.avoiding({var.base, *address}):
            view = self.pick(_VIEWS[kind]).format(text)
            args = [view, *(self.expression(kind, 1) for _ in range(self.rng.randint(0, 2)))]
        self.cost += 4 * self.times
        return [f"{'~' if self.chance(0.3) else ''}{name}({', '.join(args)})"]

    # ------------------------------------------------------------------ any number of arguments

    def gathering(self) -> Lines:
        """A function of any number of numbers that adds them up, or changes them."""
        name, kind, changes = self.name("p"), self.pick(("int", "int", "fixed")), self.chance(0.4)
        self.statements |= {self.gathered: 6, self.negative_argument: 1.5}
        self.gatherers.append((name, kind, changes))
        if changes:
            changing = {
                "int": ("x += y", "x ^= y * 2 + 1", "x -= y * y"),
                "fixed": ("x += y", "x -= y * 0.5", "rg.neg(x)"),
            }
            body = [
                f"for x in {self.pick(('xs', 'xs[1:]', 'reversed(xs)'))}:",
                f"    {self.pick(changing[kind])}",
            ]
        elif self.chance(0.3):
            # One argument after the other, by a call with the others.
            body = ["if len(xs) > 0:", "    y += xs[0] * 3", f"    {self.pick(('', '~'))}{name}(y, *xs[1:])"]
        else:
            terms = {
                "int": ("x * (i + 1)", "x - i", "(x & 3) * len(xs)"),
                "fixed": ("x * (i + 1)", "x - i", "rg.sin(x)"),
            }
            body = [f"for i, x in enumerate({self.pick(('xs', 'xs[::-1]'))}):", f"    y += {self.pick(terms[kind])}"]
            body += ["if len(xs) > 1:", "    y -= xs[0] * xs[-1]"] if self.chance(0.5) else []
        return ["@reversible", f"def {name}(y: {kind}, *xs: {kind}):", *indent(body)]

    def gathered(self) -> Lines | None:
        """A call with any number of arguments, the elements of arrays among them."""
        if not self.gatherers:
            return None
        name, kind, changes = self.pick(self.gatherers)
        args: list[str] = []
        if changes:
            bases: set[str] = set()
            uses: set[str] = set()
            for _ in range(self.rng.randint(1, 4)):
                with self.avoiding(bases | uses):
                    place = self.place({kind})
                if place is None or bases & place[3]:
                    continue
                args.append(place[0])
                bases.add(place[2].base)
                uses |= place[3]
            with self.avoiding(bases):
                first = self.expression(kind, 1)
        else:
            place = self.place({kind})
            if place is None:
                return None
            first = place[0]
            with self.avoiding({place[2].base, *place[3]}):
                args += [self.expression(kind, 1) for _ in range(self.rng.randint(0, 3))]
                rows = [
                    v
                    for v in self.readable(kind)
                    if isinstance(v.type, Many) and v.type.element == Scalar(kind) and len(v.type.shape) == 1
                ]
                if rows:
                    row = self.pick(rows)
                    self.reads(row)
                    args.insert(self.rng.randint(0, len(args)), f"*{row.name}")
        self.cost += 6 * self.times
        return [f"{'~' if self.chance(0.3) else ''}{name}({', '.join([first, *args])})"]

    # ------------------------------------------------------------------ arrays of any length

    def of_any_length(self) -> Lines:
        """A function of an array whose length the call decides, also when the program runs."""
        name, kind, changes = self.name("g"), self.pick(("int", "fixed")), self.chance(0.6)
        self.of_run_lengths.append((name, kind, changes))
        self.statements[self.array_of_the_run] = 3
        if changes:
            body = self.pick((
                ["for i in range(len(a)):", "    a[i] += x"],
                ["for i in range(1, len(a)):", "    a[i] += a[i - 1]", "for i in range(len(a)):", "    a[i] -= x * 2"],
                ["if len(a) > 1:", "    a[0], a[1] = a[1], a[0]", f"    {name}(a[1:], x)", "for i in reversed(range(len(a))):", "    a[i] += x"],
                ["a += x", "rg.neg(a)"],
            ))  # fmt: skip
            return ["@reversible", f'def {name}(a: Array[{kind}, "n"], x: {kind}):', *indent(body)]
        body = self.pick((
            ["y += rg.sum(a) * len(b)"],
            ["for v in a:", "    y -= v", "for i, v in enumerate(b):", "    y += v * i"],
            ["if len(a) > 0:", "    y += a[0] * 2", f"    {name}(y, a[1:], b)", "y += rg.sum(b)"],
        ))  # fmt: skip
        return ["@reversible", f'def {name}(y: {kind}, a: Array[{kind}, "n"], b: Array[{kind}, "m"]):', *indent(body)]
