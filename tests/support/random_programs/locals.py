"""Random statements that make variables, and undo what they were used for; and calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .scope import LONGEST, Scope, Var, kinds
from .statements import INT, Lines, Statements, indent
from .values import Many, Pile, Record, Scalar, Type

_ZERO = {"int": "0", "fixed": "fixed(0)", "bool": "False"}


@dataclass(frozen=True)
class Parameter:
    """`role`: "data"; "depth" for what bounds a recursion; "function" for one with the parameters `STEP`."""

    name: str
    type: Type
    written: bool = False
    role: str = "data"


@dataclass(frozen=True)
class Signature:
    """A function that may be called. `method`: it is one of a struct, its first parameter's type."""

    name: str
    parameters: tuple[Parameter, ...]
    cost: int
    method: bool = False


class Locals(Statements):
    """Writes blocks with local variables, routines and calls."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.signatures: list[Signature] = []
        #: functions whose calls have a value
        self.valued: list[Signature] = []
        self._calling = False
        #: functions of arrays of any length: (name, kind, whether they change their first array)
        self.of_run_lengths: list[tuple[str, str, bool]] = []
        self.records: list[Record] = []
        self.deepest[self.routine] = 2
        self.statements |= {
            self.routine: 2.5, self.ancilla: 2.5, self.accumulator: 2, self.call: 5, self.each: 1, self.stack: 1.2,
            self.view: 1, self.array_of_the_run: 0.8, self.conjugation: 1.5, self.local_struct: 0.6, self.copied_array: 0.8,
        }  # fmt: skip

    @contextmanager
    def segment(self, fixed: set[str] | frozenset[str] = frozenset()) -> Iterator[Scope]:
        """Statements of this block, during which more is fixed."""
        outer = self.scope
        self.scope = Scope(dict(outer.vars), outer.fixed | fixed, set(outer.held))
        yield self.scope
        self.scope = outer

    def some(self, most: int = 2) -> Lines:
        """Statements, or none; what they made stays."""
        found = self.body(self.rng.randint(1, most))
        return [] if found == ["pass"] else found

    def closed(self, most: int = 2) -> Lines:
        """Statements, and what frees all that this segment made: what follows may change what it was made from."""
        return [*self.some(most), *(f"del {name}" for name in reversed(self.scope.made))]

    # ------------------------------------------------------------------ ancillas

    def ancilla(self) -> Lines | None:
        """`t = e`, freed at the end of its scope or by `del`; meanwhile nothing that e reads changes."""
        kind = self.pick(("int", "int", "fixed", "bool", "lognum"))
        name = self.name("t")
        with self.recording() as record:
            e = self.expression(kind, 2)
        made = f"{name}: {kind} = {e}" if kind == "fixed" or self.chance(0.3) else f"{name} = {e}"
        var = Var(name, Scalar(kind), writable=False)
        if self.chance(0.5):
            self.scope.held |= record.reads
            self.scope.made.append(name)
            self.declare(var)
            return [made]
        with self.segment(record.reads):
            self.declare(var)
            free = (
                f"rg.free({name}, {e})"
                if kind != "fixed" and record.reads and ":" not in made and self.chance(0.5)
                else f"del {name}"
            )
            return [made, *self.closed(), free]

    def copied_array(self) -> Lines | None:
        """`t = an array expression`."""
        found = self.arrays(("int", "fixed"))
        if not found:
            return None
        model = self.pick(found)
        assert isinstance(model.type, Many)
        (kind,) = kinds(model.type)
        with self.recording() as record:
            e = self.array_of(kind, model.type.shape, 1)
        if e is None or not any(c in e for c in "+*") or not record.reads:
            return None
        name = self.name("t")
        self.scope.made.append(name)
        self.scope.held |= record.reads
        self.declare(Var(name, Many(Scalar(kind), model.type.shape), writable=False))
        return [f"{name} = {e}"]

    def local_struct(self) -> Lines | None:
        if not self.records:
            return None
        record_type = self.pick(self.records)
        with self.recording() as record:
            made = self.constructed(record_type)
        if made is None:
            return None
        name = self.name("q")
        self.scope.made.append(name)
        self.scope.held |= record.reads
        self.declare(Var(name, record_type, writable=False))
        return [f"{name} = {made}"]

    def fields(self, t: Record, write: bool) -> list[Var] | None:
        """Distinct arrays for the fields of a struct."""
        raise NotImplementedError

    def open_place(self, t: Record) -> tuple[str, Var, set[str]] | None:
        """A struct of arrays that may be changed, or a variable of the type: (text, variable, its other arrays)."""
        whole = [v for v in self.changeable() if v.type == t]
        found = [self.pick(whole)] if whole else self.fields(t, True)
        if found is None:
            return None
        for var in found:
            self.writes(var)
        first, *others = found
        text = first.name if whole else f"{t.name}({', '.join(v.name for v in found)})"
        return text, first, {v.base for v in others} | {u for v in found for u in v.uses}

    def constructed(self, t: Record) -> str | None:
        if t.name == "D":
            found = self.fields(t, False)
            for var in found or ():
                self.reads(var)
            return None if found is None else f"D({', '.join(v.name for v in found)})"
        if not all(isinstance(inner, Scalar) for _, inner in t.fields):
            return None
        values = [self.expression(inner.kind, 1) for _, inner in t.fields if isinstance(inner, Scalar)]
        return f"{t.name}({', '.join(values)})"

    def view(self) -> Lines | None:
        """Another name for an array, a part of it, or a struct."""
        found = [v for v in self.scope.vars.values() if isinstance(v.type, Many | Record)]
        if not found:
            return None
        var = self.pick(found)
        text, t = var.name, var.type
        # What is no loop's index may change while the view is in use.
        moving = {v.base for v in self.scope.vars.values() if v.range is None}
        with self.recording() as record, self.avoiding({var.base, *moving}):
            if isinstance(t, Many) and (len(t.shape) == 2 or isinstance(t.element, Record)):
                n, *rest = t.shape
                if rest and self.chance(0.4):
                    text, t = f"{text}.T", Many(t.element, t.shape[::-1])
                else:
                    text, t = f"{text}[{self.index(n)}]", Many(t.element, tuple(rest)) if rest else t.element
            elif isinstance(t, Many):
                shape = tuple(self.rng.randint(1, n) for n in t.shape)
                part = self.slice_of(var, shape)
                text, t = (part, Many(t.element, shape)) if part is not None else (text, t)
        if isinstance(t, Scalar):
            return None
        name = self.name("w")
        uses = frozenset(record.reads | var.uses)
        self.scope.held |= uses
        self.declare(Var(name, t, var.writable, var.base, uses=uses))
        return [f"{name} = {text}"]

    # ------------------------------------------------------------------ compute, use, uncompute

    def accumulator(self) -> Lines | None:
        """A variable that is brought back to zero by hand."""
        kind = self.pick(("int", "int", "fixed", "bool"))
        name = self.name("s")
        start = {"int": "11", "fixed": "fixed(1.625)", "bool": "False"}[kind] if self.chance(0.3) else _ZERO[kind]
        with self.recording() as record, self.segment():
            pairs = [self._step(name, kind) for _ in range(self.rng.randint(1, 3))]
        with self.segment(record.reads):
            self.declare(Var(name, Scalar(kind), writable=False))
            body = self.closed()
        done = [line for do, _ in pairs for line in do]
        undone = [line for _, undo in reversed(pairs) for line in undo]
        return [f"{name} = {start}", *done, *body, *undone, f"del {name}"]

    def array_of_the_run(self) -> Lines | None:
        """An array whose length is known only when the program runs, filled, used and cleared; functions do this, too."""
        kind = self.pick(("int", "fixed"))
        functions = [f for f in self.of_run_lengths if f[1] == kind]
        filling, summing = ([f for f in functions if f[2] == whether] for whether in (True, False))
        name, index = self.name("w"), self.name("i")
        with self.recording() as record, self.segment():
            length = f"({self.integer(1)}) % 4 + {self.pick((0, 1))}"
            other = self.expression(kind, 1)
            self.declare(Var(index, INT, writable=False, range=(0, 4)))
            e = self.expression(kind, 1)
        part = self.pick((name, name, f"{name}[1:]")) if length.endswith("1") else name
        with self.segment(record.reads):
            body = self.closed(1)
            place = self.place({kind})
            use = [] if place is None else [f"{place[0]} {self.pick('+-')}= rg.sum({name})"]
            if place is not None and summing:
                f = self.pick(summing)[0]
                use.append(self.pick((f"{place[0]} += {f}({part}, {name})", f"~{f}({place[0]}, {name}, {part})")))
        head = f"for {index} in range(len({name})):"
        dtype = ", dtype=int" if kind == "int" else ""
        filled, cleared = [head, f"    {name}[{index}] += {e}"], [head, f"    {name}[{index}] -= {e}"]
        if filling and self.chance(0.7):
            call = f"{self.pick(filling)[0]}({part}, {other})"
            filled, cleared = [*filled, call], [f"~{call}", *cleared]
            self.cost += 12 * self.times
        return [f"{name} = rg.zeros({length}{dtype})", *filled, *body, *use, *cleared, f"del {name}"]

    def _step(self, name: str, kind: str) -> tuple[Lines, Lines]:
        """Lines that change a local variable, and those that undo it."""
        sign, undo = self.pick((("+", "-"), ("-", "+"))) if kind != "bool" else ("^", "^")
        if kind == "bool" or self.chance(0.6):
            e = self.expression(kind, 2)
            return [f"{name} {sign}= {e}"], [f"{name} {undo}= {e}"]
        index = self.name("i")
        bounds, known, _ = self._range()
        with self.block():
            self.declare(Var(index, INT, writable=False, range=known))
            e = self.expression(kind, 1)
        head = f"for {index} in range({bounds}):"
        return [head, f"    {name} {sign}= {e}"], [head, f"    {name} {undo}= {e}"]

    def conjugation(self) -> Lines | None:
        """s; …; s⁻¹ for a statement s that changes something of the block's surroundings."""
        with self.recording() as record:
            choice = self.rng.randrange(3)
            if choice == 0:
                text = self.call_text()
                pair = None if text is None else (text, text[1:] if text.startswith("~") else f"~{text}")
            else:
                pair = self.reversible_update() if choice == 1 else self.reversible_bijection()
        if pair is None:
            return None
        with self.segment(record.reads | record.writes):
            return [pair[0], *self.closed(), pair[1]]

    def routine(self) -> Lines | None:
        """`with rg.routine() as r: …`, then what uses it, `~r`; sometimes once more."""
        name = self.name("r")
        self.depth += 1
        with self.segment() as scope, self.recording() as record:
            made: Lines = []
            for _ in range(self.rng.randint(1, 2)):
                made += self._local()
            compute = [*made, *self.some(3)]
            computed = dict(scope.vars)
        self.depth -= 1
        own = computed.keys() - self.scope.vars.keys()
        visible = {
            n: Var(v.name, v.type, False, v.root, v.range, v.uses) if n in own else v for n, v in computed.items()
        }
        out = [f"with rg.routine() as {name}:", *indent(compute)]
        for again in (False, True):
            if again:
                if self.chance(0.75):
                    break
                with self.segment():
                    out += [*self.closed(1), f"{name}()"]
            # Sometimes a variable of the routine changes before the routine is uncomputed.
            loose = self.chance(0.15)
            with self.segment(set() if loose else record.reads | record.writes) as scope:
                scope.vars.update(visible)
                body = [*self.some(3), *(self.disturbance(record.reads) if loose else [])]
                out += [*body, f"~{name}"]
        return out

    def disturbance(self, roots: set[str]) -> Lines:
        """A change of one of these roots, from which the routine computed."""
        found = [v for v in self.changeable({"int"}) if v.base in roots]
        return [f"{self.element(self.pick(found), 'int', write=True)[0]} += 1"] if found else []

    def _local(self) -> Lines:
        """A variable that the routine made and may change."""
        name = self.name("m")
        match self.rng.randrange(5):
            case 0 | 1:
                kind = self.pick(("int", "fixed", "bool"))
                e = self.expression(kind, 1)
                self.declare(Var(name, Scalar(kind)))
                return [f"{name} = {_ZERO[kind]}", f"{name} {'^' if kind == 'bool' else '+'}= {e}"]
            case 2 | 3:
                kind = self.pick(("int", "fixed"))
                models = self.arrays((kind,))
                if models and self.chance(0.25):
                    model = self.pick(models)
                    self.declare(Var(name, model.type))
                    return [f"{name} = rg.zeros_like({model.name})"]
                shape = self.pick(((2,), (3,), (2, 2)))
                self.declare(Var(name, Many(Scalar(kind), shape)))
                dtype = f", dtype={kind}" if kind != "fixed" or self.chance(0.3) else ""
                return [f"{name} = rg.zeros({', '.join(map(str, shape))}{dtype})"]
        e = self.lognum(1)
        self.declare(Var(name, Scalar("lognum")))
        return [f"{name} = lognum({self.pick(('1.0', '2.0'))})", f"{name} *= {e}"]

    # ------------------------------------------------------------------ stacks

    def stack(self) -> Lines | None:
        found = [v for v in self.scope.vars.values() if isinstance(v.type, Pile) and self.may_change(v)]
        place = self.place({"int", "fixed"})
        if place is None:
            return None
        x, kind, var, uses = place
        own = [v for v in found if isinstance(v.type, Pile) and v.type.kind == kind]
        made: Lines = []
        if own and self.chance(0.7):
            stack = self.pick(own).name
            if self.times == 1 and self.chance(0.5):
                self.writes(self.scope.vars[stack])
                return [f"rg.push({stack}, {x})"]
        else:
            stack = self.name("p")
            made = [f"{stack} = rg.stack({kind}, {self.rng.randint(2, 4)})"]
        if not made:
            self.writes(self.scope.vars[stack])
        freed = [f"del {stack}"] if made else []
        other = self.second(kind, var, uses) if self.chance(0.3) else None
        if other is not None:
            # Last in, first out: two that are popped in the order in which they were pushed change places.
            y = other[0]
            lines = [f"rg.{name}({stack}, {place})" for name in ("push", "pop") for place in (x, y)]
            return [*made, *lines, *freed]
        with self.segment({var.base, *uses, stack}):
            return [*made, f"rg.push({stack}, {x})", *self.closed(), f"rg.pop({stack}, {x})", *freed]

    # ------------------------------------------------------------------ calls

    def call(self) -> Lines | None:
        text = self.call_text()
        return None if text is None else [text]

    def call_text(self) -> str | None:
        """A call or an uncall of a function, on places that are distinct and that nothing else in the call reads."""
        fitting = [s for s in self.signatures if self.cost + self.times * s.cost <= LONGEST]
        return self.call_of(self.pick(fitting)) if fitting else None

    def call_of(self, s: Signature, depth: str | None = None) -> str | None:
        args = self._arguments(s, depth)
        if args is None:
            return None
        self.cost += self.times * s.cost
        prefix = "~" if self.chance(0.3) else ""
        names = [p.name for p in s.parameters]
        if s.method:
            receiver, *args = args
            return f"{prefix}{receiver}.{s.name}({', '.join(args)})"
        # A function that was passed under a name has parameters of other names.
        cut = len(args) if self.chance(0.8) or s.name == PASSED else self.rng.randrange(len(args))
        given = [*args[:cut], *(f"{n}={a}" for n, a in zip(names[cut:], args[cut:], strict=True))]
        return f"{prefix}{s.name}({', '.join(given)})"

    def call_value(self, kind: str) -> str | None:
        """`f(…)` without the result, which is f's first parameter."""
        fitting = [s for s in self.valued if s.parameters[0].type == Scalar(kind)]
        # A call within a call would be computed again at each level.
        if not fitting or self._calling:
            return None
        s = self.pick(fitting)
        self._calling = True
        args = [self._argument_value(p, None) for p in s.parameters[1:]]
        self._calling = False
        if None in args:
            return None
        self.cost += 2 * self.times * s.cost
        names = [p.name for p in s.parameters[1:]]
        cut = len(args) if self.chance(0.8) else self.rng.randrange(len(args))
        given = [*args[:cut], *(f"{n}={a}" for n, a in zip(names[cut:], args[cut:], strict=True))]
        return f"{s.name}({', '.join(map(str, given))})"

    def _arguments(self, s: Signature, depth: str | None) -> list[str] | None:
        out: dict[str, str] = {}
        bases: set[str] = set()
        uses: set[str] = set()
        for p in s.parameters:
            if p.written:
                with self.avoiding(bases | uses):
                    found = self._argument_place(p.type, depth is not None)
                if found is None or bases & found[2]:
                    return None
                out[p.name] = found[0]
                # Each array of a struct is changed.
                bases |= {found[1].base} | (found[2] if isinstance(p.type, Record) else set())
                uses |= found[2]
        for p in s.parameters:
            if not p.written:
                with self.avoiding(bases):
                    text = self._argument_value(p, depth)
                if text is None:
                    return None
                out[p.name] = text
        return [out[p.name] for p in s.parameters]

    def _argument_place(self, t: Type, whole: bool) -> tuple[str, Var, set[str]] | None:
        """Something of the type that may be changed: (text, variable, what its address reads)."""
        match t:
            case Scalar(kind):
                place = self.place({kind})
                return None if place is None else (place[0], place[2], place[3])
            case Many(element, shape):
                parts = []
                for v in self.changeable(kinds(t)):
                    if not isinstance(v.type, Many) or v.type.element != element or len(v.type.shape) < len(shape):
                        continue
                    if v.type.shape == shape or not whole:
                        parts.append((v, v.name if whole else self.slice_of(v, shape)))
            case Record("D"):
                return self.open_place(t)
            case Record():
                parts = [(v, v.name) for v in self.changeable() if v.type == t]
                parts += [(v, f"{v.name}[{self.rng.randrange(v.type.shape[0])}]") for v in self.changeable()
                          if isinstance(v.type, Many) and v.type.element == t and len(v.type.shape) == 1]  # fmt: skip
            case Pile():
                parts = [(v, v.name) for v in self.scope.vars.values() if v.type == t and self.may_change(v)]
        chosen = [(v, text) for v, text in parts if text is not None]
        if not chosen:
            return None
        var, text = self.pick(chosen)
        self.writes(var)
        names = {v.name: v.base for v in self.scope.vars.values()}
        return text, var, {base for name, base in names.items() if name in text and name != var.name} | var.uses

    def _argument_value(self, p: Parameter, depth: str | None) -> str | None:
        match p.role, p.type:
            case "depth", _:
                return depth or (self.small_int(0, 3) if self.chance(0.6) else str(self.rng.randrange(4)))
            case "function", _:
                wanted = [s for s in self.signatures if [(q.type, q.written, q.role) for q in s.parameters] == STEP]
                return f"{self.pick(('', '~'))}{self.pick(wanted).name}" if wanted else None
            case _, Scalar(kind):
                return self.expression(kind, 1)
            case _, Many(Scalar(kind), shape):
                return self._array_leaf(kind, shape)
            case _, Record() as t:
                found = [
                    v
                    for v in self.scope.vars.values()
                    if v.type == t and v.base not in self.avoid and not v.uses & self.avoid
                ]
                if found and self.chance(0.8):
                    var = self.pick(found)
                    self.reads(var)
                    return var.name
                return self.constructed(t)
        return None

    def each(self) -> Lines | None:
        line = self.each_of(self.pick(self.signatures)) if self.signatures else None
        return None if line is None else [line]

    def each_of(self, s: Signature) -> str | None:
        """`f.each(xs, ys, c)`: every scalar that f changes is taken from an array of its own."""
        if s.method or not all(p.role == "data" and isinstance(p.type, Scalar) for p in s.parameters):
            return None
        if not any(p.written for p in s.parameters) or self.cost + self.times * 4 * s.cost > LONGEST:
            return None
        args: dict[str, str] = {}
        bases: set[str] = set()
        length = 0
        for p in sorted(s.parameters, key=lambda p: not p.written):
            assert isinstance(p.type, Scalar)
            with self.avoiding(bases):
                found = [v for v in (self.changeable({p.type.kind}) if p.written else self.readable(p.type.kind))
                         if isinstance(v.type, Many) and v.type.element == p.type and len(v.type.shape) == 1
                         and length in (0, v.type.shape[0])]  # fmt: skip
                if found and (p.written or self.chance(0.5)):
                    var = self.pick(found)
                    assert isinstance(var.type, Many)
                    length = var.type.shape[0]
                    (self.writes if p.written else self.reads)(var)
                    args[p.name] = var.name
                elif p.written:
                    return None
                else:
                    args[p.name] = self.expression(p.type.kind, 1)
            if p.written:
                bases.add(var.base)
        self.cost += self.times * length * s.cost
        return f"{'~' if self.chance(0.3) else ''}{s.name}.each({', '.join(args[p.name] for p in s.parameters)})"


#: parameters of functions that may be passed to others
STEP = [(INT, True, "data"), (INT, False, "data")]
#: what they are called there
PASSED = "g"
__all__ = ["PASSED", "Locals", "Parameter", "Signature"]
