"""Reversible functions with another text than their `def` has: points written as `x: fixed[p]` and `fixed[p](…)`.

Lines keep their numbers, so places in messages are those of the file, and what is compiled is what stands in the text.
For a struct whose fields have points there, a class of the same name stands in, which is derived from it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, cast

from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import Parameter, Source, SourceFunction, is_module
from retrograd.compiler.language.types import ArrayAnnotation, StackAnnotation, is_struct
from retrograd.derivatives._gradients import ReversibleGradient
from retrograd.isa.diagnostics import Span, shown
from retrograd.isa.words import Format, format_of
from retrograd.runtime._binding import fixed
from retrograd.runtime._reversible import Reversible

#: expressions whose values are held in temporaries
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp)


# -----------------------------------------------------------------------------
# Structs with points.

#: for each class the points of its fields
Points = tuple[tuple[type, tuple[tuple[str, int], ...]], ...]


@lru_cache(maxsize=256)
def structs_at(points: Points) -> Mapping[type, type]:
    """The classes that stand in for these, and for those that hold them: class → class."""
    own = {cls: dict(fields) for cls, fields in points}
    made: dict[type, type] = {}
    for cls in own:
        _stand_in(cls, own, made, points)
    return made


def _stand_in(cls: type, own: Mapping[type, Mapping[str, int]], made: dict[type, type], points: Points) -> None:
    if cls in made:
        return
    fields: dict[str, Any] = {}
    for name, annotation in vars(cls)["__retrograd_fields__"].items():
        for inner in structs_of(annotation):
            _stand_in(inner, own, made, points)
        point = own.get(cls, {}).get(name)
        fields[name] = _mapped(annotation, made) if point is None else _at_point(annotation, point)

    def equal(self: Any, other: Any) -> Any:
        return vars(self) == vars(other) if isinstance(other, cls) else NotImplemented

    members = {
        "__retrograd_fields__": fields, "__retrograd_defaults__": vars(cls)["__retrograd_defaults__"], "__eq__": equal,
        "__hash__": cls.__hash__, "__reduce__": lambda self: (_made_again, (cls, points, vars(self))),
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
    }  # fmt: skip
    if fields != vars(cls)["__retrograd_fields__"]:
        made[cls] = type(cls.__name__, (cls,), members)


def _made_again(cls: type, points: Points, values: Mapping[str, Any]) -> Any:
    """An object of a class that stands in, out of a pickle."""
    return structs_at(points)[cls](**values)


def structs_of(annotation: Any) -> Iterator[type]:
    """The structs that an annotation names, and those in their fields."""
    if isinstance(annotation, ArrayAnnotation | StackAnnotation):
        annotation = annotation.element
    if is_struct(annotation):
        for inner in vars(annotation)["__retrograd_fields__"].values():
            yield from structs_of(inner)
        yield annotation


def element_of_field(cls: type, name: str) -> Any:
    """The annotation of a field's numbers."""
    annotation = vars(cls)["__retrograd_fields__"][name]
    return annotation.element if isinstance(annotation, ArrayAnnotation) else annotation


def _mapped(annotation: Any, structs: Mapping[type, type]) -> Any:
    """The annotation with the classes that stand in."""
    if isinstance(annotation, ArrayAnnotation | StackAnnotation):
        return replace(annotation, element=_mapped(annotation.element, structs))
    return structs.get(annotation, annotation) if isinstance(annotation, type) else annotation


def _at_point(annotation: Any, point: int) -> Any:
    if isinstance(annotation, ArrayAnnotation):
        return replace(annotation, element=fixed[point])  # type: ignore[misc]
    return fixed[point]  # type: ignore[misc]


class StructText:
    """Where the fields of a struct stand in its file. Raises OSError, TypeError for a class without a text."""

    def __init__(self, cls: type, lines: Mapping[str, Sequence[str]]) -> None:
        """`lines`: of files that are read."""
        own, first = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls) or "?"
        self.file = shown(file)
        self.lines = lines.get(self.file) or linecache.getlines(file)
        first = max(first, 1)
        if list(self.lines[first - 1 : first - 1 + len(own)]) != own:
            raise OSError(f"the text of {cls.__name__} has changed")
        (tree,) = ast.parse(textwrap.dedent("".join(own))).body
        if not isinstance(tree, ast.ClassDef):
            raise OSError(f"{cls.__name__} is not made by a class statement")
        self.first, self.last = first, first + len(own) - 1
        #: field → the place of the type of its numbers: line, first and last column, text
        self.places: dict[str, tuple[int, int, int, str]] = {}
        fields = vars(cls)["__retrograd_fields__"]
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in fields:
                element, inner = element_of_field(cls, node.target.id), node.annotation
                if isinstance(inner, ast.Subscript) and isinstance(fields[node.target.id], ArrayAnnotation):
                    inner = inner.slice.elts[0] if isinstance(inner.slice, ast.Tuple) else inner.slice
                if element in (fixed, float) and isinstance(inner, ast.Name | ast.Attribute):
                    line = first - 1 + inner.lineno
                    text = ast.unparse(inner)
                    begin = self.lines[line - 1].find(text, self.lines[line - 1].find(":"))
                    if begin >= 0:
                        self.places[node.target.id] = line, begin, begin + len(text), text

    def write(self, text: Text, name: str, point: int, type_name: str) -> None:
        """Write the point of a field. `type_name`: of `fixed`."""
        line, begin, end, old = self.places[name]
        text.put(line, begin, end, f"{type_name if old == 'float' else old}[{point}]")


# -----------------------------------------------------------------------------
# Functions with another text.


class Annotated(Reversible):
    """A reversible function whose text is another one than its `def` has: with binary points written in.

    `lines`: those of its file, with the same numbers. `stand_ins`: for functions that it calls. `scaling`: see
    `Scaling`.
    """

    def __init__(
        self,
        of: Reversible,
        lines: Sequence[str],
        format: Format | None,
        stand_ins: dict[SourceFunction, SourceFunction] | None = None,
        points: Points = (),
    ) -> None:
        super().__init__(of.fn, format, of.options)
        self.of, self._lines = of, tuple(lines)
        self._stand_ins: dict[SourceFunction, SourceFunction] = {} if stand_ins is None else stand_ins
        self._points, self._structs = points, structs_at(points)
        self._around, self.owner, self.own_adjoint = of._around, of.owner, of.own_adjoint
        #: how the points were chosen, where they were
        self.scaling: Any = None

    @cached_property
    def _parsed(self) -> tuple[ast.FunctionDef, Source]:
        old, source = self.of._parsed
        first = old.lineno + source.line
        first = min([first, *(d.lineno + source.line for d in old.decorator_list)])
        last = (old.end_lineno or old.lineno) + source.line
        text = "\n".join(line.rstrip("\n") for line in self._lines[first - 1 : last]) + "\n"
        above = 1 if source.column == 0 and text[:1].isspace() else 0
        tree = ast.parse(f"if True:\n{text}" if above else textwrap.dedent(text)).body[0]
        if above:
            assert isinstance(tree, ast.If)
            tree = tree.body[0]
        assert isinstance(tree, ast.FunctionDef)
        return tree, replace(source, lines=self._lines, line=first - 1 - above)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, with the annotations of the text where they differ from those of the `def`."""
        out = []
        for p in self.of.parameters:
            new, old = self.argument(p.name), self.of.argument(p.name)
            text = None if new is None or new.annotation is None else ast.unparse(new.annotation)
            same = old is not None and text == (None if old.annotation is None else ast.unparse(old.annotation))
            annotation = p.annotation if same or text is None else self.annotation_of(p.name, text)
            out.append(replace(p, annotation=_mapped(annotation, self._structs)))
        return tuple(out)

    def lookup(self, name: str, captures: Captures | None = None) -> Any:
        try:
            return _mapped(super().lookup(name, captures), self._structs)
        except KeyError:
            if name == "fixed":
                return fixed
            raise

    def stand_in(self, called: SourceFunction) -> SourceFunction:
        found, of = self._stand_ins.get(called), called.gradient_of
        if found is None and of is not None and (inner := self.stand_in(of.function)) is not of.function:
            # The gradient of a function with points is that of its stand-in.
            assert isinstance(called, ReversibleGradient)
            found = self._stand_ins[called] = called.of_stand_in(cast("Reversible", inner))
        return called if found is None else found

    def with_options(self, **changes: Any) -> Reversible:
        """See `Reversible.with_options`."""
        format = changes.pop("format", self.format)
        w = None if format is None else format_of(format)
        made = Annotated(self.of.with_options(**changes), self._lines, w, self._stand_ins, self._points)
        made.scaling = self.scaling
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        others = tuple((f, g._lines) for f, g in self._stand_ins.items() if isinstance(g, Annotated) and g is not self)
        return annotated, (self.of, self._lines, self.format, others, self.scaling, self._points)


def annotated(
    of: Reversible,
    lines: Sequence[str],
    format: Format | None,
    others: Iterable[tuple[Reversible, Sequence[str]]],
    scaling: Any,
    points: Points = (),
) -> Annotated:
    """The function of these lines, and those that it calls; for pickles."""
    stand_ins: dict[SourceFunction, SourceFunction] = {}
    made = Annotated(of, lines, format, stand_ins, points)
    stand_ins[of] = made
    for f, own in others:
        stand_ins[f] = Annotated(f, own, None, stand_ins, points)
    made.scaling = scaling
    return made


# -----------------------------------------------------------------------------
# Texts with points written in.


class Text:
    """The lines of one file, with insertions and replacements within lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._original = list(lines)
        self._edits: dict[tuple[int, int, int], str] = {}

    def put(self, line: int, begin: int, end: int, text: str) -> None:
        """Replace the characters begin … end − 1 of a line, counted from 0; of two for one place the later one holds."""
        self._edits[line, begin, end] = text

    def insert(self, line: int, at: int, text: str, before: bool) -> None:
        """Insert at a place, in front of what was inserted there, or behind it."""
        old = self._edits.get((line, at, at), "")
        self._edits[line, at, at] = text + old if before else old + text

    def lines(self) -> list[str]:
        """The lines with the edits."""
        out = list(self._original)
        for (line, begin, end), text in sorted(self._edits.items(), reverse=True):
            old = out[line - 1]
            out[line - 1] = old[:begin] + text + old[end:]
        return out


class Sites:
    """The places of one function where a point can be written:

    parameters, variables, arrays, and parts of expressions.
    """

    def __init__(self, function: SourceFunction) -> None:
        self.function, self.source = function, function.source
        tree = function.tree
        self.type_name = _type_name(function)
        self.by_span: dict[Span, ast.expr] = {}
        #: places of two expressions, of which none is taken
        twice: set[Span] = set()
        plain = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        cast = {id(a) for n in ast.walk(tree) if isinstance(n, ast.Call) and self._is_type(n.func) for a in n.args}
        annotations = {id(m) for n in ast.walk(tree) for m in _annotations(n)}
        for node in ast.walk(tree):
            if isinstance(node, _COMPUTED) and id(node) not in plain | cast | annotations and not self.is_cast(node):
                span = self.source.span(node)
                if span in self.by_span:
                    twice.add(span)
                self.by_span[span] = node
        for span in twice:
            del self.by_span[span]
        #: every expression whose place is its own
        self.expressions: dict[Span, ast.expr] = {}
        #: numbers that are passed to functions of the language
        self.passed: dict[Span, Fraction] = {}
        for node in ast.walk(tree):
            if not isinstance(node, ast.expr) or id(node) in annotations | cast:
                continue
            self.expressions.setdefault(self.source.span(node), node)
            if isinstance(node, ast.Call) and isinstance(self._called(node.func), SourceFunction):
                given = [n.operand if isinstance(n, ast.UnaryOp) else n for n in node.args]
                values = {self.source.span(n): self.number(n) for n in given}
                self.passed.update({span: Fraction(x) for span, x in values.items() if x is not None})
        #: (name, place of its statement) → the statement that makes the variable
        self.made: dict[tuple[str, Span], ast.Assign | ast.AnnAssign] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                own = [node, *([] if node.value is None else ast.walk(node.value))]
                spans = {self.source.span(v) for v in own if isinstance(v, ast.expr | ast.stmt)}
                names = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
                self.made.update({(name, span): node for name in names for span in spans})
        self.head = self.source.span(tree)
        self.parameters = {p.name: p for p in function.parameters if not p.variadic}

    def number(self, node: ast.expr) -> Any:
        """The value of a number of the source, or of the name of one; None for another expression."""
        value = node.value if isinstance(node, ast.Constant) else self.function.found(node)
        return float(value) if isinstance(value, float) and math.isfinite(value) else None

    def _called(self, node: ast.expr) -> Any:
        if isinstance(node, ast.UnaryOp):
            node = node.operand
        return self.function.found(node)

    def _is_type(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Subscript):
            node = node.value
        return self.function.found(node) is fixed

    def is_cast(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._is_type(node.func)

    def position(self, line: int, column: int) -> tuple[int, int]:
        """(line of the file, character in it) of a position in the syntax tree."""
        at = line + self.source.line
        text = self.source.text(at)[self.source.column :]
        characters = column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))
        return at, self.source.column + characters

    def begin(self, node: ast.expr | ast.arg) -> tuple[int, int]:
        return self.position(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.arg) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.position(node.end_lineno, node.end_col_offset)

    def typed(self, point: int) -> str:
        return f"{self.type_name}[{point}]"

    def replace(self, text: Text, node: ast.expr, new: str) -> bool:
        """Write `new` in place of an expression of one line."""
        (line, begin), (last, end) = self.begin(node), self.end(node)
        if line != last:
            return False
        text.put(line, begin, end, new)
        return True

    def wrap(self, text: Text, node: ast.expr, point: int) -> None:
        """Write `fixed[point](…)` around an expression, outside of what was written around it before."""
        (line, begin), (last, end) = self.begin(node), self.end(node)
        before, after = self.source.text(line)[:begin], self.source.text(last)[end:]
        if before.endswith("(") and after.startswith(")") and not re.search(r"[\w)\]]\s*\($", before):
            # Next to the parenthesis: an expression that begins there may be wrapped already.
            text.insert(line, begin - 1, self.typed(point), before=False)
            return
        text.insert(*self.begin(node), f"{self.typed(point)}(", before=True)
        text.insert(*self.end(node), ")", before=False)

    # ------------------------------------------------------------------ declarations

    def parameter(self, text: Text, name: str, point: int, shape: tuple[int, ...] | None) -> bool:
        """Write the point into the annotation of a parameter; False where it has a type that holds none."""
        node = self.function.argument(name)
        if node is None:
            return False
        if node.annotation is None:
            kind = self.typed(point)
            if shape:
                array = self.type_name.removesuffix("fixed") + "Array"
                kind = f"{array}[{kind}, {', '.join(map(str, shape))}]"
            text.insert(*self.end(node), f": {kind}", before=False)
            return True
        return self._in_annotation(text, node.annotation, point)

    def _in_annotation(self, text: Text, annotation: ast.expr, point: int) -> bool:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return False
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name | ast.Attribute) and self.function.found(node) in (fixed, float):
                return self.replace(text, node, self.typed(point))
        return False

    def pinned(self, name: str, span: Span) -> bool:
        """Whether the user has written a point for a variable or parameter."""
        node = self.made.get((name, span))
        argument = self.function.argument(name) if span == self.head else None
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else argument.annotation if argument else None
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        parts = [] if annotation is None else [*ast.walk(annotation)]
        if isinstance(node, ast.Assign):
            parts += [n for n in ast.walk(node.value) if isinstance(n, ast.Call) and self._constructor(n) is not None]
            parts = [m for n in parts for m in ast.walk(n)]
        return any(isinstance(n, ast.Subscript) and self.function.found(n.value) is fixed for n in parts)

    def variable(self, text: Text, name: str, span: Span, point: int, array: bool) -> bool:
        """Write the point where a variable or array is made; False where the statement holds none."""
        node = self.made.get((name, span))
        match node:
            case ast.AnnAssign(annotation=annotation):
                return self._in_annotation(text, annotation, point)
            case ast.Assign(targets=[ast.Name() as target], value=value):
                if array:
                    return self._constructed(text, value, point)
                text.insert(*self.end(target), f": {self.typed(point)}", before=False)
                return True
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                for each, value in zip(names, values, strict=True):
                    if isinstance(each, ast.Name) and each.id == name:
                        if array:
                            return self._constructed(text, value, point)
                        self.wrap(text, value, point)
                        return True
        return False

    def _constructor(self, call: ast.Call) -> str | None:
        name = getattr(self.function.found(call.func), "__name__", "")
        return name if name in ("zeros", "stack", "zeros_like", "copy") else None

    def _constructed(self, text: Text, value: ast.expr, point: int) -> bool:
        """Write the point into `rg.zeros(n)` or `rg.stack(fixed, n)`, or around another expression."""
        made = self._constructor(value) if isinstance(value, ast.Call) else None
        if made is None and not isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
            self.wrap(text, value, point)
            return True
        if not isinstance(value, ast.Call) or made not in ("zeros", "stack"):
            return False
        for node in (*value.args, *(k.value for k in value.keywords)):
            if self.function.found(node) is fixed:
                return self.replace(text, node, self.typed(point))
        if made == "stack":
            return False
        line, at = self.end(value)
        text.insert(line, at - 1, f", dtype={self.typed(point)}", before=False)
        return True


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an annotation."""
    annotation = getattr(node, "annotation", None)
    if annotation is not None:
        yield from ast.walk(annotation)


def _type_name(function: SourceFunction) -> str:
    """The way to write `fixed` in a function's source."""
    known = {name: function.lookup(name) for name in ("fixed", *function.names()) if is_known(function, name)}
    own = next((name for name, found in known.items() if found is fixed), None)
    modules = (name for name, found in known.items() if is_module(found) and getattr(found, "fixed", None) is fixed)
    module = None if own is not None else next(modules, None)
    return own or (f"{module}.fixed" if module is not None else "fixed")


def paired(old: ast.AST, new: ast.AST, s: Sites) -> Iterator[tuple[Any, Any]]:
    """The expressions of a function with those of its text with points, whose conversions are left out."""
    if s.is_cast(new) and not s.is_cast(old):
        assert isinstance(new, ast.Call)
        new = new.args[0]
    if isinstance(old, ast.FunctionDef) and isinstance(new, ast.FunctionDef):
        for before, after in zip(old.body, new.body, strict=True):
            yield from paired(before, after, s)
        return
    if isinstance(old, ast.Assign | ast.AnnAssign) and isinstance(new, ast.Assign | ast.AnnAssign):
        if old.value is not None and new.value is not None:
            yield from paired(old.value, new.value, s)
        return
    if type(old) is not type(new):
        return
    if isinstance(old, ast.expr):
        yield old, new
    for x, y in zip(ast.iter_child_nodes(old), ast.iter_child_nodes(new), strict=False):
        yield from paired(x, y, s)


def write_format(s: Sites, text: Text, w: Format) -> None:
    """Write the format into the decorator of a function."""
    for node in s.function.tree.decorator_list:
        found = s.function.found(node.func if isinstance(node, ast.Call) else node)
        if getattr(found, "__name__", "") != "reversible":
            continue
        if not isinstance(node, ast.Call):
            text.insert(*s.end(node), f'(format="{w}")', before=False)
            return
        given = next((k.value for k in node.keywords if k.arg == "format"), None)
        if given is not None:
            s.replace(text, given, f'"{w}"')
            return
        line, at = s.end(node)
        text.insert(line, at - 1, f'{", " if node.keywords or node.args else ""}format="{w}"', before=False)
        return


def importing(text: str) -> str:
    """The text of a module with an import of `fixed` behind its other imports."""
    lines = text.splitlines(keepends=True)
    imports = [n.end_lineno or 0 for n in ast.parse(text).body if isinstance(n, ast.Import | ast.ImportFrom)]
    lines.insert(max(imports, default=0), "from retrograd import fixed\n")
    return "".join(lines)


def is_known(function: SourceFunction, name: str) -> bool:
    """Whether the first part of a name has a value where a function stands."""
    try:
        function.lookup(name.partition(".")[0])
    except KeyError:
        return False
    return True
