"""Core and its types as text, for `retrograd compile --dump`.

Of two variables of one name, the second has a number: `x`, `x.2`. The text is that of the grammar in `core.py`; it is broken where it is longer
than a line.
"""

from __future__ import annotations

from collections.abc import Iterable

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import Syntax
from retrograd.compiler.frontends.functional.inference import Inference
from retrograd.compiler.frontends.functional.types import Array, Closure, Function, Key, List, Tuple, Type

_WIDTH = 100
_INFIX = frozenset(
    {"+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>", "and", "or"}
)


def definition_text(f: core.Lambda) -> str:
    """The definition of a function."""
    printer = _Printer()
    params = ", ".join(printer.bound(p) for p in f.params)
    return (
        f"{f.name} = λ {params}.\n{printer.block(f.body, 1)}\n"
        if params
        else f"{f.name} =\n{printer.block(f.body, 1)}\n"
    )


def types_text(inference: Inference, entry: Key) -> str:
    """A line for each version of a function: the types of its arguments, of its result, and of the variables that it captures."""
    lines = []
    # Versions of earlier rounds of the inference are not reached from the entry.
    reached, order = [entry], {key: n for n, key in enumerate(inference.results)}
    for key in reached:
        called = sorted(inference.calls.get(key, ()), key=lambda k: order.get(k, 0))
        reached += [k for k in called if k not in reached and k in order]
    for code, captured, args in reached:
        result = inference.results[code, captured, args]
        names = [p.name for p in code.params] if isinstance(code, core.Lambda) else [f"x{k}" for k in range(len(args))]
        given = ", ".join(f"{name}: {type_text(t)}" for name, t in zip(names, args, strict=False))
        line = f"{code.name}({given}) → {type_text(result)}"
        free = [b.name for b in code.free] if isinstance(code, core.Lambda) else [""] * len(captured)
        if captured:
            line += "   captures " + ", ".join(
                f"{n}: {type_text(t)}".removeprefix(": ") for n, t in zip(free, captured, strict=False)
            )
        if isinstance(code, core.Lambda):
            line += f"   {code.at.span.file}:{code.at.span.line}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def type_text(t: Type) -> str:
    """The type; of functions, the set of the functions that a value may be, each with the types that it captures."""
    match t:
        case Function(alternatives):
            return " | ".join(map(_closure, alternatives))
        case Tuple(items, form):
            inside = ", ".join(map(type_text, items))
            return f"{form}({inside})" if form else f"({inside}{',' * (len(items) == 1)})"
        case List(item):
            return f"list[{type_text(item)}]"
        case Array(element, shape):
            return f"Array[{element}, {', '.join(map(str, shape))}]"
    return str(t)


def _closure(c: Closure) -> str:
    captured = ", ".join(map(type_text, c.captured))
    return f"λ{c.code.name}" + (f"[{captured}]" if captured else "")


class _Printer:
    """Prints one definition: its variables have distinct names."""

    def __init__(self) -> None:
        self._names: dict[core.Binding, str] = {}
        self._taken: dict[str, int] = {}

    def bound(self, b: core.Binding) -> str:
        """The name of a binding, distinct from all before it."""
        if b not in self._names:
            n = self._taken[b.name] = self._taken.get(b.name, 0) + 1
            self._names[b] = b.name if n == 1 else f"{b.name}.{n}"
        return self._names[b]

    def _bound(self, many: Iterable[core.Binding]) -> str:
        return ", ".join(map(self.bound, many))

    def block(self, e: core.Core, depth: int) -> str:
        """The expression on lines of its own."""
        pad = "  " * depth
        names, taken = dict(self._names), dict(self._taken)
        flat = self.flat(e)
        if len(pad) + len(flat) <= _WIDTH and not isinstance(e, core.Let | core.LetRec):
            return pad + flat
        self._names, self._taken = names, taken
        match e:
            case core.Let(binding, value, body):
                head = f"{pad}let {self.bound(binding)} ="
                return f"{self._after(head, value, depth)} in\n{self.block(body, depth)}"
            case core.LetRec(functions, body):
                heads = [f"{self.bound(b)} = λ {self._bound(f.params)}." for b, f in functions]
                texts = [
                    f"{pad}{'letrec' if n == 0 else 'and'} {head}\n{self.block(f.body, depth + 1)}"
                    for n, (head, (_, f)) in enumerate(zip(heads, functions, strict=True))
                ]
                return "\n".join(texts) + f"\n{pad}in\n{self.block(body, depth)}"
            case core.Lambda(_, params, body):
                return f"{pad}λ {self._bound(params)}.\n{self.block(body, depth + 1)}"
            case core.Conditional(test, then, orelse):
                head = self._after(f"{pad}if", test, depth)
                return f"{head} then\n{self.block(then, depth + 1)}\n{pad}else\n{self.block(orelse, depth + 1)}"
            case core.Match(subject, cases, orelse):
                lines = [f"{self._after(f'{pad}match', subject, depth)} {{"]
                for case in cases:
                    lines.append(f"{pad}  {self._pattern(case)} →\n{self.block(case.body, depth + 2)}")
                if orelse is not None:
                    lines.append(f"{pad}  _ →\n{self.block(orelse, depth + 2)}")
                return "\n".join([*lines, f"{pad}}}"])
            case core.Total(index, start, stop, body):
                head = f"{pad}Σ {self.bound(index)} = {self.flat(start)} … {self.flat(stop)} − 1:"
                return f"{head}\n{self.block(body, depth + 1)}"
            case _ if parts := core.children(e):
                head, rest = (
                    (self._operand(parts[0]), parts[1:]) if isinstance(e, core.Apply) else (self._head(e), parts)
                )
                inside = ",\n".join(self.block(part, depth + 1) for part in rest)
                return f"{pad}{head}(\n{inside}\n{pad})"
        return pad + self.flat(e)

    def _after(self, head: str, e: core.Core, depth: int) -> str:
        """The expression behind a head, on its line if there is room."""
        names, taken = dict(self._names), dict(self._taken)
        flat = self.flat(e)
        if len(head) + 1 + len(flat) <= _WIDTH and not isinstance(e, core.Let | core.LetRec):
            return f"{head} {flat}"
        self._names, self._taken = names, taken
        return f"{head}\n{self.block(e, depth + 1)}"

    def flat(self, e: core.Core) -> str:
        """The expression on one line."""
        match e:
            case core.Number(value):
                return str(value)
            case core.Ref(binding):
                return self.bound(binding)
            case core.Lambda(_, params, body):
                return f"λ {self._bound(params)}. {self.flat(body)}"
            case core.Global(function):
                return str(getattr(function, "__name__", None) or function.name)
            case core.Operator(name):
                return name
            case core.Apply(function, args):
                return f"{self._operand(function)}({self._flat(args)})"
            case core.Let(binding, value, body):
                text = self.flat(value)
                return f"let {self.bound(binding)} = {text} in {self.flat(body)}"
            case core.LetRec(functions, body):
                heads = [f"{self.bound(b)} = λ {self._bound(f.params)}. {self.flat(f.body)}" for b, f in functions]
                return f"letrec {' and '.join(heads)} in {self.flat(body)}"
            case core.Conditional(test, then, orelse):
                return f"if {self.flat(test)} then {self.flat(then)} else {self.flat(orelse)}"
            case core.Operation(op, (left, right)) if op in _INFIX:
                return f"{self._operand(left)} {op} {self._operand(right)}"
            case core.Operation("-", (operand,)):
                return f"-{self._operand(operand)}"
            case core.Record(items, _, form):
                return f"{form}({self._flat(items)}{',' * (len(items) == 1 and not form)})"
            case core.Item(value, index):
                return f"{self._operand(value)}.{index}"
            case core.Field(value, name):
                return f"{self._operand(value)}.{name}"
            case core.Match(subject, cases, orelse):
                texts = [f"{self._pattern(c)} → {self.flat(c.body)}" for c in cases]
                texts += [] if orelse is None else [f"_ → {self.flat(orelse)}"]
                return f"match {self.flat(subject)} {{ {'; '.join(texts)} }}"
            case core.Element(array, indices):
                return f"{self._operand(array)}[{self._flat(indices)}]"
            case core.Total(index, start, stop, body):
                return f"Σ {self.bound(index)} = {self.flat(start)} … {self.flat(stop)} − 1: {self.flat(body)}"
            case core.Refusal(code):
                return f"refused {code}"
            case _:
                return f"{self._head(e)}({self._flat(core.children(e))})"

    def _head(self, e: core.Core) -> str:
        """The name of an operation that is written like a call."""
        match e:
            case core.Operation(op) | core.Structural(op):
                return op
            case core.Build(cls):
                return "list" if cls is None else cls.__name__
            case core.Primitive(rules):
                return rules.name if isinstance(rules, Syntax) else type(rules).__name__.lower()
            case core.Record(_, _, form):
                return form
            case core.Cast(_, wanted):
                return f"as {type_text(wanted)} "
        return type(e).__name__.lower()

    def _flat(self, many: Iterable[core.Core]) -> str:
        return ", ".join(map(self.flat, many))

    def _operand(self, e: core.Core) -> str:
        """The expression within an operation, in parentheses where it needs them."""
        text = self.flat(e)
        bare = isinstance(
            e, core.Number | core.Ref | core.Global | core.Operator | core.Apply | core.Item | core.Field | core.Element
        )
        call = isinstance(e, core.Operation) and not (e.op in _INFIX and len(e.args) == 2)
        return text if bare or call or isinstance(e, core.Record | core.Build | core.Length) else f"({text})"

    def _pattern(self, case: core.Case) -> str:
        names = ", ".join(self.bound(b) for b in case.fields)
        return f"[{names.replace(', ', ', *', 1)}]" if case.cls is list else f"{case.cls.__name__}({names})"
