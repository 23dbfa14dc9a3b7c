"""Instructions of the user's own: a function of words as an expression tree, added to the table of this process.

    cube = instruction("cube", lambda x, w: product(x, product(x, x, w), w))
    y += cube(x)        the instruction cube.add; inverse: cube.sub

Every engine, the hardware, the encoding and the adjoint follow from the tree, as they do for the entries of the table.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import islice
from operator import and_
from typing import Any, NoReturn

from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.intrinsics import EXPRESSION, FUNCTIONS, Intrinsic
from retrograd.isa import laws
from retrograd.isa.derivatives import NoDerivative, vector_jacobian
from retrograd.isa.diagnostics import CompileError, Diagnostic, RetrogradError
from retrograd.isa.entries import Function, Guard, a, b
from retrograd.isa.expr import (
    ZERO,
    Expr,
    const,
    div_round,
    evaluate,
    high_word,
    mul_round,
    nodes,
    place,
    select,
    sqrt_round,
)
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import WIDTHS, Format

Tree = Callable[..., Any]
__all__ = ["OwnInstruction", "instruction", "number", "product", "quotient", "root", "select"]
_PLACES = (a, b)
_MADE_OF = "A tree is made of operators, number, product, quotient, root and select; a number that stands first is number(1.0, w)."
#: operations of a derivative whose own derivative is exact: instructions for them are differentiated
_SMOOTH = frozenset({"input", "const", "add", "sub", "mulround", "divround", "sqrtround", "select", "lt", "ltu"})
#: points at which a derivative is compared with differences, and the distance
_POINTS, _STEP = 200, 2.0**-10


class OwnInstruction(Intrinsic):
    """A function of the language that `instruction` made."""

    def __init__(self, entry: Function, arity: int, kind: Kind) -> None:
        super().__init__(
            entry.name, EXPRESSION, entry.doc, None, arity, instruction=entry.name, kind=kind, lognums=True
        )
        self.entry = entry
        # A function of the language may have its name.
        while getattr(FUNCTIONS.get(self.operation, self), "entry", None) is not entry:
            self.operation += "_"
        FUNCTIONS[self.operation] = self

    def __call__(self, *_: Any, **__: Any) -> Any:
        message = f"`{self.__name__}` is an instruction: it is called within @reversible functions"
        raise CompileError(Diagnostic("RG0701", message, hint="call it inside a function decorated with @reversible"))

    def __reduce__(self) -> Any:
        message = f"the instruction `{self.__name__}` belongs to the process that defined it"
        raise RetrogradError(
            Diagnostic("RG0605", message, hint="define it in each process, where the module is imported")
        )

    def __repr__(self) -> str:
        return f"<instruction {self.__name__}>"


def product(x: Any, y: Any, w: Format) -> Expr:
    """The fixed-point product x · y as a tree, to nearest."""
    return mul_round(x, y, w.frac)


def quotient(x: Any, y: Any, w: Format) -> Expr:
    """The fixed-point quotient x / y as a tree, to nearest."""
    return div_round(x, y, w.frac)


def root(x: Any, w: Format) -> Expr:
    """The square root of a fixed-point number as a tree, to nearest."""
    return sqrt_round(x, w.frac)


def number(value: float, w: Format) -> Expr:
    """A real constant as a tree, to nearest. In a format that has no word for it the instruction is not available: it traps with RG0403."""
    word = round(value * (1 << w.frac))
    if not -w.sign <= word < w.sign:
        raise _NoWordError
    return const(word & w.mask)


class _NoWordError(Exception):
    """A constant of a tree has no word in a format."""


def instruction(
    name: str,
    tree: Tree,
    derivative: Tree | None = None,
    *,
    domain: Tree | None = None,
    kind: str = "fixed",
    doc: str = "",
) -> OwnInstruction:
    """A new instruction `rd += tree(ra, rb)`, also with −=, and of ints with ^=, and the function of the language that compiles to it.

    `tree`: a Python function of one or two expression trees and the format w that returns a tree: operators of integers on words, and
    `number`, `product`, `quotient`, `root` and `select` of this module. It is called
    once for each format, and never with numbers. `derivative`: a function of the same arguments that gives ∂/∂x, or the pair
    (∂/∂x, ∂/∂y), as fixed-point trees; without it, the chain rule is applied to the tree. `domain`: a tree that is 1 where the function has a
    value; elsewhere the machine traps with RG0403. `kind`: "fixed" or "int", of the operands and the value; "int" has no derivative.

    Inverse: −= for +=, ^= for itself. A sum, product or quotient in the tree that leaves the word is a trap, also in a branch of a `select` that is not
    chosen. The laws are checked at once: the inverse on all states of 4 bits and some of 64, the encoding, and the derivative against
    differences. The instruction belongs to this process: define it where the module is imported. The same definition again gives the
    same instruction. Raises CompileError RG0726.
    """
    if not isinstance(name, str) or not name.isidentifier():
        _refuse(f"{name!r:.40} is no name of an instruction", 'a name is an identifier, such as "cube"')
    if kind not in ("fixed", "int"):
        _refuse(f"kind = {kind!r:.40}", '"fixed" or "int"')
    if not callable(tree):
        _refuse(f"the tree of `{name}` is {tree!r:.40}", "give a function of trees: lambda x, w: product(x, x, w)")
    arity = _arity(name, tree)
    operands = _PLACES[:arity]

    def value(w: Format) -> Expr:
        try:
            return _tree(name, "the tree", tree, operands, w)
        except _NoWordError:
            return ZERO

    def guards(w: Format) -> tuple[Guard, ...]:
        try:
            found = [] if kind == "int" else [*_overflows(_tree(name, "the tree", tree, operands, w), w)]
            if domain is not None:
                found.insert(0, Guard(_tree(name, "the domain", domain, operands, w), "RG0403", culprit=a))
        except _NoWordError:
            return (Guard(ZERO, "RG0403", culprit=a),)
        return tuple(found)

    def partials(w: Format, c: Expr) -> dict[str, Expr]:
        if derivative is None:
            return vector_jacobian(value(w), c)
        try:
            given = derivative(*operands, w)
        except _NoWordError:
            return {}
        except Exception as error:
            _refuse(f"the derivative of `{name}` fails in {w}: {type(error).__name__} {error}", _MADE_OF)
        each = given if isinstance(given, tuple) else (given,)
        if len(each) != arity:
            _refuse(
                f"the derivative of `{name}` gives {len(each)} trees for {arity} operands", "a tuple, one tree for each"
            )
        slopes = [_tree(name, "the derivative", lambda *_, x=x: x, operands, w) for x in each]
        return {str(p.param): product(c, slope, w) for p, slope in zip(operands, slopes, strict=True)}

    real = kind == "fixed"
    if not real and derivative is not None:
        _refuse(f"`{name}` is of ints, which have no derivative", 'leave `derivative` out, or choose kind="fixed"')
    updates = ("add", "sub") if real else ("add", "sub", "xor")
    free = TABLE.first_free(len(updates))
    same = next((e for e in TABLE.own if e.name == name), None)
    taken = next((f"{name}.{update}" for update in updates if f"{name}.{update}" in TABLE.by_name), None)
    if taken is not None and same is None:
        _refuse(f"`{name}` cannot be an instruction: {taken}: the name is taken")
    if free is None and same is None:
        _refuse(
            f"there is no opcode left for `{name}`",
            f"of its 256 opcodes, the table has room for the {len(TABLE.own)} instructions that this process has added",
        )
    code = same.code if same is not None else free or 0
    entry = Function(
        name, code, "user", value, doc or f"The instruction {name}.", updates, guards=guards, differentiable=real,
        partials=partials if real else None, checked=real,
    )  # fmt: skip
    for w in _formats():
        value(w), guards(w)
        if real:
            _need_smooth(name, partials, w)
    if same is not None:
        assert isinstance(same, Function)
        if not _equal(same, entry):
            _refuse(
                f"`{name}` is an instruction already, with another tree", "choose another name, or start a new process"
            )
        entry = same
    else:
        try:
            _need_laws(entry, arity)
            TABLE.add(entry)
        except ValueError as error:
            _refuse(f"`{name}` cannot be an instruction: {error}")
    return OwnInstruction(entry, arity, Kind.FIXED if real else Kind.INT)


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise CompileError(Diagnostic("RG0726", message, hint=hint))


def _formats() -> Iterator[Format]:
    return (Format(width, frac) for width in WIDTHS for frac in range(width))


def _arity(name: str, tree: Tree) -> int:
    try:
        count = len(inspect.signature(tree).parameters) - 1
    except (TypeError, ValueError):
        count = 0
    if count not in (1, 2):
        _refuse(
            f"the tree of `{name}` takes {max(0, count)} operands", "one or two, and then the format: lambda x, y, w: …"
        )
    return count


def _tree(name: str, part: str, make: Tree, operands: tuple[Expr, ...], w: Format) -> Expr:
    """The tree that a function of the user's makes. Raises CompileError RG0726."""
    try:
        found = make(*operands, w)
    except (CompileError, _NoWordError):
        raise
    except Exception as error:
        _refuse(f"{part} of `{name}` fails in {w}: {type(error).__name__} {error}", _MADE_OF)
    if isinstance(found, int) and not isinstance(found, bool):
        found = const(found & w.mask)
    if not isinstance(found, Expr):
        _refuse(f"{part} of `{name}` is {found!r:.40}, and no tree", "return an expression of the operands")
    real = next((n.param for n in nodes(found) if n.op == "const" and type(n.param) is not int), None)
    if real is not None:
        _refuse(
            f"{part} of `{name}` holds {real!r:.40}",
            f"numbers in trees are words; a real constant is number({real!r:.40}, w)",
        )
    if not found.inputs <= {str(x.param) for x in operands}:
        _refuse(f"{part} of `{name}` reads {', '.join(sorted(found.inputs))}", "it may read its operands only")
    return found


def _overflows(root_: Expr, w: Format) -> Iterator[Guard]:
    """Guards for the quotients and roots of a fixed-point tree, and one for all words that must fit."""
    fits: list[Expr] = []
    for node in nodes(root_):
        x, y = (*node.args, *node.args)[:2] if node.args else (node, node)
        match node.op:
            case "add":
                fits.append(((node ^ x) & (node ^ y)).ge(0))
            case "sub":
                fits.append(((x ^ y) & (node ^ x)).ge(0))
            case "mulround" if node.param == w.frac:
                fits.append(high_word(node, w).eq(node.sar(w.width - 1)))
            case "divround" if node.param == w.frac:
                yield Guard(y.ne(0), "RG0402", culprit=y)
                fits.append(div_round(x, y, w.frac - w.width).eq(node.sar(w.width - 1)))
            case "sqrtround":
                yield Guard(x.ge(0), "RG0403", culprit=x)
            case _:
                pass
    if fits:
        # One guard: the co-processor tests one word once.
        yield Guard(reduce(and_, fits), "RG0404", mode="overflow", culprit=a)


def _need_smooth(name: str, partials: Callable[[Format, Expr], dict[str, Expr]], w: Format) -> None:
    """Refuse a derivative that has none in its turn: second derivatives would be zero there."""
    try:
        gains = partials(w, place("d_bar"))
    except NoDerivative as error:
        _refuse(
            f"the tree of `{name}` has no derivative by the chain rule: {error}",
            'give `derivative`, or choose kind="int"',
        )
    for gain in gains.values():
        for node in nodes(gain):
            if node.op not in _SMOOTH:
                hint = "Write it with +, −, product, quotient, root and select; 3·x is x + x + x or product(number(3.0, w), x, w)."
                _refuse(f"the derivative of `{name}` holds `{node.op}`, an operation of integers", hint)


def _need_laws(entry: Function, arity: int) -> None:
    """Refuse an entry that breaks a law of the table."""
    table = Table((*TABLE.entries, entry))
    rng = random.Random(1)
    found = [*laws.encoding_counterexamples(table)]
    for update in entry.updates:
        opcode = table[f"{entry.name}.{update}"]
        small, large = Format(4, 2), Format(64, 32)
        states = islice(laws.all_states(opcode, small), 1 << 14)
        found += islice(laws.inverse_counterexamples(opcode, small, states, table), 1)
        wide = [tuple(0 if p == "br" else rng.getrandbits(64) for p in laws.places_of(opcode)) for _ in range(50)]
        found += islice(laws.inverse_counterexamples(opcode, large, wide, table), 1)
    if found:
        _refuse(f"`{entry.name}` breaks a law: {found[0]}")
    if entry.partials is not None:
        _need_slope(entry, arity, rng)


def _need_slope(entry: Function, arity: int, rng: random.Random) -> None:
    """Refuse a derivative that differs from differences of the tree at more than a quarter of the points."""
    w = Format()
    one, step = 1 << w.frac, int(_STEP * (1 << w.frac))
    assert entry.partials is not None
    tree, gains, guards = entry.value(w), entry.partials(w, place("d_bar")), entry.guards(w)
    tried = wrong = 0
    example = ""
    for _ in range(_POINTS):
        at = {str(p.param): rng.randrange(-4 * one, 4 * one) for p in _PLACES[:arity]}
        for name, middle in at.items():
            ends = [{**at, name: middle + k * step} for k in (-1, 0, 1)]
            states = [{key: v & w.mask for key, v in end.items()} for end in ends]
            if not all(evaluate(g.predicate, w, s) for g in guards for s in states):
                continue
            values = [w.signed(evaluate(tree, w, s)) for s in states]
            slope = (values[2] - values[0]) / (2 * step)
            gain = gains.get(name)
            given = 0.0 if gain is None else w.signed(evaluate(gain, w, {**states[1], "d_bar": one})) / one
            tried += 1
            if abs(given - slope) > 0.02 + 0.05 * abs(slope):
                wrong += 1
                example = f"at {', '.join(str(round(v / one, 4)) for v in at.values())} it is {given:.6g}, and differences give {slope:.6g}"
    if 4 * wrong > tried:
        _refuse(f"the derivative of `{entry.name}` is not that of its tree: {example}")


def _equal(x: Function, y: Function) -> bool:
    """Whether two entries have the same trees in all formats: trees are interned."""
    if x.differentiable != y.differentiable:
        return False
    c = place("d_bar")
    return all(
        x.value(w) is y.value(w)
        and x.guards(w) == y.guards(w)
        and (x.partials is None or y.partials is None or x.partials(w, c) == y.partials(w, c))
        for w in _formats()
    )
