"""An interpreter of Janus source, in both directions, written from the description of the Jana interpreter.

It shares the parser with the compiler, and nothing else: values are Python's integers, wrapped after each operation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from retrograd.compiler.frontends.janus import syntax


class Halt(Exception):
    """A run that cannot go on; the argument is the kind of the fault."""

    line = 0


@dataclass
class Cell:
    """A variable, or an element of an array. `type`: (bits, whether signed); None for a bool."""

    words: list[int]
    at: int
    type: tuple[int, bool] | None

    @property
    def value(self) -> int:
        return self.words[self.at]

    @value.setter
    def value(self, value: int) -> None:
        self.words[self.at] = wrapped(value, self.type)

    def same(self, other: object) -> bool:
        return isinstance(other, Cell) and self.words is other.words and self.at == other.at


def updated(cell: Cell, operator: str, v: int, up: bool) -> None:
    """cell := cell + v, cell · v or cell ^ v; with `up` false the difference or the quotient."""
    if operator == "^=":
        cell.value ^= v
        return
    if operator in ("+=", "-="):
        cell.value += v if up else -v
        return
    if v == 0:
        raise Halt("division")
    former = cell.value
    quotient, remainder = divmod(former, v)
    cell.value = found = former * v if up else quotient
    if cell.value != found or (remainder and not up):
        raise Halt("exact")


@dataclass
class Grid:
    """An array, or its part with given first indices."""

    words: list[int]
    at: int
    lengths: tuple[int, ...]
    type: tuple[int, bool] | None

    @property
    def size(self) -> int:
        size = 1
        for n in self.lengths:
            size *= n
        return size

    def part(self, index: int) -> Cell | Grid:
        if not 0 <= index < self.lengths[0]:
            raise Halt("index")
        size = self.size // self.lengths[0]
        at = self.at + index * size
        rest = self.lengths[1:]
        return Grid(self.words, at, rest, self.type) if rest else Cell(self.words, at, self.type)

    def nested(self) -> Any:
        parts = (self.part(k) for k in range(self.lengths[0]))
        return [p.nested() if isinstance(p, Grid) else shown(p) for p in parts]


class Rows(list[Any]):
    """An array of structs or stacks, or a part of it."""

    def part(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise Halt("index")
        return self[index]


#: a number, an array of numbers, a stack, a struct, an array of structs or stacks
Place = Any  # Cell | Grid | list | dict | Rows
Value = tuple[int, Any]
LITERAL = (0, True)


def contents(stack: list[Any]) -> list[Any]:
    return [contents(v) if isinstance(v, list) else v for v in stack]


def shown(cell: Cell) -> int | bool:
    return bool(cell.value) if cell.type is None else cell.value


def wrapped(value: int, t: tuple[int, bool] | None) -> int:
    if t is None:
        return int(bool(value))
    bits, signed = t
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> bits - 1 else value


@dataclass
class Interpreter:
    """Runs a program with words of `width` bits. `lines`: those printed."""

    program: syntax.Program
    width: int
    lines: list[str] = field(default_factory=list)
    steps: int = 0
    #: the cell that the current update changes
    changed: Cell | None = None

    def __post_init__(self) -> None:
        self.procedures = {p.name: p for p in self.program.procedures}

    def type_of(self, name: str) -> tuple[int, bool] | None:
        if name == "bool":
            return None
        return (self.width, True) if name == "int" else (int(name[1:]), name[0] == "i")

    # ------------------------------------------------------------------ the whole program

    def run(self) -> dict[str, Any]:
        """The final store of `main`; then its statements are undone, and every variable must be zero."""
        main = self.procedures["main"]
        env: dict[str, Place] = {}
        for d in main.declarations:
            self.declare(d, env)
        self.block(main.body, env, False)
        store = self.store(env)
        printed = list(self.lines)
        self.block(main.body, env, True)
        for d in reversed(main.declarations):
            self.release(d, env, d)
        self.lines = printed
        return store

    @staticmethod
    def store(env: dict[str, Place]) -> dict[str, Any]:
        """The values by name: of a struct a value for each field, of an array of structs an array for each."""

        def plain(name: str, p: Place) -> dict[str, Any]:
            match p:
                case Cell():
                    return {name: shown(p)}
                case Grid():
                    return {name: p.nested()}
                case dict():
                    return {k: v for field, inner in p.items() for k, v in plain(f"{name}.{field}", inner).items()}
                case Rows():
                    rows = [plain(name, inner) for inner in p]
                    return {k: [row[k] for row in rows] for k in rows[0]}
            return {name: contents(p)}

        return {k: v for name, p in env.items() for k, v in plain(name, p).items()}

    # ------------------------------------------------------------------ variables

    def lengths(self, d: syntax.Parameter, env: dict[str, Place]) -> tuple[int, ...]:
        out = tuple(self.value(n, env)[0] for n in d.lengths if n is not None)
        if any(n < 1 for n in out):
            raise Halt("index")
        return out

    def made(self, d: syntax.Declaration, env: dict[str, Place]) -> Place:
        """A variable with the value of its declaration."""
        place = self.zeros(d.type, self.lengths(d, env))
        self.fill(place, d.initial, env)
        return place

    def zeros(self, kind: str, lengths: tuple[int, ...]) -> Place:
        if lengths and (kind.startswith("struct ") or "stack" in kind):
            return Rows(self.zeros(kind, lengths[1:]) for _ in range(lengths[0]))
        if kind.startswith("struct "):
            struct = next(s for s in self.program.structs if kind == f"struct {s.name}")
            return {f.name: self.zeros(f.type, self.lengths(f, {})) for f in struct.fields}
        if "stack" in kind:
            return []
        t = self.type_of(kind)
        if not lengths:
            return Cell([0], 0, t)
        grid = Grid([], 0, lengths, t)
        grid.words = [0] * grid.size
        return grid

    def fill(self, place: Place, e: syntax.Expression | None, env: dict[str, Place]) -> None:
        if isinstance(e, syntax.Items):
            parts = list(place.values()) if isinstance(place, dict) else None
            for k, item in enumerate(e.items):
                self.fill(parts[k] if parts is not None else place.part(k), item, env)
        elif e is not None and isinstance(place, Cell):
            place.value = self.value(e, env)[0]
        elif e is not None:
            assert isinstance(e, syntax.Reference)
            self.copy(place, self.place(e, env))

    def copy(self, place: Place, other: Place) -> None:
        if isinstance(place, dict):
            for name, inner in place.items():
                self.copy(inner, other[name])
        elif isinstance(place, Rows | Grid):
            for k in range(len(place) if isinstance(place, Rows) else place.lengths[0]):
                self.copy(place.part(k), other.part(k))
        else:
            place.value = other.value

    def declare(self, d: syntax.Declaration, env: dict[str, Place]) -> None:
        env[d.name] = self.made(d, env)

    def release(self, d: syntax.Declaration, env: dict[str, Place], declared: syntax.Declaration) -> None:
        place = env.pop(d.name)
        wanted = self.made(d, env)
        if self.store({"": place}) != self.store({"": wanted}):
            raise Halt("delocal")

    # ------------------------------------------------------------------ statements

    def block(self, body: syntax.Body, env: dict[str, Place], back: bool) -> None:
        for s in reversed(body) if back else body:
            self.statement(s, env, back)

    def statement(self, s: syntax.Statement, env: dict[str, Place], back: bool) -> None:
        try:
            self.inner_statement(s, env, back)
        except Halt as halt:
            halt.line = halt.line or s.span.line
            raise

    def inner_statement(self, s: syntax.Statement, env: dict[str, Place], back: bool) -> None:
        self.steps += 1
        if self.steps > 30_000:
            raise Halt("long")
        match s:
            case syntax.Update(target=target, operator=op, value=value):
                cell = self.place(target, env)
                self.changed = cell
                try:
                    v = self.value(value, env)[0]
                finally:
                    self.changed = None
                updated(cell, op, v, (op in ("+=", "*=")) != back)
            case syntax.Swap(left=left, right=right):
                a, b = self.place(left, env), self.place(right, env)
                self.swap(a, b)
            case syntax.If(condition=first, then=then, orelse=orelse, exit=last):
                if back:
                    first, last = last, first
                taken = self.truth(first, env)
                self.block(then if taken else orelse, env, back)
                if self.truth(last, env) != taken:
                    raise Halt("condition")
            case syntax.Loop(entry=first, do=do, loop=loop, exit=last):
                if back:
                    first, last = last, first
                self.loop(first, do, loop, last, env, back)
            case syntax.Iterate():
                self.iterate(s, env, back)
            case syntax.Local(declarations=declarations, body=body, releases=releases):
                first_, last_ = (releases, declarations) if back else (declarations, releases)
                for d in first_:
                    self.declare(d, env)
                self.block(body, env, back)
                for d, e in zip(reversed(last_), reversed(first_), strict=True):
                    self.release(d, env, e)
            case syntax.Push(value=value, stack=stack) | syntax.Pop(value=value, stack=stack):
                self.move(self.place(value, env), self.place(stack, env), isinstance(s, syntax.Push) != back)
            case syntax.Call(name=name, arguments=arguments, backward=backward):
                self.call(self.procedures[name], arguments, env, backward != back)
            case syntax.Assert(condition=condition):
                if not self.truth(condition, env):
                    raise Halt("assert")
            case syntax.Error():
                raise Halt("assert")
            case syntax.Print(text=text):
                self.lines.append(text)
            case syntax.Show(arguments=arguments):
                self.lines.append(", ".join(f"{r.name} = {self.printed(self.place(r, env))}" for r in arguments))
            case syntax.Printf(text=text, arguments=arguments):
                values = iter([self.printed(self.place(r, env)) for r in arguments])
                self.lines.append(re.sub("%[dabt%]", lambda m: "%" if m[0] == "%%" else next(values), text))

    def swap(self, a: Place, b: Place) -> None:
        if a is b:
            raise Halt("alias")
        match a:
            case Cell():
                if a.same(b):
                    raise Halt("alias")
                a.value, b.value = b.value, a.value
            case Grid():
                i, j, n = a.at, b.at, a.size
                a.words[i : i + n], b.words[j : j + n] = b.words[j : j + n], a.words[i : i + n]
            case dict() | Rows():
                for k in a if isinstance(a, dict) else range(len(a)):
                    self.swap(a[k], b[k])
            case _:
                a[:], b[:] = b[:], a[:]

    @staticmethod
    def printed(place: Place) -> str:
        if isinstance(place, Cell):
            return str(place.value) if place.type is not None else str(bool(place.value)).lower()
        raise NotImplementedError

    def move(self, cell: Cell | list[Any], stack: list[Any], push: bool) -> None:
        if isinstance(cell, list):
            if push:
                stack.append(cell[:])
                cell.clear()
                return
            if not stack:
                raise Halt("stack")
            if cell:
                raise Halt("delocal")
            cell[:] = stack.pop()
            return
        if push:
            stack.append(cell.value)
            cell.value = 0
            return
        if cell.value:
            raise Halt("delocal")
        if not stack:
            raise Halt("stack")
        cell.value = stack.pop()

    def loop(self, first: Any, do: Any, loop: Any, last: Any, env: dict[str, Place], back: bool) -> None:
        if not self.truth(first, env):
            raise Halt("condition")
        self.block(do, env, back)
        while not self.truth(last, env):
            self.block(loop, env, back)
            if self.truth(first, env):
                raise Halt("condition")
            self.block(do, env, back)

    def iterate(self, s: syntax.Iterate, env: dict[str, Place], back: bool) -> None:
        """local v = a; from v = a loop body; v += step until v = b + step; delocal v = b + step."""
        t = self.type_of(s.type)

        def ends() -> tuple[int, int, int]:
            by = 1 if s.step is None else self.value(s.step, env)[0]
            return self.value(s.start, env)[0], wrapped(self.value(s.stop, env)[0] + by, t), by

        begin, end, _ = ends()
        v = env[s.name] = Cell([0], 0, t)
        v.value = end if back else begin
        while v.value != (begin if back else end):
            by = ends()[2]
            if back:
                v.value -= by
            self.block(s.body, env, back)
            if not back:
                v.value += by
            self.steps += 1
            if self.steps > 30_000:
                raise Halt("long")
        del env[s.name]

    def call(self, p: syntax.Procedure, arguments: Any, env: dict[str, Place], back: bool) -> None:
        inner: dict[str, Place] = {}
        held: list[tuple[Cell, syntax.Expression]] = []
        for parameter, a in zip(p.parameters, arguments, strict=True):
            if isinstance(a, syntax.Reference):
                inner[parameter.name] = self.place(a, env)
            else:
                cell = Cell([0], 0, self.type_of(parameter.type))
                cell.value = self.value(a, env)[0]
                inner[parameter.name] = cell
                held.append((cell, a))
        self.block(p.body, inner, back)
        for cell, e in held:
            if cell.value != wrapped(self.value(e, env)[0], cell.type):
                raise Halt("delocal")

    # ------------------------------------------------------------------ expressions

    def place(self, r: syntax.Reference, env: dict[str, Place]) -> Place:
        first, *fields = r.name.split(".")
        place, indices = env[first], iter(r.indices)
        counts = r.counts or (len(r.indices),)
        for k, count in enumerate(counts):
            if k:
                place = place[fields[k - 1]]
            for _ in range(count):
                place = place.part(self.value(next(indices), env)[0])
        return place

    def truth(self, e: syntax.Expression, env: dict[str, Place]) -> bool:
        value, t = self.value(e, env)
        assert t is None
        return bool(value)

    def value(self, e: syntax.Expression, env: dict[str, Place]) -> Value:
        """(value, type) of an expression."""
        match e:
            case syntax.Number(value=number):
                return wrapped(number, (self.width, True)), LITERAL
            case syntax.Truth(value=truth):
                return int(truth), None
            case syntax.Reference():
                cell = self.place(e, env)
                if self.changed is not None and cell.same(self.changed):
                    raise Halt("alias")
                return cell.value, cell.type
            case syntax.Unary(operator="!", operand=x):
                return 1 - self.value(x, env)[0], None
            case syntax.Unary(operand=x):
                value, t = self.value(x, env)
                return self.fit(~value, t)
            case syntax.Cast(type=name, operand=x):
                t = self.type_of(name)
                return wrapped(self.value(x, env)[0], t), t
            case syntax.Size(of=of):
                place = self.place(of, env)
                return (len(place) if isinstance(place, list) else place.lengths[0]), (self.width, True)
            case syntax.Empty(of=of):
                return int(not self.place(of, env)), None
            case syntax.Top(of=of):
                stack = self.place(of, env)
                if not stack:
                    raise Halt("stack")
                return stack[-1], (self.width, True)
            case syntax.Binary(operator="&&", left=left, right=right):
                return (self.value(right, env)[0] if self.value(left, env)[0] else 0), None
            case syntax.Binary(operator="||", left=left, right=right):
                return (1 if self.value(left, env)[0] else self.value(right, env)[0]), None
            case syntax.Binary(operator=op, left=left, right=right):
                (x, t), (y, u) = self.value(left, env), self.value(right, env)
                if op not in ("<<", ">>") and LITERAL in (t, u) and t != u:
                    # A literal has the type of the operand beside it.
                    t = u if t == LITERAL else t
                    x, y = wrapped(x, t), wrapped(y, t)
                return self.binary(op, x, y, t)
        raise TypeError(e)

    def fit(self, value: int, t: Any) -> Value:
        return wrapped(value, (self.width, True) if t == LITERAL else t), t

    def binary(self, op: str, x: int, y: int, t: Any) -> Value:
        compared = {"=": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
        if op in compared:
            return int(compared[op]), None
        if op in "/%" and y == 0:
            raise Halt("division")
        if op == "**" and y < 0:
            raise Halt("power")
        match op:
            case "+" | "-" | "*" | "/" | "%":
                found = {
                    "+": lambda: x + y,
                    "-": lambda: x - y,
                    "*": lambda: x * y,
                    "/": lambda: x // y,
                    "%": lambda: x % y,
                }
                return self.fit(found[op](), t)
            case "&" | "|" | "^":
                return self.fit({"&": x & y, "|": x | y, "^": x ^ y}[op], t)
            case "**":
                bits = self.width if t == LITERAL or t is None else t[0]
                return self.fit(pow(x, y, 1 << bits), t)
        bits, signed = (self.width, True) if t == LITERAL else t
        if not 0 <= y < bits:
            return (-1 if op == ">>" and signed and x < 0 else 0), t
        return self.fit(x << y if op == "<<" else x >> y, t)
