"""A random program of the language, from a seed: `generate(seed)`.

Functions first, each of which may call those before it; then `main`, which is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retrograd.isa.words import Format

from .checks import Case
from .constructs import COMPLEX, Constructs
from .locals import PASSED, Parameter, Signature
from .scope import Scope, Var
from .statements import INT, Lines, indent
from .values import Many, Pile, Record, Scalar, Type

_HEAD = ["import retrograd as rg", "from retrograd import Array, fixed, lognum, reversible"]
_FORMATS = {Format(64, 32): 8, Format(32, 16): 2}
#: how often a program has complex numbers, and their weight then
_COMPLEX, _COMPLEX_WEIGHT = 0.3, 4
_SCALARS = {"int": 5, "fixed": 3, "bool": 1.5, "lognum": 0.8}
_SHAPES: dict[tuple[int, ...], float] = {(2,): 2, (3,): 4, (4,): 2, (2, 2): 1, (2, 3): 2, (3, 2): 1.5}


def generate(seed: int) -> Case:
    """The program of this seed, with its parameters and format."""
    return _Program(seed).case()


class _Program(Constructs):
    #: how often a parameter is a stack
    piles = 0.04
    #: the kind of most arrays
    array_kind = "int"
    #: kinds of parameters and their weights
    scalars = _SCALARS

    def case(self) -> Case:
        w = self.weighted(_FORMATS)
        lines = [*_HEAD, ""]
        if self.chance(0.2):
            self.constants["C"] = tuple(self.rng.randint(-4, 9) for _ in range(3))
            lines += [f"C = {self.constants['C']}", ""]
        if self.chance(0.35):
            lines += [*self.struct(), ""]
        self.scalars = dict(_SCALARS)
        self.has_complex = self.chance(_COMPLEX)
        if self.has_complex:
            self.scalars["complex"] = _COMPLEX_WEIGHT
            self.statements[self.update_complex] = 9
        if self.chance(0.12):
            self.statements[self.dictionary] = 3
        # Every program has something that it does more than others.
        self.array_kind = self.weighted(self.scalars)
        theme = self.pick(list(self.statements))
        self.statements[theme] *= 6
        self.piles = 0.3 if theme == self.stack else 0.05
        kinds = [self.function] * self.rng.randint(0, 2)
        kinds += [self.recursion] * self.chance(0.2)
        kinds += [self.valued_function] * self.chance(0.4)
        kinds += [self.gathering] * self.chance(0.45)
        kinds += [self.of_any_length] * self.pick((0, 0, 0, 0, 1, 2))
        kinds += [self.open_struct] * self.chance(0.2)
        kinds += [self.with_adjoint] * self.chance(0.25)
        self.rng.shuffle(kinds)
        kinds += [self.step, self.higher_order] * self.chance(0.25)
        if self.chance(0.3):
            self.library_functions()
        for write in kinds:
            lines += [*write(), ""]
        wanted = self.wanted()
        if theme in (self.update_array, self.copied_array):
            element = Scalar(self.pick(("int", "fixed")))
            wanted += [Many(element, shape) for shape in self.pick((((2, 3), (3,), (2, 1)), ((2, 3), (2, 3), (1, 3))))]
        if self.has_complex:
            wanted += [COMPLEX, Many(COMPLEX, (3,))]
        parameters = self.parameters(self.rng.randint(2, 3), wanted)
        body, _ = self.written("main", parameters, self.rng.randint(1, 4), calls=self.signatures)
        lines += body
        lines[1:1] = self.imports
        return Case(
            "\n".join(lines) + "\n", tuple((p.name, p.type) for p in parameters), w, seed=self.rng.getrandbits(32)
        )

    # ------------------------------------------------------------------ heads

    def type(self) -> Type:
        if self.records and self.chance(0.3):
            record = self.pick(self.records)
            return record if self.chance(0.6) else Many(record, (2,))
        if self.chance(self.piles):
            return Pile(self.pick(("int", "fixed")), self.rng.randint(3, 5))
        kind = self.weighted(self.scalars)
        if self.chance(0.55):
            return Scalar(kind)
        # Arrays of one kind, so that there are others to compute with.
        return Many(Scalar(self.array_kind if self.chance(0.8) else kind), self.weighted(_SHAPES))

    def wanted(self) -> list[Type]:
        """Types that the functions want to be called with, arrays of them among these."""
        types: list[Type] = []
        for s in {s.name: s for s in self.signatures}.values():
            whole = all(isinstance(p.type, Scalar) and p.role == "data" for p in s.parameters) and self.chance(0.5)
            for p in s.parameters:
                if isinstance(p.type, Record) and p.type.name == "D":
                    types += [inner for _, inner in p.type.fields]
                elif p.role == "data" and p.written:
                    types.append(Many(p.type, (3,)) if whole and isinstance(p.type, Scalar) else p.type)
        return types[:6]

    def parameters(self, count: int, more: Sequence[Type] = ()) -> list[Parameter]:
        types = [*(self.type() for _ in range(count)), *more]
        # Beside a matrix often an array that broadcasts with its rows.
        rows = [Many(t.element, t.shape[1:]) for t in types if isinstance(t, Many) and len(t.shape) == 2]
        types += [t for t in rows[:1] if self.chance(0.5)]
        if not any(t == INT for t in types):
            types[0] = INT
        stem = {Scalar: "x", Many: "a", Record: "z", Pile: "st"}
        return [Parameter(f"{stem[t.__class__]}{i}", t) for i, t in enumerate(types)]

    def struct(self) -> Lines:
        fields: list[tuple[str, Type]] = [("re", Scalar("fixed")), ("n", INT)]
        if self.chance(0.4):
            fields.append(("v", Many(Scalar(self.pick(("int", "fixed"))), (2,))))
        record = Record("P", tuple(fields))
        self.records.append(record)
        out = ["@rg.struct", "class P:", *(f"    {name}: {t}" for name, t in fields)]
        if self.chance(0.6):
            parameters = [Parameter("self", record), *self.parameters(1), Parameter("other", record)]
            lines, signature = self.written("act", parameters, 2, annotate_from=1)
            self.signatures.append(replace(signature, method=True))
            out += ["", *indent(lines)]
        return out

    # ------------------------------------------------------------------ functions

    def written(
        self,
        name: str,
        parameters: list[Parameter],
        count: int,
        annotate_from: int = 0,
        before: Sequence[str] = (),
        calls: Sequence[Signature] = (),
    ) -> tuple[Lines, Signature]:
        """A function with a body of so many statements, and how it may be called. `calls`: what it should call."""
        outer, cost, self.cost = self.scope, self.cost, 0
        self.scope = Scope()
        for p in parameters:
            if p.role != "function":
                self.declare(Var(p.name, p.type, writable=p.role == "data"))
        self.size = 2 * count + 1
        with self.recording() as record:
            body = [*before, *self.calls(calls), *self.body(count)]
        self.scope, cost, self.cost = outer, self.cost, cost
        head = ", ".join(
            p.name if i < annotate_from or p.role == "function" else f"{p.name}: {p.type}"
            for i, p in enumerate(parameters)
        )
        known = tuple(replace(p, written=p.name in record.writes) for p in parameters)
        return ["@reversible", f"def {name}({head}):", *indent(body)], Signature(name, known, cost + 1)

    def calls(self, signatures: Sequence[Signature]) -> Lines:
        """A call of each of the functions, where there is something to call it with."""
        out: Lines = []
        for s in {s.name: s for s in signatures}.values():
            line = self.each_of(s) if self.chance(0.4) else None
            line = self.call_of(s) if line is None else line
            out += [] if line is None else [line]
        return out

    def annotated(self, p: Parameter, function: str) -> str:
        """A parameter with its annotation, which may leave open what the call says; not in what is run."""
        if isinstance(p.type, Many) and function != "main" and self.chance(0.35):
            names = ", ".join(f'"{p.name}_{i}"' for i, _ in enumerate(p.type.shape))
            return self.pick(
                (p.name, f"{p.name}: Array[{p.type.element}]", f"{p.name}: Array[{p.type.element}, {names}]")
            )
        if isinstance(p.type, Record) and function != "main" and self.chance(0.2):
            return p.name
        return f"{p.name}: {p.type}"

    def open_struct(self) -> Lines:
        """A struct whose lengths are open, and functions of it for two shapes, of which the arrays of a call are the fields."""
        kind = self.pick(("fixed", "int"))
        out = ["@rg.struct", "class D:", f'    w: Array[{kind}, "m", "n"]', f'    b: Array[{kind}, "m"]', ""]
        for m, n in self.pick((((2, 3),), ((2, 3), (3, 2)))):
            fields = (("w", Many(Scalar(kind), (m, n))), ("b", Many(Scalar(kind), (m,))))
            parameters = [*self.parameters(1), Parameter("d", Record("D", fields))]
            lines, signature = self.written(self.name("f"), parameters, self.rng.randint(1, 3))
            out += [*lines, ""]
            self.signatures.append(signature)
        return out[:-1]

    def function(self) -> Lines:
        parameters = self.parameters(self.rng.randint(1, 3))
        lines, signature = self.written(self.name("f"), parameters, self.rng.randint(1, 3))
        self.signatures.append(signature)
        return lines

    def valued_function(self) -> Lines:
        """A function that changes its first parameter only, so that its calls have a value."""
        kind = self.pick(("int", "int", "fixed", "bool", *["complex"] * (2 * self.has_complex)))
        result = Parameter("out", Scalar(kind))
        given = [p for p in self.parameters(self.rng.randint(1, 2)) if not isinstance(p.type, Pile)]
        parameters = [result, *(replace(p, role="given") for p in given)]
        before = [f"out {'^=' if kind == 'bool' else '+='} 1"] if self.chance(0.5) else []
        lines, signature = self.written(self.name("v"), parameters, self.rng.randint(1, 2), before=before)
        self.valued.append(signature)
        return lines

    def step(self) -> Lines:
        """A function that can be passed to others."""
        change = [f"x0 {self.pick('+-^')}= {self.pick(('x1', '3', 'x1 * 2 + 1', '-x1'))}"]
        parameters = [Parameter("x0", INT), Parameter("x1", INT)]
        lines, signature = self.written(self.name("f"), parameters, 1, before=change)
        first, second = signature.parameters
        self.signatures.append(replace(signature, parameters=(replace(first, written=True), second)))
        return lines

    def higher_order(self) -> Lines:
        """A function that is given another, and calls it, or calls another with it."""
        own = Signature(PASSED, (Parameter("x", INT, True), Parameter("y", INT)), 12)
        outer, self.signatures = self.signatures, [own]
        parameters = [Parameter(PASSED, INT, role="function"), Parameter("x0", INT), Parameter("a1", Many(INT, (3,)))]
        lines, signature = self.written(self.name("h"), parameters, 2, calls=[own])
        self.signatures = [*outer, *[signature] * 3]
        return lines

    def recursion(self) -> Lines:
        """A function that calls itself, or one that calls it, with one less."""
        mutual = self.chance(0.3)
        parameters = [Parameter("n", INT, role="depth"), *self.parameters(self.rng.randint(1, 2))]
        if self.chance(0.4):
            # Of one type, so that the call may exchange them.
            same = Scalar(self.pick(("int", "int", "fixed", "bool")))
            parameters += [Parameter(f"u{i}", same) for i in range(3)]
        assumed = [replace(p, written=p.role == "data") for p in parameters]
        names = [self.name("q") for _ in range(1 + mutual)]
        out: Lines = []
        signatures = []
        for name, other in zip(names, [*names[1:], names[0]], strict=True):
            callee = Signature(other, tuple(assumed), 0)
            lines, signature = self._recursive(name, parameters, callee)
            out += [*lines, ""]
            # What it changes is known only when all of the circle is.
            signatures.append(replace(signature, parameters=tuple(assumed), cost=6 * signature.cost))
        self.signatures.append(signatures[0])
        return out[:-1]

    def _recursive(self, name: str, parameters: list[Parameter], callee: Signature) -> tuple[Lines, Signature]:
        inside: Lines = []

        def once() -> Lines | None:
            """`if n > 0: … the call …`"""
            with self.block({"n"}):
                before = self.some(1)
                call = self.call_of(callee, "n - 1")
                if call is None:
                    return None
                lines = [*before, call, *self.some(1)]
            return ["if n > 0:", *indent(lines)]

        outer, cost = self.scope, self.cost
        self.scope = Scope()
        for p in parameters:
            self.declare(Var(p.name, p.type, writable=p.role == "data"))
        self.depth += 1
        self.size = 3
        inside = once() or ["pass"]
        self.depth -= 1
        self.scope, self.cost = outer, cost
        self.depth += 1
        lines, signature = self.written(name, parameters, 1, before=inside)
        self.depth -= 1
        return lines, replace(signature, cost=signature.cost + len(inside))
