"""A random program of the language, from a seed: `generate(seed)`.

Functions first, each of which may call those before it; then `main`, which is run.
"""

from __future__ import annotations

from dataclasses import replace

from retrograd.isa.words import Format

from .checks import Case
from .locals import PASSED, Locals, Parameter, Signature
from .scope import Scope, Var
from .statements import INT, Lines, indent
from .values import Many, Pile, Record, Scalar, Type

_HEAD = ["import retrograd as rg", "from retrograd import Array, fixed, lognum, reversible"]
_FORMATS = {Format(64, 32): 8, Format(32, 16): 2}
_SCALARS = {"int": 5, "fixed": 3, "bool": 1.5, "lognum": 0.8}
_SHAPES: dict[tuple[int, ...], float] = {(2,): 2, (3,): 4, (4,): 2, (2, 2): 1, (2, 3): 1.5}


def generate(seed: int) -> Case:
    """The program of this seed, with its parameters and format."""
    return _Program(seed).case()


class _Program(Locals):
    def case(self) -> Case:
        w = self.weighted(_FORMATS)
        lines = [*_HEAD, ""]
        if self.chance(0.2):
            self.constants["C"] = tuple(self.rng.randint(-4, 9) for _ in range(3))
            lines += [f"C = {self.constants['C']}", ""]
        if self.chance(0.35):
            lines += [*self.struct(), ""]
        kinds = [self.function] * self.rng.randint(0, 2)
        kinds += [self.recursion] * self.chance(0.25) + [self.higher_order] * self.chance(0.12)
        self.rng.shuffle(kinds)
        for write in kinds:
            lines += [*write(), ""]
        parameters = self.parameters(self.rng.randint(3, 5))
        body, _ = self.written("main", parameters, self.rng.randint(2, 6))
        lines += body
        return Case(
            "\n".join(lines) + "\n", tuple((p.name, p.type) for p in parameters), w, seed=self.rng.getrandbits(32)
        )

    # ------------------------------------------------------------------ heads

    def type(self) -> Type:
        if self.records and self.chance(0.3):
            record = self.pick(self.records)
            return record if self.chance(0.6) else Many(record, (2,))
        if self.chance(0.06):
            return Pile(self.pick(("int", "fixed")), self.rng.randint(3, 5))
        kind = self.weighted(_SCALARS)
        return Scalar(kind) if self.chance(0.55) else Many(Scalar(kind), self.weighted(_SHAPES))

    def parameters(self, count: int) -> list[Parameter]:
        types = [self.type() for _ in range(count)]
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
        self, name: str, parameters: list[Parameter], count: int, annotate_from: int = 0, before: Lines | None = None
    ) -> tuple[Lines, Signature]:
        """A function with a body of so many statements, and how it may be called."""
        outer, cost, self.cost = self.scope, self.cost, 0
        self.scope = Scope()
        for p in parameters:
            if p.role != "function":
                self.declare(Var(p.name, p.type, writable=p.role == "data"))
        self.size = 2 * count + 1
        with self.recording() as record:
            body = (before or []) + self.body(count)
        self.scope, cost, self.cost = outer, self.cost, cost
        head = ", ".join(
            p.name if i < annotate_from or p.role == "function" else f"{p.name}: {p.type}"
            for i, p in enumerate(parameters)
        )
        known = tuple(replace(p, written=p.name in record.writes) for p in parameters)
        return ["@reversible", f"def {name}({head}):", *indent(body)], Signature(name, known, cost + 1)

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

    def function(self) -> Lines:
        if self.chance(0.3):
            # One that can be passed to others.
            parameters = [Parameter("x0", INT), Parameter("x1", INT)]
            lines, signature = self.written(self.name("f"), parameters, 2)
            first, second = signature.parameters
            if not second.written:
                signature = replace(signature, parameters=(replace(first, written=True), second))
        else:
            parameters = self.parameters(self.rng.randint(1, 3))
            lines, signature = self.written(self.name("f"), parameters, self.rng.randint(1, 4))
        self.signatures.append(signature)
        return lines

    def higher_order(self) -> Lines:
        """A function that is given another."""
        own = Signature(PASSED, (Parameter("x", INT, True), Parameter("y", INT)), 12)
        outer, self.signatures = self.signatures, [*self.signatures, own, own]
        parameters = [Parameter(PASSED, INT, role="function"), Parameter("x0", INT), *self.parameters(1)]
        parameters[2] = replace(parameters[2], name=f"{parameters[2].name}b")
        lines, signature = self.written(self.name("h"), parameters, 3)
        self.signatures = [*outer, signature]
        return lines

    def recursion(self) -> Lines:
        """A function that calls itself, or one that calls it, with one less."""
        mutual = self.chance(0.3)
        parameters = [Parameter("n", INT, role="depth"), *self.parameters(self.rng.randint(1, 2))]
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
