"""Programs of the language run by their syntax tree: an account of their meaning that knows nothing of the compiler.

    forward:  s₁; s₂; …; free what was made        backward: make it; …; s₂⁻¹; s₁⁻¹

A block becomes a list of steps first, in which what is freed silently at its end, and what a routine computes and
uncomputes, is written out; a step run the other way is its inverse, so to run backward is to go through the list from
its end.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from retrograd.isa.words import Format

from .evaluator import Evaluator
from .values import Callee, Cell, Lazy, Stack, Struct, Table, View, array, cells
from .words import COMPLEX, FIXED, INT, Trapped, Wild, Word, table_bijection

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.BitXor: "^", ast.Mult: "*", ast.Div: "/",
}  # fmt: skip
_UNDO = {"+": "-", "-": "+", "^": "^", "*": "/", "/": "*"}
_INVERSE = {"rot": "irot", "irot": "rot", "rol": "ror", "ror": "rol", "push": "pop", "pop": "push"}
#: statements that a run may take
_LONGEST = 4000


@dataclass(frozen=True)
class Step:
    """A statement, or the making of a variable; `forward` False for its inverse."""

    node: ast.stmt
    forward: bool = True
    makes: bool = False

    def inverse(self) -> Step:
        return Step(self.node, not self.forward, self.makes)


@dataclass
class Plan:
    """Steps, and which of them made what is not freed yet."""

    steps: list[Step] = field(default_factory=list)
    made: list[Step] = field(default_factory=list)

    def make(self, node: ast.Assign | ast.AnnAssign) -> None:
        step = Step(node, True, True)
        self.steps.append(step)
        self.made.append(step)

    def free(self, name: str, value: ast.expr | None = None) -> None:
        """Undo what made the variable, or what would make it with another expression."""
        step = next(s for s in reversed(self.made) if _target(s.node) == name)
        for other in [s for s in reversed(self.made) if name in _names(s.node.value)]:
            # Another name for it, or for a part of it, ends with it.
            self.made.remove(other)
            self.steps.append(other.inverse())
        self.made.remove(step)
        if value is not None:
            step = Step(ast.Assign([ast.Name(name, ast.Store())], value), True, True)
        self.steps.append(step.inverse())

    def free_down_to(self, count: int) -> None:
        while len(self.made) > count:
            self.steps.append(self.made.pop().inverse())


def _is_dictionary(args: Sequence[Any]) -> bool:
    return any(isinstance(x, Struct) and x.cls == "Dictionary" for x in args)


def _is_complex(value: Any) -> bool:
    return isinstance(value, Struct) and value.cls == COMPLEX


def _target(node: ast.stmt) -> str:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def _names(value: ast.expr | None) -> set[str]:
    """The variables that `x`, `x.field`, `x[i]` or `Struct(x, y)` is a name for."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id[0].isupper():
        return {a.id for a in value.args if isinstance(a, ast.Name)}
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    return {value.id} if isinstance(value, ast.Name) else set()


def _is_exchange(node: ast.Assign) -> bool:
    left, right = node.targets[0], node.value
    if not (isinstance(left, ast.Tuple) and isinstance(right, ast.Tuple)):
        return False
    return sorted(map(ast.unparse, left.elts)) == sorted(map(ast.unparse, right.elts))


def plan(body: Sequence[ast.stmt]) -> Plan:
    """The steps of a block, without those that free what is left at its end."""
    out = Plan()
    routines: dict[str, Plan] = {}
    #: how many variables there were when each routine was opened
    opened: dict[str, int] = {}

    def open_routine(name: str) -> None:
        opened[name] = len(out.made)
        out.steps += routines[name].steps
        out.made += routines[name].made

    for node in body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if not _is_exchange(node):
                for name, value in zip(names, values, strict=True):
                    out.make(ast.Assign([name], value))
            case ast.Assign() if _is_exchange(node):
                out.steps.append(Step(node))
            case ast.Assign() | ast.AnnAssign():
                out.make(node)
            case ast.Delete(targets=targets):
                for target in targets:
                    out.free(ast.unparse(target))
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("rg"), "free"), [ast.Name(name), value])):
                out.free(name, value)
            case ast.With(items=[ast.withitem(ast.Call(ast.Attribute(attr="view" | "unchecked")))]):
                out.steps.append(Step(node))
            case ast.With(items=[ast.withitem(_, ast.Name(name))], body=inner):
                routines[name] = plan(inner)
                open_routine(name)
            case ast.Expr(ast.Call(ast.Name(name))) if name in routines:
                open_routine(name)
            case ast.Expr(ast.UnaryOp(ast.Invert(), ast.Name(name))) if name in routines:
                out.free_down_to(opened[name] + len(routines[name].made))
                out.steps += [s.inverse() for s in reversed(routines[name].steps)]
                del out.made[opened[name] :]
            case _:
                out.steps.append(Step(node))
    return out


class Model(Evaluator):
    """Runs functions of a module. Raises Trapped where the program must not go on, Wild where nobody can say."""

    def __init__(self, tree: ast.Module, w: Format) -> None:
        super().__init__(tree, w)
        self.left = _LONGEST
        #: whether the statement stands in a block without tests
        self.lenient = False
        self._plans: dict[int, list[Step]] = {}

    def run(self, name: str, values: Sequence[Any], backward: bool = False) -> None:
        """Call the function on values, whose cells it changes."""
        self.call(Callee(self.functions[name], backward), list(values))

    # ------------------------------------------------------------------ blocks

    def block(self, body: Sequence[ast.stmt], forward: bool) -> None:
        """A scope of its own."""
        steps = self._plans.get(id(body))
        if steps is None:
            whole = plan(body)
            whole.free_down_to(0)
            steps = self._plans[id(body)] = whole.steps
        outer = self.names
        self.names = dict(outer)
        for step in steps if forward else reversed(steps):
            self.left -= 1
            if self.left < 0:
                raise Wild("a long run")
            self.step(step.node, step.forward == forward, step.makes)
        self.names = outer

    def step(self, node: ast.stmt, forward: bool, makes: bool) -> None:
        match node:
            case ast.Assign() | ast.AnnAssign() if makes:
                self._make(node, forward)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                self._permute(targets, values, forward)
            case ast.AugAssign(target, op, value):
                update = _UPDATES[type(op)]
                self._update(target, update if forward else _UNDO[update], value, forward)
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(ast.UnaryOp(ast.Invert(), ast.Call() as call)):
                self._statement(call, not forward)
            case ast.Expr(ast.Call() as call):
                self._statement(call, forward)
            case ast.If(test, body, orelse):
                self._if(test, body, orelse, forward)
            case ast.While(ast.Tuple(elts=[before, after]), body):
                first, last = (before, after) if forward else (after, before)
                self.agree(not self.condition(last), "the loop was entered before")
                while self.condition(first):
                    self.block(body, forward)
                    self.agree(self.condition(last), "the loop was not entered")
            case ast.For(_, ast.Call(ast.Attribute(attr="repeat"), [begin], [ast.keyword(value=end)]), body):
                first, last = (begin, end) if forward else (end, begin)
                self.agree(self.condition(first), "the loop does not begin")
                self.block(body, forward)
                while not self.condition(last):
                    self.agree(not self.condition(first), "the loop begins again")
                    self.block(body, forward)
            case ast.For(target, iterated, body):
                self._for(target, iterated, body, forward)
            case ast.With(items=[ast.withitem(ast.Call(ast.Attribute(attr="unchecked")), None)], body=body):
                outer, self.lenient = self.lenient, True
                self.block(body, forward)
                self.lenient = outer
            case ast.With(items=[ast.withitem(ast.Call(args=[seen]), ast.Name(name))], body=body):
                self._view(seen, name, body, forward)
            case ast.Assert(test):
                self.demand(self.condition(test), "an assertion")
            case _:
                raise AssertionError(ast.unparse(node))

    def _view(self, seen: ast.expr, name: str, body: list[ast.stmt], forward: bool) -> None:
        """x is turned into the view, which the block changes, and turned back."""
        place, there = self._through(seen)
        outer = self.names

        def turned(cell: Cell) -> Cell:
            return Cell(there(cell.word, False), cell.kind)

        if isinstance(place, View):
            self.names = {**outer, name: View(array(place.items.shape, lambda i: turned(place.items[i])))}
        else:
            self.names = {**outer, name: turned(place)}
        self.block(body, forward)
        for cell, changed in zip(cells(place), cells(self.names[name]), strict=True):
            cell.word = there(changed.word, True)
        self.names = outer

    def _through(self, node: ast.expr) -> tuple[Cell | View, Any]:
        """(the place that a view is of, (word, back) → the word seen, or back from there)."""
        match node:
            case ast.UnaryOp(op, operand):
                place, inner = self._through(operand)
                name = "neg" if isinstance(op, ast.USub) else "flip"
                kind = next(cells(place)).kind

                def turned(word: int, back: bool) -> int:
                    if back:
                        return inner(self._turned(name, Word(word, kind)), True)  # type: ignore[no-any-return]
                    return self._turned(name, Word(inner(word, False), kind))

                return place, turned
            case ast.BinOp(left, op, right):
                factor, operand = (left, right) if isinstance(left, ast.Constant) else (right, left)
                place, _ = self._through(operand)
                kind = next(cells(place)).kind
                assert isinstance(factor, ast.Constant)
                assert isinstance(factor.value, int)
                by, up = factor.value, isinstance(op, ast.Mult)
                return place, lambda word, back: self._scaled(Word(word, kind), by, up != back)
        found = self.value(node)
        assert isinstance(found, Cell | View)
        return found, lambda word, _: word

    def _scaled(self, x: Word, by: int, up: bool) -> int:
        """x · by or x / by, which must be exact."""
        if x.kind == "lognum":
            return self.a.updated("*" if up else "/", x, self.a.word(by, "lognum")).word
        value = self.w.signed(x.word)
        if not up:
            self.demand(value % by == 0, "a view without an inverse")
            return value // by & self.w.mask
        self.demand(-self.w.sign <= value * by < self.w.sign, "a view that does not fit")
        return self.a.tame(value * by, x.kind).word

    def demand(self, holds: bool, what: str) -> None:
        if not holds:
            raise Trapped(what)

    def agree(self, holds: bool, what: str) -> None:
        """`demand`, which a block without tests leaves out: the words are then anything."""
        if not holds and self.lenient:
            raise Wild(f"{what}, where nothing is tested")
        self.demand(holds, what)

    def _if(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], forward: bool) -> None:
        before, after = test.elts if isinstance(test, ast.Tuple) else (test, test)
        if not forward:
            before, after = after, before
        taken = self.condition(before)
        self.block(body if taken else orelse, forward)
        self.agree(self.condition(after) == taken, "the second condition")

    def _for(self, target: ast.expr, iterated: ast.expr, body: list[ast.stmt], forward: bool) -> None:
        items = self.iteration(iterated)
        for item in items if forward else reversed(items):
            outer = self.names
            self.names = dict(outer)
            self._name_item(target, item)
            self.block(body, forward)
            self.names = outer
        if len(items) != len(self.iteration(iterated)):
            raise Trapped("the bounds of the loop changed")

    def _name_item(self, target: ast.expr, item: Any) -> None:
        if isinstance(target, ast.Tuple):
            for part, inner in zip(target.elts, item, strict=True):
                self._name_item(part, inner)
        else:
            self.names[ast.unparse(target)] = item

    # ------------------------------------------------------------------ variables

    def _make(self, node: ast.Assign | ast.AnnAssign, forward: bool) -> None:
        assert node.value is not None
        kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Tuple):
            for part, value in zip(target.elts, self.value(node.value), strict=True):
                self._bind(ast.unparse(part), value, False, forward)
            return
        name = ast.unparse(target)
        value, owned = self.fresh(name, node.value, kind)
        self._bind(name, value, owned, forward)

    def _bind(self, name: str, value: Any, owned: bool, forward: bool) -> None:
        if forward:
            assert name not in self.names, name
            self.names[name] = value
            return
        held = self.names.pop(name)
        if {_is_complex(held), _is_complex(value)} == {True, False} and not isinstance(value, View):
            held, value, owned = self._cell(held, COMPLEX), self._cell(value, COMPLEX), True
        if isinstance(held, Cell) and not isinstance(value, Cell):
            # A sum over no elements is a constant; over some it was not.
            value, owned = Cell(self.a.word(value, held.kind).word, held.kind), True
        elif owned and isinstance(value, Cell) and not isinstance(held, Cell):
            held = Cell(self.a.word(held, value.kind).word, value.kind)
        if owned:
            same = [c.word for c in cells(held)] == [c.word for c in cells(value)]
            self.agree(same, f"{name} is freed and holds something else")

    def _update(self, target: ast.expr, update: str, value: ast.expr, forward: bool) -> None:
        with self.reading() as seen:
            place, e = self.value(target), self.value(value)
        self._update_part(place, update, e, seen, forward)

    def _update_part(self, place: Any, update: str, e: Any, seen: set[Cell], forward: bool) -> None:
        if isinstance(place, View):
            pairs: list[Any] = list(
                zip(place.items.flat, np.broadcast_to(self.lazy(e).items, place.items.shape).flat, strict=True)
            )
            for cell, item in pairs if forward else reversed(pairs):
                (self._update_complex if _is_complex(cell) else self._update_cell)(cell, update, item, seen)
            return
        if _is_complex(place):
            self._update_complex(place, update, lambda: e, seen)
            return
        if isinstance(place, Struct):
            fields = [*place.fields] if forward else reversed(place.fields)
            for name in fields:
                self._update_part(place.fields[name], update, e.fields[name], seen, forward)
            return
        assert isinstance(place, Cell)
        self._update_cell(place, update, lambda: e, seen)

    def _update_cell(self, cell: Cell, update: str, value: Any, seen: set[Cell]) -> None:
        with self.reading() as more:
            word = self.number(value())
        kind = cell.kind
        y = Word(int(self.a.truth(word)), kind) if kind == "bool" else self.a.word(word, kind)
        self.demand(cell not in seen and cell not in more, "an update reads what it writes")
        cell.word = self.a.updated(update, Word(cell.word, kind), y).word

    def _update_complex(self, place: Struct, update: str, value: Any, seen: set[Cell]) -> None:
        with self.reading() as more:
            number = self.a.pair(self.number(value()))
        for cell, part in zip(cells(place), number, strict=True):
            self.demand(cell not in seen and cell not in more, "an update reads what it writes")
            cell.word = self.a.updated(update, Word(cell.word, FIXED), part).word

    def _permute(self, targets: Sequence[ast.expr], values: Sequence[ast.expr], forward: bool) -> None:
        """x, y, z = y, z, x."""
        if not forward:
            targets, values = values, targets
        places = [list(cells(self.value(v))) for v in targets]
        words = [[c.word for c in cells(self.value(v))] for v in values]
        for place, held in zip(places, words, strict=True):
            for cell, word in zip(place, held, strict=True):
                cell.word = word

    # ------------------------------------------------------------------ calls

    def call(self, callee: Callee, args: Sequence[Any]) -> None:
        """Run a function on values: cells of the caller where the kinds agree, else what they hold."""
        self.left -= 5
        if callee.tree.name in ("insert", "add", "get") and _is_dictionary(args):
            self._dictionary(callee, args)
            return
        if callee.receiver is not None:
            args = [callee.receiver, *args]
        outer, around, tested = self.names, self.changed, self.lenient
        plain, variadic = callee.tree.args.args, callee.tree.args.vararg
        given = {p.arg: self.argument(value, p.annotation) for p, value in zip(plain, args, strict=variadic is None)}
        if variadic is not None:
            given[variadic.arg] = tuple(self.argument(v, variadic.annotation) for v in args[len(plain) :])
        self.names = given
        self.changed = self.changed_in(callee.tree)
        self.lenient = False
        self.block(callee.tree.body, not callee.backward)
        self.names, self.changed, self.lenient = outer, around, tested

    def _dictionary(self, callee: Callee, args: Sequence[Any]) -> None:
        """`insert(d, key, x)`, `add(d, key, e)` and `y += d[key]` of the library, without its code."""
        d = next(x for x in args if isinstance(x, Struct))
        key, other = (x for x in (args if callee.tree.name != "get" else (*args[1:], args[0])) if x is not d)
        table, k = Table(d, self.w), self.w.signed(self.a.word(self.number(key), INT).word)
        match callee.tree.name:
            case "insert" if not callee.backward:
                self.demand(k not in table.words and len(table.words) < len(table.places), "no room for the key")
                table.words[k], other.word = other.word, 0
            case "insert":
                self.demand(k in table.words, "no such key")
                if other.word:
                    raise Wild("a value is removed into a variable that holds another")
                other.word = table.words.pop(k)
            case "add":
                self.demand(k in table.words, "no such key")
                x = self.a.word(self.number(other), FIXED)
                update = "-" if callee.backward else "+"
                table.words[k] = self.a.updated(update, Word(table.words[k], FIXED), x).word
            case "get":
                x = Word(table.words.get(k, 0), FIXED)
                other.word = self.a.updated("-" if callee.backward else "+", Word(other.word, FIXED), x).word
        table.write()

    def _statement(self, call: ast.Call, forward: bool) -> None:
        match call.func:
            case ast.Attribute(ast.Name("rg"), name):
                self._bijection(name if forward else _INVERSE.get(name, name), call.args)
            case ast.Attribute(function, "each"):
                self._each(self.value(function), [self.value(a) for a in call.args], forward)
            case function:
                callee = self.value(function)
                assert isinstance(callee, Callee)
                backward = callee.backward == forward
                if any(isinstance(a, ast.UnaryOp) for a in call.args[:1]) and callee.tree.args.vararg is not None:
                    self._through_view(callee, call.args, backward)
                    return
                args = [v for a in call.args for v in self._items(a)]
                names = [p.arg for p in callee.tree.args.args][len(args) + (callee.receiver is not None) :]
                defaults = zip(reversed(callee.tree.args.args), reversed(callee.tree.args.defaults), strict=False)
                given = {p.arg: self.value(d) for p, d in defaults} | {
                    k.arg: self.value(k.value) for k in call.keywords
                }
                self.call(Callee(callee.tree, backward, callee.receiver), [*args, *(given[n] for n in names)])

    def _items(self, node: ast.expr) -> list[Any]:
        """The argument; of `*xs` the items."""
        if not isinstance(node, ast.Starred):
            return [self.value(node)]
        found = self.value(node.value)
        if isinstance(found, tuple):
            return list(found)
        return [self.first_axis(found, i) for i in range(len(found.items))]

    def _through_view(self, callee: Callee, nodes: Sequence[ast.expr], backward: bool) -> None:
        """`g(-x, …)`, where g changes its first argument."""
        first, *others = nodes
        try:
            place, there = self._through(first)
        except AssertionError:
            place = None
        if not isinstance(place, Cell):
            self.call(Callee(callee.tree, backward), [v for a in nodes for v in self._items(a)])
            return
        seen = Cell(there(place.word, False), place.kind)
        self.call(Callee(callee.tree, backward), [seen, *(v for a in others for v in self._items(a))])
        place.word = there(seen.word, True)

    def _each(self, callee: Callee, args: Sequence[Any], forward: bool) -> None:
        (length,) = {len(v.items) for v in args if isinstance(v, View | Lazy)}
        indices = range(length)
        for i in indices if forward else reversed(indices):
            inner = [self.first_axis(v, i) if isinstance(v, View | Lazy) else v for v in args]
            self.call(Callee(callee.tree, callee.backward == forward), inner)

    # ------------------------------------------------------------------ bijections

    def _bijection(self, name: str, args: Sequence[ast.expr]) -> None:
        with self.reading() as seen:
            values = [self.value(a) for a in args]
        match name, values:
            case "swap", [x, y]:
                self._exchange(x, y)
            case "cswap", [c, x, y]:
                if self.a.truth(self.number(c)):
                    self._exchange(x, y)
            case (("neg" | "flip"), [x]):
                for cell in cells(x):
                    cell.word = self._turned(name, Word(cell.word, cell.kind))
            case (("rot" | "irot"), [View(xs), View(ys), t]):
                turns: Any = np.broadcast_to(self.lazy(t).items, xs.shape).flat
                for x, y, turn in zip(xs.flat, ys.flat, turns, strict=True):
                    self._rotate(name, x, y, turn(), seen)
            case (("rot" | "irot"), [Cell() as x, Cell() as y, t]):
                self._rotate(name, x, y, t, seen)
            case (("rol" | "ror"), [Cell() as x, k]):
                by = self.a.word(self.number(k), INT).word % self.w.width
                by = by if name == "rol" else -by % self.w.width
                x.word = ((x.word << by) | (x.word >> (self.w.width - by))) & self.w.mask
            case (("push" | "pop"), [Stack() as s, Cell() as x]):
                self._push(name, s, x)
            case _:
                raise AssertionError(name)

    def _exchange(self, x: Any, y: Any) -> None:
        for a, b in zip(cells(x), cells(y), strict=True):
            a.word, b.word = b.word, a.word

    def _turned(self, name: str, x: Word) -> int:
        match name, x.kind:
            case "neg", "lognum":
                return x.word ^ self.w.sign
            case "neg", _:
                return -x.word & self.w.mask
            case _, "bool":
                return x.word ^ 1
        return ~x.word & self.w.mask

    def _rotate(self, name: str, x: Cell, y: Cell, angle: Any, seen: set[Cell]) -> None:
        turn = self.a.word(self.number(angle), FIXED).word
        self.demand(x is not y and x not in seen and y not in seen, "a rotation reads what it writes")
        after = table_bijection(name, self.w, x.word, y.word, turn)
        for cell, place in ((x, "d"), (y, "a")):
            cell.word = self.a.tame(self.w.signed(after[place]), FIXED).word

    def _push(self, name: str, s: Stack, x: Cell) -> None:
        """The word goes to where the stack ends, which is zero; a pop gives it back to what is zero."""
        count = self.w.signed(s.count.word)
        at = count if name == "push" else count - 1
        self.demand(0 <= at < len(s.words), "the stack is full or empty")
        x.word, s.words[at].word = s.words[at].word, x.word
        # What comes in exchange lies where the stack is free.
        self.demand((x if name == "push" else s.words[at]).word == 0, "the free part of a stack is zero")
        s.count.word = (count + (1 if name == "push" else -1)) & self.w.mask
