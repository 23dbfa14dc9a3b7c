"""Random statements: well formed by construction, whatever their operands hold, or nearly so."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .expressions import Expressions
from .scope import LONGEST, Var, kinds
from .values import Many, Record, Scalar

Lines = list[str]
ALL = {"int", "fixed", "bool", "lognum"}
_SIGNS = {"int": "+-^", "fixed": "+-", "bool": "^", "lognum": "*/", "complex": "+-"}
_UNDO = {"+": "-", "-": "+", "^": "^", "*": "/", "/": "*"}
INT = Scalar("int")


def indent(lines: Iterable[str]) -> Lines:
    return [f"    {line}" for line in lines]


class Statements(Expressions):
    """Writes blocks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: how often what is written now is executed, and what that adds up to
        self.times = 1
        self.cost = 0
        #: statements that may still be written
        self.size = 0
        self.depth = 0
        #: those without statements inside
        self.simple = {self.update, self.update_array, self.update_struct, self.exchange, self.bijection}
        #: how deep within others those with statements inside may stand
        self.deepest = {
            self.branch: 3,
            self.paired_branch: 3,
            self.loop: 2,
            self.loop_over_arrays: 2,
            self.while_loop: 2,
            self.repeat_loop: 0.8,
        }
        #: kind of statement -> weight
        self.statements: dict[Callable[[], Lines | None], float] = {
            self.update: 9, self.update_array: 3, self.update_struct: 2, self.exchange: 2, self.bijection: 2.5,
            self.branch: 3, self.paired_branch: 3, self.loop: 3.5, self.loop_over_arrays: 1.5,
            self.while_loop: 1.5, self.repeat_loop: 0.8, self.assertion: 0.6,
        }  # fmt: skip

    # ------------------------------------------------------------------ blocks

    def body(self, count: int) -> Lines:
        """Statements, in the scope as it is."""
        out: Lines = []
        for _ in range(count):
            out += self.any_statement()
        return out or ["pass"]

    def any_statement(self) -> Lines:
        for _ in range(6):
            if self.cost > LONGEST or self.size <= 0:
                break
            write = self.weighted(self.statements)
            if self.size == 1 and write not in self.simple:
                continue
            if self.depth >= self.deepest.get(write, 9):
                continue
            self.size -= 1
            found = write()
            if found is not None:
                self.cost += self.times
                return found
        return []

    def nested(self, fixed: Iterable[str] = (), most: int = 3, times: int = 1, closed: bool = False) -> Lines:
        """An indented block in which `fixed` does not change; closed: what it made is freed before its end."""
        self.depth += 1
        self.times *= times
        with self.block(set(fixed)):
            out = indent(self.body(self.rng.randint(1, most)))
            if closed:
                out += [f"    del {name}" for name in reversed(self.scope.made)]
        self.times //= times
        self.depth -= 1
        return out

    def stirring(self, block: Lines) -> Lines:
        """A loop's body, made to depend on the order of the passes: what it adds to is turned about, or exchanged."""
        if self.chance(0.5):
            return block
        self.times *= 3
        stirred = self.pick((self.exchange, self.bijection, self.bijection))()
        self.times //= 3
        return block if stirred is None else [*self.without_pass(block), *indent(stirred)]

    def without_pass(self, block: Lines) -> Lines:
        return [] if [line.strip() for line in block] == ["pass"] else block

    # ------------------------------------------------------------------ updates

    def update(self, accept: set[str] = ALL) -> Lines | None:
        found = self.reversible_update(accept)
        return None if found is None else [found[0]]

    def reversible_update(self, accept: set[str] = ALL) -> tuple[str, str] | None:
        """`x += e` and what undoes it."""
        place = self.place(accept)
        if place is None:
            return None
        text, kind, var, _ = place
        sign = self.pick(_SIGNS[kind])
        self.target_is_memory = "[" in text
        with self.avoiding({var.base}):
            e = self.expression(kind, self.pick((0, 1, 1, 2, 2, 3)))
            if kind == "bool" and self.chance(0.2):
                e = f"bool({self.integer(1)})"
        self.target_is_memory = False
        other = self.other_element(var, text) if kind in ("int", "fixed") and self.chance(0.25) else None
        e = f"{e} + {other}" if other is not None else e
        return f"{text} {sign}= {e}", f"{text} {_UNDO[sign]}= {e}"

    def other_element(self, var: Var, text: str) -> str | None:
        """Another element of the array that is updated, where that is certain."""
        inside = text.removeprefix(f"{var.name}[").removesuffix("]")
        if not isinstance(var.type, Many) or len(var.type.shape) != 1 or var.type.element not in (INT, Scalar("fixed")):
            return None
        n = var.type.shape[0]
        if n < 2 or not (inside.isdigit() or inside.isidentifier()):
            return None
        if inside.isdigit():
            return f"{var.name}[{self.pick([i for i in range(n) if i != int(inside)])}]"
        return f"{var.name}[({inside} + {self.rng.randint(1, n - 1)}) % {n}]"

    def update_array(self) -> Lines | None:
        """`a += e`, element by element, of the whole or of a part."""
        found = [v for v in self.changeable() if isinstance(v.type, Many) and isinstance(v.type.element, Scalar)]
        if not found:
            return None
        # Matrices first: it is there that broadcasting has something to do.
        matrices = [v for v in found if isinstance(v.type, Many) and len(v.type.shape) == 2]
        var = self.pick(matrices if matrices and self.chance(0.6) else found)
        assert isinstance(var.type, Many)
        (kind,) = kinds(var.type)
        target, shape = var.name, var.type.shape
        self.writes(var)
        with self.avoiding({var.base}):
            if self.chance(0.4):
                shape = tuple(self.rng.randint(1, n) for n in shape)
                target = self.slice_of(var, shape) or var.name
                shape = var.type.shape if target == var.name else shape
            elif len(shape) == 2 and self.chance(0.3):
                target, shape = f"{target}.T", shape[::-1]
            wanted = self.pick((shape, shape[1:] or shape, (1, *shape[1:])))
            e = self.array_of(kind, wanted, self.pick((0, 1, 1))) if kind in ("int", "fixed") and wanted else None
            if e is None or self.chance(0.15):
                e = self.expression(kind, 1)
        return [f"{target} {self.pick(_SIGNS[kind])}= {e}"]

    def update_struct(self) -> Lines | None:
        """`p += q`, field by field."""
        found = [v for v in self.changeable() if isinstance(v.type, Record) and kinds(v.type) <= {"int", "fixed"}]
        found = [v for v in found if not self._has_other_names(v)]
        others = [v for v in self.scope.vars.values() if isinstance(v.type, Record)]
        pairs = [(v, u) for v in found for u in others if v.base != u.base and v.type == u.type]
        if not pairs:
            return None
        var, other = self.pick(pairs)
        self.writes(var)
        self.reads(other)
        return [f"{var.name} {self.pick('+-')}= {other.name}"]

    # ------------------------------------------------------------------ bijections

    def bijection(self) -> Lines | None:
        found = self.reversible_bijection()
        return None if found is None else [found[0]]

    def reversible_bijection(self) -> tuple[str, str] | None:
        """A statement of the `rg.` kind and what undoes it."""
        name = self.pick(("neg", "neg", "flip", "rot", "rol", "cswap"))
        accept = {
            "neg": {"int", "fixed", "lognum"},
            "flip": {"bool", "int"},
            "rot": {"fixed"},
            "rol": {"int"},
            "cswap": ALL,
        }
        place = self.place(accept[name])
        if place is None:
            return None
        x, kind, var, uses = place
        inverse = {"rot": "irot", "rol": "ror"}.get(name, name)
        if self.chance(0.5):
            name, inverse = inverse, name
        prefix = "~" if self.chance(0.15) else ""
        if name in ("neg", "flip"):
            args = x
        elif name in ("rol", "ror"):
            with self.avoiding({var.base}):
                args = f"{x}, {self.integer(1)}"
        else:
            y = self.second(kind, var, uses)
            if y is None:
                return None
            with self.avoiding({var.base, y[1].base}):
                args = (
                    f"{x}, {y[0]}, {self.fixed(1)}"
                    if kind == "fixed" and "rot" in name
                    else f"{self.truth(1)}, {x}, {y[0]}"
                )
        return f"{prefix}rg.{name}({args})", f"{prefix}rg.{inverse}({args})"

    def second(self, kind: str, *others: Var | set[str]) -> tuple[str, Var, set[str]] | None:
        """A place of the kind in a variable that is not given, nor in a given set; its address reads none of them."""
        bases = {v.base for v in others if isinstance(v, Var)}
        uses = {name for names in others if isinstance(names, set) for name in names}
        with self.avoiding(bases | uses):
            place = self.place({kind})
        if place is None or bases & place[3]:
            return None
        return place[0], place[2], place[3]

    def exchange(self) -> Lines | None:
        if self.chance(0.25):
            return self._exchange_whole()
        first = self.place(ALL)
        if first is None:
            return None
        x, kind, var, uses = first
        n = (
            var.type.shape[0]
            if isinstance(var.type, Many) and var.type.element == Scalar(kind) and len(var.type.shape) == 1
            else 0
        )
        if n and self.chance(0.5):
            # Two elements of one array, which may be the same one.
            with self.avoiding({var.base}):
                i, j = self.index(n), self.index(n)
            if i != j:
                x, y = f"{var.name}[{i}]", f"{var.name}[{j}]"
                return [f"{x}, {y} = {y}, {x}" if self.chance(0.6) else f"rg.swap({x}, {y})"]
        other = self.second(kind, var, uses)
        if other is None:
            return None
        y = other[0]
        if self.chance(0.3):
            third = self.second(kind, var, uses, other[1], other[2])
            if third is not None:
                z = third[0]
                return [f"{x}, {y}, {z} = {y}, {z}, {x}"]
        return [f"{x}, {y} = {y}, {x}" if self.chance(0.7) else f"rg.swap({x}, {y})"]

    def _has_other_names(self, *given: Var) -> bool:
        """Whether words of a variable have another name, beside which its own cannot be bound anew."""
        bases, names = {v.base for v in given}, {v.name for v in given}
        return any(v.base in bases and v.name not in names for v in self.scope.vars.values())

    def _exchange_whole(self) -> Lines | None:
        """Arrays or structs of one type."""
        found = [v for v in self.changeable() if isinstance(v.type, Many | Record) and not isinstance(v.type, Scalar)]
        pairs = [(v, u) for v in found for u in found if v.base < u.base and v.type == u.type]
        if not pairs:
            return None
        x, y = self.pick(pairs)
        self.writes(x)
        self.writes(y)
        swap = self.chance(0.5) or self._has_other_names(x, y)
        return [f"rg.swap({x.name}, {y.name})" if swap else f"{x.name}, {y.name} = {y.name}, {x.name}"]

    # ------------------------------------------------------------------ branches

    def branch(self) -> Lines | None:
        """`if c: … elif d: … else: …`, the bodies leaving the conditions as they are."""
        with self.recording() as record:
            condition = self.truth(self.pick((0, 1, 2)))
        fixed = set(record.reads)
        out = [f"if {condition}:", *self.nested(fixed)]
        if self.chance(0.3):
            with self.recording() as record:
                condition = self.truth(1)
            fixed |= record.reads
            out += [f"elif {condition}:", *self.nested(fixed, 2)]
        if self.chance(0.5):
            out += ["else:", *self.nested(fixed, 2)]
        return out

    def paired_branch(self) -> Lines | None:
        """`if (before, after): …`, both branches changing what the condition reads in a way that is known."""
        place = self.place({"int", "fixed", "bool"})
        if place is None:
            return None
        x, kind, var, address = place
        if kind == "bool":
            change, before, after = self.pick((f"{x} ^= True", f"rg.flip({x})")), x, f"not {x}"
            fixed = {var.base, *address}
        else:
            with self.recording() as record, self.avoiding({var.base}):
                step, bound = self._wrapped(self.expression(kind, 1)), self._wrapped(self.expression(kind, 0))
            sign, relation = self.pick("+-"), self.pick(("<", ">=", "==", "!="))
            change, before = f"{x} {sign}= {step}", f"{x} {relation} {bound}"
            after = f"{x} {_UNDO[sign]} {step} {relation} {bound}"
            if kind == "int" and self.chance(0.3):
                change, before, after = f"rg.neg({x})", f"{x} > {bound}", f"-{x} > {bound}"
            fixed = {var.base, *address, *record.reads}
        out: Lines = []
        for head in (f"if ({before}, {after}):", "else:"):
            body = self.without_pass(self.nested(fixed, 2, closed=True))
            at = self.pick((0, len(body)))
            out += [head, *body[:at], f"    {change}", *body[at:]]
        return out

    # ------------------------------------------------------------------ loops

    def loop(self) -> Lines | None:
        """`for i in range(…)`, with bounds of all kinds."""
        name = self.name("i")
        with self.recording() as record:
            bounds, known, times = self._range()
        with self.block():
            self.declare(Var(name, INT, writable=False, range=known))
            with self.block(record.reads):
                body = self.stirring(self.nested((), 3, times, closed=True))
            through = f"reversed(range({bounds}))" if self.chance(0.25) else f"range({bounds})"
            return [f"for {name} in {through}:", *body]

    def _range(self) -> tuple[str, tuple[int, int] | None, int]:
        """(arguments, least and greatest index where known, about how many passes)."""
        a, n = self.rng.randint(-3, 3), self.rng.randint(0, 4)
        known: range | None = None
        arrays = [v for v in self.scope.vars.values() if isinstance(v.type, Many)]
        if arrays and self.chance(0.15):
            var = self.pick(arrays)
            assert isinstance(var.type, Many)
            length = var.type.shape[0]
            text = self.pick((f"len({var.name})", f"{var.name}.shape[0]"))
            if self.chance(0.3):
                return f"{text} - 1, -1, -1", (0, length - 1), length
            return text, (0, length - 1), length
        outer = [v for v in self.readable("int") if v.range is not None and v.type == INT and v.range[1] < 5]
        if outer and self.chance(0.4):
            # Bounds that are the index of a loop around this one.
            v = self.pick(outer)
            assert v.range is not None
            self.reads(v)
            low, high = v.range
            if self.chance(0.6):
                step = self.pick((-1, -1, -2))
                return f"{v.name}, {low - 1}, {step}", (low, high), high - low + 1
            return f"{v.name} + 1, {high + 2}", (low + 1, high + 1), high - low + 1
        match self.rng.randrange(9):
            case 0 | 1:
                n = max(n, self.rng.randint(0, 3))
                return f"{n}", (0, n - 1) if n else None, max(1, n)
            case 2:
                known = range(a, a + n)
            case 3:
                known = range(a + n, a, -1)
            case 4:
                known = range(a, a + n + 1, self.pick((2, 3)))
            case 5:
                known = range(a + n + 1, a, self.pick((-2, -3)))
            case 6:
                return self.small_int(0, 3), (0, 2), 3
            case 7:
                step = self.pick((1, 2, 3))
                return (
                    f"{self.small_int(-1, 2)}, {self.small_int(-1, 4)}" + (f", {step}" if step > 1 else ""),
                    (-1, 3),
                    4,
                )
            case _:
                step = self.pick((-1, -2))
                return f"{self.small_int(-1, 4)}, {self.small_int(-2, 1)}, {step}", (-1, 4), 4
        text = f"{known.start}, {known.stop}" + (f", {known.step}" if known.step != 1 else "")
        return text, (min(known), max(known)) if known else None, max(1, len(known))

    def loop_over_arrays(self) -> Lines | None:
        if self.chance(0.2):
            values = [self.rng.randint(-2, 5) for _ in range(self.rng.randint(1, 3))]
            name = self.name("c")
            with self.block():
                self.declare(Var(name, INT, writable=False))
                return [f"for {name} in ({', '.join(map(str, values))},):", *self.nested((), 2, len(values))]
        found = [v for v in self.scope.vars.values() if isinstance(v.type, Many)]
        if not found:
            return None
        first = self.pick(found)
        assert isinstance(first.type, Many)
        length = first.type.shape[0]
        same = [v for v in found if isinstance(v.type, Many) and v.type.shape[0] == length]
        with self.block():
            used: set[str] = set()
            target, through = self._items(first, same, length, used, 2)
            return [f"for {target} in {through}:", *self.stirring(self.nested((), 3, length, closed=True))]

    def _items(self, var: Var, same: list[Var], length: int, used: set[str], depth: int) -> tuple[str, str]:
        """(target, what is gone through): an array, or enumerate, zip and reversed of it and others of its length."""
        others = [v for v in same if v.base not in {*used, var.base}]
        ways = ("", "reversed", "enumerate", "enumerate", "range", *["zip"] * (4 if others else 0))
        how = self.pick(ways) if depth else ""
        match how:
            case "enumerate":
                first = self.rng.randint(-1, 2) if self.chance(0.3) else 0
                known = (first, first + length - 1)
                name = self.declare(Var(self.name("i"), INT, False, range=known)).name
                target, through = self._items(var, same, length, used, depth - 1)
                target = f"({target})" if "," in target else target
                return f"{name}, {target}", f"enumerate({through}{f', {first}' if first else ''})"
            case "zip":
                used.add(var.base)
                parts = [self._items(v, same, length, used, depth - 1) for v in (var, self.pick(others))]
                targets = [f"({target})" if "," in target else target for target, _ in parts]
                return ", ".join(targets), f"zip({', '.join(through for _, through in parts)})"
            case "range":
                first = self.rng.randint(-1, 2)
                name = self.declare(Var(self.name("i"), INT, False, range=(first, first + length - 1))).name
                counted = f"range({first}, {first + length})"
                if self.chance(0.4):
                    counted = f"reversed({counted})"
                target, through = self._items(var, same, length, used, 0)
                return f"{name}, {target}", f"zip({counted}, {through})"
        used.add(var.base)
        assert isinstance(var.type, Many)
        rest = var.type.shape[1:]
        inner = Many(var.type.element, rest) if rest else var.type.element
        is_number = isinstance(inner, Scalar)
        if is_number:
            # The name keeps the number, so that the array does not change meanwhile.
            self.scope.fixed.add(var.base)
        name = self.declare(Var(self.name("v"), inner, var.writable and not is_number, var.base, uses=var.uses)).name
        self.reads(var)
        return name, f"reversed({var.name})" if how == "reversed" else var.name

    def while_loop(self) -> Lines | None:
        """A counter that goes from one end to the other."""
        name = self.name("k")
        with self.recording() as record:
            end = self.small_int(0, 3) if self.chance(0.7) else str(self.rng.randint(0, 3))
        up = self.chance(0.6)
        with self.block(record.reads):
            self.declare(Var(name, INT, writable=False))
            body = self.without_pass(self.nested((), 3, 3, closed=True))
        change = f"    {name} {'+' if up else '-'}= 1"
        body = [change, *body] if self.chance(0.3) else [*body, change]
        if up:
            free = self.pick(([f"rg.free({name}, {end})"], [f"{name} -= {end}", f"del {name}"]))
            return [f"{name} = 0", f"while ({name} != {end}, {name} != 0):", *body, *free]
        return [
            f"{name} = int({end})",
            f"while ({name} > 0, {name} < {end}):",
            *body,
            f"{name} += {end}",
            f"del {name}",
        ]

    def repeat_loop(self) -> Lines | None:
        """A counter that goes up at least once."""
        name = self.name("k")
        with self.recording() as record:
            end = self.small_int(0, 3) if self.chance(0.7) else str(self.rng.randint(0, 3))
        with self.block(record.reads):
            self.declare(Var(name, INT, writable=False))
            body = self.without_pass(self.nested((), 3, 3, closed=True))
        change = f"    {name} += 1"
        body = [change, *body] if self.chance(0.3) else [*body, change]
        start = self.pick((f"{name} == 0", f"{name} * {name} < 1"))
        until = self.pick((f"{name} >= {end}", f"not {name} < {end}", f"{name} * 2 >= ({end}) * 2"))
        return [
            f"{name} = 0",
            f"for _ in rg.repeat({start}, until={until}):",
            *body,
            f"rg.free({name}, max({end}, 1))",
        ]

    # ------------------------------------------------------------------ what must hold

    def assertion(self) -> Lines | None:
        if self.chance(0.1):
            # One that may not hold, and then neither forward nor backward; the compiler finds what never does.
            x = self.dynamic("int")
            return None if x is None else [f"assert {x} < {self.rng.randint(6, 9)}"]
        x = self.integer(1)
        return [
            self.pick((f"assert ({x}) % 3 < 3", f"assert ({x}) % 2 == ({x}) & 1", f"assert abs({self.fixed(1)}) >= 0"))
        ]
