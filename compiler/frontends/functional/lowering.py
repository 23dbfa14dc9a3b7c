"""Lowering: expressions of core to statements and values of one body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import ArrayLowering, Syntax, attribute_value, in_memory
from retrograd.compiler.frontends.functional.core import guarded, on_numbers, operated, scalar_operation, with_literals
from retrograd.compiler.frontends.functional.numpy_functions import Picked, index_of, indexed
from retrograd.compiler.frontends.functional.procedures import (
    Body,
    Calls,
    Conversions,
    Procedures,
    scalar,
)
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    INT,
    NOTHING,
    UINT,
    Array,
    Closure,
    Data,
    Env,
    Exact,
    Function,
    Known,
    List,
    Nothing,
    StructureLowering,
    Targets,
    Tuple,
    Type,
    Value,
    Word,
    arrays_in,
    combined,
    constructed,
    field_types,
    has_cells,
    has_names,
    is_unsigned,
    kinds,
)
from retrograd.compiler.ir.expressions import Address, E, InRange, choose, const, load, read
from retrograd.compiler.ir.statements import (
    Block,
    Check,
    Const,
    For,
    Kind,
    Test,
    Var,
)
from retrograd.compiler.language.arithmetic import COMPARISONS
from retrograd.compiler.language.types import ScalarType
from retrograd.compiler.language.values import ArrayView, Constant, Lazy, Scalar, stored
from retrograd.compiler.language.values import Value as Word_
from retrograd.isa.words import Format

Then = Callable[[], None]


class Lowering:
    """Lowers expressions into a body."""

    def __init__(self, procedures: Procedures, body: Body) -> None:
        self.body = body
        self.inference, self.arithmetic = procedures.inference, procedures.inference.arithmetic
        self.conversions = Conversions(body, self.inference, self._called)
        self.arrays = body.arrays = ArrayLowering(procedures.contexts, body, procedures.function)
        self.structures = StructureLowering(
            self.arithmetic, self.inference.structures, self._called, self.arrays.inner_product
        )
        self.calls = Calls(
            procedures,
            body,
            self.value,
            self.into,
            self.conversions.converted,
            self.structures,
            self.arrays.hosted_value,
        )

    # ------------------------------------------------------------------ values

    def value(self, e: core.Core, env: Env, name: str = "t") -> Value:
        """The value of an expression; `name`: of an array.

        Statements get the place of the innermost expression that makes them.
        """
        self.body.span = e.at.span
        fused = self._fused(e, env)
        found = self._value(e, env) if fused is None else self.arrays.stored(fused, e.at, name)
        if not isinstance(e, core.Let | core.LetRec):
            # The expressions within it have set their own places. The place of a Let is that of its result.
            self.body.span = e.at.span
        return found

    def _value(self, e: core.Core, env: Env) -> Value:
        match e:
            case core.Number(number):
                return self._constant(number, e)
            case core.Ref(binding):
                return env[binding]
            case core.Lambda():
                return closure(e, [env[b] for b in e.free])
            case core.Global() | core.Operator():
                return Value(self.inference.type_of(e, {}))
            case core.Apply(f, args, at):
                function, given = self.value(f, env), [self.value(a, env) for a in args]
                if any(isinstance(v.type, Nothing) for v in (function, *given)):
                    return Value(NOTHING)
                self.body.span = at.span
                return self.calls.apply(function, given, at)
            case core.Let(binding, value, rest):
                return self.value(rest, {**env, binding: self.bound(binding, value, env)})
            case core.LetRec(functions, rest):
                return self.value(rest, env | _closures(functions, env))
            case core.Conditional():
                return self._branch(e, env)
            case core.Operation("unpack"):
                return Value(INT, (const(0, Kind.INT),))
            case core.Operation():
                folded = _folded(e)
                assert folded is not None  # all others are `_fused`
                return self._constant(folded, e)
            case core.Record(items):
                parts = [self.value(i, env) for i in items]
                types = tuple(p.type for p in parts)
                return self.conversions.converted(
                    combined(Tuple(types, e.form), parts), constructed(types, e.form), e.at
                )
            case core.Primitive(rules, args, at):
                parts = [self.value(a, env) for a in args]
                if any(isinstance(p.type, Nothing) for p in parts):
                    return Value(NOTHING)
                made: Value = rules.value(self, parts, at)
                return made
            case core.Item(value, index, at):
                return self._item(self.value(value, env), index, at)
            case core.Cast(value, wanted):
                return self.as_type(value, env, wanted)
            case core.Field(value):
                return self._field(e, value, env)
            case core.Build(None, args) if isinstance(t := self._type_of(e, env), Tuple):
                # A list of arrays: the empty list at its end has no place.
                found = [self.value(a, env) for a in args]
                return combined(t, [v for v in found if not isinstance(v.type, List) or v is not found[-1]])
            case core.Build() | core.Match() | core.Total() | core.Forget():
                t = self._type_of(e, env)
                return self.body.new(t, lambda targets: self.into(e, env, targets, t))
            case core.Element(array, indices, at, reached):
                whole, picks = self.value(array, env), [self.value(i, env) for i in indices]
                if isinstance(whole.type, Array) and any(isinstance(i.type, Array) for i in picks):
                    keys = [
                        k if (k := index_of(e, i.type)) is not i.type else i
                        for e, i in zip(indices, picks, strict=True)
                    ]
                    return indexed(self, whole, keys, at)
                return self._element(whole, picks, at, reached)
            case core.Length(array):
                t = self.value(array, env).type
                count = t.shape[0] if isinstance(t, Array) else len(t.items) if isinstance(t, Tuple) else 0
                return Value(INT, (const(count, Kind.INT),))
            case core.Structural(op, args, at):
                return self.structures.value(op, [self.value(a, env) for a in args], at)
            case core.Refusal(code, message, hint, at):
                self.inference.fail(code, message, at, hint)

    def bound(self, binding: core.Binding, value: core.Core, env: Env) -> Value:
        """The value that a name is bound to."""
        return self.body.named(self.value(value, env, binding.name), binding.name)

    def _fused(self, e: core.Core, env: Env) -> Word_ | None:
        """The value of an operation, which may be an array expression; None for other expressions."""
        match e:
            case core.Operation(op) if op != "unpack" and _folded(e) is None:
                found = self._operation(e, self._operands(e, env))
            case core.Primitive(Syntax() as rules, args, at) if not (
                rules.is_view and self._is_picked(rules, args, env, at)
            ):
                operands = [self._operand(a, env) for a in args]
                self.body.span = at.span
                found = self.arrays.syntax(rules, operands, at)
            case core.Apply(core.Global(function), args, at) if getattr(function, "host", None) is not None and any(
                isinstance(self._type_of(a, env), Array) for a in args
            ):
                operands = [self._operand(a, env) for a in args]
                self.body.span = at.span
                found = self.arrays.hosted(function, operands, at)
            case core.Conditional(test, then, orelse, at) if e.elementwise and isinstance(
                self._type_of(test, env), Array
            ):
                operands = [self._operand(x, env) for x in (test, then, orelse)]
                found = self.arrays.elementwise(lambda x: operated(self.arithmetic, "select", x), operands, at)
            case _:
                return None
        self.body.span = e.at.span
        return found

    def _is_picked(self, rules: Syntax, args: Sequence[core.Core], env: Env, at: core.Place) -> bool:
        """Whether an index is of a tuple, or by arrays: the rules have its value."""
        types = [self._type_of(a, env) for a in args]
        return isinstance(types[0], Tuple) or (isinstance(rules, Picked) and rules.is_picked(types, at))

    def _operand(self, e: core.Core, env: Env) -> Word_:
        """The value of an expression as an operand: of an operation on arrays an expression, which lies nowhere."""
        self.body.span = e.at.span
        fused = self._fused(e, env)
        if isinstance(fused, ArrayView | Lazy):
            return fused
        found = self.value(e, env) if fused is None else self.arrays.stored(fused, e.at)
        return scalar(found) if isinstance(found.type, Word) else self.arrays.operand(found)

    def as_type(self, e: core.Core, env: Env, t: Type) -> Value:
        """The value of an expression as one of a wider type.

        A whole number that is written has the type of its place: int, or uint.
        """
        if isinstance(e, core.Number) and isinstance(t, Word) and t in (UINT, FIXED):
            return Value(t, (self._word(e, Constant(e.value), t.kind),))
        if is_unsigned(t) and self._type_of(e, env) != t:
            match e:
                case core.Conditional():
                    return self._branch(e, env, t)
                case core.Record(items, _, "") if isinstance(t, Tuple):
                    return combined(t, [self.as_type(i, env, own) for i, own in zip(items, t.items, strict=True)])
                case core.Let() | core.LetRec() | core.Build() | core.Match():
                    return self.body.new(t, lambda targets: self.into(e, env, targets, t))
                case _:
                    pass
        return self.conversions.converted(self.value(e, env), t, e.at)

    def _power(self, operands: list[Word_], e: core.Operation) -> list[Word_]:
        """The operands of a power.

        A fixed exponent that is a constant stays one: x to a whole power is a product, for any x.
        """
        base, exponent = operands
        if isinstance(base, ArrayView | Lazy):
            return operands
        if isinstance(exponent, Constant) and isinstance(exponent.value, int):
            whole = self.arithmetic.expression(base)
            if not whole.kind.is_fixed:
                return [Scalar(whole), exponent]
        if isinstance(exponent, Constant):
            number = exponent.value
        else:
            number = _number_of(exponent.e, self.arithmetic.w) if isinstance(exponent, Scalar) else None
        if number is None:
            return operands
        x = guarded(e.at, lambda: Scalar(self.arithmetic.expression(base, Kind.FIXED)))
        return [x, Constant(number)]

    def _called(self, closure: Closure, given: list[Value], at: core.Place) -> Value:
        return self.calls.call(closure, (), given, at)

    def _constant(self, number: float, e: core.Core) -> Value:
        t = self.inference.type_of(e, {})
        if isinstance(t, Exact):
            return Value(t)
        assert isinstance(t, Word)
        return Value(t, (self._word(e, Constant(number), t.kind),))

    def _word(self, e: core.Core, value: Word_, kind: Kind | None = None) -> E:
        """The word of a number or scalar, which may have none."""
        made = guarded(e.at, lambda: Scalar(self.arithmetic.expression(value, kind)), self.inference.constants)
        return self.arithmetic.expression(made)

    def _operands(self, e: core.Operation, env: Env) -> list[Word_]:
        literals = e.op in COMPARISONS and not all(isinstance(a, core.Number) for a in e.args)
        # An exponent need not fit in the format.
        most = 2 ** (self.arithmetic.w.width - self.arithmetic.w.frac - 1)
        found = [
            Constant(a.value)
            if isinstance(a, core.Number)
            and (
                literals
                or e.op == "uint"
                or (e.op in ("*", "/") and isinstance(a.value, float))
                or (e.op == "**" and a is e.args[1] and isinstance(a.value, float) and abs(a.value) >= most)
            )
            else self._operand(a, env)
            for a in e.args
        ]
        found = with_literals(e, found, self.arithmetic.w)
        return self._power(found, e) if e.op == "**" else found

    def _operation(self, e: core.Operation, operands: Sequence[Word_]) -> Word_:
        if any(isinstance(x, ArrayView | Lazy) for x in operands):
            return self.arrays.elementwise(lambda x: operated(self.arithmetic, e.op, x), operands, e.at)
        return scalar_operation(self.arithmetic, e, operands, self.inference.constants)

    def _type_of(self, e: core.Core, env: Env) -> Type:
        return self.inference.type_of(e, {b: v.type for b, v in env.items()})

    def _number(self, op: str, *operands: Word_) -> E:
        return self.arithmetic.expression(self.arithmetic.binary(op, *operands))

    def _field(self, e: core.Field, value: core.Core, env: Env) -> Value:
        t = self._type_of(value, env)
        if isinstance(t, Nothing):
            return Value(NOTHING)
        if isinstance(t, Array):
            return attribute_value(self.value(value, env), e.name)
        if isinstance(t, Tuple) and has_names(t):
            return self.value(value, env).split(t.items)[self.inference.place_of(e.name, t, e.at)]
        return self.value(self.inference.selection(e, t), env)

    def _item(self, value: Value, index: int, at: core.Place) -> Value:
        if isinstance(value.type, Array):
            return self._element(value, [Value(INT, (const(index, Kind.INT),))], at)
        assert isinstance(value.type, Tuple)
        return value.split(value.type.items)[index]

    def _element(self, array: Value, indices: Sequence[Value], at: core.Place, reached: bool = True) -> Value:
        if isinstance(array.type, Tuple) and isinstance(name := indices[0].type, Known):
            return array.split(array.type.items)[self.inference.place_of(str(name.value), array.type, at)]
        if isinstance(array.type, Tuple):
            return self._chosen(array, array.type.items, indices[0].words[0], at)
        assert isinstance(array.type, Array)
        t, view = array.type, array.views[0]
        for index, length, stride in zip(indices, t.shape, t.strides, strict=False):
            i = index.words[0]
            checks: tuple[InRange, ...] = ()
            if i.op == "const":
                if not -length <= i.param < length and not reached:
                    self.body.emit(Check(Test("ne", Const(0), Const(0)), "RG0801", "a part that is not there", at.span))
                    assert isinstance(t.element, ScalarType)
                    return Value(Word(t.element.kind), (const(0, t.element.kind),))
                if not -length <= i.param < length:
                    self.inference.fail("RG0713", f"the index is {i.param}, and the array has {length} rows", at)
                i = const(i.param % length, Kind.INT)
            else:
                i = self.body.atom(i, "i")
                checks = (InRange(i, length, f"the index is {{a}}, and the array has {length} rows", at.span),)
            view = view.shifted(i, stride, *checks)
        k = len(indices)
        if k < len(t.shape):
            return Value(Array(t.element, t.shape[k:], t.strides[k:]), (), (view,))
        return in_memory(stored(t.element, view), at)

    def _chosen(self, array: Value, items: Sequence[Type], index: E, at: core.Place) -> Value:
        """The item of a tuple by an index; at run time, of a tuple of numbers of one kind."""
        if index.op == "const":
            return self._item(array, range(len(items))[index.param], at)
        index = self.body.atom(index, "i")
        message = f"the index is {{a}}, and the tuple has {len(items)} items"
        test = Test("ltu", self.body.operand(index), Const(len(items)))
        self.body.emit(Check(test, "RG0801", message, at.span))
        made = array.words[-1]
        for k in reversed(range(len(array.words) - 1)):
            made = choose(self._number("==", Scalar(index), Constant(k)), array.words[k], made)
        return Value(items[0], (made,))

    def parts(self, e: core.Core, env: Env, t: Type) -> list[tuple[Value | Word_, core.Place]]:
        """The parts of a result with their places: values without arrays, and operands for arrays."""
        if isinstance(t, Array):
            return [(self._operand(e, env), e.at)]
        if isinstance(e, core.Record) and isinstance(t, Tuple) and arrays_in(t):
            return [part for item, inner in zip(e.items, t.items, strict=True) for part in self.parts(item, env, inner)]
        return [(part, e.at) for part in self._leaves(self.as_type(e, env, t))]

    def _leaves(self, value: Value) -> list[Value | Word_]:
        if not arrays_in(value.type):
            return [value]
        if isinstance(value.type, Array):
            return [self.arrays.operand(value)]
        assert isinstance(value.type, Tuple)
        return [part for item in value.split(value.type.items) for part in self._leaves(item)]

    # ------------------------------------------------------------------ values into variables

    def into(self, e: core.Core, env: Env, targets: Targets, t: Type) -> None:
        """targets += the value, as one of the type t. The targets are zero."""
        self.body.span = e.at.span
        match e:
            case core.Let(binding, value, rest):
                self.into(rest, {**env, binding: self.bound(binding, value, env)}, targets, t)
            case core.LetRec(functions, rest):
                self.into(rest, env | _closures(functions, env), targets, t)
            case core.Conditional(test) if e.elementwise and isinstance(self._type_of(test, env), Array):
                self.arrays.add(targets.arrays[0], self._operand(e, env), e.at)
            case core.Conditional(_, then, orelse) if (known := self._known(e, env)) is not None:
                self.into(then if known.value else orelse, env, targets, t)
            case core.Cast(value, own) if own == t and is_unsigned(t):
                self.into(value, env, targets, t)
            case core.Conditional(test, then, orelse) if not (isinstance(t, Word) and _is_simple(e)):
                found = self.value(test, env)
                if isinstance(found.type, Nothing):
                    return
                condition = self.arithmetic.truth(scalar(found))
                self.body.branch(
                    condition, lambda: self.into(then, env, targets, t), lambda: self.into(orelse, env, targets, t)
                )
            case core.Match(subject):
                cell = self.body.named(self.value(subject, env), "cell")
                if isinstance(cell.type, Tuple):
                    held = core.Binding("sequence", e.at)
                    again = replace(e, subject=core.Ref(held, e.at))
                    self.into(self.inference.sequence(again, cell.type), {**env, held: cell}, targets, t)
                elif isinstance(cell.type, List):
                    self._match_list(e, cell.words[0], cell.type, env, targets, t)
                else:
                    self._match_data(e, cell, env, targets, t)
            case core.Build() if not isinstance(t, Tuple):
                self._build(e, env, targets, t)
            case core.Apply(f, args, at):
                function, given = self.value(f, env), [self.value(a, env) for a in args]
                if not any(isinstance(v.type, Nothing) for v in (function, *given)):
                    self.body.span = at.span
                    self.calls.apply_into(function, given, at, targets, t)
            case core.Forget(value, at):
                self._forget(value, env, targets, t, at)
            case core.Total() if self._type_of(e, env) == t:
                self.body.emit(*self.total(e, env, targets[0]))
            case _ if isinstance(t, Array):
                self.arrays.add(targets.arrays[0], self._operand(e, env), e.at)
            case _:
                self.body.put(targets, self.as_type(e, env, t), e.at)

    def _known(self, e: core.Conditional, env: Env) -> Known | None:
        """The type of a condition that is known by its type: then one branch is no part of the program."""
        found = self._type_of(e.test, env) if isinstance(e.test, core.Primitive) else None
        return found if isinstance(found, Known) else None

    def _forget(self, e: core.Core, env: Env, targets: Targets, t: Type, at: core.Place) -> None:
        """targets += the value.

        Cells of it are counted by a first run, and copied into reserved words by a second one.
        """

        def value() -> Value:
            return self.conversions.converted(self.value(e, env), t, at)

        if not has_cells((t,)):
            self.body.uncomputed(value, lambda found: self.body.put(targets, found, at))
            return

        def copied(found: Value, copies: list[Var]) -> None:
            with self.body.nested() as inner:
                self.body.add(copies, self.structures.copy(found, Value(INT, (const(1, Kind.INT),)), at).words)
            self.body.emit(*inner)

        def counted() -> Value:
            found = value()
            begin = self.body.mark()
            copied(found, self.body.variables(kinds(t)))
            return Value(INT, (self._number("-", Scalar(self.body.mark()), Scalar(begin)),))

        words = self.body.new(
            INT, lambda made: self.body.uncomputed(counted, lambda found: self.body.add(made, found.words)), "words"
        ).words[0]
        start = self.body.reserved(words)

        def placed(found: Value) -> None:
            with self.body.cells_from(start, words):
                copied(found, targets)

        self.body.uncomputed(value, placed)

    def _branch(self, e: core.Conditional, env: Env, wanted: Type | None = None) -> Value:
        known = self._known(e, env)
        if known is not None:
            return self.value(e.then if known.value else e.orelse, env)
        t = self._type_of(e, env) if wanted is None else wanted
        if not (isinstance(t, Word) and _is_simple(e.then) and _is_simple(e.orelse)):
            return self.body.new(t, lambda targets: self.into(e, env, targets, t))
        found = self.value(e.test, env)
        if isinstance(found.type, Nothing):
            return Value(NOTHING)
        test = self.arithmetic.truth(scalar(found))
        sides = [self.as_type(side, env, t).words[0] for side in (e.then, e.orelse)]
        return Value(t, (choose(test, *sides),))

    def _match_list(self, e: core.Match, cell: E, own: List, env: Env, targets: Targets, t: Type) -> None:
        cases = {c.cls: c for c in e.cases}

        def side(cls: type) -> Then:
            def made() -> None:
                if cls in cases:
                    fields: Sequence[Type] = (own.item, own) if cls is list else ()
                    self._case(cases[cls], fields, cell, 0, env, targets, t)
                elif e.orelse is not None:
                    self.into(e.orelse, env, targets, t)

            return made

        if isinstance(own.item, Nothing):
            side(type(None))()
            return
        address = const(cell.param, Kind.INT) if cell.op == "const" else E("read", Kind.INT, (), cell.param)
        self.body.branch(self._number("==", Scalar(address), Constant(0)), side(type(None)), side(list))

    def _match_data(self, e: core.Match, cell: Value, env: Env, targets: Targets, t: Type) -> None:
        assert isinstance(cell.type, Data)
        classes, at = cell.type.classes, cell.words[0]
        cases = [c for c in e.cases if c.cls in classes]
        complete = {c.cls for c in cases} == classes
        tag = self.body.atom(self.loaded(at, 0, Kind.INT), "class") if len(cases) + (not complete) > 1 else None

        def rest(k: int) -> None:
            if k == len(cases):
                if e.orelse is not None:
                    self.into(e.orelse, env, targets, t)
                return
            case = cases[k]

            def made() -> None:
                self._case(case, field_types(case.cls), at, 1, env, targets, t)

            if tag is None or (k == len(cases) - 1 and complete):
                made()
                return
            number = Constant(self.body.heap.number(case.cls))
            self.body.branch(self._number("==", Scalar(tag), number), made, lambda: rest(k + 1))

        rest(0)

    def _case(
        self, case: core.Case, types: Sequence[Type], cell: E, offset: int, env: Env, targets: Targets, t: Type
    ) -> None:
        """The body of a case, its names bound to the fields of the cell, which begin at `offset`."""
        inner = dict(env)
        used = {node.binding for node in core.walk(case.body) if isinstance(node, core.Ref)}
        for binding, field_type in zip(case.fields, types, strict=True):
            own = kinds(field_type)
            value = Value(field_type, tuple(self.loaded(cell, offset + k, kind) for k, kind in enumerate(own)))
            offset += len(own)
            inner[binding] = self.body.named(value, binding.name) if binding in used else value
        self.into(case.body, inner, targets, t)

    def loaded(self, cell: E, offset: int, kind: Kind) -> E:
        """A word of a cell of the heap; zero for the cell at the constant address 0."""
        if cell.op == "const":
            return const(0, kind)
        return load(Address(self.body.heap.region, cell.param, (), offset), kind)

    def _build(self, e: core.Build, env: Env, targets: Targets, t: Type) -> None:
        if e.cls is not None:
            fields = zip(e.args, field_types(e.cls), strict=True)
            words = [w for a, wanted in fields for w in self.as_type(a, env, wanted).words]
            self.body.cell([const(self.body.heap.number(e.cls), Kind.INT), *words], targets[0])
            return
        assert isinstance(t, List)
        if not e.args:
            return
        items = [self.as_type(a, env, t.item) for a in e.args[:-1]]
        tail = self.as_type(e.args[-1], env, t)
        for k, item in reversed(list(enumerate(items))):
            cell = (*item.words, *tail.words)
            if k == 0:
                self.body.cell(cell, targets[0])
            else:
                tail = self.body.new(t, lambda made, cell=cell: self.body.cell(cell, made[0]))  # type: ignore[misc]

    def total(self, e: core.Total, env: Env, target: Var) -> Block:
        """The statement for target += Σ body; none where the sum is empty."""
        start, stop = (self.value(b, env).words[0] for b in (e.start, e.stop))
        if not start.op == stop.op == "const":
            most = self.arithmetic.function("max", [scalar(Value(INT, (x,))) for x in (start, stop)])
            stop = self.arithmetic.expression(most)
        elif stop.param <= start.param:
            return ()
        index = Var(e.index.name, Kind.INT, e.at.span)
        bounds = self.body.operand(start), self.body.operand(stop)
        with self.body.nested() as inner:
            within = {**env, e.index: Value(INT, (read(index),))}
            if isinstance(e.body, core.Total) and self._type_of(e.body, within) == Word(target.kind):
                # A sum of sums is added up in one target, so the inner sum is computed once.
                self.body.emit(*self.total(e.body, within, target))
            else:
                value = self.value(e.body, within)
                self.body.add([target], self.conversions.converted(value, Word(target.kind), e.at).words, fresh=False)
        return (For(index, *bounds, 1, tuple(inner), False, start.op == stop.op == "const", e.at.span),)


def _number_of(e: E, w: Format) -> Fraction | None:
    """The number that a fixed word is; None where it is not known."""
    if e.op == "neg":
        found = _number_of(e.args[0], w)
        return None if found is None else -found
    if e.op != "const" or e.kind is not Kind.FIXED:
        return None
    return Fraction(w.signed(e.param), 1 << w.frac)


def closure(code: core.Lambda, captured: Sequence[Value]) -> Value:
    """The function with its captured values."""
    return combined(Function((Closure(code, tuple(v.type for v in captured)),)), captured)


def _closures(functions: Sequence[tuple[core.Binding, core.Lambda]], env: Env) -> Env:
    return {b: closure(f, [env[x] for x in f.free]) for b, f in functions}


def _folded(e: core.Core) -> float | None:
    """The value of an operation on float literals, which is computed before it is rounded to a word; None for anything else."""
    match e:
        case core.Number(float() as number):
            return number
        case core.Operation("+" | "-" | "*" | "/", args):
            known = [v for v in map(_folded, args) if v is not None]
            found = on_numbers(e.op, [core.Number(v, e.at) for v in known]) if len(known) == len(args) else None
            return found if isinstance(found, float) else None
    return None


def _is_simple(e: core.Core) -> bool:
    """Whether an expression is computed without statements."""
    match e:
        case core.Number() | core.Ref():
            return True
        case core.Operation(op, args):
            return op != "unpack" and all(map(_is_simple, args))
        case core.Conditional(test, then, orelse):
            return _is_simple(test) and _is_simple(then) and _is_simple(orelse)
        case core.Item(value):
            return _is_simple(value)
    return False
