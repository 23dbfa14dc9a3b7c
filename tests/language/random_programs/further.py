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
        #: functions of any number of ints: (name, whether they change these)
        self.gatherers: list[tuple[str, bool]] = []
        self.deepest[self.view] = 3
        self.statements[self.view] = 2

    # ------------------------------------------------------------------ views

    def view(self) -> Lines | None:
        """`with rg.view(-x) as m: …`, in which x has no name but m."""
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

    def _changed(self, name: str, kind: str) -> Lines:
        sign = {"int": "+", "fixed": "-", "bool": "^", "lognum": "*"}[kind]
        with self.avoiding({name}):
            return [f"{name} {sign}= {self.expression(kind, 1)}"]

    def negative_argument(self) -> Lines | None:
        """`g(-x, …)`, where g adds to its first argument."""
        adders = [name for name, changes in self.gatherers if not changes]
        place = self.place({"int"})
        if not adders or place is None:
            return None
        text, _, var, address = place
        with self.avoiding({var.base, *address}):
            args = [self.pick(("-{}", "~{}")).format(text), *(self.integer(1) for _ in range(self.rng.randint(0, 2)))]
        self.cost += 4 * self.times
        return [f"{'~' if self.chance(0.3) else ''}{self.pick(adders)}({', '.join(args)})"]

    # ------------------------------------------------------------------ any number of arguments

    def gathering(self) -> Lines:
        """A function of any number of ints that adds them up, or changes them."""
        name, changes = self.name("p"), self.chance(0.4)
        self.statements |= {self.gathered: 6, self.negative_argument: 1.5}
        self.gatherers.append((name, changes))
        if changes:
            change = self.pick(("x += y", "x ^= y * 2 + 1", "x -= y * y"))
            body = [f"for x in {self.pick(('xs', 'xs[1:]', 'reversed(xs)'))}:", f"    {change}"]
        else:
            term = self.pick(("x * (i + 1)", "x - i", "(x & 3) * len(xs)"))
            body = [f"for i, x in enumerate({self.pick(('xs', 'xs[::-1]'))}):", f"    y += {term}"]
            body += ["if len(xs) > 1:", "    y -= xs[0] * xs[-1]"] if self.chance(0.5) else []
        return ["@reversible", f"def {name}(y: int, *xs: int):", *indent(body)]

    def gathered(self) -> Lines | None:
        """A call with any number of arguments, the elements of arrays among them."""
        if not self.gatherers:
            return None
        name, changes = self.pick(self.gatherers)
        args: list[str] = []
        if changes:
            bases: set[str] = set()
            uses: set[str] = set()
            for _ in range(self.rng.randint(1, 4)):
                with self.avoiding(bases | uses):
                    place = self.place({"int"})
                if place is None or bases & place[3]:
                    continue
                args.append(place[0])
                bases.add(place[2].base)
                uses |= place[3]
            with self.avoiding(bases):
                first = self.integer(1)
        else:
            place = self.place({"int"})
            if place is None:
                return None
            first = place[0]
            with self.avoiding({place[2].base, *place[3]}):
                args += [self.integer(1) for _ in range(self.rng.randint(0, 3))]
                rows = [
                    v
                    for v in self.readable("int")
                    if isinstance(v.type, Many) and v.type.element == INT and len(v.type.shape) == 1
                ]
                if rows:
                    row = self.pick(rows)
                    self.reads(row)
                    args.insert(self.rng.randint(0, len(args)), f"*{row.name}")
        self.cost += 6 * self.times
        return [f"{'~' if self.chance(0.3) else ''}{name}({', '.join([first, *args])})"]
