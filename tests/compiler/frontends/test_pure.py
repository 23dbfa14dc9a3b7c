"""Python that runs while a function is compiled is known to be pure; all else is refused before it runs."""

from __future__ import annotations

import abc
import collections
import dataclasses
import datetime
import enum
import fractions
import functools
import itertools
import math
import operator
import os
import random
import re
import subprocess
import time
import types
import uuid
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from retrograd import fixed, reversible

#: what ran that must not
RAN: list[str] = []


def spy(*_: Any) -> int:
    RAN.append("spy")
    return 1


class Spy:
    """An object whose every operation leaves a trace."""

    items = (1, 2)

    def __init__(self) -> None:
        self.plain = 2

    @property
    def rate(self) -> int:
        return spy()

    def method(self) -> int:
        return spy()

    def __getattr__(self, name: str) -> int:
        if name.startswith("__"):
            raise AttributeError(name)
        return spy()

    def __getitem__(self, index: Any) -> int:
        return spy()

    def __call__(self) -> int:
        return spy()

    def __len__(self) -> int:
        return spy()

    def __iter__(self) -> Any:
        spy()
        return iter([1])

    def __bool__(self) -> bool:
        return bool(spy())

    def __contains__(self, x: Any) -> bool:
        return bool(spy())

    def __eq__(self, other: object) -> bool:
        return bool(spy())

    def __hash__(self) -> int:
        return 1

    def __add__(self, other: Any) -> int:
        return spy()

    __radd__ = __mul__ = __rmul__ = __lt__ = __gt__ = __neg__ = __pow__ = __add__

    def __float__(self) -> float:
        return float(spy())

    def __index__(self) -> int:
        return spy()

    __int__ = __abs__ = __round__ = __index__

    def __array__(self, *_: Any, **__: Any) -> Any:
        spy()
        return np.ones(1)


class Desc:
    def __get__(self, *_: Any) -> int:
        return spy()


class Meta(type):
    @property
    def rate(cls) -> int:
        return spy()

    def __getitem__(cls, index: Any) -> int:
        return spy()


class WithMeta(metaclass=Meta):
    pass


class WithDescriptor:
    rate = Desc()


class WithItem:
    def __class_getitem__(cls, index: Any) -> int:
        return spy()


class Everywhere:
    def __getattribute__(self, name: str) -> Any:
        spy()
        return object.__getattribute__(self, name)


class ListOfMine(list[int]):
    def __getitem__(self, index: Any) -> Any:
        return spy()


class Missing(dict[int, int]):
    def __missing__(self, key: int) -> int:
        return spy()


@dataclasses.dataclass
class After:
    rate: int

    def __post_init__(self) -> None:
        spy()


@dataclasses.dataclass(init=False)
class Own:
    rate: int

    def __init__(self) -> None:
        spy()


class Derived(Own):
    pass


@dataclasses.dataclass
class Fresh:
    rates: list[int] = dataclasses.field(default_factory=spy)  # type: ignore[arg-type]


@dataclasses.dataclass
class New:
    rate: int

    def __new__(cls, rate: int) -> New:
        spy()
        return object.__new__(cls)


@dataclasses.dataclass
class Sets:
    rate: int

    def __setattr__(self, name: str, value: object) -> None:
        spy()


@dataclasses.dataclass
class Given:
    rate: int


class GivenAgain(Given):
    def __init__(self) -> None:
        spy()


class Named(NamedTuple("Named", [("a", int)])):
    def __new__(cls, a: int) -> Named:
        spy()
        return super().__new__(cls, a)


class NamedInit(NamedTuple("NamedInit", [("a", int)])):
    def __init__(self, a: int) -> None:
        spy()


class Maker:
    def __init__(self) -> None:
        spy()


class Lookup(enum.Enum):
    A = 1

    @classmethod
    def _missing_(cls, value: object) -> Lookup:
        spy()
        return cls.A


class Talks:
    def __str__(self) -> str:
        return str(spy())

    __repr__ = __str__


class Judging(type):
    def __instancecheck__(cls, x: object) -> bool:
        return bool(spy())


class JUDGE(metaclass=Judging):
    pass


class HOOKED(abc.ABC):  # noqa: B024
    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return bool(spy())


class Bigger(float):
    def __lt__(self, other: float) -> bool:
        return bool(spy())

    __ge__ = __gt__ = __le__ = __lt__


class MyInt(int):
    def __add__(self, other: Any) -> int:
        return spy()

    __radd__ = __mul__ = __rmul__ = __add__

    def __index__(self) -> int:
        return spy()

    __int__ = __index__

    def __lt__(self, other: int) -> bool:
        return bool(spy())

    __ge__ = __gt__ = __le__ = __lt__


TALKS, BIGGER = Talks(), Bigger(1)
S, D, LIST, MISSING, EVERYWHERE, MYINT = Spy(), WithDescriptor(), ListOfMine([1]), Missing(), Everywhere(), MyInt(1)
DEFAULTS: dict[int, int] = collections.defaultdict(spy)
ITERATOR, GENERATOR, NUMBERS, TABLE = iter([1]), (spy() for _ in [1]), [1, 2], {1: 2}
OBJECTS = np.empty(1, dtype=object)
OBJECTS[0] = S
MODULE = types.ModuleType("lazy")
MODULE.__getattr__ = spy  # type: ignore[attr-defined]
UFUNC = np.frompyfunc(spy, 1, 1)
VECTORISED = np.vectorize(spy)

#: expressions, in the place of E in each of `PLACES`
IMPURE = [
    "random.randint(0, 9)", "random.random()", "time.time()", "__import__('os').system('true')", "os.system('true')", "os.getpid()",
    "open('/dev/null')", "input()", "print(1)", "eval('1')", "exec('1')", "id(1)", "hash('a')", "globals()", "next(ITERATOR)", "iter(NUMBERS)",
    "getattr(S, 'rate')", "setattr(S, 'a', 1)", "uuid.uuid4()", "datetime.datetime.now()", "subprocess.run(['true'])", "os.environ.get('A', 1)",
    "np.random.rand()", "np.random.default_rng(1)", "np.empty(2)", "np.load('x')", "np.fromfile('x')", "np.fromfunction(spy, (1,))",
    "np.apply_along_axis(spy, 0, NUMBERS)", "UFUNC(1)", "VECTORISED(1)", "np.asarray(S)", "np.sum(OBJECTS)", "math.floor(S)", "math.sqrt(S)",
    "spy()", "S()", "S.rate", "S.method()", "S.unknown", "S[0]", "len(S)", "S + 1", "1 + S", "S * 2.5", "-S", "S == 1", "S < 1", "1 in S",
    "S ** 2", "abs(S)", "max(S, 1)", "min([S])", "round(S)", "sum(OBJECTS)", "rg.sqrt(S)", "int(S)", "fixed(S)", "(2 if S else 1)",
    "(not S)", "NUMBERS[S]", "NUMBERS.append(1)", "NUMBERS.pop()", "NUMBERS.sort()", "TABLE.pop(1)", "TABLE.update(TABLE)", "TABLE[S]",
    "LIST[0]", "MISSING[1]", "D.rate", "WithMeta.rate", "WithMeta[0]", "WithItem[0]", "MODULE.rate",
    "CACHED_LATER.rate", "After(1)", "Own()", "Derived()", "Fresh()", "New(1)", "Sets(1)", "GivenAgain()", "Named(1)", "NamedInit(1)", "Maker()", "Lookup(7)", "Spy()", "MYINT + 1", "(spy() if 1 else 2)", "(1 if spy() else 2)",
    "len(str(TALKS))", "len(repr([TALKS]))", "len('%s' % TALKS)", "len('{}'.format((TALKS,)))", "isinstance(1, JUDGE)", "isinstance(1, HOOKED)",
    "NUMBERS[S:]", "np.ones(3)[S:][0]", "np.ones(3)[0:MYINT][0]", "UFUNC.reduce(NUMBERS)", "BIGGER < 3", "zip(S, S)", "list(ITERATOR)", "tuple(GENERATOR)", "sorted(S)", "''.join(ITERATOR)", "'{}'.format(S)",
]  # fmt: skip
#: not in the language, and so refused before they run
FOREIGN = [
    "[spy() for _ in range(2)]", "{spy() for _ in [1]}", "{1: spy()}", "(spy() for _ in [1])", "f'{spy()}'", "f'{1:{spy()}}'", "(lambda: spy())()",
    "(z := spy())", "{spy()}", "[*S]", "max(*S)", "spy(**TABLE)", "DEFAULTS[5]", "rg.sum(S)",
]  # fmt: skip
PLACES = {
    "expression": "y += E",
    "variable": "t = E",
    "index": "y += NUMBERS[E]",
    "slice": "y += rg.sum(np.ones(3)[E:])",
    "loop": "for i in E:\n        y += i",
    "range": "for i in range(E):\n        y += i",
    "condition": "if E:\n        y += 1",
    "pair": "if (E, 1):\n        y += 1",
    "while": "while (E, x > 0):\n        y += 1",
    "assertion": "assert E",
    "argument": "g(y, E)",
    "keyword": "g(y, x=E)",
    "statement": "E",
    "argument of a statement": "rg.rot(y, x, E)",
    "length": "t = rg.zeros(E)",
    "type": "t: E = 1",
    "default of an inner function": "def h(a, b=E):\n        a += b\n    h(y)",
    "annotation of an inner function": "def h(a: E):\n        a += 1\n    h(y)",
    "attribute": "y += (E).anything",
    "host's block": "with E:\n        pass",
    "capacity": "t = rg.stack(int, E)",
}


def define(body: str) -> Any:
    import linecache

    text = f"@reversible\ndef f(y: fixed, x: fixed):\n    {body}\n"
    file = f"<impure {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {**globals(), "g": g}
    exec(compile(text, file, "exec"), names)
    return names["f"]


@reversible
def g(y: fixed, x: fixed) -> None:
    y += x


def refusal(body: str) -> rg.CompileError:
    RAN.clear()
    with pytest.raises(rg.CompileError) as caught:
        define(body)(0.0, 1.0)
    assert not RAN, f"it ran: {body}"
    return caught.value


@pytest.mark.parametrize("expression", IMPURE)
def test_impure_python_is_refused(expression: str) -> None:
    error = refusal(f"y += {expression}")
    assert error.code == "RG0721", error
    assert error.diagnostics[0].span is not None


@pytest.mark.parametrize("expression", FOREIGN)
def test_what_is_not_in_the_language_does_not_run(expression: str) -> None:
    refusal(f"y += {expression}")
    assert not DEFAULTS, "the index made an item"


@pytest.mark.parametrize("place", PLACES)
def test_impure_python_is_refused_in_every_place(place: str) -> None:
    for expression in ("spy()", "S.rate", "S[0]", "spy(1) + 2", "MYINT"):
        refusal(re.sub(r"\bE\b", expression, PLACES[place]))


@pytest.mark.parametrize(
    "loop", ["S", "ITERATOR", "GENERATOR", "enumerate(S)", "zip(NUMBERS, S)", "reversed(S)", "map(spy, NUMBERS)"]
)
def test_a_loop_over_what_runs_or_is_used_up_is_refused(loop: str) -> None:
    assert refusal(f"for i in {loop}:\n        y += 1").code == "RG0721"
    assert list(ITERATOR.__reduce__()[1:]), "the iterator was not read"


class Colour(enum.Enum):
    RED = 2


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Pair(NamedTuple):
    a: int
    b: int = 2


@dataclasses.dataclass(frozen=True, order=True)
class Settings:
    rate: float
    names: list[str] = dataclasses.field(default_factory=list)

    @property
    @rg.pure
    def doubled(self) -> float:
        return self.rate * 2

    @rg.pure
    def times(self, k: int) -> float:
        return self.rate * k


@rg.pure
def double(x: float) -> float:
    return 2 * x


@rg.pure
class Declared:
    def __init__(self, rate: int) -> None:
        self.rate = rate


class Cached:
    @functools.cached_property
    def rate(self) -> int:
        return 5


@rg.pure
def counted() -> Any:
    return itertools.islice(itertools.count(), 3)


SETTINGS, POINT = Settings(2.0), collections.namedtuple("Point", "a b")(1, 2)
CACHED, CACHED_LATER = Cached(), Cached()
assert CACHED.rate == 5
ADD = rg.pure(operator.add)
TRIPLE = rg.pure(np.frompyfunc(lambda x: 3 * x, 1, 1))
FLOAT32 = np.float32(0.1)

#: expression -> what it is worth
PURE: dict[str, float] = {
    "math.sqrt(2.25)": 1.5, "math.factorial(4)": 24, "math.pi": math.pi, "len(NUMBERS)": 2, "abs(-2)": 2, "min(NUMBERS)": 1, "max(1, 2)": 2,
    "round(2.5)": 2, "sum(NUMBERS)": 3, "rg.sum(NUMBERS) if isinstance(1, int) else 0": 3, "pow(2, 3)": 8, "divmod(7, 2)[1]": 1,
    "len(str(123))": 3, "len(sorted(NUMBERS))": 2, "len(list(zip(NUMBERS, NUMBERS)))": 2,
    "np.linspace(0, 1, 3)[1]": 0.5, "np.arange(5)[2]": 2, "np.array(NUMBERS)[1]": 2, "np.float64(1.5)": 1.5, "FLOAT32": float(np.float32(0.1)), "np.int64(3)": 3, "(1 if np.bool_(1) else 2)": 1, "np.sin(0.5)": math.sin(0.5),
    "np.linalg.norm((3.0, 4.0))": 5, "np.hanning(5)[2]": 1, "np.ones(3).sum()": 3, "np.eye(2).T[1][1]": 1, "np.zeros((2, 3)).shape[1]": 3,
    "Colour(2).value": 2, "Colour.RED.value": 2, "Colour['RED'].value": 2, "(Level.LOW | Level.HIGH).value": 3, "Level.HIGH + 1": 3, "np.add.reduce(NUMBERS)": 3, "len(str(SETTINGS))": 28,
    "Settings(2.5).rate": 2.5, "SETTINGS.rate": 2, "SETTINGS.doubled": 4, "SETTINGS.times(3)": 6, "(1 if SETTINGS < Settings(3.0) else 0)": 1,
    "Pair(5).a": 5, "Pair(5)[1]": 2, "POINT.b": 2, "Fraction(1, 4)": 0.25, "Fraction(3, 4).denominator": 4,
    "Fraction(3, 7).limit_denominator(2)": 0.5, "len('a b'.split())": 2, "'abc'.index('c')": 2, "(4, 5).index(5)": 1, "NUMBERS.index(2)": 1,
    "TABLE.get(1)": 2, "TABLE[1]": 2, "(5).bit_length()": 3, "double(1.5)": 3, "TRIPLE(2)": 6, "ADD(2, 3)": 5, "CACHED.rate": 5, "Declared(7).rate": 7, "len(counted())": 3,
    "(1 if 'a' in 'abc' else 0)": 1, "(1 if 1 in NUMBERS else 0)": 1, "S.plain": 2, "S.items[1]": 2, "len(TABLE.keys())": 1,
}  # fmt: skip
Fraction = fractions.Fraction


@pytest.mark.parametrize("expression", PURE)
def test_pure_python_is_evaluated(expression: str) -> None:
    RAN.clear()
    assert define(f"y += x * ({expression})")(0.0, 1.0).y == pytest.approx(PURE[expression], abs=1e-9)
    assert not RAN


def test_pure_returns_what_it_is_given() -> None:
    def f() -> int:
        return 1

    assert rg.pure(f) is f
    assert rg.pure(math.hypot) is math.hypot
    with pytest.raises(TypeError, match="takes a function"):
        rg.pure(3)


def test_attributes_of_a_class_that_answers_all_of_them_itself_are_refused() -> None:
    """Python itself asks such an object for its class."""
    with pytest.raises(rg.CompileError) as caught:
        define("y += EVERYWHERE.a")(0.0, 1.0)
    assert caught.value.code == "RG0721"


def test_a_subclass_is_not_declared_by_its_base() -> None:
    names = {"Sub": type("Sub", (Declared,), {})}
    globals().update(names)
    assert refusal("y += Sub(1).rate").code == "RG0721"


def test_imports_that_the_tests_need() -> None:
    """The names in the programs above are modules: that they lie there unused is not seen by any tool."""
    assert all((datetime, os, random, subprocess, time, uuid))
