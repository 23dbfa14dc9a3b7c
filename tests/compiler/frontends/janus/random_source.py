"""Random programs of Janus, over the whole grammar. `generate(seed)` is the text of a program that mostly runs without a trap."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

SIZED = ("u8", "i8", "u16", "i16", "u32", "i32")
WORDS = ("int", "int", "int", *SIZED)


@dataclass
class Variable:
    """`lengths`: of an array; `count`: a stack. `fixed`: not to be changed in the block at hand."""

    name: str
    type: str
    lengths: tuple[int, ...] = ()
    fixed: bool = False


@dataclass
class Procedure:
    name: str
    parameters: list[Variable]
    #: names of parameters that it may change
    changed: set[str]


@dataclass
class Scope:
    """The variables in scope. A fixed variable is only read."""

    variables: list[Variable]
    depth: int = 0
    #: inside of a procedure that others call
    inner: bool = False

    def of(self, kind: str, *, writable: bool = False) -> list[Variable]:
        return [v for v in self.variables if v.type == kind and not v.lengths and not (writable and v.fixed)]

    def arrays(self, kind: str | None = None, *, writable: bool = False) -> list[Variable]:
        return [
            v for v in self.variables if v.lengths and (kind is None or v.type == kind) and not (writable and v.fixed)
        ]

    def fixing(self, names: set[str]) -> Scope:
        return replace(self, variables=[replace(v, fixed=v.fixed or v.name in names) for v in self.variables])

    def adding(self, *more: Variable) -> Scope:
        return replace(self, variables=[*self.variables, *more], depth=self.depth + 1)


@dataclass
class Generator:
    draw: random.Random
    procedures: list[Procedure] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def chance(self, p: float) -> bool:
        return self.draw.random() < p

    # ------------------------------------------------------------------ expressions

    def number(self) -> str:
        n = self.draw.choice([0, 1, 2, 3, 5, 7, 12, 31, 100, 255, 1000, -1, -2, -9])
        return f"0x{n:x}" if n > 9 and self.chance(0.2) else str(n)

    def integer(self, scope: Scope, kind: str, without: str = "", depth: int = 3) -> str:
        """An expression of a type of integers that does not name a variable."""
        draw = self.draw
        atoms = [v.name for v in scope.of(kind) if v.name != without]
        arrays = [v for v in scope.arrays(kind) if v.name != without]
        choice = draw.random()
        if depth == 0 or choice < 0.25:
            if atoms and self.chance(0.7):
                return draw.choice(atoms)
            if arrays and self.chance(0.6):
                return self.element(scope, draw.choice(arrays), without)
            if kind == "int" and self.chance(0.15) and scope.arrays():
                return f"size({draw.choice(scope.arrays()).name})"
            if kind == "int" or self.chance(0.5):
                return self.number()
            return f"({kind}) {self.operand(scope, draw.choice(WORDS), without, 0)}"
        inner = depth - 1
        x = self.operand(scope, kind, without, inner)
        if choice < 0.6:
            return f"{x} {draw.choice(['+', '-', '*'])} {self.operand(scope, kind, without, inner)}"
        if choice < 0.7:
            return f"{x} {draw.choice('/%')} {draw.choice(['2', '3', '-3', '7', '10'])}"
        if choice < 0.705:
            return f"{x} {draw.choice(['/', '%', '**'])} {self.operand(scope, kind, without, 0)}"
        if choice < 0.73:
            return f"{x} {draw.choice('/%')} ({self.operand(scope, kind, without, inner)} | 1)"
        if choice < 0.85:
            return f"{x} {draw.choice(['&', '|', '^'])} {self.operand(scope, kind, without, inner)}"
        if choice < 0.92:
            return f"{x} {draw.choice(['<<', '>>'])} {draw.choice(['0', '1', '3', '7', '31', '70', f'({x} & 15)'])}"
        if choice < 0.95:
            return f"{x} ** {draw.choice('0123')}"
        return f"~{x}"

    def operand(self, scope: Scope, kind: str, without: str, depth: int) -> str:
        text = self.integer(scope, kind, without, depth)
        return text if text.replace("_", "").isalnum() else f"({text})"

    def condition(self, scope: Scope, without: str = "", depth: int = 2) -> str:
        draw = self.draw
        if depth and self.chance(0.3):
            x, y = (self.condition(scope, without, depth - 1) for _ in "ab")
            return f"({x}) {draw.choice(['&&', '||', '&', '|', '^', '=', '!='])} ({y})"
        choice = draw.random()
        bools = [v.name for v in scope.of("bool") if v.name != without]
        if choice < 0.15 and bools:
            return draw.choice(["", "!"]) + draw.choice(bools)
        if choice < 0.22:
            return draw.choice(["true", "false"])
        stacks = [v.name for v in scope.of("stack") if v.name != without]
        if choice < 0.3 and stacks:
            return draw.choice(["", "!"]) + f"empty({draw.choice(stacks)})"
        kind = draw.choice(WORDS)
        sign = draw.choice(["<", "<=", ">", ">=", "=", "!="])
        return f"{self.operand(scope, kind, without, 1)} {sign} {self.operand(scope, kind, without, 1)}"

    def element(self, scope: Scope, array: Variable, without: str = "") -> str:
        return array.name + "".join(f"[{self.index(scope, n, without or array.name)}]" for n in array.lengths)

    def index(self, scope: Scope, length: int, without: str) -> str:
        if self.chance(0.5):
            return str(self.draw.randrange(length))
        atoms = [v.name for v in scope.of("int") if v.name != without] or ["0"]
        if self.chance(0.01):
            return self.draw.choice(atoms)
        return f"({self.draw.choice(atoms)} + {self.draw.randrange(5)}) % {length}"

    # ------------------------------------------------------------------ statements

    def block(self, scope: Scope, most: int = 4) -> list[str]:
        out: list[str] = []
        for _ in range(self.draw.randint(1, most)):
            found = ["skip"]
            for _ in range(5):
                found = self.statement(scope)
                if found != ["skip"]:
                    break
            out += found
        return out

    def statement(self, scope: Scope) -> list[str]:
        simple = [self.update, self.update, self.update, self.element_update, self.swap, self.trivial, self.call]
        nested = [self.branch, self.loop, self.do_loop, self.iterate, self.local, self.stack, self.temporary]
        return self.draw.choice(simple + nested if scope.depth < 3 else simple)(scope)

    def update(self, scope: Scope) -> list[str]:
        kind = self.draw.choice((*WORDS, "bool"))
        targets = scope.of(kind, writable=True)
        if not targets:
            return ["skip"]
        x = self.draw.choice(targets).name
        if kind == "bool":
            return [f"{x} ^= {self.condition(scope, x)}"]
        return self.changes(x, self.integer(scope, kind, x))

    def changes(self, target: str, e: str) -> list[str]:
        """An update, or a product and mostly its quotient: a product by itself often leaves the range of its type."""
        if self.chance(0.15):
            factor = self.draw.choice(["2", "3", "-1", "-7", "10", "1", e])
            out = [f"{target} *= {factor}", f"{target} /= {factor}"]
            return out if self.chance(0.8) else [self.draw.choice(out)]
        return [f"{target} {self.draw.choice(['+=', '-=', '^='])} {e}"]

    def element_update(self, scope: Scope) -> list[str]:
        arrays = [a for a in scope.arrays(writable=True) if a.type != "bool"]
        if not arrays:
            return ["skip"]
        a = self.draw.choice(arrays)
        without = "" if self.chance(0.1) else a.name
        return self.changes(self.element(scope, a), self.integer(scope, a.type, without))

    def swap(self, scope: Scope) -> list[str]:
        kind = self.draw.choice((*WORDS, "bool", "stack"))
        places = [v.name for v in scope.of(kind, writable=True)]
        if kind != "stack":
            places += [self.element(scope, a) for a in scope.arrays(kind, writable=True)]
        if len(places) < 2:
            return ["skip"]
        first, second = self.draw.sample(places, 2)
        # An index may not read a variable that the statement changes.
        return ["skip"] if first in second or second in first else [f"{first} <=> {second}"]

    def trivial(self, scope: Scope) -> list[str]:
        scalars = [v for v in scope.variables if not v.lengths and v.type != "stack"]
        choices = ['print("a line")', f"assert ({self.condition(scope)}) || true"]
        if self.chance(0.03):
            choices = [f"assert {self.condition(scope)}", 'error("never")']
        if scalars:
            v = self.draw.choice(scalars)
            choices += [f"show({v.name})", f'printf("<%{"b" if v.type == "bool" else "d"}> %%", {v.name})']
        return [self.draw.choice(choices)]

    def indented(self, lines: list[str]) -> list[str]:
        return [f"    {line}" for line in lines]

    def names_in(self, scope: Scope, *texts: str) -> set[str]:
        text = " ".join(texts)
        return {v.name for v in scope.variables if f"{v.name}" in text}

    def branch(self, scope: Scope) -> list[str]:
        condition = self.condition(scope)
        inner = replace(scope.fixing(self.names_in(scope, condition)), depth=scope.depth + 1)
        last = self.condition(scope) if self.chance(0.03) else condition
        out = [f"if {condition} then", *self.indented(self.block(inner))]
        if self.chance(0.6):
            out += ["else", *self.indented(self.block(inner))]
        return [*out, f"fi {last}"]

    def loop(self, scope: Scope) -> list[str]:
        k, n = self.name("k"), self.draw.randint(0, 4)
        inner = scope.adding(Variable(k, "int", fixed=True))
        body = self.indented([*self.block(inner, 3), f"{k} += 1"])
        return [f"local int {k} = 0", f"from {k} = 0 loop", *body, f"until {k} = {n}", f"delocal int {k} = {n}"]

    def do_loop(self, scope: Scope) -> list[str]:
        k, n, kind = self.name("k"), self.draw.randint(1, 4), self.draw.choice(["int", "u8", "i16"])
        inner = scope.adding(Variable(k, kind, fixed=True))
        do = self.indented([*self.block(inner, 2), f"{k} += 1"])
        rest = ["loop", *self.indented(self.block(inner, 2))] if self.chance(0.7) else []
        loop = [f"from {k} = 0 do", *do, *rest, f"until {k} = {n}"]
        return [f"local {kind} {k} = 0", *loop, f"delocal {kind} {k} = {n}"]

    def iterate(self, scope: Scope) -> list[str]:
        i = self.name("i")
        first, by = self.draw.randint(-3, 3), self.draw.choice([1, 1, 1, 2, 3, -1, -2])
        last = first + by * self.draw.randint(-1, 4)
        step = "" if by == 1 else f" by {by}"
        inner = scope.adding(Variable(i, "int", fixed=True))
        return [f"iterate int {i} = {first}{step} to {last}", *self.indented(self.block(inner, 3)), "end"]

    def local(self, scope: Scope) -> list[str]:
        kind = self.draw.choice((*WORDS, "bool"))
        x = self.name("t")
        e = self.condition(scope) if kind == "bool" else self.integer(scope, kind)
        inner = scope.fixing(self.names_in(scope, e)).adding(Variable(x, kind, fixed=True))
        body = self.block(inner, 3)
        role = self.draw.random()
        if role < 0.2 and scope.depth:
            return ["if true then", f"    constant {kind} {x} = {e}", *self.indented(body), "fi true"]
        if kind == "bool" or role < 0.6:
            return [f"local {kind} {x} = {e}", *body, f"delocal {kind} {x} = {e}"]
        n = self.draw.randint(1, 9)
        if self.chance(0.04):
            return [f"local {kind} {x} = {e}", *body, f"delocal {kind} {x} = ({e}) + 1"]
        return [f"local {kind} {x} = {e}", *body, f"{x} += {n}", f"delocal {kind} {x} = ({e}) + {n}"]

    def temporary(self, scope: Scope) -> list[str]:
        """An array that is computed, used, and cleared by the inverse statements."""
        a, n = self.name("w"), self.draw.randint(1, 4)
        kind = self.draw.choice(("int", "int", "u8", "i16"))
        length = str(n)
        fixed: set[str] = set()
        ints = scope.of("int")
        if ints and kind == "int" and self.chance(0.3):
            v = self.draw.choice(ints).name
            length, n, fixed = f"({v} % 3) * ({v} % 3) + 1", 1, {v}
        values = [self.draw.randint(-4, 9) for _ in range(n)]
        initial = f" = {{{', '.join(map(str, values))}}}" if length.isdigit() and self.chance(0.5) else ""
        array = Variable(a, kind, (n,))
        inner = scope.fixing(fixed).adding(array)
        e = self.integer(inner, kind, a)
        use = self.block(inner.fixing({a, *self.names_in(scope, e)}), 2)
        k = self.draw.randrange(n)
        text = [f"local {kind} {a}[{length}]{initial}", f"{a}[{k}] += {e}", *use, f"{a}[{k}] -= {e}"]
        return [*text, f"delocal {kind} {a}[{length}]{initial}"]

    def stack(self, scope: Scope) -> list[str]:
        """push; statements that leave the value and the stack; pop."""
        stacks, values = scope.of("stack", writable=True), scope.of("int", writable=True)
        if not values:
            return ["skip"]
        x = self.draw.choice(values).name
        if not stacks or self.chance(0.3):
            s = self.name("s")
            inner = replace(scope.fixing({x}), depth=scope.depth + 1)
            body = [f"push({x}, {s})", *self.block(inner, 2), f"pop({x}, {s})"]
            return [f"local stack {s} = nil", *body, f"delocal stack {s} = nil"]
        s = self.draw.choice(stacks).name
        if self.chance(0.04):
            return [f"pop({x}, {s})"]
        inner = replace(scope.fixing({x, s}), depth=scope.depth + 1)
        out = [f"push({x}, {s})", *self.block(inner, 2)]
        if self.chance(0.4):
            y = self.draw.choice(values).name
            out += [f"{y} += top({s})"] if y != x else []
        return [*out, *([f"pop({x}, {s})"] if self.chance(0.8) else [])]

    # ------------------------------------------------------------------ procedures

    def call(self, scope: Scope) -> list[str]:
        if not self.procedures:
            return self.update(scope)
        p = self.draw.choice(self.procedures)
        given: list[str] = []
        used: set[str] = set()
        for q in p.parameters:
            changes = q.name in p.changed
            if q.lengths:
                found = [
                    v.name
                    for v in scope.arrays(q.type, writable=changes)
                    if len(v.lengths) == len(q.lengths)
                    and v.lengths >= q.lengths
                    and v.name not in used
                    and all(a >= b for a, b in zip(v.lengths, q.lengths, strict=True))
                ]
            else:
                found = [v.name for v in scope.of(q.type, writable=changes) if v.name not in used]
                arrays = [v for v in scope.arrays(q.type, writable=changes) if v.name not in used]
                if arrays and q.type != "stack" and self.chance(0.3):
                    a = self.draw.choice(arrays)
                    found.append(f"{a.name}" + "".join(f"[{self.draw.randrange(n)}]" for n in a.lengths))
                if not changes and q.type not in ("stack", "bool") and self.chance(0.4):
                    found = [f"{self.integer(scope.fixing(set()), q.type, depth=1)} + 1"]
                    if any(name in found[0] for name in used):
                        return ["skip"]
            if not found:
                return ["skip"]
            text = self.draw.choice(found)
            given.append(text)
            used |= self.names_in(scope, text)
        return [f"{self.draw.choice(['call', 'uncall'])} {p.name}({', '.join(given)})"]

    def procedure(self) -> list[str]:
        name = self.name("p")
        parameters: list[Variable] = []
        for _ in range(self.draw.randint(1, 4)):
            kind = self.draw.choice((*WORDS, "bool", "stack"))
            shape = self.draw.choice([(), (), (2,), (3,), (2, 2)]) if kind not in ("stack", "bool") else ()
            parameters.append(Variable(self.name("q"), kind, shape, fixed=self.chance(0.3)))
        shown = ", ".join(f"{p.type} {p.name}{'[]' * len(p.lengths)}" for p in parameters)
        if self.chance(0.25):
            n, acc = self.name("n"), self.name("m")
            step = self.integer(Scope([Variable(n, "int"), *parameters]), "int", acc)
            # The counter is the same before and after the call.
            lines = [f"if {n} > 0 && {n} < 7 then", f"    {n} -= 1", f"    {acc} += {step}"]
            rest = ", ".join([n, acc, *(p.name for p in parameters)])
            lines += [f"    call {name}({rest})", f"    {n} += 1", f"fi {n} > 0 && {n} < 7"]
            parameters = [Variable(n, "int"), Variable(acc, "int"), *parameters]
            changed = {n, acc}
            shown = f"int {n}, int {acc}, {shown}"
            self.procedures.append(Procedure(name, parameters, changed))
            return [f"procedure {name}({shown})", *self.indented(lines)]
        body = self.block(Scope(parameters, depth=1, inner=True), 4)
        self.procedures.append(Procedure(name, parameters, {p.name for p in parameters if not p.fixed}))
        return [f"procedure {name}({shown})", *self.indented(body)]

    def program(self) -> str:
        lines: list[str] = []
        for _ in range(self.draw.randint(0, 3)):
            lines += self.procedure()
        variables: list[Variable] = []
        head: list[str] = []
        kinds = ["int", "int", "int", "stack", "bool", *(self.draw.choice((*WORDS, "bool")) for _ in range(4))]
        for kind in kinds:
            name = self.name("x")
            if kind in ("stack", "bool"):
                variables.append(Variable(name, kind))
                value = f" = {self.draw.choice(['true', 'false'])}" if kind == "bool" and self.chance(0.5) else ""
                head.append(f"{kind} {name}{value}")
                continue
            shape = self.draw.choice([(), (), (2,), (3,), (5,), (2, 2), (2, 3)])
            variables.append(Variable(name, kind, shape))
            small = self.draw.randint(0, 100)
            head.append(f"{kind} {name}{''.join(f'[{n}]' for n in shape)}{'' if shape else f' = {small}'}")
        body = self.block(Scope(variables), 7)
        return "\n".join([*lines, "procedure main()", *self.indented([*head, *body])]) + "\n"


def generate(seed: int) -> str:
    """The text of a random program."""
    return Generator(random.Random(seed)).program()
