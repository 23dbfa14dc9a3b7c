"""Random complex numbers, structs of open shape, dictionaries, versions of elements, blocks without tests, and calls of the library."""

from __future__ import annotations

from .further import Further
from .locals import Parameter, Signature
from .scope import Var, kinds
from .statements import INT, Lines, indent
from .values import Many, Record, Scalar

FIXED, COMPLEX, BOOL = Scalar("fixed"), Scalar("complex"), Scalar("bool")
_VECTOR = Many(FIXED, (3,))
#: functions of the library: module, name, (name of the parameter, type, whether it is changed)
_LIBRARY = (
    ("linear_algebra", "dot", (("out", FIXED, True), ("x", _VECTOR, False), ("y", _VECTOR, False))),
    ("linear_algebra", "norm2", (("out", FIXED, True), ("x", _VECTOR, False))),
    ("linear_algebra", "norm", (("out", FIXED, True), ("x", _VECTOR, False))),
    ("linear_algebra", "axpy", (("y", _VECTOR, True), ("a", FIXED, False), ("x", _VECTOR, False))),
    ("linear_algebra", "cumulative_sum", (("x", _VECTOR, True),)),
    ("linear_algebra", "reverse", (("x", _VECTOR, True),)),
    ("arithmetic", "imul", (("y", FIXED, True), ("x", FIXED, False), ("ancilla", FIXED, True))),
    ("linear_algebra", "matvec", (("y", Many(FIXED, (2,)), True), ("a", Many(FIXED, (2, 3)), False), ("x", _VECTOR, False))),
    ("statistics", "mean", (("out", FIXED, True), ("x", _VECTOR, False))),
    ("statistics", "variance", (("out", FIXED, True), ("x", _VECTOR, False))),
)  # fmt: skip
#: functions of one number that `rg` has from the library: text -> what holds its argument where it has a value
_ELEMENTARY = {
    "rg.tanh": "{}", "rg.expm1": "rg.sin({})", "rg.sinh": "rg.sin({})", "rg.cosh": "rg.cos({})", "rg.cbrt": "{}",
    "rg.asin": "rg.sin({})", "rg.log1p": "abs({})", "rg.log2": "abs({}) + 0.5", "rg.exp2": "rg.sin({})",
}  # fmt: skip


class Constructs(Further):
    """Writes those of the language's constructs of which a program has a few, or none."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.has_complex = False
        #: `from retrograd.library… import …`, in the order in which they are first used
        self.imports: Lines = []
        self.deepest[self.without_tests] = 3
        self.statements |= {self.without_tests: 1.2, self.scheme: 1.6}

    def from_library(self, module: str, *names: str) -> None:
        line = f"from retrograd.library.{module} import {', '.join(names)}"
        if line not in self.imports:
            self.imports.append(line)

    # ------------------------------------------------------------------ expressions

    def expression(self, kind: str, depth: int = 2) -> str:
        return self.complex_number(depth) if kind == "complex" else super().expression(kind, depth)

    def fixed(self, depth: int = 2) -> str:
        if self.has_complex and depth > 0 and self.chance(0.15):
            z = self._wrapped(self.complex_number(depth - 1))
            return self.pick((f"abs({z})", f"{z}.real", f"{z}.imag"))
        if depth > 0 and self.chance(0.06):
            if self.chance(0.2):
                return f"rg.hypot({self.fixed(0)}, {self.fixed(0)})"
            name, inside = self.pick(list(_ELEMENTARY.items()))
            return f"{name}({inside.format(self._wrapped(self.fixed(depth - 1)))})"
        return super().fixed(depth)

    def truth(self, depth: int = 1) -> str:
        if self.has_complex and depth > 0 and self.chance(0.08):
            return f"{self._wrapped(self.complex_number(0))} {self.pick(('==', '!='))} {self._wrapped(self.complex_number(0))}"
        return super().truth(depth)

    def complex_number(self, depth: int = 1) -> str:
        called = self.call_value("complex") if depth > 0 and self.chance(0.15) else None
        if called is not None:
            return called

        def x() -> str:
            return self._wrapped(self.complex_number(depth - 1))

        def parts() -> str:
            return f"complex({self.fixed(depth - 1)}, {self.fixed(0)})"

        if depth <= 0 or self.chance(0.15):
            return self._leaf("complex", lambda: self.pick(("(1.5 - 0.5j)", "1j", "complex(0.25, -2)", parts())))
        match self.rng.randrange(17):
            case 0 | 1 | 2:
                return f"{x()} {self.pick('+-')} {self.pick((x(), self._wrapped(self.fixed(0)), '1j'))}"
            case 3 | 4:
                return f"{x()} * {self._wrapped(self.complex_number(0))}"
            case 5:
                return f"{x()} * {self.pick(('0.5', '2j', '(0.5 - 1j)', '-1'))}"
            case 6:
                return f"{x()} / {self.pick(('2', '(1.5 + 0.5j)', '-1j'))}"
            case 7:
                return f"{x()} / complex(abs({self.fixed(0)}) + 1, {self.fixed(0)})"
            case 8:
                return f"-{x()}"
            case 9 | 10:
                return f"{x()}.conjugate()"
            case 11:
                return f"rg.exp(complex(rg.sin({self.fixed(depth - 1)}), {self.fixed(0)}))"
            case 12 | 13:
                parts = self.fixed(depth - 1), self._varying(0)
                small = "complex(rg.sin({}), rg.cos({}))".format(*(parts if self.chance(0.7) else parts[::-1]))
                name = self.pick(("sin", "cos", "tan", "sinh", "cosh", "tanh"))
                power = f"complex(abs({self.fixed(0)}) + 0.5, 0.25) ** {self.pick(('0.75', '0.5j', small))}"
                return self.pick((f"rg.log({small})", f"rg.{name}({small})", power))
            case 15:
                return self.pick((f"rg.sqrt({x()})", f"{x()} ** 0.5"))
            case 14:
                return self._chosen("complex", x(), x())
        arrays = self.arrays(("complex",))
        if arrays and self.chance(0.6):
            return f"rg.sum({self._whole(self.pick(arrays))})"
        return f"{x()} ** {self.rng.randint(0, 3)}"

    # ------------------------------------------------------------------ complex numbers

    def update_complex(self) -> Lines | None:
        """`z += e` and its kin: a part, a rotation, an exchange, an array."""
        arrays = [v for v in self.changeable({"complex"}) if isinstance(v.type, Many) and v.type.element == COMPLEX]
        if arrays and self.chance(0.35):
            var = self.pick(arrays)
            assert isinstance(var.type, Many)
            self.writes(var)
            with self.avoiding({var.base}):
                other = self._array_leaf("complex", var.type.shape)
                e = self.complex_number(0)
            if other is not None:
                form = self.pick(("{x} * {e}", "{x}.conjugate()", "{x}[::-1] + {e}", "rg.exp({x} * 0.25)", "{e} - {x}"))
                e = form.format(x=other, e=self._wrapped(e))
            return [f"{var.name} {self.pick('+-')}= {e}"]
        place = self.place({"complex"})
        if place is None:
            return None
        z, _, var, uses = place
        with self.avoiding({var.base}):
            match self.rng.randrange(8):
                case 0:
                    return [f"{z}.{self.pick(('real', 'imag'))} {self.pick('+-')}= {self.fixed(1)}"]
                case 1:
                    return [f"rg.{self.pick(('rot', 'irot'))}({z}.real, {z}.imag, {self.fixed(1)})"]
                case 2:
                    return [f"{z}.real, {z}.imag = {z}.imag, {z}.real"]
                case 3:
                    return [f"rg.neg({z}.{self.pick(('real', 'imag'))})"]
        other = self.second("complex", var, uses) if self.chance(0.3) else None
        if other is not None:
            return [self.pick((f"{z}, {other[0]} = {other[0]}, {z}", f"rg.swap({z}, {other[0]})"))]
        with self.avoiding({var.base}):
            return [f"{z} {self.pick('+-')}= {self.complex_number(self.pick((0, 1, 1, 2)))}"]

    # ------------------------------------------------------------------ structs of open shape

    def fields(self, t: Record, write: bool) -> list[Var] | None:
        """Distinct arrays for the fields of a struct."""
        found: list[Var] = []
        for _, inner in t.fields:
            usable = self.changeable(kinds(inner)) if write else self.readable(next(iter(kinds(inner))))
            fits = [v for v in usable if v.type == inner and v.base not in {u.base for u in found}]
            if not fits:
                return None
            found.append(self.pick(fits))
        return found

    # ------------------------------------------------------------------ dictionaries

    def dictionary(self) -> Lines | None:
        """Keys are inserted and removed in another order; what came with them is used meanwhile."""
        room = self.rng.randint(2, 4)
        self.from_library("dictionaries", "Dictionary", "add", "get", "insert", "remove")
        k, v, u, d = (self.name(stem) for stem in ("k", "v", "u", "d"))
        out = [f"{k} = rg.zeros({room}, dtype=int)", f"{v} = rg.zeros({room})", f"{u} = rg.zeros({room}, dtype=bool)"]
        out += [f"{d} = Dictionary({k}, {v}, {u})"]
        undo: list[Lines] = []
        keys: list[str] = []
        with self.recording() as record:
            for _ in range(self.rng.randint(1, room)):
                # Keys that are equal are refused when the program runs.
                key = str(self.rng.randint(-5, 40)) if self.chance(0.8) else f"({self.integer(0)}) % 5"
                e, x = self.fixed(1), self.name("t")
                out += [f"{x} = fixed(0)", f"{x} += {e}", f"insert({d}, {key}, {x})"]
                undo.append([f"remove({d}, {key}, {x})", f"{x} -= {e}", f"del {x}"])
                keys.append(key)
            added = f"add({d}, {self.pick(keys)}, {self.fixed(1)})" if self.chance(0.6) else None
        self.cost += 60 * self.times
        self.rng.shuffle(undo)
        with self.segment(record.reads):
            place = self.place({"fixed"})
            use = [] if place is None else [f"{place[0]} {self.pick('+-')}= get({d}, {self.pick((*keys, '77'))})"]
            inside = [*self.closed(1), *use]
        if added is not None:
            inside = [added, *inside, f"~{added}"]
        return [*out, *inside, *(line for lines in undo for line in lines), f"del {u}", f"del {v}", f"del {k}"]

    # ------------------------------------------------------------------ versions of elements

    def scheme(self) -> Lines | None:
        """An explicit scheme: a variable is made from an element, while other elements of the array change."""
        found = [v for v in self.changeable({"int", "fixed"})
                 if isinstance(v.type, Many) and v.type.element in (INT, FIXED) and len(v.type.shape) == 1]  # fmt: skip
        found = [v for v in found if isinstance(v.type, Many) and v.type.shape[0] > 1]
        if not found:
            return None
        var = self.pick(found)
        assert isinstance(var.type, Many)
        assert isinstance(var.type.element, Scalar)
        kind, n = var.type.element.kind, var.type.shape[0]
        self.writes(var)
        i, t = self.name("i"), self.name("t")
        up = self.chance(0.7)
        here, there = (
            (f"{var.name}[{i}]", f"{var.name}[{i} + 1]") if up else (f"{var.name}[{i} + 1]", f"{var.name}[{i}]")
        )
        with self.avoiding({var.base}), self.block():
            self.declare(Var(i, INT, writable=False, range=(0, n - 2)))
            factor = self._wrapped(self.expression(kind, 1))
            e = self.pick((f"{here} * {'3' if kind == 'int' else '0.5'}", f"{here} + {factor}", f"{factor} - {here}"))
            if kind == "fixed" and self.chance(0.3):
                e = f"rg.sin({here})"
            more = self._wrapped(self.expression(kind, 0))
        lines = [f"{t} = {e}", f"{there} {self.pick('+-')}= {self.pick((t, f'{t} + {more}', f'{t} * 2'))}"]
        if self.chance(0.3):
            lines.append(f"rg.free({t}, {e})" if kind == "int" and self.chance(0.5) else f"del {t}")
        through = self.pick((f"range({n - 1})", f"reversed(range({n - 1}))", f"range({n - 2}, -1, -1)"))
        self.cost += n * self.times
        return [f"for {i} in {through}:", *indent(lines)]

    # ------------------------------------------------------------------ blocks without tests

    def without_tests(self) -> Lines | None:
        return ["with rg.unchecked():", *self.nested((), 3, closed=True)]

    # ------------------------------------------------------------------ adjoints

    def with_adjoint(self) -> Lines:
        """A function with an adjoint of its own, the words of which are those of its derivative."""
        name = self.name("f")
        body, adjoint = self.pick((
            (["y += x * 2 - z"], ["d_x += d_y * 2", "d_z -= d_y"]),
            (["y += x * z"], ["d_x += d_y * z", "d_z += d_y * x"]),
            (["y -= x / 4 + z"], ["d_x -= d_y / 4", "d_z -= d_y"]),
            (["y, x = x, y", "x += z"], ["d_y, d_x = d_x, d_y", "d_z += d_y"]),
        ))  # fmt: skip
        given = "y: fixed, x: fixed, z: fixed"
        changed = {"y", "x"} if len(body) == 2 else {"y"}
        parameters = tuple(Parameter(n, FIXED, n in changed) for n in "yxz")
        self.signatures.append(Signature(name, parameters, 3))
        return [
            "@reversible", f"def {name}({given}):", *indent(body), "",
            f"@{name}.adjoint", f"def _({given}, d_y: fixed, d_x: fixed, d_z: fixed):", *indent(adjoint),
        ]  # fmt: skip

    # ------------------------------------------------------------------ the library

    def library_functions(self) -> None:
        """Let the program call some functions of the library."""
        for module, name, parameters in self.rng.sample(_LIBRARY, 2):
            self.from_library(module, name)
            self.signatures.append(Signature(name, tuple(Parameter(*p) for p in parameters), 8))
