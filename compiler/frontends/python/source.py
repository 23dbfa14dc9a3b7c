"""Functions as source: text and syntax tree, the values of their names, their parameters, and messages at a place.

First pieces of syntax as text, then `SourceFunction` and `InnerFunction`, then `Errors`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import re
import sys
import textwrap
import tokenize
import types
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from retrograd.compiler.frontends.constants import Constants, Place, annotations_of, signature_of
from retrograd.compiler.frontends.python.captures import Captures, steady
from retrograd.compiler.frontends.specialisation import GradientOf
from retrograd.compiler.ir.expressions import Vanishing
from retrograd.compiler.language.arithmetic import NegativePower, ShapeMismatch
from retrograd.compiler.language.purity import Impure
from retrograd.compiler.language.types import TooLarge
from retrograd.compiler.language.values import Condition
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, hint_of, nearest, shown
from retrograd.isa.words import Format


def condition(node: ast.expr, span: Span) -> Condition:
    """A condition with the texts of its sides: `>` and `<=` exchange the operands of their test."""
    sides: tuple[ast.expr, ...] = ()
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        x, y = node.left, node.comparators[0]
        match node.ops[0]:
            case ast.Lt() | ast.GtE() | ast.Eq() | ast.NotEq():
                sides = x, y
            case ast.Gt() | ast.LtE():
                sides = y, x
            case _:
                pass
    texts = [None if isinstance(side, ast.Constant) else shortened(side) for side in sides]
    return Condition(shortened(node), span, (texts[0], texts[1]) if texts else (None, None))


def shortened(node: ast.AST) -> str:
    """A piece of syntax as text of at most 50 characters; of several lines, the first. A value in its place has the text `of` that syntax."""
    text, _, more = ast.unparse(getattr(node, "of", node)).partition("\n")
    text += " …" * bool(more)
    return text if len(text) <= 50 else text[:47] + "…"


# -----------------------------------------------------------------------------
# Functions as source: their text and syntax tree, the values of their names, the annotations of their parameters.

#: a parameter without default or annotation
NOTHING = inspect.Parameter.empty


@dataclass(frozen=True)
class Source:
    """A file's lines, and where in it the text of a function begins."""

    file: str
    lines: Sequence[str]
    #: added to the line and column numbers of the function's syntax tree
    line: int = 0
    column: int = 0
    #: whether it is of the library of Retrograd
    library: bool = False

    def span(self, node: ast.AST) -> Span:
        """Where a piece of syntax stands. Columns count characters; of several lines it is the first."""
        line = getattr(node, "lineno", 1) + self.line
        text = self.text(line)
        # Positions in syntax trees are in bytes of the line as it was parsed, without its indentation.
        begin = self.column + _characters(text[self.column :], getattr(node, "col_offset", 0))
        if getattr(node, "end_lineno", None) == getattr(node, "lineno", None):
            end = self.column + _characters(text[self.column :], getattr(node, "end_col_offset", 0) or 0)
        else:
            end = len(text.rstrip())
        return Span(self.file, line, begin + 1, max(end + 1, begin + 2))

    def text(self, line: int) -> str:
        return self.lines[line - 1].rstrip("\n") if 0 < line <= len(self.lines) else ""


def _no_function(fn: Any) -> Diagnostic:
    """The diagnostic of a decorated object that is no `def`."""
    if isinstance(fn, type):
        hint = "Decorate its methods; `@rg.struct` makes a class of numbers."
        return Diagnostic("RG0716", f"`{fn.__name__}` is a class, and no function", hint=hint)
    if isinstance(fn, SourceFunction):
        return Diagnostic("RG0716", f"`{fn.__name__}` is reversible already", hint="Decorate it once.")
    name = getattr(fn, "__name__", None)
    message = f"{fn!r:.60} is no function" if name is None else f"`{name}` is not written in Python"
    return Diagnostic("RG0716", message, hint="Write a `def` with `@reversible` above it.")


def _no_source(name: str) -> Diagnostic:
    hint = "Define it in a file or a notebook cell. Python 3.13 also keeps the text of the prompt and of `python -c`."
    return Diagnostic("RG0716", f"the source of `{name}` cannot be read", hint=hint)


def _cut_source(name: str) -> Diagnostic:
    hint = (
        "Remove such characters (U+000B, U+000C, U+0085, U+2028, U+2029) from its text, comments and strings included."
    )
    return Diagnostic(
        "RG0716", f"the lines of `{name}` are cut at a character that does not end a line for Python", hint=hint
    )


def _characters(text: str, count: int) -> int:
    """The number of characters in the first `count` bytes."""
    # Half a surrogate pair has no encoding; Python's own sources have none.
    return count if text.isascii() else len(text.encode(errors="replace")[:count].decode(errors="ignore"))


def fail(code: str, message: str, source: Source, node: ast.AST, hint: str | None = None) -> NoReturn:
    """Raise a CompileError that points at a piece of syntax."""
    span = source.span(node)
    raise CompileError(Diagnostic(code, message, span, hint, source.text(span.line)))


@dataclass(frozen=True)
class Parameter:
    """A parameter: `annotation` evaluated, `default` as Python has it; NOTHING for a missing one.

    `variadic`: it is `*name`, a tuple of all further positional arguments, each of the annotated type; or the gradient by such a tuple.
    `gains`: it gains a gradient, and takes fixed numbers of any binary point; its annotation is for calls from outside.
    """

    name: str
    annotation: Any = NOTHING
    default: Any = NOTHING
    variadic: bool = False
    gains: bool = False

    def item(self, i: int) -> Parameter:
        """The parameter for item i of the tuple."""
        return Parameter(f"{self.name}[{i}]", self.annotation, gains=self.gains)


class UndeclaredResult(CompileError):
    """The value of a functional function without annotations is of the type `of`, and not one number.

    `classes`: of the records in it, by their form.
    """

    def __init__(self, diagnostic: Diagnostic, of: Any, classes: Mapping[str, type]) -> None:
        super().__init__(diagnostic)
        self.of, self.classes = of, classes


class SourceFunction:
    """A function whose body is compiled and never executed: `fn` is the function object of its `def`.

    Raises CompileError RG0716 where there is no source text, RG0701 for parameters that the language has not.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not inspect.isfunction(fn):
            raise CompileError(_no_function(fn))
        self.fn: Any = fn
        self.__name__: str = fn.__name__
        self.__qualname__: str = fn.__qualname__
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__
        #: local names around the function that its annotations use: they are no part of its closure
        self._around = _annotated_locals(fn)
        #: the same function as it was read before
        self.read_from: SourceFunction | None = None
        #: the struct whose method it is
        self.owner: type | None = None
        #: the function that it is the gradient of, in place of a body
        self.gradient_of: GradientOf | None = None
        #: the user's own adjoint, and whether the function was compiled, after which it can have no other
        self.own_adjoint: SourceFunction | None = None
        self.was_lowered = False

    @property
    def host(self) -> Callable[..., Any] | None:
        """The function of Python that gives its value for constants; of the library's elementary functions."""
        return getattr(getattr(self, "fn", None), "__retrograd_host__", None)

    def in_format(self, w: Format) -> Any:
        """The function that is compiled in its place in a format: of the library's elementary functions. Raises NoForm."""
        form = getattr(getattr(self, "fn", None), "__retrograd_form__", None)
        return self if form is None else form(w) or self

    #: code of a trap, or `loop` for one by the conditions of a loop -> its fix, where the language has one of its own
    trap_fixes: Mapping[str, str] = types.MappingProxyType({
        "loop": "The second condition of a `while` is false before the loop and true after every pass; where there may be no pass "
        "at all, it must tell the two apart, as a counter of the passes does.",
        "RG0404": "Scale the values, or use a lognum or another format: `rg.ranges` measures the values, and names the format that fits.",
    })  # fmt: skip
    #: of an adjoint that also undoes its function: the function of the same parameters that makes the values
    made_by: SourceFunction | None = None
    #: lowers the function in place of its statements, where its body is of another language
    own_lowering: Callable[..., Any] | None = None
    #: variables of the function around it that an inner function uses
    captured: tuple[str, ...] = ()
    #: the expression of a lambda, which is the value of its calls
    lambda_body: ast.expr | None = None
    #: position of the first parameter that holds a result, which is the loss unless another is named
    first_result = 0

    def completed(self, values: list[Any], format: Any) -> list[Any]:
        """The arguments of a call, with room for results whose size is not known before."""
        return values

    def __repr__(self) -> str:
        return f"<reversible {self.__qualname__}>"

    @cached_property
    def _parsed(self) -> tuple[ast.FunctionDef, Source]:
        if self.read_from is not None:
            return self.read_from._parsed
        try:
            lines, first = inspect.getsourcelines(self.fn)
            file = inspect.getsourcefile(self.fn) or self.fn.__code__.co_filename
        except (OSError, TypeError):
            raise CompileError(_no_source(self.__name__)) from None
        except (SyntaxError, tokenize.TokenError):
            # Notebooks cut their lines at separators that do not end a line for Python: the text that is found is
            # not the code's.
            raise CompileError(_cut_source(self.__name__)) from None
        text = "".join(lines)
        whole = linecache.getlines(file) or ["\n"] * (first - 1) + lines
        for parsed, column, above in (
            (textwrap.dedent(text), len(lines[0]) - len(lines[0].lstrip()), 0),
            # Comments and strings may stand further to the left than the function.
            (f"if True:\n{text}", 0, 1),
        ):
            try:
                tree = ast.parse(parsed).body[0]
            except SyntaxError:
                continue
            if above:
                assert isinstance(tree, ast.If)
                tree = tree.body[0]
            if isinstance(tree, ast.FunctionDef):
                if tree.name != self.fn.__code__.co_name:
                    # Code that `exec` makes has the file name of the text of `python -c`.
                    raise CompileError(_no_source(self.__name__))
                library = (self.__module__ or "").startswith("retrograd.library.")
                return tree, Source(shown(file), whole, first - 1 - above, column, library)
            break
        if self.fn.__code__.co_flags & inspect.CO_COROUTINE:
            message, hint = f"`{self.__name__}` is a coroutine", "Write `def` in place of `async def`."
        else:
            message, hint = (
                f"`{self.__name__}` is not defined by a `def` of its own",
                "Write a `def` with `@reversible` above it.",
            )
        raise CompileError(Diagnostic("RG0716", message, hint=hint))

    @property
    def tree(self) -> ast.FunctionDef:
        return self._parsed[0]

    @property
    def source(self) -> Source:
        return self._parsed[1]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order, keyword-only ones last."""
        found: list[Parameter] = []
        for p in signature_of(self.fn).parameters.values():
            if p.kind is p.VAR_KEYWORD:
                _refuse_keywords(p.name, self.source, self.tree)
            annotation = self.annotation_of(p.name, p.annotation)
            if not found and annotation is NOTHING and self.owner is not None:
                annotation = self.owner
            found.append(Parameter(p.name, annotation, p.default, p.kind is p.VAR_POSITIONAL))
        return tuple(found)

    @cached_property
    def variadic(self) -> int | None:
        """The position of `*xs` among the parameters, or None."""
        return next((i for i, p in enumerate(self.parameters) if p.variadic), None)

    def annotation_of(self, name: str, annotation: Any) -> Any:
        if annotation is Any:
            return NOTHING
        if not isinstance(annotation, str):
            return annotation
        scope = _Namespace(self)
        try:
            # The annotation is the user's own Python, written as text because of `from __future__ import annotations`.
            found = eval(annotation, {"__builtins__": builtins}, scope)
        except Exception as error:
            unknown = error.name if isinstance(error, NameError) else None
            hint = nearest(unknown, self.names()) if unknown else None
            node = self.argument(name)
            at = self.tree if node is None else node.annotation or node
            fail("RG0702", f"the annotation of `{name}` cannot be read: {error}", self.source, at, hint)
        return NOTHING if found is Any else found

    def argument(self, name: str) -> ast.arg | None:
        """Where a parameter stands in the function's head."""
        a = self.tree.args
        every = (*a.posonlyargs, *a.args, *a.kwonlyargs, *([] if a.vararg is None else [a.vararg]))
        return next((x for x in every if x.arg == name.partition("[")[0]), None)

    @property
    def signature(self) -> str:
        """The function as a user would write its head."""
        shown = []
        for i, p in enumerate(self.parameters):
            annotation = getattr(p.annotation, "__name__", p.annotation)
            name = f"*{p.name}" if i == self.variadic else p.name
            shown.append(name if p.annotation is NOTHING else f"{name}: {annotation}")
        return f"{self.__name__}({', '.join(shown)})"

    def lookup(self, name: str, captures: Captures | None = None) -> Any:
        """The value of a name where the function was defined; it is recorded in `captures`. Raises KeyError."""
        code, around = self.fn.__code__, self.fn.__globals__
        if captures is not None and steady(self.__module__ or ""):
            captures = None
        if name in code.co_freevars:
            cell = self.fn.__closure__[code.co_freevars.index(name)]
            try:
                value = cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
            if captures is not None:
                captures.cell(cell, value)
            return value
        if name in around:
            if captures is not None:
                captures.binding(around, around, name, around[name])
            return around[name]
        value = vars(builtins)[name]
        if captures is not None:
            captures.binding(around, around, name)
        return value

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names that the function binds itself: its parameters, locals and inner functions."""
        found = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found |= {n.arg for n in ast.walk(self.tree) if isinstance(n, ast.arg)}
        found |= {n.name for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and n is not self.tree}
        return frozenset(found)

    def found(self, node: ast.expr) -> Any:
        """The value of a name from around the function, or of an attribute of a module; None for any other expression."""
        match node:
            case ast.Name(id=name) if name not in self.own_names:
                try:
                    return self.lookup(name)
                except KeyError:
                    return None
            case ast.Attribute(value=value, attr=attr) if is_module(module := self.found(value)):
                return getattr(module, attr, None)
        return None

    def stand_in(self, called: SourceFunction) -> SourceFunction:
        """The function that is compiled where this one calls `called`."""
        return called

    def globals(self) -> dict[str, Any]:
        """The names of the module that the function stands in."""
        found: dict[str, Any] = self.fn.__globals__
        return found

    def names(self) -> list[str]:
        """All names that `lookup` finds, for suggestions."""
        return [*self.fn.__code__.co_freevars, *self.fn.__globals__, *vars(builtins)]


class InnerFunction(SourceFunction):
    """A `def` or `lambda` inside a reversible function: its names are its own, or names of the function around it."""

    _variants: dict[type[ast.operator], InnerFunction]
    #: the variables of the function around it, which it changes only if it declares them `nonlocal`
    around: frozenset[str] = frozenset()

    def __init__(
        self,
        tree: ast.FunctionDef,
        outer: SourceFunction,
        constants: dict[str, Any],
        captured: tuple[str, ...],
        static: Callable[[ast.expr, str], Any],
    ) -> None:
        """`captured`: the variables around that it uses. `static`: the value of an expression there, which must be known."""
        self.__name__ = tree.name
        self.__qualname__ = f"{outer.__qualname__}.{tree.name}"
        self.__doc__ = ast.get_docstring(tree)
        self._tree, self._outer, self._constants = tree, outer, constants
        self.captured = captured
        self._around: dict[str, Any] = {}
        self.read_from = None
        self.owner = None
        self.gradient_of = None
        self.own_adjoint = None
        self.was_lowered = False
        self.parameters = self._read_parameters(static)

    @property
    def tree(self) -> ast.FunctionDef:
        return self._tree

    @property
    def source(self) -> Source:
        return self._outer.source

    @classmethod
    def from_lambda(
        cls,
        node: ast.Lambda,
        outer: SourceFunction,
        constants: dict[str, Any],
        captured: tuple[str, ...],
        static: Callable[[ast.expr, str], Any],
    ) -> InnerFunction:
        """`lambda x: e` as `def f(result, x): result += e`."""
        if node.args.kwarg:
            _refuse_keywords(node.args.kwarg.arg, outer.source, node)
        taken = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)} | free_names(node)
        result = "result"
        while result in taken:
            result += "_"
        tree = ast.FunctionDef("lambda", node.args, [], [], lineno=node.lineno, col_offset=node.col_offset)
        tree.args = ast.arguments(
            [], [ast.arg(result), *node.args.posonlyargs, *node.args.args], node.args.vararg, node.args.kwonlyargs,
            node.args.kw_defaults, None, node.args.defaults,
        )  # fmt: skip
        target = ast.Name(result, ast.Store())
        tree.body = [ast.AugAssign(target, ast.Add(), node.body)]
        for made in (tree, tree.args.args[0], tree.body[0], target):
            ast.copy_location(made, node)
        found = cls(tree, outer, constants, captured, static)
        found.lambda_body, found._variants = node.body, {}
        return found

    def with_update(self, operator: ast.operator) -> InnerFunction:
        """A lambda whose result is made by another update: `*=` of lognums, `^=` of bools."""
        kind = type(operator)
        if kind is ast.Add:
            return self
        if kind not in self._variants:
            made = copy(self)
            update = copy(self._tree.body[0])
            assert isinstance(update, ast.AugAssign)
            update.op = operator
            made._tree = copy(self._tree)
            made._tree.body = [update]
            self._variants[kind] = made
        return self._variants[kind]

    def _read_parameters(self, static: Callable[[ast.expr, str], Any]) -> tuple[Parameter, ...]:
        a = self._tree.args
        if a.kwarg:
            _refuse_keywords(a.kwarg.arg, self.source, self._tree)
        found = []
        plain, variadic = [*a.posonlyargs, *a.args], [] if a.vararg is None else [a.vararg]
        every = [*plain, *variadic, *a.kwonlyargs]
        none = [None] * (len(plain) - len(a.defaults)), [None] * len(variadic)
        defaults = [*none[0], *a.defaults, *none[1], *a.kw_defaults]
        for p, default in zip(every, defaults, strict=True):
            # Both are expressions of the function around, where they are known when it is compiled.
            annotation = NOTHING if p.annotation is None else static(p.annotation, f"the annotation of `{p.arg}`")
            if isinstance(annotation, str) and p.annotation is not None:
                annotation = static(self._parsed_text(annotation, p.annotation), f"the annotation of `{p.arg}`")
            value = NOTHING if default is None else static(default, f"the default of `{p.arg}`")
            found.append(Parameter(p.arg, NOTHING if annotation is Any else annotation, value, p is a.vararg))
        return tuple(found)

    def _parsed_text(self, text: str, node: ast.expr) -> ast.expr:
        """The expression in an annotation that is a text; messages point at the text."""
        try:
            found = ast.parse(text, mode="eval").body
        except SyntaxError as error:
            fail("RG0702", f"the annotation {text!r:.40} cannot be read: {error.msg}", self.source, node)
        for inner in ast.walk(found):
            ast.copy_location(inner, node)
        return found

    def lookup(self, name: str, captures: Captures | None = None) -> Any:
        if name in self._constants:
            return self._constants[name]
        return self._outer.lookup(name, captures)

    def stand_in(self, called: SourceFunction) -> SourceFunction:
        return self._outer.stand_in(called)

    def globals(self) -> dict[str, Any]:
        return self._outer.globals()

    def names(self) -> list[str]:
        return [*self._constants, *self._outer.names()]


def _refuse_keywords(name: str, source: Source, node: ast.FunctionDef | ast.Lambda) -> NoReturn:
    """Raise RG0701 for a parameter `**name`."""
    hint = f"Name each parameter, or write `*{name}`, which takes any number of positional arguments."
    message = f"`**{name}`: the names of a reversible function's parameters are fixed"
    fail("RG0701", message, source, node.args.kwarg or node, hint)


def free_names(tree: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names that an inner function uses and does not bind itself, as in Python; `nonlocal` names are among them."""
    used: set[str] = set()
    bound = {a.arg for a in ast.walk(tree.args) if isinstance(a, ast.arg)}
    outer: set[str] = set()
    pending: list[ast.AST] = list(tree.body) if isinstance(tree, ast.FunctionDef) else [tree.body]
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef(name=name):
                bound.add(name)
                used |= free_names(node)
                pending += [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            case ast.Lambda():
                used |= free_names(node)
            case ast.Nonlocal(names=names):
                outer.update(names)
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case _:
                pending += ast.iter_child_nodes(node)
    return used - bound | outer


def evaluated_in(annotation: Any, cls: type) -> Any:
    """An annotation in a class, evaluated where it is written as text."""
    if not isinstance(annotation, str):
        return annotation
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") != cls.__module__:
        frame = frame.f_back
    names = {} if frame is None else frame.f_locals
    return eval(annotation, vars(sys.modules[cls.__module__]), dict(names))


class _Namespace(dict[str, Any]):
    """A function's names as a mapping, for `eval`."""

    def __init__(self, function: SourceFunction) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, name: str) -> Any:
        around = self._function._around
        return around[name] if name in around else self._function.lookup(name)


def _annotated_locals(fn: Callable[..., Any]) -> dict[str, Any]:
    """Locals of the function around that textual annotations name. They are read now: the function may return before the compilation."""
    texts = [a for a in annotations_of(fn).values() if isinstance(a, str)]
    if not texts or "<locals>" not in fn.__qualname__:
        return {}
    names = set(re.findall(r"[^\W\d]\w*", " ".join(texts)))
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals is not fn.__globals__:
        frame = frame.f_back
    return {} if frame is None else {n: frame.f_locals[n] for n in names if n in frame.f_locals}


def is_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType)


# -----------------------------------------------------------------------------
# Diagnostics at a place of the source: exceptions of operators and of pure functions become a CompileError with span
# and caret.

T = TypeVar("T")


class Errors:
    """Raises the errors of one source file. `constants`: those of the program, which have their places by `guarded`."""

    def __init__(self, source: Source, constants: Constants | None = None) -> None:
        self._source, self._constants = source, constants
        self.span = source.span

    def fail(self, code: str, message: str, where: ast.AST | Span, hint: str | None = None) -> NoReturn:
        """Raise a CompileError that points at a piece of syntax."""
        span = where if isinstance(where, Span) else self.span(where)
        raise CompileError(Diagnostic(code, message, span, hint, self._source.text(span.line)))

    def guarded(self, node: ast.AST, function: Callable[..., T], *args: Any) -> T:
        """function(*args); an exception that the operands cause is reported at `node`."""
        try:
            if self._constants is None:
                return function(*args)
            return self._constants.at(
                lambda value: Place(self.span(_literal(node, value)), None, self._source.library), function, *args
            )
        except ShapeMismatch as error:
            self.fail("RG0712", f"the shapes {error} do not broadcast", node)
        except TypeError as error:
            own = shortened(node) if isinstance(node, ast.expr) else "x"
            self.fail("RG0703", str(error), node, (hint_of(error) or "").replace("(x)", f"({own})") or None)
        except Impure as error:
            self.fail("RG0721", str(error), node)
        except ZeroDivisionError:
            self.fail("RG0714", f"`{shortened(node)}` divides by zero", node, "Divide by another number.")
        except TooLarge as error:
            self.fail("RG0723", f"{error}", node)
        except NegativePower as error:
            self.fail("RG0810", f"{error}", node)
        except Vanishing as error:
            self.fail("RG0730", f"{error}", _literal(node, error.value), error.hint)
        except (OverflowError, ValueError) as error:
            hint = (hint_of(error) or "").replace("(x)", f"({shortened(node)})")
            self.fail("RG0714", str(error), node, hint or None)


def _literal(node: ast.AST, value: Fraction | None) -> ast.AST:
    """The number in a piece of syntax, where it is written there; else the whole piece."""
    size = None if value is None else abs(value)
    return next((n for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value == size), node)


# -----------------------------------------------------------------------------
# The user's own adjoints of functions: whether a function can be one.


def need_adjoint(function: SourceFunction, adjoint: SourceFunction) -> None:
    """Raise RG0727 unless the parameters of `adjoint` are those of the function and cotangents of some of them, each once."""
    names = [p.name for p in function.parameters]
    own = [p.name for p in adjoint.parameters]
    cotangents = [f"d_{name}" for name in names]
    called = f"the adjoint of `{function.__name__}`"
    declared = (
        f"Declare it as `def {adjoint.__name__}({', '.join([*names, *cotangents])})`, without cotangents of ints."
    )

    def refuse(message: str, name: str = "", hint: str = declared) -> NoReturn:
        Errors(adjoint.source).fail("RG0727", message, adjoint.argument(name) or adjoint.tree, hint)

    if function.was_lowered:
        hint = f"Define the adjoint before the first use of `{function.__name__}`."
        refuse(f"`{function.__name__}` was compiled before its adjoint was defined", "", hint)
    if function.gradient_of is not None or function.variadic is not None or adjoint.variadic is not None:
        refuse(
            f"`{function.__name__}` can have no adjoint of its own",
            "",
            "Give one to a function with a fixed number of parameters.",
        )
    wrong = next((x for x, name in zip(own, names, strict=False) if x != name), None)
    if len(own) < len(names) or wrong is not None:
        refuse(f"{called} begins with the parameters {', '.join(f'`{name}`' for name in names)}", wrong or "")
    for i, name in enumerate(own[len(names) :]):
        if name not in cotangents or name in own[len(names) : len(names) + i]:
            refuse(f"`{name}` is no cotangent of a parameter of `{function.__name__}`", name)
    if len(own) == len(names):
        refuse(f"{called} has no cotangents")
