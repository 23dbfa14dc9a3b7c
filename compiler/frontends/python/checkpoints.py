"""`with rg.checkpoints(states=S): for i in range(n): …`: a loop whose body overwrites variables, with S checkpoints.

    x = e, for a state x of the loop, is x′ in    (x′, …) := F(x, …, p, i)
    the loop                                      y += Fᴺ(x), and behind it the name x stands for y
    its inverse                                   y −= Fᴺ(x)
    its adjoint                                   x̄ += Jᵀ ȳ,  p̄ += Σᵢ (∂Fᵢ/∂p)ᵀ ȳᵢ₊₁

The block is lowered to functions of the language, which are written here as text around the body of the loop:

    step      y += F(x, p, i)       the body with a new name for each value of a state, computed, added to y, uncomputed
    weighted  s += ȳ·F(x, p, i)     whose gradient is the adjoint of a step
    chain     y += Fᴺ(x, p)         by Bennett's method on S rows besides the first and last: erases nothing
    adjoint   of chain              by the checkpoints of Griewank and Walther on S rows: erases states

The schedules are functions of the library, and arrive with the object `rg.checkpoints`.
Trap: the adjoint cannot run backward (RG0409) where its cotangents are not 0. Before the loop they are, which a test
finds, so that a program whose compute block holds the loop can be differentiated.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn

from retrograd.compiler.frontends.python.context import Context
from retrograd.compiler.frontends.python.indexing import roots
from retrograd.compiler.frontends.python.source import NOTHING, InnerFunction, Parameter, SourceFunction, shortened
from retrograd.compiler.frontends.specialisation import GradientOf
from retrograd.compiler.ir.expressions import const
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import first_axis, number_kind
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import FIXED, ScalarType
from retrograd.compiler.language.values import ArrayView, Constant, FunctionValue, Scalar, StructValue, Value, describe

#: words for the cotangents of the variables that one pass frees
_KEPT_WORDS = 1 << 12
#: in front of the names that are made here
_OWN = "checkpoint_"


class Checkpoints(Intrinsic):
    """`with checkpoints(states=S): for …`, or `checkpoints(words=W)`: a loop whose body overwrites variables.

    `need`, `pebble`, `sweep`: functions of the library, a test for enough states, and the schedules of the value and
    the gradient.
    """

    def __init__(self, need: SourceFunction, pebble: SourceFunction, sweep: SourceFunction, module: str) -> None:
        doc = "`with checkpoints(states=S): for …`: a loop whose body overwrites variables, run with S checkpoints."
        super().__init__("checkpoints", intrinsics.CONTEXT, doc)
        self.need, self.pebble, self.sweep = need, pebble, sweep
        self.__module__ = module


@dataclass(frozen=True)
class State:
    """A variable that a pass overwrites. `shape`: () for a number."""

    name: str
    kind: Kind
    shape: tuple[int, ...]

    @property
    def is_real(self) -> bool:
        return self.kind.is_fixed


def lower_checkpoints(cx: Context, node: ast.With, call: ast.expr, block: Checkpoints) -> None:
    """Emit the IR of the block. Raises CompileError RG0733 for a loop that it cannot hold."""
    if not isinstance(call, ast.Call) or node.items[0].optional_vars is not None:
        _refuse(cx, "rg.checkpoints is called, and gives no value", node, _FORM)
    if not cx.builder.computing:
        hint = "Write the block within `with rg.routine() as r:`, take the result out, and then `~r`."
        _refuse(cx, "a loop with checkpoints stands outside of a routine, and nothing would undo it", node, hint)
    match node.body:
        case [ast.For(target=ast.Name(), iter=ast.Call(args=bounds, keywords=[]) as iterated, orelse=[]) as loop] if (
            isinstance(f := cx.value(iterated.func), Constant) and f.value is range and 1 <= len(bounds) <= 2
        ):
            pass
        case _:
            hint = "Write one loop `for i in range(n):` or `for i in range(a, b):`; compute other indices from i."
            _refuse(cx, "the block holds something else than one loop over a range of step 1", node.body[0], hint)
    body = _Body(cx, loop)
    states, reads = body.states, body.reads()
    rows = _rows(cx, call, states)
    functions = _Functions(cx, block, loop, body, states, reads, rows)
    start, stop = bounds if len(bounds) == 2 else (ast.Constant(0), bounds[0])
    lines = [
        f"{_OWN}y_{s.name} = {_OWN}zeros({', '.join(map(str, s.shape or (1,)))}, dtype={_OWN}type_{s.name})"
        for s in states
    ]
    given = [f"{_OWN}y_{s.name}" + ("" if s.shape else "[0]") for s in states]
    arguments = ", ".join([*given, *(s.name for s in states), *reads, "START", "STOP"])
    made = functions.parsed("\n".join([*lines, f"{_OWN}chain({arguments})"]))
    last = made[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    last.value.args[-2:] = [start, stop]
    outer, before = dict(cx.scope.names), Counter(cx.builder.versions)
    cx.scope.names |= {name: cx.wrap(found) for name, found in functions.constants.items()}
    cx.lower(made)
    for name in [*(s.name for s in states), *reads]:
        if any(cx.builder.versions[place] != before[place] for place in roots(outer[name])):
            message = f"a statement of the loop changes `{name}`, which the loop does not overwrite"
            hint = f"Change a copy, `t = rg.copy({name})`, and make it the next state, `{name} = t`."
            _refuse(cx, message, loop, hint)
    results = {s.name: cx.scope.names[f"{_OWN}y_{s.name}"] for s in states}
    cx.scope.names = outer
    for s in states:
        value = results[s.name]
        assert isinstance(value, ArrayView)
        cx.scope.names[s.name] = value if s.shape else first_axis(value, const(0, Kind.INT))


_FORM = "Write `with rg.checkpoints(states=20):`, or `words=` for a budget of words, and in it one loop."


def _refuse(cx: Context, message: str, node: ast.AST, hint: str) -> NoReturn:
    cx.fail("RG0733", message, node, hint)


def _rows(cx: Context, call: ast.Call, states: Sequence[State]) -> int:
    """The number of states that are kept."""
    given = {k.arg: k.value for k in call.keywords}
    if call.args or len(given) != 1 or not given.keys() <= {"states", "words"}:
        _refuse(cx, "rg.checkpoints takes `states` or `words`, by name", call, _FORM)
    ((name, value),) = given.items()
    number = cx.static_int(value, f"`{name}`")
    size = 0
    for s in states:
        words = 1
        for n in s.shape:
            words *= n
        size += words
    found = number if name == "states" else number // size
    if found < 1:
        message = f"{name}={number} has no room for a state" + (
            f" of {size} word{'s' * (size != 1)}" if name == "words" else ""
        )
        _refuse(cx, message, value, "Give room for one state or more; each more saves steps.")
    return found


class _Body:
    """The body of the loop, and the names of the function around that it uses."""

    def __init__(self, cx: Context, loop: ast.For) -> None:
        self.cx, self.loop = cx, loop
        assert isinstance(loop.target, ast.Name)
        self.index = loop.target.id
        self._look_through()
        assigned = [t for statement in loop.body for t in self._assigned(statement)]
        changed = [n for statement in loop.body for n in self._changed(statement)]
        names = [n for n in dict.fromkeys([*assigned, *changed]) if n in cx.scope.names]
        if not any(n in assigned for n in names):
            message = "no statement of the loop overwrites a variable, so the loop can be undone and keeps no state"
            hint = "Leave out `with rg.checkpoints(…)`: there is nothing to gain. To overwrite x, write `x = …`."
            _refuse(cx, message, loop, hint)
        self.states = [self._state(n) for n in names]

    def _assigned(self, node: ast.stmt) -> list[str]:
        """The names that a statement of the body binds."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return [name]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
                values
            ) and all(isinstance(t, ast.Name) for t in targets):
                return [t.id for t in targets if isinstance(t, ast.Name)]
        return []

    def _changed(self, node: ast.stmt) -> list[str]:
        """The names whose values a statement changes in place."""
        found = []
        for inner in ast.walk(node):
            if isinstance(inner, ast.AugAssign):
                root: ast.expr = inner.target
                while isinstance(root, ast.Subscript | ast.Attribute):
                    root = root.value
                if isinstance(root, ast.Name):
                    found.append(root.id)
        return found

    def _look_through(self) -> None:
        """Refuse statements that cannot be run again, or of which nothing is kept."""
        cx = self.cx
        for node in (n for s in self.loop.body for n in ast.walk(s)):
            if isinstance(node, ast.With | ast.Call):
                f = node.items[0].context_expr if isinstance(node, ast.With) else node.func
                f = f.func if isinstance(f, ast.Call) else f
                last = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
                if last == "external":
                    hint = "Print before or behind the loop: the steps of a loop with checkpoints run several times."
                    _refuse(cx, "the loop has a block for the host, which would run for each repetition", node, hint)
                if last in ("erase", "push", "pop"):
                    hint = "Overwrite the variable: `x = …`. The first state and the checkpoints stand for the history."
                    _refuse(
                        cx, f"`{shortened(f)}` in a loop with checkpoints: its steps are computed again", node, hint
                    )
        top = {id(s) for s in self.loop.body}
        for node in (n for s in self.loop.body for n in ast.walk(s)):
            if isinstance(node, ast.stmt) and id(node) not in top:
                inside = [n for n in self._assigned(node) if n in self.cx.scope.names]
                if inside:
                    hint = f"Compute the new value first, by `rg.select` or in a variable of its own, and end the body with `{inside[0]} = …`."
                    _refuse(cx, f"`{inside[0]}` is overwritten in an inner block", node, hint)

    def _state(self, name: str) -> State:
        cx = self.cx
        match cx.scope.names[name]:
            case Scalar(kind=kind):
                shape: tuple[int, ...] = ()
            case Constant(value) if (found := number_kind(value)) is not None:
                kind, shape = found, ()
            case ArrayView(ScalarType(kind), lengths) if all(isinstance(n, int) for n in lengths):
                shape = tuple(n for n in lengths if isinstance(n, int))
            case other:
                hint = "States are numbers, and arrays of numbers whose lengths are known when the program is compiled."
                _refuse(cx, f"`{name}` is {describe(other)}, which a checkpoint cannot hold", self.loop, hint)
        if kind is Kind.LOGNUM:
            hint = "Keep the logarithm: `x = rg.log(…)` of a fixed number."
            _refuse(cx, f"`{name}` holds lognums, which have no cotangent in a checkpoint", self.loop, hint)
        if kind is Kind.BOOL:
            _refuse(cx, f"`{name}` is a bool, which no sum takes", self.loop, "Keep an int: `n = int(…)`.")
        return State(name, kind, shape)

    def reads(self) -> list[str]:
        """The variables around that the loop reads."""
        states = {s.name for s in self.states}
        used = {n.id for s in self.loop.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        found = []
        for name, value in self.cx.scope.names.items():
            if name not in used or name in states or name == self.index:
                continue
            if isinstance(value, Scalar | ArrayView):
                found.append(name)
            elif isinstance(value, StructValue):
                hint = f"Take its numbers in front of the loop, as in `t = {name}.x`."
                _refuse(self.cx, f"the loop uses `{name}`, {describe(value)}", self.loop, hint)
            elif isinstance(value, FunctionValue) and value.captured:
                hint = "Define the function outside, with parameters for the variables that it uses."
                _refuse(self.cx, f"the loop uses `{name}`, {describe(value)}", self.loop, hint)
        return found

    def renamed(self) -> tuple[list[ast.stmt], dict[str, str]]:
        """The statements with a new name for each value of a state, and the last name of each."""
        now = {s.name: s.name for s in self.states}
        count = dict.fromkeys(now, 0)
        out: list[ast.stmt] = []

        def fresh(name: str) -> str:
            count[name] += 1
            now[name] = f"{name}_{count[name]}"
            while now[name] in self.cx.scope.names:
                now[name] += "_"
            return now[name]

        def reading(node: Any) -> Any:
            before = dict(now)
            node = deepcopy(node)
            for n in ast.walk(node):
                if isinstance(n, ast.Name) and n.id in before:
                    n.id = before[n.id]
            return node

        def bind(name: str, value: ast.expr, at: ast.stmt) -> ast.stmt:
            target = ast.Name(fresh(name) if name in now else name, ast.Store())
            made = ast.Assign([target], value)
            ast.copy_location(target, at)
            return ast.copy_location(made, at)

        for node in self.loop.body:
            names = self._assigned(node)
            match node:
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) if any(n in now for n in names):
                    values = value.elts if len(names) > 1 and isinstance(value, ast.Tuple) else [value]
                    after = [reading(v) for v in values]
                    out += [bind(n, v, node) for n, v in zip(names, after, strict=True)]
                case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value) if name in now:
                    old = ast.copy_location(ast.Name(now[name], ast.Load()), target)
                    whole = ast.copy_location(ast.BinOp(old, op, reading(value)), node)
                    out.append(bind(name, whole, node))
                case _:
                    for name in dict.fromkeys(self._changed(node)):
                        if now.get(name) == name:
                            given = ast.copy_location(ast.Name(name, ast.Load()), node)
                            copied = ast.copy_location(ast.Name(f"{_OWN}copy", ast.Load()), node)
                            out.append(bind(name, ast.copy_location(ast.Call(copied, [given], []), node), node))
                    out.append(reading(node))
        return out, now


class _Functions:
    """The functions of one block; `constants`: their names, and the names of the language in their text."""

    def __init__(
        self,
        cx: Context,
        block: Checkpoints,
        loop: ast.For,
        body: _Body,
        states: Sequence[State],
        reads: Sequence[str],
        rows: int,
    ) -> None:
        self.cx, self.at = cx, loop
        language = ("zeros", "zeros_like", "copy", "routine", "swap", "erase", "sum")
        self.constants: dict[str, Any] = {_OWN + name: getattr(intrinsics, name) for name in language}
        self.constants |= {_OWN + "need": block.need, _OWN + "pebble": block.pebble, _OWN + "sweep": block.sweep}
        self.constants |= {n: v.value for n, v in cx.scope.names.items() if isinstance(v, Constant)}
        self.constants |= {
            n: v.function
            for n, v in cx.scope.names.items()
            if isinstance(v, FunctionValue) and v == FunctionValue(v.function)
        }
        for s in states:
            self.constants.pop(s.name, None)
            self.constants[f"{_OWN}type_{s.name}"] = type(s.name, (), {"retrograd_kind": s.kind.value})
        self.constants.pop(body.index, None)
        self.constants[_OWN + "fixed"] = type("fixed", (), {"retrograd_kind": FIXED.kind.value})
        self._make(body, states, reads, rows)

    def parsed(self, text: str) -> list[ast.stmt]:
        """The statements of a text, at the place of the loop."""
        made = ast.parse(text).body
        for statement in made:
            for node in ast.walk(statement):
                if isinstance(node, ast.expr | ast.stmt | ast.arg):
                    ast.copy_location(node, self.at)
        return made

    def _function(self, name: str, text: str) -> InnerFunction:
        (tree,) = self.parsed(text.replace("$", _OWN))
        assert isinstance(tree, ast.FunctionDef)
        return self._added(name, tree)

    def _added(self, name: str, tree: ast.FunctionDef) -> InnerFunction:
        made = InnerFunction(tree, self.cx.function, self.constants, (), self.cx.static)
        self.constants[_OWN + name] = made
        return made

    def _make(self, body: _Body, states: Sequence[State], reads: Sequence[str], rows: int) -> None:
        real = [s for s in states if s.is_real]
        xs = [s.name for s in states]
        by = [n for n in reads if _has_cotangent(self.cx.scope.names[n])]
        rest = [*xs, *reads]

        def listed(*names: str) -> str:
            return ", ".join(names)

        def lines(template: str, of: Sequence[State], indent: int) -> str:
            """The lines of the template for each state; `[0]` stands behind numbers that lie in arrays of one."""
            out = []
            for s in of:
                for line in template.strip("\n").split("\n"):
                    out.append(" " * indent + line.strip().replace("@", s.name))
            return "\n".join(out) or " " * indent + "pass"

        # ---------------------------------------------------------------- a step
        statements, last = body.renamed()
        text = f"def $step({listed(*('$n_' + x for x in xs), *rest, body.index)}):\n    with $routine() as $r:\n        pass\n"
        ends_routine = any(isinstance(n, ast.Invert) for s in statements for n in ast.walk(s))
        if ends_routine:
            # A variable that is made between a routine and its end stays where a statement behind uses it.
            kept = self.parsed("\n".join(f"{_OWN}l_{x} = {last[x]}" for x in xs))
            statements, last = [*statements, *kept], {x: f"{_OWN}l_{x}" for x in xs}
        text += "".join(f"    $n_{x} += {last[x]}\n" for x in xs) + "    ~$r"
        (tree,) = self.parsed(text.replace("$", _OWN))
        assert isinstance(tree, ast.FunctionDef)
        routine = tree.body[0]
        assert isinstance(routine, ast.With)
        routine.body = statements
        self._added("step", tree)
        # ---------------------------------------------------------------- its adjoint
        made = lines("$n_@ = $zeros(SHAPE, dtype=$type_@)", states, 8)
        for s in states:
            made = made.replace("SHAPE", _shape(s.shape or (1,)), 1)
        passed = [f"$n_{s.name}" + ("" if s.shape else "[0]") for s in states]
        products = "".join(
            f"    $s += $sum($w_{s.name} * $n_{s.name})\n" if s.shape else f"    $s += $w_{s.name} * $n_{s.name}[0]\n"
            for s in real
        )
        weights = ["$w_" + s.name for s in real]
        weighted = self._function(
            "weighted",
            f"def $weighted({listed('$s', *weights, *rest, body.index)}):\n    with $routine() as $r:\n{made}\n"
            f"        $step({listed(*passed, *rest, body.index)})\n{products or '    pass'}\n    ~$r",
        )
        names = [p.name for p in weighted.parameters]
        wanted = [s.name for s in real] + by
        pull = InnerFunction(weighted.tree, self.cx.function, self.constants, (), self.cx.static)
        pull.parameters = (*weighted.parameters, *(Parameter(f"d_{n}", NOTHING, gains=True) for n in wanted))
        positions = tuple(names.index(n) for n in wanted)
        pull.gradient_of = GradientOf(weighted, False, 0, positions, _KEPT_WORDS)
        self.constants[_OWN + "pull"] = pull
        # ---------------------------------------------------------------- all steps
        each = lines("$rows_@ = $zeros(ROWS, SHAPE, dtype=$type_@)", states, 4)
        for s in states:
            each = each.replace("SHAPE", _shape(s.shape), 1)
        each = each.replace(", ,", ",")
        ys = ["$y_" + x for x in xs]
        places = listed(*(f"$rows_{x}[$b]" for x in xs), *(f"$rows_{x}[$a]" for x in xs), *reads)
        chain = self._function(
            "chain",
            f"def $chain({listed(*ys, *rest, '$start', '$stop')}):\n    if $stop <= $start:\n"
            + lines("$y_@ += @", states, 8)
            + "\n    else:\n"
            + _indented(each.replace("ROWS", str(rows + 2)))
            + f"\n        def $apply($b, $a, $i):\n            $step({places}, $i)\n"
            + lines("$rows_@[0] += @", states, 8)
            + f"\n        $need($stop - $start, {rows})\n        $pebble($apply, 0, 1, 2, {rows + 2}, $start, $stop - $start)\n"
            + lines("$swap($y_@, $rows_@[1])\n$rows_@[0] -= @", states, 8),
        )
        if not real:
            return
        cotangents = [*("d_" + y for y in ys if any(y == "$y_" + s.name for s in real)), *("d_" + n for n in wanted)]
        some = " + ".join(f"$sum(d_$y_{s.name} != 0)" if s.shape else f"int(d_$y_{s.name} != 0)" for s in real)
        zero = "".join(
            f"        $bar_{s.name} = " + (f"$zeros_like(d_$y_{s.name})\n" if s.shape else f"d_$y_{s.name} * 0\n")
            for s in real
        )
        before = "".join(
            f"                $before_{s.name} = "
            + (f"$zeros_like(d_$y_{s.name})\n" if s.shape else f"d_$y_{s.name} * 0\n")
            for s in real
        )
        following = "".join(
            f"                $next_{s.name} = $zeros({_shape(s.shape or (1,))}, dtype=$type_{s.name})\n"
            for s in states
        )
        at = lines("$rows_@[$k + 1]", states, 0).split("\n")
        nexts = [f"$next_{s.name}" + ("" if s.shape else "[0]") for s in states]
        exchanged = "".join(
            f"                    $swap({n}, {row})\n                    $erase({n})\n"
            for n, row in zip(nexts, at, strict=True)
        )
        here = [f"$rows_{x}[$k]" for x in xs]
        gains = [*("$before_" + s.name for s in real), *("d_" + n for n in by)]
        # y := Fᴺ(x) in `$now_x`, the states before it erased.
        now = [f"$now_{s.name}" + ("" if s.shape else "[0]") for s in states]
        advanced = "\n".join(
            [
                *(f"$now_{s.name} = $zeros({_shape(s.shape or (1,))}, dtype=$type_{s.name})" for s in states),
                *(f"$next_{s.name} = $zeros({_shape(s.shape or (1,))}, dtype=$type_{s.name})" for s in states),
                *(f"{n} += {x}" for n, x in zip(now, xs, strict=True)),
                "for $t in range($start, $stop):",
                f"    $step({listed(*nexts, *now, *reads, '$t')})",
                *(f"    $swap({n}, {m})\n    $erase({n})" for n, m in zip(nexts, now, strict=True)),
            ]
        )
        into = "\n".join(f"$swap({y}, {n})" for y, n in zip(ys, now, strict=True))
        away = "\n".join(f"{y} -= {n}\n$erase({n})" for y, n in zip(ys, now, strict=True))
        signature = f"({listed(*ys, *rest, '$start', '$stop', *cotangents)}):\n"
        adjoint = self._function(
            "adjoint",
            "def $adjoint"
            + signature
            + "    with $routine() as $r:\n        $some = "
            + some
            + "\n    if $stop <= $start:\n"
            + lines("d_@ += d_$y_@", real, 8)
            + "\n"
            + lines("$y_@ -= @", states, 8)
            + "\n    elif $some > 0:\n"
            + _indented(each.replace("ROWS", str(rows + 1)))
            + "\n"
            + zero
            + lines("$rows_@[0] += @", states, 8)
            + "\n"
            + lines("$bar_@ += d_$y_@", real, 8)
            + "\n        def $act($kind, $k, $i, $j):\n            if $kind == 0:\n"
            + lines("$rows_@[$k + 1] += $rows_@[$k]", states, 16)
            + "\n"
            + following
            + "                for $t in range($i, $j):\n"
            + f"                    $step({listed(*nexts, *at, *reads, '$t')})\n"
            + exchanged
            + "            elif $kind == 1:\n"
            + f"                if $i == $stop - 1:\n                    ~$step({listed(*ys, *here, *reads, '$i')})\n"
            + before
            + "                $nothing = $fixed(0)\n"
            + f"                $pull({listed('$nothing', *('$bar_' + s.name for s in real), *here, *reads, '$i', *gains)})\n"
            + lines("$swap($before_@, $bar_@)\n$erase($before_@)", real, 16)
            + "\n            else:\n"
            + lines("$erase($rows_@[$k])", states, 16)
            + f"\n        $sweep($act, 0, {rows}, $start, $stop)\n"
            + lines("d_@ += $bar_@\n$erase($bar_@)", real, 8)
            + "\n"
            + lines("$rows_@[0] -= @", states, 8)
            + "\n    else:\n"
            + _indented(_indented(f"{advanced}\n{away}"))
            + "\n    ~$r",
        )
        # Before the loop y is 0, so its cotangent is dropped there, as that of a variable that is freed.
        adjoint.made_by = self._function(
            "made",
            "def $made"
            + signature
            + "    if $stop <= $start:\n"
            + lines("$y_@ += @", states, 8)
            + "\n    else:\n"
            + _indented(_indented(f"{advanced}\n{into}"))
            + "\n"
            + lines("$erase(d_$y_@)", real, 4),
        )
        chain.own_adjoint = adjoint


def _has_cotangent(value: Value) -> bool:
    match value:
        case Scalar(kind=kind) | ArrayView(ScalarType(kind)):
            return kind.is_real
    return False


def _shape(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))
