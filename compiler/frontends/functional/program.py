"""The functional functions of one program, as procedures of its module.

f(x …)  →  y            f(words of x …, words of y, hp):   y += f(x),  hp += the words that the call leaves in the heap
entry                   within (hp := heap; t := f(x)) do (out += t)
grad(f)(x)              G(words of x …, 0, hp, g …):       g += ∂f/∂x
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from retrograd.compiler.derivatives.gradients import (
    ArgumentCells,
    ArgumentStorage,
    DerivativeCall,
    GradientCall,
    TangentCall,
)
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import Contexts
from retrograd.compiler.frontends.functional.inference import Define, Inference, Numbers
from retrograd.compiler.frontends.functional.loops import Pieces, TailCalls, loop
from retrograd.compiler.frontends.functional.lowering import Lowering
from retrograd.compiler.frontends.functional.procedures import (
    ArrayResult,
    Body,
    Heap,
    array_views,
    differentiated,
    environment,
    gained,
)
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    Array,
    Function,
    Key,
    Targets,
    Tuple,
    Type,
    Value,
    arrays_in,
    combined,
    extent_of,
    has_cells,
    kinds,
)
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.ir.expressions import Address, E, read
from retrograd.compiler.ir.statements import (
    SP,
    Block,
    Call,
    Const,
    Kind,
    Local,
    Node,
    Op,
    Procedure,
    Region,
    Var,
    Within,
)
from retrograd.compiler.ir.traversal import needed, walk
from retrograd.compiler.ir.value_numbering import Renaming
from retrograd.compiler.language.types import known
from retrograd.compiler.language.values import ArrayView
from retrograd.compiler.language.values import Value as Word_
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE


class Program:
    """`define`, `exact`: see Inference.

    `declare_gradient` takes a gradient whose body is made when the program is complete. `heap`: words.
    """

    def __init__(
        self,
        module: ModuleBuilder,
        define: Define,
        declare_gradient: Callable[[DerivativeCall], None],
        heap: int,
        contexts: Contexts,
        function: SourceFunction,
        exact: Numbers | None = None,
    ) -> None:
        self._module, self.contexts, self.function = module, contexts, function
        self._declare_gradient = declare_gradient
        self.inference = Inference(module.w, define, module.constants, exact)
        self.heap = Heap(module, heap, function.source.span(function.tree))
        self.inlined: dict[Key, int] = {}
        self.repeated = self.order = 0
        self._versions: dict[Key, str] = {}
        #: procedures that are being lowered
        self._open: set[str] = set()
        self._gradients: dict[tuple[str, Type, tuple[Type, ...]], str] = {}

    def entry(self, key: Key, given: Sequence[Value], results: Sequence[Var | ArrayView], wanted: Type) -> Block:
        """results += f(given), as a value of the type `wanted`. All that is computed on the way is uncomputed.

        A result is a variable for a number, or an array for a list of numbers.
        """
        code: core.Lambda = key[0]
        body = Body(self._module, self.heap, Var("hp", Kind.ADDRESS), code.at.span)
        lowering = Lowering(self, body)
        last: core.Core = code.body
        env = environment(code, (), [body.named(v, b.name) for v, b in zip(given, code.params, strict=True)])
        while isinstance(last, core.Let):
            env[last.binding] = lowering.bound(last.binding, last.value, env)
            last = last.body
        if isinstance(last, core.Total) and wanted == self.inference.results[key] and isinstance(results[0], Var):
            # A sum is added up in its target, so it is computed once. Terms that leave cells are computed and uncomputed.
            added = lowering.total(last, env, results[0])
            compute = body.taken()
            if any(_uses(node, body.hp) for node in walk(added)):
                total = Var("total", results[0].kind, code.at.span)
                compute = (*compute, Local(total), *Renaming({results[0]: total}).block(added))
                body.add([results[0]], [read(total)], fresh=False)
                added = body.taken()
        else:
            lists: list[ArrayResult] = []
            arrays: list[tuple[ArrayView, Word_, core.Place]] = []
            pairs: list[tuple[Var, E]] = []
            found = [
                (x, at)
                for part, at in lowering.parts(last, env, wanted)
                for x in (part.words if isinstance(part, Value) else [part])
            ]
            for target, (part, at) in zip(results, found, strict=True):
                if not isinstance(part, E):
                    assert isinstance(target, ArrayView)
                    arrays.append((target, part, at))
                elif isinstance(target, ArrayView):
                    lists.append(ArrayResult(body, target))
                    lists[-1].compute(part)
                else:
                    pairs.append((target, part))
            compute = body.taken()
            body.add([t for t, _ in pairs], [e for _, e in pairs], fresh=False)
            for array in lists:
                array.copy()
            for view, part, at in arrays:
                lowering.arrays.add(view, part, at)
            added = body.taken()
        if body.uses_heap:
            begin = Op(TABLE["mov.add"], body.hp, Const(self.heap.base), None, 0, code.at.span)
            compute = (Local(body.hp), begin, *compute)
        return (Within(compute, added, None, code.at.span),) if compute else added

    # ------------------------------------------------------------------ procedures

    def version(self, key: Key) -> str:
        """The procedure of a function, lowered at its first call."""
        found = self._versions.get(key)
        if found is not None:
            return found
        code, captured, args = key
        span: Span = code.at.span
        name = self._versions[key] = self._module.unique_name(code.name)
        own = _Parameters()
        held = [own.add(t, b.name) for t, b in zip(captured, code.free, strict=True)]
        given = [own.add(t, b.name) for t, b in zip(args, code.params, strict=True)]
        result = self.inference.results[key]
        outs, places = Targets(Var("result", kind, span) for kind in kinds(result)), _Parameters()
        outs.arrays = tuple(places.array(a, "result") for a in arrays_in(result))
        hp = Var("hp", Kind.ADDRESS)
        params = (*own.variables, *outs, *places.variables, hp)
        written = frozenset(range(len(own.variables), len(params))) - {params.index(v) for v in places.variables}
        regions = (*own.regions, *places.regions)
        recursive = self.inference.is_recursive(key)
        self._declare(Procedure(name, params, regions, (), written, recursive, span), places.regions)
        body = Body(self._module, self.heap, hp, span, recursive)
        self._open.add(name)
        if recursive:
            self._loop(key, body, [*held, *given], outs)
        else:
            Lowering(self, body).into(code.body, environment(code, held, given), outs, result)
        body.close()
        self._open.remove(name)
        whole = Procedure(name, params, regions, body.taken(), written, recursive, span)
        recursive = recursive and self._calls_open(whole)
        self._module.procedures[name] = replace(whole, recursive=recursive)
        if recursive:
            self._module.forget_accesses()
        return name

    def _loop(self, key: Key, body: Body, values: Sequence[Value], outs: Targets) -> None:
        """The body of a function that calls itself: its tail calls are the passes of a loop."""
        code, result = key[0], self.inference.results[key]
        own = [Value(v.type, tuple(read(Var(e.param.name, e.kind)) for e in v.words), v.views) for v in values]
        lowering = Lowering(self, body)
        tails = lowering.calls.tails = TailCalls(key, outs, result, own)
        count = len(code.free)
        with body.nested() as inner:
            lowering.into(code.body, environment(code, own[:count], own[count:]), outs, result)
        body.span = code.at.span
        pieces = Pieces(body.hp, body.temporaries, body.pushed, code.at.span)
        made = loop(tuple(inner), tails, [e.param for v in values for e in v.words], pieces)
        body.emit(*made.nodes)
        body.keep(made.left)

    def _calls_open(self, procedure: Procedure) -> bool:
        """Whether calls of a procedure lead to itself, or to one that is being lowered, which called it."""
        wanted, reached = self._open | {procedure.name}, set[str]()
        todo = [procedure]
        while todo:
            for name in needed(todo.pop()):
                if name in wanted:
                    return True
                if name not in reached:
                    reached.add(name)
                    todo.append(self._module.procedures[name])
        return False

    def _declare(self, procedure: Procedure, stored: Sequence[Region] = ()) -> None:
        """A procedure with the effects that calls of it have, without its body. `stored`: regions that it changes."""
        touched: list[Node] = [Op(TABLE["ld.xor"], Var("t"), SP, region=r) for r in procedure.regions]
        touched += [Op(TABLE["st.xor"], None, SP, Const(0), region=r) for r in (self.heap.region, *stored)]
        self._module.procedures[procedure.name] = replace(procedure, body=tuple(touched))

    def gradient(self, mode: str, f: Type, args: tuple[Type, ...], at: core.Place) -> str:
        """The procedure of a derivative: its function is lowered here, its body made by `gradient_calls`."""
        key = mode, f, args
        found = self._gradients.get(key)
        if found is not None:
            return found
        span = at.span
        with self._derivative():
            inner = self._differentiated(mode, f, args, at)
        own = _Parameters()
        own.add(f, "f")
        first = len(own.variables)
        by = differentiated(mode, args)
        given = [own.add(t, f"x{k}") for k, t in enumerate(by)]
        sources = [v for v in own.variables[first:] if v.kind is Kind.FIXED]
        for t in args[len(by) :]:
            own.add(t, "direction")
        loss, hp = Var("loss", Kind.FIXED, span), Var("hp", Kind.ADDRESS)
        targets = [Var(f"d_{v.name}", Kind.FIXED, span) for v in sources]
        cells = (Var("begin", Kind.INT), Var("words", Kind.INT)) if has_cells(by) else ()
        # An array of cotangents for each array of fixed numbers.
        places = _Parameters()
        arrays = [(x, places.array(a, "d")) for v in given for x in array_views(v) if (a := gained(x)) is not None]
        params = (*own.variables, loss, hp, *targets, *places.variables, *cells)
        name = self._gradients[key] = self._module.unique_name(mode)
        written = frozenset(range(len(own.variables), len(own.variables) + 2 + len(targets)))
        regions = (*own.regions, *places.regions)
        self._declare(Procedure(name, params, regions, (), written, False, span), places.regions)
        pairs = [
            (ArgumentStorage(x, None, (Kind.FIXED,)), ArgumentStorage(d, None, (Kind.FIXED,)))
            for x, d in zip(sources, targets, strict=True)
        ]
        pairs += [(_storage(x), _storage(d)) for x, d in arrays]
        copies = ArgumentCells(*cells, self.heap.region) if cells else None
        self._declare_gradient(GradientCall(name, inner, False, loss, tuple(pairs), self.heap.size, copies))
        return name

    def tangent(self, f: Type, x: Type, at: core.Place) -> str:
        """The procedure of jvp(f)(x, v) without cells, made like a gradient."""
        key = "jvp", f, (x,)
        found = self._gradients.get(key)
        if found is not None:
            return found
        own = _Parameters()
        function, argument = own.add(f, "f"), own.add(x, "x")
        hp, body = self._body(at)
        with self._derivative():
            value = Lowering(self, body).calls.apply(function, [argument], at)
        compute = body.taken()
        results = [Var("result", Kind.FIXED, at.span) for k in kinds(value.type) if k is Kind.FIXED]
        body.add(
            results, [e for e, k in zip(value.words, kinds(value.type), strict=True) if k is Kind.FIXED], fresh=False
        )
        inner = self._valued("valued", own, (*results, hp), (Within(compute, body.taken(), None, at.span),), at)
        own = _Parameters()
        own.add(f, "f")
        first = len(own.variables)
        own.add(x, "x")
        sources = [v for v in own.variables[first:] if v.kind is Kind.FIXED]
        results = [Var(v.name, Kind.FIXED, at.span) for v in results]
        given = [Var(f"{v.name}_", Kind.FIXED, at.span) for v in sources]
        targets = [Var("tangent", Kind.FIXED, at.span) for _ in results]
        before = (*own.variables, *results, Var("hp", Kind.ADDRESS), *given)
        params = (*before, *targets)
        name = self._gradients[key] = self._module.unique_name("jvp")
        written = frozenset((*range(len(own.variables), len(before) - len(given)), *range(len(before), len(params))))
        self._declare(Procedure(name, params, tuple(own.regions), (), written, False, at.span))
        pairs = tuple(zip(sources, given, strict=True)), tuple(zip(results, targets, strict=True))
        self._declare_gradient(TangentCall(name, inner, *pairs, self.heap.size))
        return name

    def _differentiated(self, mode: str, f: Type, args: tuple[Type, ...], at: core.Place) -> str:
        """The procedure loss += f(x), or loss += ⟨direction, f(x)⟩, which leaves nothing in the heap."""
        own = _Parameters()
        function = own.add(f, "f")
        given = [own.add(t, f"x{k}") for k, t in enumerate(args)]
        loss = Var("loss", Kind.FIXED, at.span)
        hp, body = self._body(at)
        lowering = Lowering(self, body)
        count = len(differentiated(mode, args))
        result = lowering.calls.apply(function, given[:count], at)
        if mode == "grad":
            terms = lowering.conversions.converted(result, FIXED, at).words
        else:
            form = self.inference.derivatives.direction(
                given[-1].type, self.inference.derivatives.cotangent(result.type, at)
            )
            assert form is not None
            terms = lowering.structures.dot(result, lowering.conversions.converted(given[-1], form, at), at).words
        compute = body.taken()
        body.add([loss] * len(terms), terms, fresh=False)
        return self._valued("differentiated", own, (loss, hp), (Within(compute, body.taken(), None, at.span),), at)

    @contextmanager
    def _derivative(self) -> Iterator[None]:
        """A function is lowered that is differentiated."""
        self.order += 1
        yield
        self.order -= 1

    def _body(self, at: core.Place) -> tuple[Var, Body]:
        """(the parameter for the end of the heap, the body of a procedure that has it)"""
        hp = Var("hp", Kind.ADDRESS)
        return hp, Body(self._module, self.heap, hp, at.span)

    def _valued(self, name: str, own: _Parameters, results: tuple[Var, ...], whole: Block, at: core.Place) -> str:
        """A procedure that adds to its last parameters, and leaves nothing in the heap."""
        params = (*own.variables, *results)
        written = frozenset(range(len(own.variables), len(params)))
        name = self._module.unique_name(name)
        self._module.procedures[name] = Procedure(name, params, tuple(own.regions), whole, written, False, at.span)
        return name


def _storage(view: ArrayView) -> ArgumentStorage:
    """The words of an array that is a parameter."""
    at = view.address
    assert at.base is not None
    return ArgumentStorage(at.base, at.region, (Kind.FIXED,), known(view.shape), view.strides)


def _uses(node: Node, hp: Var) -> bool:
    """Whether a statement changes the end of the heap, or passes it on."""
    return (isinstance(node, Op) and node.d is hp) or (isinstance(node, Call) and hp in node.args)


class _Parameters:
    """Parameters of a procedure for values of some types."""

    def __init__(self) -> None:
        self.variables: list[Var] = []
        self.regions: list[Region] = []

    def array(self, t: Array, name: str) -> ArrayView:
        """An array, passed by the address of its first element."""
        base, region = Var(name, Kind.ADDRESS), Region(name, extent_of(t))
        self.variables.append(base)
        self.regions.append(region)
        return ArrayView(t.element, t.shape, t.strides, Address(region, base))

    def add(self, t: Type, name: str) -> Value:
        match t:
            case Array():
                return Value(t, (), (self.array(t, name).address,))
            case Tuple(items):
                return combined(t, [self.add(item, name) for item in items])
            case Function(alternatives):
                tag = [] if len(alternatives) == 1 else [Var("function", Kind.INT)]
                self.variables += tag
                made = combined(t, [self.add(x, name) for c in alternatives for x in c.captured])
                return Value(t, (*map(read, tag), *made.words), made.views)
        own = [Var(name, kind) for kind in kinds(t)]
        self.variables += own
        return Value(t, tuple(map(read, own)))
