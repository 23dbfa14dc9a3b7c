"""Random expressions: their text, typed and total, or nearly so."""

from __future__ import annotations

import re
from collections.abc import Callable

from .scope import Var, Writer, kinds
from .values import Many, Pile, Record, Scalar, Type


class Expressions(Writer):
    """Writes expressions over what the scope has; what they read is noted."""

    # ------------------------------------------------------------------ places

    def element(self, var: Var, kind: str, write: bool = False) -> tuple[str, set[str]]:
        """A scalar of the kind within a variable: (text, what its address reads). Marks it as read or changed."""
        text, t = var.name, var.type
        with self.recording() as record, self.avoiding({var.base} if write else set()):
            while not isinstance(t, Scalar):
                text, t = self._inside(text, t, kind)
        if write:
            self.writes(var)
        else:
            self.reads(var)
        return text, {*record.reads, *var.uses}

    def _inside(self, text: str, t: Type, kind: str) -> tuple[str, Type]:
        match t:
            case Many(element, shape):
                keys = [self.index(n) for n in shape]
                joined = "][".join(keys) if self.chance(0.3) else ", ".join(keys)
                return f"{text}[{joined}]", element
            case Record(_, fields):
                name, inner = self.pick([f for f in fields if kind in kinds(f[1])])
                return f"{text}.{name}", inner
        raise AssertionError(t)

    def index(self, length: int) -> str:
        """An index that is in range."""
        known = [v for v in self.readable("int") if v.range is not None and v.type == Scalar("int")]
        fits = []
        for v in known:
            assert v.range is not None
            low, high = v.range
            if low >= 0 and high < length:
                fits.append((v, v.name))
                fits.append((v, f"{length - 1} - {v.name}"))
                fits.append((v, f"-{v.name} + {length - 1}"))
            shift = self.rng.randint(-2, 2)
            if shift and low + shift >= 0 and high + shift < length:
                fits.append((v, f"{v.name} {'+' if shift > 0 else '-'} {abs(shift)}"))
        if fits and self.chance(0.65):
            v, text = self.pick(fits)
            self.reads(v)
            return text
        if self.chance(0.3):
            inner = self.reference("int")
            if inner is not None:
                return (
                    f"({inner}) % {length}" if self.chance(0.7) else f"({inner} + {self.rng.randint(1, 3)}) % {length}"
                )
        return str(self.rng.randrange(length) if self.chance(0.8) else -self.rng.randint(1, length))

    def reference(self, kind: str) -> str | None:
        """Something in scope of this kind."""
        found = self.readable(kind)
        if not found:
            return None
        return self.element(self.pick(found), kind)[0]

    def place(self, accept: set[str]) -> tuple[str, str, Var, set[str]] | None:
        """Something that may be changed: (text, kind, variable, what its address reads)."""
        found = self.changeable(accept)
        if not found:
            return None
        var = self.pick(found)
        kind = self.pick(sorted(kinds(var.type) & accept))
        text, reads = self.element(var, kind, write=True)
        return text, kind, var, reads

    # ------------------------------------------------------------------ numbers

    def expression(self, kind: str, depth: int = 2) -> str:
        return {"int": self.integer, "fixed": self.fixed, "bool": self.truth, "lognum": self.lognum}[kind](depth)

    def _leaf(self, kind: str, constant: Callable[[], str]) -> str:
        found = None if self.chance(0.12) else self.reference(kind)
        return constant() if found is None else found

    def dynamic(self, kind: str) -> str | None:
        """A number that is not known when the program is compiled."""
        found = [v for v in self.readable(kind) if v.range is None or v.range[0] != v.range[1]]
        return self.element(self.pick(found), kind)[0] if found else None

    def call_value(self, kind: str) -> str | None:
        """The value of a call of a function that changes its result only."""
        raise NotImplementedError

    def _of_a_pile(self, kind: str) -> str | None:
        """The length of a stack, or a word of it."""
        found = [v for v in self.scope.vars.values() if isinstance(v.type, Pile) and v.base not in self.avoid]
        if not found:
            return None
        var = self.pick(found)
        assert isinstance(var.type, Pile)
        if kind not in (var.type.kind, "int"):
            return None
        self.reads(var)
        if var.type.kind != kind or self.chance(0.4):
            return f"len({var.name})"
        word = self.pick((f"rg.top({var.name})", f"{var.name}[0]", f"{var.name}[-1]"))
        return f"({word} if {var.name} else {'0' if kind == 'int' else '0.5'})"

    def _of_a_part(self, kind: str) -> str | None:
        """The sum of a slice whose end is known only when the program runs."""
        found = [v for v in self.arrays((kind,)) if isinstance(v.type, Many) and len(v.type.shape) == 1]
        end = self.reference("int")
        if not found or end is None:
            return None
        var = self.pick(found)
        assert isinstance(var.type, Many)
        self.reads(var)
        if kind == "fixed" and self.chance(0.3):
            return f"rg.mean({var.name}[: ({end}) % {var.type.shape[0]} + 1])"
        end = f"({end}) % {var.type.shape[0] + 1}"
        part = f"{var.name}[{self.pick((f': {end}', f'{end} :'))}]"
        return f"rg.sum({part} * {part})" if kind == "int" and self.chance(0.3) else f"rg.sum({part})"

    def small_int(self, low: int, high: int) -> str:
        """An int from low to high, whose bounds the compiler sees."""
        inner = self.integer(1 if self.chance(0.2) else 0)
        text = f"({inner}) % {high - low + 1}"
        return text if low == 0 else f"{text} + {low}"

    def integer(self, depth: int = 2) -> str:
        pile = self._of_a_pile("int") if depth > 0 and self.chance(0.1) else None
        if pile is not None:
            return pile
        part = self._of_a_part("int") if depth > 0 and self.chance(0.06) else None
        if part is not None:
            return part
        called = self.call_value("int") if depth > 0 and self.chance(0.15) else None
        if called is not None:
            return called
        if depth <= 0 or self.chance(0.15):
            if self.constants and self.chance(0.08):
                name, values = self.pick(list(self.constants.items()))
                return f"{name}[{self.index(len(values))}]"
            return self._leaf("int", lambda: str(self.rng.randint(-3, 7)))

        def x() -> str:
            return self.integer(depth - 1)

        def y() -> str:
            return self.integer(depth - 2)

        match self.rng.randrange(21):
            case 0 | 1 | 2 | 3:
                return f"{x()} {self.pick('+-')} {self._wrapped(y())}"
            case 4 | 5:
                return f"{self._wrapped(x())} * {self._wrapped(y())}"
            case 6:
                return f"({x()}) {self.pick(('//', '%'))} {self.pick((2, 3, 5, 7, -3))}"
            case 7:
                return f"({x()}) {self.pick(('//', '%'))} ({self.small_int(1, 4)})"
            case 8 | 9:
                return f"({x()} {self.pick('&|^')} {self._wrapped(y())})"
            case 10:
                amount = self.small_int(0, 4) if self.chance(0.4) else self.rng.randrange(6)
                return f"(({x()}) {self.pick(('<<', '>>'))} ({amount}))"
            case 11:
                return f"{self.pick('-~')}({x()})"
            case 12:
                return f"abs({x()})"
            case 13:
                more = f", {y()}" if self.chance(0.3) else ""
                return f"{self.pick(('min', 'max'))}({x()}, {y()}{more})"
            case 14:
                return self._chosen("int", x(), y())
            case 15:
                return f"rg.floor({self.fixed(depth - 1)})"
            case 16:
                found = self.array(("int",), depth - 1)
                return x() if found is None else f"rg.sum({found})"
            case 20:
                found = self._array_leaf("int", (3,))
                return x() if found is None else f"({found} + {self._wrapped(y())})[{self.rng.randrange(-3, 3)}]"
            case 19:
                matrix, vector = self._array_leaf("int", (2, 3)), self._array_leaf("int", (3,))
                return x() if matrix is None or vector is None else f"({matrix} @ {vector})[{self.rng.randrange(2)}]"
            case 17:
                return f"({x()}) ** {self.exponent(0)}"
            case 18:
                return self._guarded_element("int") or x()
        return f"({self.truth(depth - 1)}) + {self._wrapped(x())}"

    def exponent(self, least: int) -> str:
        """An integer exponent, a constant or one that is known only when the program runs."""
        if self.chance(0.5):
            return f"({self.small_int(least, 3)})"
        n = self.rng.randint(least, 4 if least == 0 else 1)
        return str(n) if n >= 0 else f"({n})"

    def _wrapped(self, text: str) -> str:
        return f"({text})" if " " in text or text.startswith("-") else text

    def _chosen(self, kind: str, x: str, y: str) -> str:
        condition = self.truth(1)
        return f"rg.select({condition}, {x}, {y})" if self.chance(0.6) else f"({x} if {condition} else {y})"

    def _guarded_element(self, kind: str) -> str | None:
        """An element at an index that may be out of range, looked at only where it is not."""
        arrays = [v for v in self.readable(kind) if isinstance(v.type, Many) and len(v.type.shape) == 1]
        arrays = [v for v in arrays if isinstance(v.type, Many) and v.type.element == Scalar(kind)]
        # An index that is certain to be out of range is refused, guarded or not.
        inner = [v for v in self.readable("int") if v.range is None]
        index = self.element(self.pick(inner), "int")[0] if inner else None
        if not arrays or index is None or self.target_is_memory:
            return None
        var = self.pick(arrays)
        assert isinstance(var.type, Many)
        self.reads(var)
        inside = f"0 <= {index} < {var.type.shape[0]}"
        return self._wrapped(f"{var.name}[{index}] if {inside} else {'0' if kind == 'int' else '0.5'}")

    #: whether the statement writes memory: what it might read is then tested even where it is not read
    target_is_memory = False

    def fixed_constant(self) -> str:
        return self.pick(("0.5", "1.25", "-2.0", "3.0", "0.1", "-0.75", "0.01"))

    def _varying(self, depth: int) -> str:
        """A number with a variable in it: Python computes products and complex functions of constants."""
        e = self.fixed(depth)
        if re.search(r"\b[a-z]+\d+\b(?!\()", e):
            return e
        x, n = self.dynamic("fixed"), self.dynamic("int")
        return f"{e} + {x}" if x is not None else e if n is None else f"{e} + ({n}) % 4"

    def fixed(self, depth: int = 2) -> str:
        pile = self._of_a_pile("fixed") if depth > 0 and self.chance(0.1) else None
        if pile is not None:
            return pile
        part = self._of_a_part("fixed") if depth > 0 and self.chance(0.06) else None
        if part is not None:
            return part
        called = self.call_value("fixed") if depth > 0 and self.chance(0.15) else None
        if called is not None:
            return called
        if depth <= 0 or self.chance(0.15):
            if self.chance(0.15):
                return f"fixed({self.small_int(-2, 3)})" if self.chance(0.5) else f"({self.small_int(-2, 3)})"
            return self._leaf("fixed", self.fixed_constant)

        def x() -> str:
            return self.fixed(depth - 1)

        def y() -> str:
            return self.fixed(depth - 2)

        match self.rng.randrange(22):
            case 0 | 1 | 2:
                return f"{x()} {self.pick('+-')} {self._wrapped(y())}"
            case 3:
                # Numbers with points of their own. A product as a factor would keep its bits: see `Arithmetic.binary`.
                e = self._wrapped(self._varying(depth - 1))
                return f"abs({self.pick((f'{e} * 3e-7', f'-0.0006 * {e}', f'{e} / 3e7', f'{e} / 4e-5'))})"
            case 4 | 5:
                return f"{self._wrapped(x())} * {self.pick(('0.5', '-0.25', '0.3', '2'))}"
            case 6:
                return f"{self.fixed(0)} * {self._wrapped(self.fixed(0))}"
            case 7:
                return f"{self._wrapped(x())} / {self.pick(('2', '4.0', '-1.5', '3'))}"
            case 8:
                return f"{self._wrapped(x())} / (abs({y()}) + 1)"
            case 9:
                return f"({x()}) % {self.pick(('2.0', '3', '0.7'))}"
            case 10 | 11 as sign:
                return f"{'-' if sign == 10 else 'abs'}({x()})"
            case 12:
                return f"{self.pick(('min', 'max'))}({x()}, {y()})"
            case 13:
                return self._chosen("fixed", x(), y())
            case 14 | 15:
                return f"rg.{self.pick(('sin', 'cos'))}({x()})"
            case 16:
                return f"rg.exp(rg.sin({x()}))"
            case 17:
                return self.pick((f"rg.sqrt(abs({x()}))", f"(abs({x()})) ** 0.5", f"rg.log(abs({x()}) + 0.5)"))
            case 18:
                return self.pick((f"rg.atan2({x()}, abs({y()}) + 0.5)",) * 2 + (f"rg.atan({x()})",))
            case 19:
                found = self.array(("fixed",), depth - 1)
                return x() if found is None else f"rg.{self.pick(('sum', 'mean'))}({found})"
            case 20:
                return self._guarded_element("fixed") or x()
        if self.chance(0.75):
            # Away from zero, so that negative powers have a value.
            return f"(abs({self.fixed(0)}) + 0.75) ** {self.exponent(-2)}"
        return (
            f"fixed({self.lognum(0)}) * 0.25" if self.readable("lognum") else f"({self.fixed(0)}) ** {self.exponent(0)}"
        )

    def truth(self, depth: int = 1) -> str:
        called = self.call_value("bool") if depth > 0 and self.chance(0.15) else None
        if called is not None:
            return called
        if depth <= 0 or self.chance(0.15):
            return self._leaf("bool", lambda: f"{self._leaf('int', lambda: '1')} < 3")
        relation = self.pick(("<", "<=", ">", ">=", "==", "!="))
        match self.rng.randrange(12):
            case 0 | 1 | 2:
                return f"{self._wrapped(self.integer(depth - 1))} {relation} {self._wrapped(self.integer(depth - 1))}"
            case 3 | 4:
                return f"{self._wrapped(self.fixed(depth - 1))} {relation} {self._wrapped(self.fixed(depth - 1))}"
            case 5:
                low, high = self._wrapped(self.integer(0)), self._wrapped(self.integer(0))
                return f"{low} {self.pick(('<', '<='))} {self._wrapped(self.integer(depth - 1))} {relation} {high}"
            case 6 | 7:
                word = self.pick((" and ", " or "))
                return word.join(f"({self.truth(depth - 1)})" for _ in range(self.pick((2, 2, 3))))
            case 8:
                return f"not ({self.truth(depth - 1)})"
            case 9:
                return f"({self._wrapped(self.integer(depth - 1))} % 2 == 0)"
            case 10:
                return f"(({self.truth(depth - 1)}) {self.pick('&|^')} ({self.truth(depth - 1)}))"
        return f"({self.integer(0)} + {self.integer(0)}) != 0"

    def lognum(self, depth: int = 1) -> str:
        if depth <= 0 or self.chance(0.3):
            return self._leaf("lognum", lambda: f"lognum({self.pick(('1.5', '-2.0', '0.25', '3'))})")
        match self.rng.randrange(6):
            case 0:
                return f"{self.lognum(0)} * {self.lognum(0)}"
            case 1:
                return f"{self.lognum(0)} / ({self.lognum(0)})"
            case 2:
                return f"lognum(abs({self.fixed(depth - 1)}) + 0.5)"
            case 3:
                return f"lognum({self.small_int(1, 4)})"
            case 4:
                return f"({self.lognum(0)}) ** {self.pick((2, -1))}"
        return f"{self.lognum(0)} + {self.lognum(0)}"

    # ------------------------------------------------------------------ arrays

    def arrays(self, accept: tuple[str, ...]) -> list[Var]:
        """Arrays of numbers that can be read."""
        return [
            v for kind in accept for v in self.readable(kind)
            if isinstance(v.type, Many) and isinstance(v.type.element, Scalar)
        ]  # fmt: skip

    def array(self, accept: tuple[str, ...], depth: int) -> str | None:
        """An array expression of any shape."""
        found = self.arrays(accept)
        if not found:
            return None
        var = self.pick(found)
        assert isinstance(var.type, Many)
        text = self.array_of(accept[0], var.type.shape, depth)
        return text or self._whole(var)

    def _whole(self, var: Var) -> str:
        self.reads(var)
        return var.name

    def array_of(self, kind: str, shape: tuple[int, ...], depth: int = 1) -> str | None:
        """An array expression that broadcasts to a shape, with at least one array of the whole shape."""
        leaf = self._array_leaf(kind, shape)
        if leaf is None or depth <= 0:
            return leaf
        if len(shape) == 1 and self.chance(0.15):
            # A part of what is computed, and only that part.
            return f"({leaf} * {self.pick('23')})[::-1]"
        other = (
            self._array_leaf(kind, self.pick((shape, shape, shape[1:], (1, *shape[1:])))) if self.chance(0.5) else None
        )
        other = self._wrapped(other or self.expression(kind, 1))
        match self.rng.randrange(6):
            case 0 | 1:
                return f"{leaf} {self.pick('+-')} {other}"
            case 2:
                return f"{leaf} * {other if kind == 'int' else '0.5'}"
            case 3:
                return f"{self.pick(('min', 'max'))}({leaf}, {other})"
            case 4:
                return f"abs({leaf})" if kind == "int" else f"rg.sin({leaf})"
        return f"{other} - {leaf}"

    def _array_leaf(self, kind: str, shape: tuple[int, ...]) -> str | None:
        """An array, or part of one, of this very shape."""
        found = []
        for var in self.arrays((kind,)):
            assert isinstance(var.type, Many)
            if len(var.type.shape) < len(shape) or not shape:
                continue
            text = self.slice_of(var, shape)
            if text is not None:
                found.append((var, text))
        if not found:
            return None
        var, text = self.pick(found)
        self.reads(var)
        return text

    def slice_of(self, var: Var, shape: tuple[int, ...]) -> str | None:
        """A part of an array that has this shape, or None."""
        assert isinstance(var.type, Many)
        own = var.type.shape
        if own == shape and self.chance(0.6):
            return var.name
        if len(own) == 2 and own[::-1] == shape and self.chance(0.6):
            return f"{var.name}.T"
        front = [] if len(own) == len(shape) else [str(self.rng.randrange(n)) for n in own[: len(own) - len(shape)]]
        if len(own) == 2 and len(shape) == 1 and own[0] == shape[0] and self.chance(0.5):
            return f"{var.name}[:, {self.rng.randrange(own[1])}]"
        keys = []
        for n, wanted in zip(own[len(front) :], shape, strict=True):
            if n < wanted:
                return None
            keys.append(self._slice(n, wanted))
        return f"{var.name}[{', '.join([*front, *keys])}]"

    def _slice(self, n: int, wanted: int) -> str:
        options = [f"{i}:{i + wanted}" for i in range(n - wanted + 1)]
        if n == wanted:
            options += ["::-1", ":"]
        if n > wanted:
            options += [f"{n - wanted}:", f":{wanted}"] + ([f"-{wanted}:"] if wanted else [])
            if (wanted - 1) * 2 < n and wanted > 1:
                options += [f"0:{2 * wanted - 1}:2", f"{2 * wanted - 2}::-2"]
        for v in self.readable("int"):
            if v.range is not None and v.type == Scalar("int") and v.range[0] >= 0 and v.range[1] + wanted <= n:
                self.reads(v)
                options.append(f"{v.name}:{v.name} + {wanted}")
        return self.pick(options)
